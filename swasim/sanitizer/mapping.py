"""The mapping: entries that outlive their page, overwrite a live one, or were the only way."""

from __future__ import annotations

from collections.abc import Iterable

from swasim.sanitizer.entries import MappingTruth
from swasim.sanitizer.runs import page_runs, pages_of
from swasim.sanitizer.scene import Scene, short_list
from swasim.wording import counted


def apply_mapping_writes(scene: Scene) -> None:
    """Carry the observed mapping writes over, and judge what they cut off.

    To be called when the pages released by the event are free (or pending) already, so that what
    they leave unreachable is not held against it.
    """
    effect, truth = scene.effect, scene.truth
    if not effect.mapped_slots:
        return
    mapping = truth.mapping
    swa = truth.swa
    cut_off, targets = _write(mapping, effect.mapped_slots, effect.mapped_to)
    for page in targets:
        _arrive(scene, page)
    written: dict[int, int] = {}
    for page, slots in cut_off.items():
        record = swa.peek(page)
        if record is None or not record.live or mapping.owners(page):
            continue
        written = written or dict(zip(effect.mapped_slots, effect.mapped_to, strict=True))
        if record.queued:
            _note_remap(scene, page, [s for s in slots if written[s]])
        else:
            _judge_cut_off(scene, page, slots, overwritten=any(written[s] for s in slots))


