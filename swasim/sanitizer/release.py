"""Releases: who gave which page back, whether it was theirs, and what never arrived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from swasim.geometry import PAD_PAGE, Pool
from swasim.sanitizer.findings import Finding, Moment
from swasim.sanitizer.mapping import (
    apply_mapping_writes,
    check_cut_from_full,
    check_stale_entries,
)
from swasim.sanitizer.runs import count_by_page, pages_of
from swasim.sanitizer.scene import Scene, short_list
from swasim.sanitizer.shadow import PageTruth, PoolTruth
from swasim.sanitizer.window import Window
from swasim.wording import counted

RELEASES_FULL = frozenset(
    {
        "free",
        "free_full",
        "free_segment",
        "free_segments",
        "free_full_segment",
        "free_full_segments",
    }
)
RELEASES_SWA = frozenset({"free", "free_swa", "free_segment", "free_segments", "free_swa_segment"})
RELEASES = RELEASES_FULL | RELEASES_SWA
SEGMENT_OPS = frozenset(
    {
        "free_segment",
        "free_segments",
        "free_swa_segment",
        "free_full_segment",
        "free_full_segments",
    }
)

WRONG_RELEASES = ("double-free", "foreign-free")
"""One call that releases many pages wrongly is one fault: the further pages follow the first."""


@dataclass(slots=True)
class Named:
    """What a release names, before anything is carried out.

    Attributes:
        slots: full slots (SWA slots for `pool: "swa"`).
        full: full page -> named slots of it.
        swa: SWA pages that the release asks for: peers by entries that are not stale, or named.
    """

    slots: list[int]
    full: dict[int, int] = field(default_factory=dict)
    swa: dict[int, None] = field(default_factory=dict)


def check_release(scene: Scene, window: Window) -> None:
    """Carry a release over and judge it."""
    named = _named(scene)
    _check_segment_alignment(scene)
    robbed = _check_generations(scene, named)
    partial = _partial_pages(scene, named)
    _take_back(scene, scene.truth.full, scene.effect.full_returned, named.full, robbed)
    # free_full names the owner of a peer too; that it must not release one is not a foreign free.
    owned = named.swa
    if scene.call.pool is None and scene.call.op not in RELEASES_SWA:
        owned = scene.truth.mapping.peers(named.slots)
    _take_back(scene, scene.truth.swa, scene.effect.swa_returned, owned, {})
    _check_released_in_group(scene, named)
    queued = _wait_or_miss(scene, named)
    window.note_released(scene)
    apply_mapping_writes(scene)
    check_stale_entries(scene)
    check_cut_from_full(scene)
    _check_partial(scene, partial)
    _check_redundant(scene, named, queued)


def _named(scene: Scene) -> Named:
    call, truth = scene.call, scene.truth
    size = truth.geometry.page_size
    slots = call.named_slots
    named = Named(slots)
    if call.pool == "swa":
        named.swa = dict.fromkeys(slot // size for slot in slots)
        return named
    if call.op in RELEASES_FULL:
        named.full = count_by_page(slots, size)
    if call.op in RELEASES_SWA and call.pool is None:
        named.swa = truth.mapping.peers(slots)
    return named


def _check_segment_alignment(scene: Scene) -> None:
    call, size = scene.call, scene.truth.geometry.page_size
    if call.op not in SEGMENT_OPS or size == 1:
        return
    pieces = [(s.indices, s.start_pos) for s in call.segments] or [(call.indices, call.start_pos)]
    for slots, start_pos in pieces:
        if slots and start_pos % size:
            scene.report(
                "misaligned",
                f"{call.op} starts at position {start_pos}, inside a page of {size} tokens",
                pool="full",
                page=slots[0] // size,
                slots=slots[:1],
                mark_page=False,
            )
        elif slots and slots[0] % size:
            scene.report(
                "misaligned",
                f"{call.op} starts at slot {slots[0]}, inside a page of {size} slots",
                pool="full",
                page=slots[0] // size,
                slots=slots[:1],
                mark_page=False,
            )


def _check_generations(scene: Scene, named: Named) -> dict[int, Finding]:
    """Row entries whose page was released since they were made; findings by full page."""
    births = scene.resolved.births
    if not births or scene.call.op not in RELEASES_FULL or scene.call.pool == "swa":
        return {}
    truth = scene.truth
    size = truth.geometry.page_size
    born: dict[int, int] = {}
    for page, birth in zip(pages_of(named.slots, size), births, strict=False):
        if born.get(page, 0) < birth:
            born[page] = birth
    found: dict[int, Finding] = {}
    for page, birth in born.items():
        record = truth.full.peek(page)
        if record is None or record.allocated is None or record.allocated.event <= birth:
            continue
        if record.live:
            found[page] = scene.report(
                "foreign-free",
                f"full page {page} is released by a request that lost it before",
                pool="full",
                page=page,
                slots=[s for s in named.slots if s // size == page],
                cause=record.fault_after(birth) or scene.first_error(*WRONG_RELEASES),
                owner=record.allocated,
                notes=(f"the request got its slots at event {birth}",),
            )
    return found


def _take_back(
    scene: Scene,
    pool: PoolTruth,
    returned: list[int],
    named: Iterable[int],
    judged: dict[int, Finding],
) -> None:
    """Pages that entered the free list: each must have had an owner, whom the call names."""
    allowed = set(named)
    if not len(scene.suspects) and allowed.issuperset(returned) and pool.is_held(returned):
        pool.put_all(returned, scene.moment)
        return
    for page in returned:
        record = pool.peek(page)
        if page == PAD_PAGE:
            _report_padding(scene, pool)
        elif not pool.is_real(page):
            # Its slots are out of range, which is reported as such.
            pool.touch(page).fault = scene.first_error()
        elif record is None or not record.live:
            if page not in judged:
                _report_double(scene, pool, page, record)
        elif page not in allowed and page not in judged:
            _report_foreign(scene, pool, page, record)
        pool.put(page, scene.moment)
        scene.suspects.dismiss(pool.name, page)


def _report_padding(scene: Scene, pool: PoolTruth) -> None:
    if any(f.kind == "padding-page" and f.pool == pool.name for f in scene.findings):
        return
    scene.report(
        "padding-page",
        f"padding page 0 of the {pool.label} pool is released",
        pool=pool.name,
        page=PAD_PAGE,
        slots=_unmapped_slots(scene) if pool.name == "swa" else (),
        cause=scene.first_error() or _padding_owner_fault(scene, pool),
    )


def _unmapped_slots(scene: Scene) -> list[int]:
    mapping, slots = scene.truth.mapping, scene.call.named_slots
    return [s for s in slots if not mapping.entry(s)][:64] if scene.call.pool is None else []


def _padding_owner_fault(scene: Scene, pool: PoolTruth) -> Finding | None:
    """What made entries of the call point into the padding page, where they do.

    Entries that read 0 point at nothing: then the release of page 0 is a fault of its own.
    """
    record = pool.peek(PAD_PAGE)
    if record is None or pool.name == "full" or not scene.truth.mapping.entries_to(PAD_PAGE):
        return None
    return record.fault if _slots_named(scene, pool, PAD_PAGE) else None


def _report_double(scene: Scene, pool: PoolTruth, page: int, record: PageTruth | None) -> None:
    cause = stale_cause(scene, pool, page) or (record.damage if record else None)
    never = record is None or record.allocated is None
    scene.report(
        "double-free",
        f"{pool.label} page {page} is released, but was never allocated"
        if never
        else f"{pool.label} page {page} is released again while it is free",
        pool=pool.name,
        page=page,
        slots=_slots_named(scene, pool, page),
        cause=cause or scene.first_error(*WRONG_RELEASES),
        released=record.released if record else None,
    )
    if pool.excess is None:
        pool.excess = scene.findings[-1]


def _report_foreign(scene: Scene, pool: PoolTruth, page: int, record: PageTruth) -> None:
    scene.report(
        "foreign-free",
        f"{pool.label} page {page} is released by a call that names no slot of its owner",
        pool=pool.name,
        page=page,
        slots=_slots_named(scene, pool, page),
        cause=stale_cause(scene, pool, page) or record.damage or scene.first_error(*WRONG_RELEASES),
        owner=record.allocated,
    )


def _slots_named(scene: Scene, pool: PoolTruth, page: int) -> list[int]:
    """Full slots of the call through which `page` was reached."""
    size = scene.truth.geometry.page_size
    slots = scene.call.named_slots
    if pool.name == "full" or scene.call.pool == "swa":
        return [s for s in slots if s // size == page]
    mapping = scene.truth.mapping
    return [s for s in slots if (peer := mapping.entry(s)) and peer // size == page]


def stale_cause(scene: Scene, pool: PoolTruth, page: int) -> Finding | None:
    """The stale entry that led to an SWA page, if one did."""
    stale = scene.truth.mapping.stale
    if pool.name != "swa" or not stale:
        return None
    for slot in scene.truth.mapping.slots_pointing_at(page):
        if slot in stale:
            return stale[slot]
    return None


def _check_released_in_group(scene: Scene, named: Named) -> None:
    """The same slots twice in one free group: wrong, whether or not the group makes one of it."""
    group, truth = scene.truth.group, scene.truth
    if group is None or not named.full or scene.call.pool is not None:
        return
    size = truth.geometry.page_size
    again: dict[int, list[int]] = {}
    for slot in group.full_slots.intersection(named.slots):
        again.setdefault(slot // size, []).append(slot)
    for page in sorted(again):
        record = truth.full.peek(page)
        if record is not None and record.live and record.queued is not None:
            group.doubled[page] = scene.report(
                "double-free",
                f"full page {page} is released again inside its free group",
                pool="full",
                page=page,
                slots=again[page],
                released=record.queued,
                cause=scene.first_error(*WRONG_RELEASES),
                notes=("both releases wait for the end of the group",),
            )
    group.full_slots.update(named.slots)


def _wait_or_miss(scene: Scene, named: Named) -> bool:
    """Named live pages that did not come back: they wait for the group's end, or are lost.

    Returns:
        Whether anything was queued.
    """
    group = scene.truth.group
    if group is not None:
        if scene.call.pool is None and named.full and not named.swa:
            group.peers.update(scene.truth.mapping.peers(named.slots))
    elif scene.effect.raised:
        return False
    queued = False
    for pool, pages in ((scene.truth.full, named.full), (scene.truth.swa, named.swa)):
        back = set(scene.effect.full_returned if pool.name == "full" else scene.effect.swa_returned)
        for page in pages:
            record = pool.peek(page)
            if page in back or not pool.is_real(page):
                continue
            if group is not None:
                group.queued[pool.name].setdefault(page, []).append(scene.moment)
                queued = True
                if record is not None and record.live:
                    pool.queue(page, scene.moment)
            elif record is not None and record.live:
                report_missing(scene, pool, [page], scene.moment)
    if group is not None and queued and scene.call.pool is None:
        group.slots.update(named.slots)
    return queued


def report_missing(
    scene: Scene, pool: PoolTruth, pages: list[int], asked: Moment, note: str = ""
) -> None:
    """Pages whose release was asked for and that never entered the free list."""
    finding = scene.report(
        "accounting-mismatch",
        f"{counted(len(pages), f'released {pool.label} page')} never reached the free list",
        pool=pool.name,
        page=pages[0],
        released=asked,
        cause=scene.first_error(),
        notes=(f"{pool.label} pages {short_list(pages)}", *([note] if note else [])),
    )
    for page in pages:
        pool.lose(page)
        pool.touch(page).fault = finding
    pool.shortage = pool.shortage or finding


def _partial_pages(scene: Scene, named: Named) -> list[tuple[Pool, int, int, int]]:
    """Pages of which only some live tokens are named: pool, page, named, live tokens."""
    truth = scene.truth
    size = truth.geometry.page_size
    if size == 1 or scene.call.pool is not None:
        return []
    found: list[tuple[Pool, int, int, int]] = []
    for page, count in named.full.items():
        record = truth.full.peek(page)
        if record is not None and record.live and count < truth.full.fill_of(page):
            found.append(("full", page, count, truth.full.fill_of(page)))
    if named.full:
        return found
    peers = [peer for peer in truth.mapping.read(list(dict.fromkeys(named.slots))) if peer]
    for page, count in Counter(pages_of(peers, size)).items():
        live = truth.mapping.entries_to(page)
        if page in named.swa and count < live:
            found.append(("swa", page, count, live))
    return found


def _check_partial(scene: Scene, partial: list[tuple[Pool, int, int, int]]) -> None:
    for pool, page, count, live in partial:
        returned = scene.effect.full_returned if pool == "full" else scene.effect.swa_returned
        if page in returned:
            scene.report(
                "partial-page-free",
                f"{count} of {live} live tokens of {_page(scene, pool, page)} named, all go",
                pool=pool,
                page=page,
                slots=_slots_named(scene, scene.truth.pool(pool), page),
                released=scene.moment,
            )


def _page(scene: Scene, pool: Pool, page: int) -> str:
    return f"{scene.truth.pool(pool).label} page {page}"


def _check_redundant(scene: Scene, named: Named, queued: bool) -> None:
    effect = scene.effect
    if named.slots and not (
        queued or effect.full_returned or effect.swa_returned or effect.raised or scene.findings
    ):
        scene.report(
            "redundant-free",
            f"{scene.call.op} of {counted(len(named.slots), 'slot')} has no effect",
            pool="swa" if scene.call.op not in RELEASES_FULL else "full",
            slots=named.slots[:64],
        )
