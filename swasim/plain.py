"""Plain events, read by runs: those that name raw slots and say nothing else.

What `swasim.trace.check` would refuse is not plain. Nor is what names a row or a pool, or what
expects something: that is left to the resolver and the step.

This module is compiled where that is possible (`plain.pxd` has its types); it runs as it stands
otherwise. What must not be added here: anything that knows pools or owners.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from swasim.geometry import NO_LOC
from swasim.runs import (
    ALLOC,
    DECODE,
    EXTEND,
    FREE,
    FREE_FULL,
    FREE_FULL_SEGMENT,
    FREE_GROUP,
    FREE_SEGMENT,
    FREE_SWA,
    FREE_SWA_SEGMENT,
    RunCall,
)
from swasim.trace.check import MAX_SLOTS
from swasim.trace.events import (
    Alloc,
    AllocDecode,
    AllocExtend,
    AnyEvent,
    Free,
    FreeFull,
    FreeFullSegment,
    FreeFullSegments,
    FreeGroupBegin,
    FreeGroupEnd,
    FreeSegment,
    FreeSegments,
    FreeSwa,
    FreeSwaSegment,
)

END_OF_SLOTS = 1 << 40
"""No pool has slots from here on: a run below it is far from what 64 bits hold."""


class PlainReader:
    """Reads plain events into the one call that there is.

    Args:
        page_size: tokens per page.

    Attributes:
        call: what the events ask for that were read last.
        op: the operation of the last of them, as a trace spells it.
        site, seconds: where and when that was called, as in `Moment`.
        has_out: it says what the recorded allocator returned.
        recorded: that, as the slots that a release would name.
    """

    def __init__(self, page_size: int) -> None:
        self.call = RunCall()
        self.recorded = RunCall()
        self.op = self.site = ""
        self.seconds: float | None = None
        self.has_out = False
        self._page_size = page_size

    def read(self, events: list[AnyEvent], index: int, stop: int) -> int:
        """Read the event at `index`; a free group whole, where it ends before index `stop`.

        Returns:
            How many events were read; 0 where the first of them is not plain.
        """
        self.has_out = False
        event: Any = events[index]
        try:
            if type(event) is FreeGroupBegin:
                return self._reads_group(events, index, stop)
            return 1 if self._reads(event) and self._reads_origin(event) else 0
        except (TypeError, ValueError, OverflowError):
            # Ints beyond 64 bits, or a record from memory that holds other types than it says.
            return 0

    def _reads(self, event: Any) -> bool:
        kind = type(event)
        if kind is AllocDecode:
            self.op = "alloc_decode"
            return self._reads_decode(event)
        if kind is FreeSwa:
            self.op = "free_swa"
            return self._reads_release(event, FREE_SWA)
        if kind is AllocExtend:
            self.op = "alloc_extend"
            return self._reads_extend(event)
        if kind is Free:
            self.op = "free"
            return event.pool is None and self._reads_release(event, FREE)
        if kind is Alloc:
            self.op = "alloc"
            return self._reads_alloc(event)
        if kind is FreeFull:
            self.op = "free_full"
            return self._reads_release(event, FREE_FULL)
        return self._reads_segment(event, kind)

    def _reads_segment(self, event: Any, kind: Any) -> bool:
        """Of several pieces in one call, one is like a call with it alone."""
        if kind is FreeSegment:
            self.op = "free_segment"
            return event.pool is None and self._reads_piece(event, FREE_SEGMENT)
        if kind is FreeSwaSegment:
            self.op = "free_swa_segment"
            return self._reads_piece(event, FREE_SWA_SEGMENT)
        if kind is FreeFullSegment:
            self.op = "free_full_segment"
            return self._reads_piece(event, FREE_FULL_SEGMENT)
        if kind is FreeSegments:
            self.op = "free_segments"
            return self._reads_pieces(event, FREE_SEGMENT)
        if kind is FreeFullSegments:
            self.op = "free_full_segments"
            return self._reads_pieces(event, FREE_FULL_SEGMENT)
        return False

    def _reads_origin(self, event: Any) -> bool:
        site = event.site
        if site is not None and type(site) is not str:
            return False
        self.site = site or ""
        self.seconds = event.t
        return True

    # Allocations

    def _reads_decode(self, event: Any) -> bool:
        """Checked: both lists are there, and as long as one another."""
        call = self.call
        seq_lens, last_loc = event.seq_lens, event.last_loc
        if event.expect is not None or event.reqs is not None:
            return False
        if seq_lens is None or last_loc is None:
            return False
        call.op = DECODE
        call.prefix_lens.count = 0
        call.seq_lens.load(seq_lens)
        call.last_loc.load(last_loc)
        return call.seq_lens.count == call.last_loc.count and self._reads_out(event.out)

    def _reads_extend(self, event: Any) -> bool:
        """Checked: all lists are as long as one another, nobody shrinks, and who has a prefix says
        where it ends."""
        call = self.call
        prefix_lens, last_loc = event.prefix_lens, event.last_loc
        if event.expect is not None or event.reqs is not None or prefix_lens is None:
            return False
        call.op = EXTEND
        call.prefix_lens.load(prefix_lens)
        call.seq_lens.load(event.seq_lens)
        count = call.seq_lens.count
        if call.prefix_lens.count != count:
            return False
        if last_loc is not None:
            call.last_loc.load(last_loc)
        else:
            call.last_loc.count = 0
            for _ in range(count):
                call.last_loc.push(NO_LOC)
        if call.last_loc.count != count:
            return False
        for request in range(count):
            prefix_len = call.prefix_lens.at[request]
            if call.seq_lens.at[request] < prefix_len:
                return False
            if prefix_len and last_loc is None:
                return False
        return self._reads_out(event.out)

    def _reads_alloc(self, event: Any) -> bool:
        """Nothing to be checked but `out`."""
        if event.expect is not None or event.req is not None or event.pool is not None:
            return False
        self.call.op = ALLOC
        self.call.need_size = event.need_size
        return self._reads_out(event.out)

    def _reads_out(self, out: Any) -> bool:
        """A refusal that was recorded is not plain, whatever comes of the call now."""
        if out is UNSET:
            return True
        self.has_out = True
        self.recorded.name_none()
        return out is not None and self._names(self.recorded, out)

    # Releases

    def _reads_release(self, event: Any, op: int) -> bool:
        self.call.op = op
        self.call.name_none()
        return self._names_target(event)

    def _reads_piece(self, event: Any, op: int) -> bool:
        """One piece of a row; it must begin with a page of the row."""
        start_pos = event.start_pos
        if start_pos is not None and start_pos % self._page_size:
            return False
        return self._reads_release(event, op)

    def _reads_pieces(self, event: Any, op: int) -> bool:
        segments = event.segments
        if event.expect is not None or len(segments) != 1:
            return False
        piece = segments[0]
        if piece.start_pos % self._page_size:
            return False
        self.call.op = op
        self.call.name_none()
        return self._names(self.call, piece.indices)

    def _reads_group(self, events: list[AnyEvent], start: int, stop: int) -> int:
        """A group of nothing but frees, with its end."""
        event: Any = events[start]
        if event.expect is not None:
            return 0
        self.call.op = FREE_GROUP
        self.call.name_none()
        for index in range(start + 1, stop):
            event = events[index]
            if type(event) is FreeGroupEnd:
                self.op = "free_group_end"
                plain = event.expect is None and self._reads_origin(event)
                return index + 1 - start if plain else 0
            if type(event) is not Free or event.pool is not None or not self._names_target(event):
                return 0
        return 0

    def _names_target(self, event: Any) -> bool:
        """Checked: slots are named and nothing beside them."""
        indices = event.indices
        if event.expect is not None or indices is None or event.req is not None:
            return False
        if event.start is not None or event.end is not None:
            return False
        return self._names(self.call, indices)

    def _names(self, call: RunCall, items: list[Any]) -> bool:
        """Read an index list. Checked: runs end behind their start, and they are not too many."""
        named = 0
        for item in items:
            if type(item) is tuple:
                start, end = item
            else:
                start = item
                end = start + 1
            if not 0 <= start <= end < END_OF_SLOTS:
                return False
            if start < end:
                named += end - start
                call.name(start, end - start)
        return named <= MAX_SLOTS
