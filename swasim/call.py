"""What was asked of an allocator, and what it did: the two records between the rooms.

A trace is resolved into `Call`s (rows are gone, only slots are left); an allocator answers each
with an `Effect`. The sanitizer reads both and nothing else, so it serves every engine and every
foreign allocator alike. Plain ints and lists only: no tensor crosses this line.
"""

from __future__ import annotations

import msgspec

from swasim.geometry import Geometry, Pool


class Segment(msgspec.Struct, frozen=True, gc=False):
    """One contiguous piece of a row.

    Args:
        indices: full slots in row order.
        start_pos: row position (tokens) of the first of them.
    """

    indices: list[int]
    start_pos: int


class Call(msgspec.Struct, frozen=True, gc=False):
    """One call on the allocator, with concrete slots.

    Only the fields of the operation are set; the names are those of the trace format.
    `alloc_extend_swa_tail` uses the batch fields with one entry each. `finish` arrives as `free`.
    """

    op: str
    pool: Pool | None = None
    indices: list[int] = []
    need_size: int = 0
    seq_lens: list[int] = []
    prefix_lens: list[int] = []
    last_loc: list[int] = []
    swa_tail_len: int = 0
    start_pos: int = 0
    segments: list[Segment] = []
    full: list[int] = []
    swa: list[int] = []
    slot: str = ""

    @property
    def named_slots(self) -> list[int]:
        """Slots that a release names, those of all its segments."""
        return self.indices or [slot for segment in self.segments for slot in segment.indices]


class Effect(msgspec.Struct):
    """What one call changed. The allocator fills it; nobody else writes to it.

    Attributes:
        out: slots returned, in order; None when the call returned None (refused, or no result).
        raised: class name of the exception that left the call, else None.
        raised_text: its message, one line.
        full_taken, swa_taken: page ids that left the free lists (free or staged), in order.
        full_returned, swa_returned: page ids that entered them, in order, repeats kept.
        mapped_slots: full slots whose mapping entry changed, in order of writing. An entry
            written twice appears twice. The trailing entry (slot kv_size + page_size) too.
        mapped_from, mapped_to: SWA slot before and after, parallel to `mapped_slots`.
        full_available, swa_available: tokens available after the call, by the allocator's account.

    `clear` reports neither pages nor entries (everything is new); `restore_state` reports the
    difference between the lists before and after. Moving pages from staged to free is no change.
    """

    out: list[int] | None = None
    raised: str | None = None
    raised_text: str = ""
    full_taken: list[int] = msgspec.field(default_factory=list)
    full_returned: list[int] = msgspec.field(default_factory=list)
    swa_taken: list[int] = msgspec.field(default_factory=list)
    swa_returned: list[int] = msgspec.field(default_factory=list)
    mapped_slots: list[int] = msgspec.field(default_factory=list)
    mapped_from: list[int] = msgspec.field(default_factory=list)
    mapped_to: list[int] = msgspec.field(default_factory=list)
    full_available: int = 0
    swa_available: int = 0


class AllocatorState(msgspec.Struct, frozen=True):
    """Everything that an allocator holds, as plain values; equal states compare equal.

    Attributes:
        full_free, swa_free: page ids of the free lists, in order.
        full_staged, swa_staged: freed page ids not merged yet, in order.
        mapping: the whole mapping tensor as a list, trailing entry included.
    """

    full_free: list[int]
    swa_free: list[int]
    full_staged: list[int]
    swa_staged: list[int]
    mapping: list[int]

    def available(self, geometry: Geometry) -> tuple[int, int]:
        """Tokens available in the full and the SWA pool."""
        page = geometry.page_size
        full = (len(self.full_free) + len(self.full_staged)) * page
        return full, (len(self.swa_free) + len(self.swa_staged)) * page
