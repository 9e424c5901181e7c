"""Events to calls: rows become slots, recorded slots become the slots of this replay."""

from __future__ import annotations

import msgspec

from swasim.call import Call
from swasim.trace.events import ReqName


class Resolved(msgspec.Struct, frozen=True):
    """An event with its names replaced by slots.

    Attributes:
        call: the call to make; None for share, mark and expect.
        reqs: row named per batch item; one item for a single request; empty for raw slots.
        positions: row positions `[start, end)` that a release or share names; None for raw slots.
        births: parallel to `call.indices`: event number at which the row got each slot (its
            generation). None for raw slots.
        last_births: parallel to `call.last_loc`, likewise; 0 where there is no last slot. None
            for raw slots or where the event gave `last_loc` itself.
    """

    call: Call | None
    reqs: tuple[ReqName, ...] = ()
    positions: tuple[int, int] | None = None
    births: list[int] | None = None
    last_births: list[int] | None = None


class RowChange(msgspec.Struct, frozen=True):
    """How one row changed at one event.

    Attributes:
        req: the row.
        kept_len: tokens that stayed at the front.
        dropped_slots, dropped_births: slots that left its end (truncated, or the row forgotten).
        added_slots, added_births: slots appended behind `kept_len`.
        forgotten: the row is gone (`finish`, `clear`).
        allocated: the slots were appended by an allocation (not by `share`).
    """

    req: ReqName
    kept_len: int
    dropped_slots: list[int] = []
    dropped_births: list[int] = []
    added_slots: list[int] = []
    added_births: list[int] = []
    forgotten: bool = False
    allocated: bool = False
