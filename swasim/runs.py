"""A call and its effect by runs of slots: what `swasim.call` says with a list entry per slot.

Calls name slots by the page, and pages follow one another. A run is a first slot and a length, so
what is done once per slot elsewhere is done once per run here. These records are filled, read and
emptied again millions of times in a replay; nobody keeps them.

This module is compiled where that is possible (`runs.pxd` has its types); it runs as it stands
otherwise. What must not be added here: anything that decides.
"""

from __future__ import annotations

from array import array

from swasim.call import Call, Effect

ALLOC, EXTEND, DECODE, FREE, FREE_SWA, FREE_FULL = range(6)
"""Operations that can be written by runs; allocations come first, up to DECODE."""

OPS = ("alloc", "alloc_extend", "alloc_decode", "free", "free_swa", "free_full")
"""The names of these, by number."""

COMPILED = not __file__.endswith(".py")
"""Whether this module is compiled. All that are meant to be are, or none is."""

FREE_GROUP, FREE_SEGMENT, FREE_SWA_SEGMENT, FREE_FULL_SEGMENT = range(6, 10)
"""More of them. FREE_GROUP is a whole group of calls: free_group_begin, any number of free, and
free_group_end; it names the slots of its frees one after the other. A segment starts at a row
position that is a multiple of the page size; free_segments and free_full_segments with exactly one
segment are the same as free_segment and free_full_segment with it."""

FIRST_CAPACITY = 64


def zeros(count: int) -> array[int]:
    """`count` 64-bit zeros."""
    return array("q", bytes(8 * count))


def fits(value: int) -> bool:
    """Whether an int has at most 64 bits."""
    return -(1 << 63) <= value < 1 << 63


class Ints:
    """A list of 64-bit integers that is emptied without giving its memory back.

    Attributes:
        at: the integers, and room for more.
        count: how many of them there are.
    """

    def __init__(self) -> None:
        self.at = zeros(FIRST_CAPACITY)
        self.room = FIRST_CAPACITY
        self.count = 0

    def push(self, value: int) -> None:
        """Append one integer."""
        if self.count == self.room:
            self.reserve(self.count + 1)
        self.at[self.count] = value
        self.count += 1

    def reserve(self, count: int) -> None:
        """Make room for `count` integers in all."""
        if count <= self.room:
            return
        grown = zeros(max(count, 2 * self.room))
        larger = memoryview(grown)
        larger[: self.count] = memoryview(self.at)[: self.count]
        larger.release()
        self.at = grown
        self.room = len(grown)

    def load(self, values: list[int]) -> None:
        """Take over a list of ints.

        Raises:
            OverflowError: an int does not fit in 64 bits.
        """
        count = len(values)
        self.reserve(count)
        for index in range(count):
            self.at[index] = values[index]
        self.count = count

    def tolist(self) -> list[int]:
        """The integers as a list."""
        return [self.at[index] for index in range(self.count)]


class RunCall:
    """One call: an operation of this module and its arguments.

    Attributes:
        op: ALLOC, EXTEND, DECODE, FREE, FREE_SWA or FREE_FULL.
        need_size: tokens that an alloc asks for.
        prefix_lens, seq_lens, last_loc: of an extend or a decode (which has no prefix_lens), one
            for each request.
        starts, lengths: runs of full slots that a release names, in order.
        slots: how many they are.
    """

    def __init__(self) -> None:
        self.op = ALLOC
        self.need_size = 0
        self.prefix_lens = Ints()
        self.seq_lens = Ints()
        self.last_loc = Ints()
        self.starts = Ints()
        self.lengths = Ints()
        self.slots = 0

    def name(self, start: int, length: int) -> None:
        """Add a run to what a release names, to the last run where it goes on."""
        self.slots += length
        last = self.starts.count - 1
        if last >= 0 and self.starts.at[last] + self.lengths.at[last] == start:
            self.lengths.at[last] += length
        else:
            self.starts.push(start)
            self.lengths.push(length)

    def name_none(self) -> None:
        """Forget the runs."""
        self.starts.count = self.lengths.count = 0
        self.slots = 0

    def read(self, call: Call) -> bool:
        """Take over a call.

        Returns:
            Whether it could be: False for an operation that is none of `OPS`, for a pool by itself,
            and for ints beyond 64 bits. This record means nothing then.
        """
        if call.op not in OPS or call.pool is not None or not fits(call.need_size):
            return False
        self.op = OPS.index(call.op)
        try:
            if self.op > DECODE:
                self.name_none()
                for slot in call.indices:
                    self.name(slot, 1)
            else:
                self.need_size = call.need_size
                self.prefix_lens.load(call.prefix_lens)
                self.seq_lens.load(call.seq_lens)
                self.last_loc.load(call.last_loc)
        except OverflowError:
            return False
        return True


