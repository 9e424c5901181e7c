"""Allocations: pages taken, pages grown into, and calls that failed half-way."""

from __future__ import annotations

from swasim.geometry import NO_LOC, PAD_PAGE, Pool
from swasim.sanitizer.findings import Finding
from swasim.sanitizer.mapping import (
    apply_mapping_writes,
    check_remap_in_group,
    renew_entries,
    suspect_orphan,
)
from swasim.sanitizer.scene import Scene, short_list
from swasim.sanitizer.shadow import PageTruth, PoolTruth
from swasim.wording import counted

GROWING_OPS = frozenset({"alloc_extend", "alloc_decode", "alloc_extend_swa_tail"})


def check_allocation(scene: Scene) -> None:
    """Carry an allocation over and judge it."""
    effect = scene.effect
    _check_alignment(scene)
    if scene.call.op in GROWING_OPS and effect.out is not None:
        _check_growth(scene)
    if effect.out is None and not effect.raised:
        _check_false_exhaustion(scene)
    _take_pages(scene, "full", effect.full_taken)
    _take_pages(scene, "swa", effect.swa_taken)
    check_remap_in_group(scene)
    if effect.out is None:
        _check_half_allocation(scene)
        apply_mapping_writes(scene)
        return
    _hand_out(scene, effect.out)
    apply_mapping_writes(scene)
    _renew_entries(scene, effect.out)
    if scene.call.op == "alloc_extend_swa_tail":
        _check_inherited_entries(scene, effect.out)
    _check_unreached_peers(scene)


def _check_alignment(scene: Scene) -> None:
    call, size = scene.call, scene.truth.geometry.page_size
    if call.op == "alloc":
        if call.need_size % size:
            scene.report(
                "misaligned",
                f"alloc of {call.need_size} tokens is no whole number of pages of {size}",
                pool=call.pool or "full",
            )
        return
    if size == 1 or scene.effect.out is None:
        return
    decode = call.op == "alloc_decode"
    prefix_lens = [n - 1 for n in call.seq_lens] if decode else call.prefix_lens
    for last_loc, prefix_len in zip(call.last_loc, prefix_lens, strict=False):
        if (last_loc + 1) % size != prefix_len % size:
            scene.report(
                "misaligned",
                f"last_loc {last_loc} contradicts a prefix of {prefix_len} tokens",
                pool="full",
                slots=[last_loc] if last_loc >= 0 else [],
                notes=(
                    f"the slot after last_loc has offset {(last_loc + 1) % size}, "
                    f"the prefix ends at offset {prefix_len % size} of a page of {size} tokens",
                ),
            )


def _check_growth(scene: Scene) -> None:
    """Every request that grows must still own its last token, on both sides."""
    truth, births = scene.truth, scene.resolved.last_births
    size = truth.geometry.page_size
    full_pages, swa_pages = truth.full.pages, truth.swa.pages
    mapping = truth.mapping
    call = scene.call
    for i, last_loc in enumerate(call.last_loc):
        if last_loc == NO_LOC or (call.prefix_lens and call.seq_lens[i] == call.prefix_lens[i]):
            continue
        page = last_loc // size
        record = full_pages.get(page)
        birth = births[i] if births else 0
        if record is None or not record.live or record.queued or birth:
            trouble = _trouble(record, birth)
            if trouble:
                _report_dead_growth(scene, last_loc, page, record, trouble, birth)
                continue
        if (last_loc + 1) % size:
            swa_page = mapping.entry(last_loc) // size
            peer = swa_pages.get(swa_page)
            if peer is None or not peer.live:
                _report_dead_peer(scene, last_loc, swa_page)


def _trouble(record: PageTruth | None, birth: int) -> str:
    """Why a request must not grow from a page; "" where nothing speaks against it."""
    if record is None or not record.live:
        return "free" if record is None or record.copies else "owned by nobody"
    if record.queued:
        return "queued for release"
    if birth and record.allocated is not None and record.allocated.event > birth:
        return "somebody else's by now"
    return ""


def _report_dead_growth(
    scene: Scene, last_loc: int, page: int, record: PageTruth | None, trouble: str, birth: int
) -> None:
    if not scene.truth.full.is_real(page):
        return
    scene.report(
        "use-after-free",
        f"a request grows from slot {last_loc} of full page {page}, {trouble}",
        pool="full",
        page=page,
        slots=[last_loc],
        cause=_growth_fault(record, birth) or scene.first_error("use-after-free"),
        owner=record.allocated if record and record.live else None,
        mark_page=False,
    )


def _growth_fault(record: PageTruth | None, birth: int) -> Finding | None:
    if record is None:
        return None
    return record.fault_after(birth) if birth else record.damage


