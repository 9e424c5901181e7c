"""How pages, slots and rows stand at one moment, read from a replay that has stopped there."""

from __future__ import annotations

from swasim.geometry import UNMAPPED
from swasim.inspect.records import PageNow, Peer, Span
from swasim.inspect.target import Target
from swasim.replayer import Replayer
from swasim.sanitizer.shadow import Truth


def look_at(replayer: Replayer, target: Target) -> PageNow:
    """The page of `target` now, or what of it concerns its slot."""
    truth = replayer.sanitizer.truth
    state, owner, copies = truth.pool(target.pool).look_at(target.page)
    peers = _peers(truth, target)
    if target.pool == "full":
        record = truth.full.peek(target.page)
        filled = truth.full.fill_of(target.page) if record is not None and record.live else 0
        if target.slot is not None:
            filled = int(target.slot % truth.geometry.page_size < filled)
        rows = spans(replayer, target.page, target.slot)
    else:
        filled = sum(peer.entries for peer in peers)
        rows = _spans_of_peers(replayer, target, peers)
    return PageNow(state, copies, filled, rows, peers, owner)


def _peers(truth: Truth, target: Target) -> tuple[Peer, ...]:
    """Pages of the other pool, by the entries of the page or slot."""
    mapping, size = truth.mapping, truth.geometry.page_size
    counts: dict[int, list[int]] = {}
    for slot in _full_slots(truth, target):
        swa_slot = mapping.entry(slot)
        if swa_slot == UNMAPPED:
            continue
        other = swa_slot if target.pool == "full" else slot
        count = counts.setdefault(other // size, [0, 0])
        count[0] += 1
        count[1] += slot in mapping.stale
    return tuple(Peer(page, entries, stale) for page, (entries, stale) in counts.items())


def _full_slots(truth: Truth, target: Target) -> list[int]:
    """Full slots whose entries belong to the page or slot."""
    if target.pool == "swa":
        slots = truth.mapping.slots_pointing_at(target.page)
        if target.slot is None:
            return slots
        return [slot for slot in slots if truth.mapping.entry(slot) == target.slot]
    return list(truth.geometry.slots_of(target.page)) if target.slot is None else [target.slot]


def spans(replayer: Replayer, full_page: int, slot: int | None = None) -> tuple[Span, ...]:
    """Rows that name a full page (or one slot of it), and whether they have a right to it."""
    found = []
    for req, first, last in replayer.sanitizer.row_index.naming(full_page):
        row = replayer.resolver.rows.get(req)
        if row is None:
            continue
        if slot is not None:
            if slot not in row.slots[first : last + 1]:
                continue
            first = last = row.slots.index(slot, first)
        valid = is_valid(replayer.sanitizer.truth, full_page, row.births[first])
        if valid or row.held[first]:
            found.append(Span(str(req), first, last, valid))
    return tuple(found)


def is_valid(truth: Truth, full_page: int, birth: int) -> bool:
    """Whether a page is still the one that a row was given at event `birth`."""
    record = truth.full.peek(full_page)
    if record is None or not record.live:
        return False
    return record.allocated is None or record.allocated.event <= birth


def _spans_of_peers(
    replayer: Replayer, target: Target, peers: tuple[Peer, ...]
) -> tuple[Span, ...]:
    slot = None
    if target.slot is not None:
        slots = _full_slots(replayer.sanitizer.truth, target)
        slot = slots[0] if len(slots) == 1 else None
    found: dict[Span, None] = {}
    for peer in peers:
        if peer.stale < peer.entries:
            found.update(dict.fromkeys(spans(replayer, peer.page, slot)))
    return tuple(found)


def reads_back_to(replayer: Replayer, length: int) -> int | None:
    """First position that the next step of a row of `length` tokens reads on the SWA side."""
    back = replayer.sanitizer.reads_back_tokens
    return None if back is None else max(0, length - back)


def owner_rows(replayer: Replayer, full_page: int) -> tuple[str, ...]:
    """Rows with a right to a full page."""
    return tuple(span.req for span in spans(replayer, full_page) if span.valid)