def _write(
    mapping: MappingTruth, slots: list[int], values: list[int]
) -> tuple[dict[int, list[int]], Iterable[int]]:
    """Carry writes over.

    Returns:
        Slots whose entry left a page, by SWA page; SWA pages at which an entry arrived.
    """
    olds = mapping.read(slots)
    if not mapping.stale and len(set(slots)) == len(slots):
        size = mapping.page_size
        if min(values) >= size and not any(olds):
            mapping.add(slots, values)
            return {}, dict.fromkeys(pages_of(values, size))
        if not any(values) and all(olds):
            cut_off: dict[int, list[int]] = {}
            for start, end in page_runs(slots, olds, size):
                cut_off.setdefault(olds[start] // size, []).extend(slots[start:end])
            mapping.remove(slots, olds)
            return cut_off, ()
    return _write_each(mapping, slots, values)


def _write_each(
    mapping: MappingTruth, slots: list[int], values: list[int]
) -> tuple[dict[int, list[int]], Iterable[int]]:
    """As `_write`, one after the other: of two writes to one entry the later stays."""
    size = mapping.page_size
    cut_off: dict[int, list[int]] = {}
    targets: dict[int, None] = {}
    for slot, new in zip(slots, values, strict=True):
        old = mapping.entry(slot)
        if old // size != new // size or not new:
            if old and slot not in mapping.stale:
                cut_off.setdefault(old // size, []).append(slot)
            if new:
                targets[new // size] = None
        mapping.write(slot, new)
    return cut_off, targets


def renew_entries(scene: Scene, slots: list[int]) -> None:
    """Stale entries that were written anew with the value that they had: they hold again."""
    mapping, size = scene.truth.mapping, scene.truth.geometry.page_size
    for page in {mapping.entry(slot) // size for slot in slots if slot in mapping.stale}:
        scene.truth.swa.touch(page).mapped = scene.moment
    for slot in slots:
        mapping.stale.pop(slot, None)


def check_entries_set_again(scene: Scene) -> None:
    """`set_full_to_swa_mapping` of stale entries to what they are already."""
    mapping, size = scene.truth.mapping, scene.truth.geometry.page_size
    if not mapping.stale or scene.effect.raised:
        return
    again = [
        slot
        for slot, swa_slot in zip(scene.call.full, scene.call.swa, strict=False)
        if slot in mapping.stale and mapping.entry(slot) == swa_slot
    ]
    for page in dict.fromkeys(mapping.entry(slot) // size for slot in again):
        _arrive(scene, page)
    swa = scene.truth.swa
    renew_entries(scene, [s for s in again if swa.touch(mapping.entry(s) // size).live])


def _arrive(scene: Scene, page: int) -> None:
    """An entry points at `page` from now on."""
    truth = scene.truth
    if page < 0:
        return
    record = truth.swa.touch(page)
    record.mapped = scene.moment
    record.held = False
    if len(scene.suspects) and truth.is_reachable(page):
        scene.suspects.dismiss("swa", page)
    if scene.call.op == "set_full_to_swa_mapping" and not record.live and truth.swa.is_real(page):
        scene.report(
            "use-after-free",
            f"SWA page {page} is mapped while nobody owns it",
            pool="swa",
            page=page,
            slots=scene.call.full,
            cause=record.damage or scene.first_error("use-after-free"),
        )


def _judge_cut_off(scene: Scene, page: int, slots: list[int], *, overwritten: bool) -> None:
    """The last entry to a live SWA page is gone."""
    if not overwritten and scene.suspects.get("swa", page) is not None:
        return  # whoever clears the entries may hold the page and release it directly
    suspected = scene.suspects.confirm("swa", page)
    if suspected is not None:
        scene.truth.swa.touch(page).fault = suspected
        scene.truth.swa.lose(page)
        scene.findings.append(suspected)
        return
    record = scene.truth.swa.touch(page)
    if overwritten:
        scene.report(
            "mapping-overwritten",
            f"the last entry to live SWA page {page} is overwritten",
            pool="swa",
            page=page,
            slots=slots,
            cause=record.damage or scene.first_error(),
            notes=(f"entries of full slots {short_list(slots)} pointed at it",),
        )
        scene.truth.swa.lose(page)
        return
    suspect_orphan(scene, page, f"the last entry to live SWA page {page} is cleared", slots)


def suspect_orphan(scene: Scene, page: int, headline: str, slots: list[int]) -> None:
    """Hold it against a live SWA page that nothing reaches it, until that is explained."""
    record = scene.truth.swa.touch(page)
    finding = scene.build.build(
        "orphaned-page",
        headline,
        scene.moment,
        pool="swa",
        page=page,
        slots=sorted(slots),
        positions=scene.resolved.positions,
        cause=record.damage,
        notes=("nothing released or mapped it afterwards",),
    )
    scene.suspects.add("swa", page, finding)


def _note_remap(scene: Scene, page: int, slots: list[int]) -> None:
    """The last entry to a page that waits for its release went: who rewrote it is remembered."""
    group = scene.truth.group
    if group is None or not slots:
        return
    record = scene.truth.swa.touch(page)
    group.overwritten[page] = scene.build.build(
        "mapping-overwritten",
        f"the entry to SWA page {page}, queued for release, is overwritten",
        scene.moment,
        pool="swa",
        page=page,
        slots=slots,
        released=record.queued,
        notes=("the free group ended without releasing the page",),
    )


def check_remap_in_group(scene: Scene) -> None:
    """A queued entry is pointed somewhere else before the group ends."""
    group = scene.truth.group
    if group is None or not group.slots or not scene.effect.mapped_slots:
        return
    writes = zip(scene.effect.mapped_slots, scene.effect.mapped_to, strict=True)
    slots = [slot for slot, new in writes if new and slot in group.slots]
    if slots:
        scene.report(
            "remap-in-free-group",
            "a mapping entry queued for release is rewritten before the group ends"
            if len(slots) == 1
            else f"{len(slots)} mapping entries queued for release are rewritten in the group",
            pool="swa",
            slots=slots,
            released=group.opened,
            notes=(f"the free group was opened at event {group.opened.event}",),
        )


def check_stale_entries(scene: Scene) -> None:
    """After a release: entries that still point at a page that was released."""
    mapping, swa = scene.truth.mapping, scene.truth.swa
    for page in dict.fromkeys(scene.effect.swa_returned):
        if not mapping.entries_to(page) or not swa.is_real(page):
            continue
        record = swa.touch(page)
        if record.live:
            continue
        slots = [s for s in mapping.slots_pointing_at(page) if s not in mapping.stale]
        if not slots:
            continue
        finding = scene.report(
            "stale-mapping",
            f"SWA page {page} is released, {_entries(len(slots))} still point"
            f"{'s' if len(slots) == 1 else ''} at it",
            pool="swa",
            page=page,
            slots=slots,
            released=scene.moment,
            cause=scene.first_error() or record.damage,
            mark_page=False,
            notes=(f"entries of full slots {short_list(slots)}",),
        )
        for slot in slots:
            mapping.stale[slot] = finding


def _entries(number: int) -> str:
    return counted(number, "mapping entry", "mapping entries")


def check_cut_from_full(scene: Scene) -> None:
    """After full pages were released: SWA pages that only their entries reached."""
    truth = scene.truth
    size = truth.geometry.page_size
    for full_page in dict.fromkeys(scene.effect.full_returned):
        first = full_page * size
        if not truth.mapping.is_mapped(full_page):
            continue
        peers = truth.mapping.read(list(range(first, first + size)))
        for page in {peer // size for peer in peers if peer}:
            record = truth.swa.peek(page)
            if record is None or not record.live or record.queued or truth.is_reachable(page):
                continue
            slots = [s for s, peer in enumerate(peers, first) if peer // size == page]
            suspect_orphan(
                scene, page, f"full page {full_page} is released, its SWA peer {page} is not", slots
            )