def _report_dead_peer(scene: Scene, last_loc: int, swa_page: int) -> None:
    """The next token of a page would be written into an SWA page that is gone."""
    truth = scene.truth
    record = truth.swa.peek(swa_page)
    stale = truth.mapping.stale.get(last_loc)
    full_record = truth.full.peek(last_loc // truth.geometry.page_size)
    if not truth.mapping.entry(last_loc):
        record = None  # nothing points at the padding page: what happened to it explains nothing
    into = "padding page 0" if swa_page == PAD_PAGE else f"free page {swa_page}"
    scene.report(
        "use-after-free",
        f"a request grows from slot {last_loc} without SWA peer, into SWA {into}",
        pool="swa",
        page=swa_page,
        slots=[last_loc],
        cause=stale
        or (record.fault if record else None)
        or (full_record.damage if full_record else None)
        or scene.first_error("use-after-free"),
    )


def _take_pages(scene: Scene, pool: Pool, pages: list[int]) -> None:
    if not pages:
        return
    truth = scene.truth.pool(pool)
    if not len(scene.suspects) and truth.is_fresh(pages):
        truth.take_all(pages, scene.moment)
        return
    for page in pages:
        record = truth.peek(page)
        if page == PAD_PAGE:
            scene.report(
                "padding-page",
                f"padding page 0 of the {truth.label} pool is handed out",
                pool=pool,
                page=page,
                cause=record.fault if record else None,
            )
        elif not truth.is_real(page):
            scene.report(
                "index-out-of-range",
                f"{truth.label} page {page}, outside of the pool, is handed out",
                pool=pool,
                page=page,
                cause=record.fault if record else None,
            )
        elif record is not None and record.live:
            scene.report(
                "page-aliased",
                f"{truth.label} page {page} is handed out while it is live: two owners",
                pool=pool,
                page=page,
                cause=record.fault or scene.first_error("page-aliased"),
                owner=record.allocated,
            )
        truth.take(page, scene.moment)
        scene.suspects.dismiss(pool, page)


def _check_half_allocation(scene: Scene) -> None:
    effect, call = scene.effect, scene.call
    for truth, taken, returned in (
        (scene.truth.full, effect.full_taken, effect.full_returned),
        (scene.truth.swa, effect.swa_taken, effect.swa_returned),
    ):
        kept = list(taken)
        for page in returned:
            truth.put(page, scene.moment)
            if page in kept:
                kept.remove(page)
        if not kept:
            continue
        how = f"raised {effect.raised}" if effect.raised else "returned None"
        pages = counted(len(kept), f"{truth.label} page")
        finding = scene.report(
            "half-allocation",
            f"{call.op} {how} and keeps {pages} that nobody was given",
            pool=truth.name,
            page=kept[0],
            cause=scene.first_error(),
            notes=(f"{truth.label} pages {short_list(kept)}",),
        )
        for page in kept:
            truth.lose(page)
            truth.touch(page).fault = finding
        truth.shortage = truth.shortage or finding


def _hand_out(scene: Scene, out: list[int]) -> None:
    """Note which slots of which pages are in use now; growth is only legal into one's own page."""
    truth, call = scene.truth, scene.call
    if call.pool == "swa":
        for page in scene.effect.swa_taken:
            truth.swa.touch(page).held = True
        return
    size = truth.geometry.page_size
    taken = set(scene.effect.full_taken)
    own = {loc // size for loc in call.last_loc if loc >= 0}
    full, limit = truth.full, len(out)
    i = 0
    while i < limit:
        slot = out[i]
        page, offset = divmod(slot, size)
        count = min(size - offset, limit - i)
        while count > 1 and out[i + count - 1] != slot + count - 1:
            count -= 1
        record = full.peek(page)
        known = 0 if record is None else full.fill_up(page, offset + count)
        if (offset < known) if page in taken else (page not in own):
            _report_foreign_out(scene, page, slot, record)
        if record is None:
            full.touch(page)
            full.fill_up(page, offset + count)
        i += count


def _renew_entries(scene: Scene, out: list[int]) -> None:
    """Stale entries that the call wrote anew: nothing changed, and yet they hold again.

    A page that is taken again for the same slots has the entries that it had. Slots before the
    tail of a tail allocation are not written; what they held stays stale.
    """
    mapping = scene.truth.mapping
    if not mapping.stale or scene.call.pool is not None:
        return
    if scene.call.op == "alloc_extend_swa_tail":
        out = out[len(out) - scene.call.swa_tail_len :]
    size = scene.truth.geometry.page_size
    written = set(scene.effect.swa_taken)
    written |= {mapping.entry(loc) // size for loc in scene.call.last_loc}
    renew_entries(scene, [s for s in out if mapping.entry(s) // size in written])


def _check_inherited_entries(scene: Scene, out: list[int]) -> None:
    """Tokens before the tail have no SWA peer: a former owner's entries are not theirs."""
    mapping, size = scene.truth.mapping, scene.truth.geometry.page_size
    taken = set(scene.effect.full_taken)
    inherited: dict[int, list[int]] = {}
    for slot in out[: len(out) - scene.call.swa_tail_len]:
        peer = mapping.entry(slot)
        if peer and slot not in mapping.stale and slot // size in taken:
            inherited.setdefault(peer // size, []).append(slot)
    for page, slots in inherited.items():
        record = scene.truth.swa.peek(page)
        finding = scene.report(
            "stale-mapping",
            f"{counted(len(slots), 'entry', 'entries')} of a former owner stay before the tail, "
            f"on SWA page {page}",
            pool="swa",
            page=page,
            slots=slots,
            owner=record.allocated if record is not None and record.live else None,
            cause=record.damage if record is not None else None,
            mark_page=False,
            notes=(f"full slots {short_list(slots)} have no SWA peer of their own",),
        )
        for slot in slots:
            mapping.stale[slot] = finding


def _report_foreign_out(scene: Scene, page: int, slot: int, record: PageTruth | None) -> None:
    """A slot was handed out on a page that this call neither took nor grew into."""
    truth = scene.truth.full
    cause = scene.first_error() or (record.damage if record else None)
    if page == PAD_PAGE:
        kind, headline = "padding-page", f"slot {slot} of padding page 0 is handed out"
    elif not truth.is_real(page):
        kind, headline = "index-out-of-range", f"slot {slot}, outside of the pool, is handed out"
    elif record is not None and record.live:
        kind, headline = "page-aliased", f"slot {slot} of a live page is handed out: two owners"
    else:
        kind, headline = "use-after-free", f"slot {slot} is handed out, its page is still free"
    scene.report(kind, headline, pool="full", page=page, slots=[slot], cause=cause)


def _check_unreached_peers(scene: Scene) -> None:
    """SWA pages that the call took and that no entry points at."""
    if scene.call.pool is not None:
        return
    truth = scene.truth
    for page in scene.effect.swa_taken:
        if page != PAD_PAGE and not truth.mapping.entries_to(page):
            suspect_orphan(scene, page, f"SWA page {page} is taken and never mapped", [])


def _check_false_exhaustion(scene: Scene) -> None:
    """A refusal is a lie when both pools would have room, had one not lost pages earlier."""
    truth, call = scene.truth, scene.call
    full_need, swa_need = needed_pages(scene)
    short: list[tuple[PoolTruth, int, int, Finding | None]] = []
    for pool, need in (
        (truth.full, 0 if call.pool == "swa" else full_need),
        (truth.swa, 0 if call.pool == "full" else swa_need),
    ):
        lost, cause = _lost(scene, pool)
        if need > pool.free_pages + lost:
            return
        if need > pool.free_pages:
            short.append((pool, need, lost, cause))
    for pool, need, lost, cause in short:
        scene.report(
            "false-exhaustion",
            f"{call.op} refused: {counted(need, f'{pool.label} page')} wanted, "
            f"{pool.free_pages} free, {lost} lost",
            pool=pool.name,
            cause=cause,
        )


def _lost(scene: Scene, pool: PoolTruth) -> tuple[int, Finding | None]:
    """Pages that nobody can use again, and the finding that says why."""
    orphans = scene.suspects.of_pool(pool.name)
    lost = max(pool.lost_pages, 0) + len(orphans)
    return lost, pool.shortage or (orphans[0] if orphans else None)


def needed_pages(scene: Scene) -> tuple[int, int]:
    """New pages that an allocation wants from the full and the SWA pool."""
    call, size = scene.call, scene.truth.geometry.page_size
    if call.op == "alloc":
        pages = -(-call.need_size // size)
        return pages, pages
    if call.op == "alloc_decode":
        pages = sum(1 for n in call.seq_lens if (n - 1) % size == 0)
        return pages, pages
    pages = sum(
        -(-seq_len // size) + (-prefix_len // size)
        for seq_len, prefix_len in zip(call.seq_lens, call.prefix_lens, strict=True)
    )
    if call.op == "alloc_extend_swa_tail" and call.seq_lens:
        seq_len, prefix_len = call.seq_lens[0], call.prefix_lens[0]
        first = max(seq_len - call.swa_tail_len, prefix_len)
        held = -(-prefix_len // size)
        return pages, max(0, -(-seq_len // size) - max(first // size, held))
    return pages, pages
