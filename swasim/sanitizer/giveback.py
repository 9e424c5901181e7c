"""Releases at which nothing is wrong: which pages come back, which entries are cleared.

- The slots named lie on pages of the full pool that calls have touched, one stretch on each page.
- `free` and `free_full` give back every full page that they name: it is live and not queued, and
  all that was handed out of it is named. `free_swa` gives back none. So do the forms for segments;
  the slots of a segment start with a page.
- The entries cleared are those of the slots named, all of them and no others, and were what the
  allocator says. On a full page that goes no entry stays behind, of whatever slot.
- Each SWA page that they led to is given back, and no other: it is live and not queued, and no
  entry points at it any more.
- A release that names slots gives something back.
- A group of `free` is, when it has ended, one `free` of all their slots.

So no page is released that the call does not name the owner of, none that it names is missing, no
entry is left to a page that is gone, and no SWA page is live that nothing leads to. That is all
that `release.py` and `mapping.py` ask.

This module is compiled where that is possible (`giveback.pxd` has its types).
"""

from __future__ import annotations

from swasim.geometry import PAD_PAGE
from swasim.runs import FREE_FULL, FREE_GROUP, FREE_SWA, FREE_SWA_SEGMENT, Ints, RunCall, RunEffect
from swasim.sanitizer.cells import CELL, FILL, MARK, NOTE, OWNED, STANDING
from swasim.sanitizer.follow import page_shift
from swasim.sanitizer.shadow import PoolTruth, Truth

OFFSET_BITS = 31
"""Two offsets on a page are noted in one number."""