class RunEffect:
    """What one call changed.

    Attributes:
        full_taken, swa_taken, full_returned, swa_returned: page ids, as in `swasim.call.Effect`.
        slots, peers, lengths: runs of mapping entries that changed, in order of writing: full
            slots from `slots`, at SWA slots from `peers`. An allocation wrote entries that were
            unmapped, and returned just these full slots; a release unmapped them.
        full_available, swa_available: tokens after the call, by the allocator's account.
    """

    def __init__(self) -> None:
        self.full_taken = Ints()
        self.swa_taken = Ints()
        self.full_returned = Ints()
        self.swa_returned = Ints()
        self.slots = Ints()
        self.peers = Ints()
        self.lengths = Ints()
        self.full_available = 0
        self.swa_available = 0

    def empty(self) -> None:
        """Nothing changed."""
        self.full_taken.count = self.swa_taken.count = 0
        self.full_returned.count = self.swa_returned.count = 0
        self.slots.count = self.peers.count = self.lengths.count = 0

    def entry_run(self, slot: int, peer: int, length: int) -> None:
        """Add a run of entries, to the last run where it goes on."""
        last = self.slots.count - 1
        if last >= 0:
            before = self.lengths.at[last]
            if self.slots.at[last] + before == slot and self.peers.at[last] + before == peer:
                self.lengths.at[last] = before + length
                return
        self.slots.push(slot)
        self.peers.push(peer)
        self.lengths.push(length)

    def read(self, effect: Effect, *, allocated: bool) -> bool:
        """Take over an effect.

        Args:
            allocated: the call was an allocation.

        Returns:
            Whether it is of the form that this class describes, with ints of up to 64 bits. This
            record means nothing where it is not.
        """
        slots, before, after = effect.mapped_slots, effect.mapped_from, effect.mapped_to
        peers, others = (after, before) if allocated else (before, after)
        if effect.raised is not None or any(others) or not len(slots) == len(peers) == len(others):
            return False
        if effect.out != (slots if allocated else None):
            return False
        if not (fits(effect.full_available) and fits(effect.swa_available)):
            return False
        self.empty()
        try:
            self.full_taken.load(effect.full_taken)
            self.swa_taken.load(effect.swa_taken)
            self.full_returned.load(effect.full_returned)
            self.swa_returned.load(effect.swa_returned)
            for slot, peer in zip(slots, peers, strict=True):
                self.entry_run(slot, peer, 1)
            self.full_available = effect.full_available
            self.swa_available = effect.swa_available
        except OverflowError:
            return False
        return True

    def _spread(self, firsts: Ints) -> list[int]:
        """The runs that begin at `firsts`, with a list entry per slot."""
        count = 0
        for run in range(self.lengths.count):
            count += self.lengths.at[run]
        spread = [0] * count
        index = 0
        for run in range(self.lengths.count):
            first = firsts.at[run]
            for at in range(self.lengths.at[run]):
                spread[index] = first + at
                index += 1
        return spread

    def to_effect(self, *, allocated: bool) -> Effect:
        """The same with a list entry per slot.

        Args:
            allocated: the call was an allocation, and returned the slots.
        """
        mapped, peers = self._spread(self.slots), self._spread(self.peers)
        unmapped = [0] * len(mapped)
        return Effect(
            out=mapped.copy() if allocated else None,
            full_taken=self.full_taken.tolist(),
            full_returned=self.full_returned.tolist(),
            swa_taken=self.swa_taken.tolist(),
            swa_returned=self.swa_returned.tolist(),
            mapped_slots=mapped,
            mapped_from=unmapped if allocated else peers,
            mapped_to=peers if allocated else unmapped,
            full_available=self.full_available,
            swa_available=self.swa_available,
        )
