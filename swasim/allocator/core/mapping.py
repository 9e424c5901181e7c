"""The table from full slots to SWA slots, in plain integers.

Equal, entry by entry, to SGLang's `full_to_swa_index_mapping`, and it fails as that tensor does:
a negative index counts from the end, one out of range raises IndexError, a read that raises has
changed nothing and a write that raises has written everything before the bad index.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import repeat

from swasim.call import Effect
from swasim.geometry import NO_LOC, UNMAPPED
from swasim.runs import zeros

_WRAP = 1 << 63


class CoreMapping:
    """Entries, and a report of each that changes.

    Args:
        length: entries, the trailing one included.
        trailing: the last entry is -1 and `reset` leaves it alone, so that a `last_loc` of -1
            reads -1.
        page_size: slots that mostly come together.

    Attributes:
        entries: SWA slot of each full slot, 64 bits each; always the same array.
        effect: record of the present call; receives each entry that changes.
    """

    def __init__(self, length: int, trailing: bool, page_size: int) -> None:
        self.entries = zeros(length)
        self.page_size = page_size
        self.effect = Effect()
        self._trailing = trailing
        if trailing:
            self.entries[-1] = NO_LOC

    def clone(self) -> CoreMapping:
        """A table with the same entries that shares nothing with this one."""
        twin = object.__new__(CoreMapping)
        twin.__dict__.update(self.__dict__)
        twin.entries = self.entries[:]
        twin.effect = Effect()
        return twin

    def reset(self) -> None:
        """Every entry unmapped; unreported."""
        cleared = len(self.entries) - self._trailing
        self.entries[:cleared] = zeros(cleared)

    def read(self, slots: list[int]) -> list[int]:
        """Entries of `slots`, in order.

        Raises:
            IndexError: a slot is outside the table.
        """
        entries = self.entries
        try:
            return [entries[slot] for slot in slots]
        except IndexError:
            raise self._out_of_bounds(slots) from None

    def write(self, slots: list[int], values: Iterable[int]) -> None:
        """Set entries one after the other; of two writes to one entry the later stays.

        Values beyond 64 bits wrap, as they do where upstream adds to its tensors.

        Raises:
            IndexError: a slot is outside the table; those before it have been written.
        """
        if isinstance(values, list):
            if self._write_fresh(slots, values):
                return
            values = [(value + _WRAP) % (2 * _WRAP) - _WRAP for value in values]
        entries, size, effect = self.entries, len(self.entries), self.effect
        changed, before, after = effect.mapped_slots, effect.mapped_from, effect.mapped_to
        try:
            for slot, value in zip(slots, values, strict=False):
                old = entries[slot]
                if old != value:
                    entries[slot] = value
                    changed.append(slot if slot >= 0 else slot + size)
                    before.append(old)
                    after.append(value)
        except IndexError:
            raise self._out_of_bounds(slots) from None

    def _write_fresh(self, slots: list[int], values: list[int]) -> bool:
        """`write` of entries that are all unmapped, as most are; False: nothing was written."""
        effect, count = self.effect, len(slots)
        if not slots or UNMAPPED in values or len(values) != count:
            return False
        if not (self._write_runs(slots, values) or self._write_scattered(slots, values)):
            return False
        effect.mapped_slots += slots
        effect.mapped_from += [UNMAPPED] * count
        effect.mapped_to += values
        return True

    def _write_runs(self, slots: list[int], values: list[int]) -> bool:
        """The same for slots that are one run, or come by the page; nothing is reported."""
        entries, count, page_size = self.entries, len(slots), self.page_size
        whole = slots[-1] - slots[0] == count - 1
        if not whole and (page_size == 1 or slots[1] != slots[0] + 1):
            return False
        runs: dict[int, tuple[int, int]] = {}
        start = 0
        while start < count:
            slot = slots[start]
            end = count if whole else min(start + page_size - slot % page_size, count)
            unmapped = zeros(end - start)
            if slots[start:end] != list(range(slot, slot + end - start)) or slot < 0:
                return False
            if entries[slot : slot + end - start] != unmapped or slot // page_size in runs:
                return False
            runs[slot // page_size] = start, end
            start = end
        try:
            fresh = array("q", values)
        except OverflowError:
            return False
        for start, end in runs.values():
            entries[slots[start] : slots[start] + end - start] = fresh[start:end]
        return True

    def _write_scattered(self, slots: list[int], values: list[int]) -> bool:
        entries = self.entries
        if min(slots) < 0 or max(slots) >= len(entries) or len(set(slots)) != len(slots):
            return False
        held = [entries[slot] for slot in slots]
        if any(held):
            return False
        try:
            for slot, value in zip(slots, values, strict=True):
                entries[slot] = value
        except OverflowError:
            for slot in slots:
                entries[slot] = UNMAPPED
            return False
        return True

    def read_and_clear_pages(self, pages: list[int], page_size: int) -> list[int]:
        """Entries of whole pages, in order, all of them 0 afterwards.

        Args:
            pages: ascending, each once.

        Raises:
            IndexError: a page reaches beyond the table; nothing has changed.
        """
        if pages and (pages[0] < 0 or (pages[-1] + 1) * page_size > len(self.entries)):
            starts = [page * page_size for page in pages]
            slots = [slot for start in starts for slot in range(start, start + page_size)]
            peers = self.read(slots)
            self.clear(slots)
            return peers
        peers = []
        entries, unmapped = self.entries, zeros(page_size)
        changed, before = self.effect.mapped_slots, self.effect.mapped_from
        for page in pages:
            start, end = page * page_size, (page + 1) * page_size
            page_entries = entries[start:end]
            held = page_entries.tolist()
            peers += held
            if page_entries == unmapped:
                continue
            entries[start:end] = unmapped
            if UNMAPPED not in held:
                changed += range(start, end)
                before += held
            else:
                changed += [slot for slot, peer in enumerate(held, start) if peer]
                before += filter(None, held)
        after = self.effect.mapped_to
        after += [UNMAPPED] * (len(changed) - len(after))
        return peers

    def clear(self, slots: list[int]) -> None:
        """Set entries to 0; as `write`."""
        self.write(slots, repeat(UNMAPPED))

    def _out_of_bounds(self, slots: list[int]) -> IndexError:
        size = len(self.entries)
        bad = next(slot for slot in slots if not -size <= slot < size)
        return IndexError(f"index {bad} is out of bounds for dimension 0 with size {size}")