class GiveBack:
    """Looks at one release at a time.

    Notes of full pages: offsets `[start, end)` whose entries may be cleared yet. Notes of SWA
    pages: entries lost.

    Args:
        truth: read; `Truth.mark` and the number behind it are those of the present call.
    """

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.size: int = truth.geometry.page_size
        self.shift = page_shift(self.size)
        self.cleared = 0

    def is_right(self, call: RunCall, effect: RunEffect) -> bool:
        """Whether a release is as this module says."""
        truth = self.truth
        frees_full = call.op != FREE_SWA and call.op != FREE_SWA_SEGMENT
        if effect.full_taken.count or effect.swa_taken.count or self.size >> OFFSET_BITS:
            return False
        if call.op > FREE_FULL and call.op != FREE_GROUP and not self._is_aligned(call):
            return False
        named = 0
        for run in range(call.starts.count):
            pages = self._are_named(call.starts.at[run], call.lengths.at[run], frees_full)
            if pages < 0:
                return False
            named += pages
        lost = self._cuts_off(effect)
        if lost < 0 or lost != effect.swa_returned.count:
            return False
        if self.cleared != call.slots and self.cleared != self._count_mapped(call):
            return False
        if effect.full_returned.count != (named if frees_full else 0):
            return False
        if named and not (effect.full_returned.count or lost):
            return False
        return (
            were_marked(truth.full, effect.full_returned, truth.mark)
            and were_marked(truth.swa, effect.swa_returned, truth.mark)
            and self._are_cut_off(effect.swa_returned)
        )

    def _is_aligned(self, call: RunCall) -> bool:
        """Whether the slots of a segment start with a page, as its position does."""
        return call.starts.count == 0 or (
            call.starts.at[0] >= 0 and call.starts.at[0] % self.size == 0
        )

    def _are_named(self, slot: int, left: int, frees_full: bool) -> int:
        """Whether a run of slots may be named.

        Returns:
            Pages that it lies on; -1 where it may not.
        """
        size, pages = self.size, 0
        while left > 0:
            if slot < size:
                return -1
            page = self._page(slot)
            offset = slot - page * size
            count = min(size - offset, left)
            if not self._is_named(page, offset, count, frees_full):
                return -1
            pages += 1
            slot += count
            left -= count
        return pages

    def _is_named(self, page: int, offset: int, count: int, frees_full: bool) -> bool:
        """Whether `count` slots of a full page may be named, from `offset` on."""
        full, mapping = self.truth.full, self.truth.mapping
        if page >= len(full.by_id):
            return False
        cell, first, end = page * CELL, page * self.size, offset + count
        if full.cells[cell + MARK] == self.truth.mark or full.by_id[page] is None:
            return False
        full.cells[cell + MARK] = self.truth.mark
        full.cells[cell + NOTE] = (offset << OFFSET_BITS) + end
        if not frees_full:
            return True
        if full.cells[cell + STANDING] != OWNED or count < full.cells[cell + FILL]:
            return False
        return count == self.size or not (
            mapping.count_mapped(first, first + offset)
            or mapping.count_mapped(first + end, first + self.size)
        )

    def _cuts_off(self, effect: RunEffect) -> int:
        """Whether entries were cleared of slots named, each once, from what they were.

        Returns:
            SWA pages that lost entries; -1 where it is not so. `cleared` says how many entries.
        """
        size, cleared, lost = self.size, 0, 0
        for run in range(effect.lengths.count):
            slot, peer, left = effect.slots.at[run], effect.peers.at[run], effect.lengths.at[run]
            if left <= 0:
                return -1
            cleared += left
            while left > 0:
                if slot < size or peer < size:
                    return -1
                page, swa_page = self._page(slot), self._page(peer)
                offset, swa_offset = slot - page * size, peer - swa_page * size
                count = min(size - max(offset, swa_offset), left)
                if not self._is_cleared(page, offset, count):
                    return -1
                if not self.truth.mapping.leads(slot, peer, count):
                    return -1
                pages = self._loses(swa_page, count)
                if pages < 0:
                    return -1
                lost += pages
                slot += count
                peer += count
                left -= count
        self.cleared = cleared
        return lost

    def _is_cleared(self, page: int, offset: int, count: int) -> bool:
        """Whether the entries of `count` slots of a full page are named and not yet cleared."""
        full = self.truth.full
        if page >= len(full.by_id) or full.cells[page * CELL + MARK] != self.truth.mark:
            return False
        note = full.cells[page * CELL + NOTE]
        end = note - (note >> OFFSET_BITS << OFFSET_BITS)
        if offset < note >> OFFSET_BITS or offset + count > end:
            return False
        full.cells[page * CELL + NOTE] = (offset + count << OFFSET_BITS) + end
        return True

    def _loses(self, swa_page: int, entries: int) -> int:
        """Note that an SWA page lost entries.

        Returns:
            1 where they are the first of the call, else 0; -1 where nobody owns the page.
        """
        swa, mark = self.truth.swa, self.truth.mark
        cell = swa_page * CELL
        if swa_page >= len(swa.by_id) or swa.cells[cell + STANDING] != OWNED:
            return -1
        if swa.cells[cell + MARK] == mark:
            swa.cells[cell + NOTE] += entries
            return 0
        swa.cells[cell + MARK] = mark
        swa.cells[cell + NOTE] = entries
        return 1

    def _count_mapped(self, call: RunCall) -> int:
        """Slots named that have an entry."""
        mapped = 0
        for run in range(call.starts.count):
            start = call.starts.at[run]
            mapped += self.truth.mapping.count_mapped(start, start + call.lengths.at[run])
        return mapped

    def _are_cut_off(self, swa_pages: Ints) -> bool:
        """Whether the entries that SWA pages lost are all that pointed at them."""
        swa, mapping = self.truth.swa, self.truth.mapping
        for index in range(swa_pages.count):
            page = swa_pages.at[index]
            if mapping.entries_to(page) != swa.cells[page * CELL + NOTE]:
                return False
        return True

    def _page(self, slot: int) -> int:
        return slot >> self.shift if self.shift >= 0 else slot // self.size


def were_marked(pool: PoolTruth, pages: Ints, mark: int) -> bool:
    """Whether each of `pages` was marked, and none is there twice."""
    for index in range(pages.count):
        page = pages.at[index]
        if not PAD_PAGE < page < len(pool.by_id) or pool.cells[page * CELL + MARK] != mark:
            return False
        pool.cells[page * CELL + MARK] = mark + 1
    return True
