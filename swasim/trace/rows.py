"""One row: the slots of one request, where they came from, whether they are held, what changed."""

from __future__ import annotations

import msgspec

from swasim.errors import TraceError
from swasim.trace.events import ReqName

MAX_ROW_TOKENS = 1 << 24
"""Longest row that `share` may make: beyond any context, and a few of them fit in memory."""


class Row:
    """The slots of one request.

    Attributes:
        slots: full slots in sequence order.
        births: parallel; event number of the allocation that gave the slot.
        held: parallel; 1 until the position is released through this row.
    """

    __slots__ = ("births", "held", "slots")

    def __init__(self) -> None:
        self.slots: list[int] = []
        self.births: list[int] = []
        self.held = bytearray()

    def clone(self) -> Row:
        """A row with the same content that can change on its own."""
        twin = object.__new__(Row)
        twin.slots = self.slots.copy()
        twin.births = self.births.copy()
        twin.held = self.held.copy()
        return twin

    def __len__(self) -> int:
        """Tokens in the row."""
        return len(self.slots)

    def extend(self, slots: list[int], births: list[int]) -> None:
        """Append slots; the row holds them."""
        self.slots += slots
        self.births += births
        self.held += b"\1" * len(slots)

    def truncate(self, length: int) -> tuple[list[int], list[int]]:
        """Drop what stands behind `length` tokens; returns the dropped slots and their births."""
        slots, births = self.slots[length:], self.births[length:]
        del self.slots[length:], self.births[length:], self.held[length:]
        return slots, births


class RowError(TraceError):
    """An event names a row, positions of a row or a saved state that this replay does not have.

    Attributes:
        refused_event: the last event at which an allocation for that row returned None, if any:
            then the trace may be sound, and this allocator is what made the event impossible.
    """

    refused_event: int | None = None


class RowChange(msgspec.Struct, frozen=True):
    """How one row changed at one event.

    Attributes:
        req: the row.
        kept_len: tokens that stayed at the front.
        dropped_slots, dropped_births: slots that left its end (truncated, or the row forgotten).
        added_slots: slots appended behind `kept_len`.
        forgotten: the row is gone (`finish`, `clear`).
        allocated: the slots were appended by an allocation (not by `share`).
    """

    req: ReqName
    kept_len: int
    dropped_slots: list[int] = []
    dropped_births: list[int] = []
    added_slots: list[int] = []
    forgotten: bool = False
    allocated: bool = False
