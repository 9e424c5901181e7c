"""A row page by page: where its positions are, their peers, and what of it is still its own."""

from __future__ import annotations

from dataclasses import replace

from swasim.geometry import UNMAPPED
from swasim.inspect.look import reads_back_to
from swasim.inspect.records import PageWord, PeerWord, RowPiece
from swasim.replayer import Replayer
from swasim.sanitizer.findings import Moment
from swasim.sanitizer.shadow import Truth
from swasim.trace.rows import Row


def pieces(replayer: Replayer, row: Row) -> tuple[RowPiece, ...]:
    """The row, cut where the page, its peer, or anything else changes, and where the window begins.

    Cost: its tokens.
    """
    found: list[RowPiece] = []
    border = reads_back_to(replayer, len(row))
    truth = replayer.sanitizer.truth
    for position, slot in enumerate(row.slots):
        piece = _piece(truth, position, slot, row.births[position], bool(row.held[position]))
        if found and position != border and _continues(found[-1], piece):
            found[-1] = _extended(found[-1], piece)
        else:
            found.append(piece)
    return tuple(found)


def _piece(truth: Truth, position: int, slot: int, birth: int, held: bool) -> RowPiece:
    size = truth.geometry.page_size
    swa_slot = truth.mapping.entry(slot)
    page, since = _generation(truth, slot // size, birth)
    if page in ("released", "reused"):
        # Its slots may be mapped for somebody else: that is no peer of this row.
        swa_slot = UNMAPPED if slot not in truth.mapping.stale else swa_slot
    peer: PeerWord = "unmapped"
    if swa_slot != UNMAPPED:
        record = truth.swa.peek(swa_slot // size)
        if slot in truth.mapping.stale:
            peer = "stale"
        else:
            peer = "mapped" if record is not None and record.live else "lost"
    mapped = swa_slot != UNMAPPED
    return RowPiece(
        first=position,
        last=position,
        full_page=slot // size,
        full_slots=(slot, slot),
        swa_page=swa_slot // size if mapped else None,
        swa_slots=(swa_slot, swa_slot) if mapped else None,
        peer=peer,
        page=page,
        since=since,
        given=birth,
        held=held,
    )


def _generation(truth: Truth, full_page: int, birth: int) -> tuple[PageWord, Moment | None]:
    """What became of the page that a row was given at event `birth`, and when."""
    record = truth.full.peek(full_page)
    if record is None:
        return "released", None
    if not record.live:
        return ("released" if record.copies else "lost"), record.released
    if record.allocated is not None and record.allocated.event > birth:
        return "reused", record.allocated
    return ("pending", record.queued) if record.queued else ("valid", None)


def _continues(piece: RowPiece, added: RowPiece) -> bool:
    if added.full_slots[0] != piece.full_slots[1] + 1:
        return False
    old, new = piece.swa_slots, added.swa_slots
    if old is not None and new is not None and new[0] != old[1] + 1:
        return False
    return _traits(piece) == _traits(added)


def _traits(piece: RowPiece) -> tuple[object, ...]:
    return (piece.full_page, piece.swa_page, piece.peer, piece.page, piece.since, piece.held)


def _extended(piece: RowPiece, added: RowPiece) -> RowPiece:
    swa_slots = piece.swa_slots
    if swa_slots is not None and added.swa_slots is not None:
        swa_slots = (swa_slots[0], added.swa_slots[1])
    return replace(
        piece,
        last=added.last,
        full_slots=(piece.full_slots[0], added.full_slots[1]),
        swa_slots=swa_slots,
    )
