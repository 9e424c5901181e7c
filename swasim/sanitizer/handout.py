"""Allocations at which nothing is wrong: which pages they take, which entries they write.

The pages taken, full and SWA, are of their pools, free, and taken once each. They are as many on
both sides; the first full page goes with the first SWA page, and so on. The slots handed out are
those that the call asks for, none more, in order, and their entries, unmapped before, lead to the
same offset of an SWA page:

- `alloc`: all slots of the pages taken, which are as many as it asks for;
- `alloc_extend`, `alloc_decode`: for each request the slots behind its last one as far as the page
  goes, then those of pages taken. Its last slot has the offset that its prefix says. If it gets
  any slot, the page of its last slot is live and not queued; if it gets some of that page, the last
  slot has a peer at the same offset of an SWA page that is live and not queued, and the slots get
  the peers behind that one.

So every SWA page taken is reached by an entry, and every slot lies on a page that the call took or
grew into. That is all that `allocation.py` asks.

This module is compiled where that is possible (`handout.pxd` has its types).
"""

from __future__ import annotations

from swasim.geometry import NO_LOC, PAD_PAGE, UNMAPPED
from swasim.runs import ALLOC, DECODE, Ints, RunCall, RunEffect
from swasim.sanitizer.cells import CELL, MARK, OWNED, OWNERLESS, STANDING
from swasim.sanitizer.follow import page_shift
from swasim.sanitizer.shadow import PoolTruth, Truth


class HandOut:
    """Looks at one allocation at a time.

    Args:
        truth: read; `Truth.mark` is that of the present call.
    """

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.size: int = truth.geometry.page_size
        self.shift = page_shift(self.size)
        # Where the comparison with the entries that were written has got to.
        self.run = self.ahead = 0

    def is_right(self, call: RunCall, effect: RunEffect) -> bool:
        """Whether an allocation is as this module says."""
        truth = self.truth
        if effect.full_returned.count or effect.swa_returned.count:
            return False
        if effect.full_taken.count != effect.swa_taken.count:
            return False
        if not are_free(truth.full, effect.full_taken, truth.mark):
            return False
        if not are_free(truth.swa, effect.swa_taken, truth.mark):
            return False
        self.run = self.ahead = 0
        if call.op == ALLOC:
            if call.need_size < 0 or call.need_size % self.size:
                return False
            used = self._gets_pages(effect, 0, call.need_size)
        elif self.size == 1 or call.seq_lens.count != call.last_loc.count:
            return False
        elif call.op == DECODE:
            used = self._decodes(call, effect)
        else:
            used = self._extends(call, effect)
        return used == effect.full_taken.count and self.run == effect.lengths.count

    def _gets_pages(self, effect: RunEffect, used: int, slots: int) -> int:
        """Whether the next slots handed out are so many of the next pages taken.

        Args:
            used: pages taken that were used before.

        Returns:
            Pages taken that are used then; -1 where it is not so.
        """
        size, taken = self.size, effect.full_taken.count
        while slots > 0:
            if used == taken:
                return -1
            count = min(slots, size)
            slot, peer = effect.full_taken.at[used] * size, effect.swa_taken.at[used] * size
            if not self._wrote(effect, slot, peer, count):
                return -1
            slots -= count
            used += 1
        return used

    def _extends(self, call: RunCall, effect: RunEffect) -> int:
        """Whether each request got what an extend asks for; returns as `_gets_pages`."""
        full, size, requests, used = self.truth.full, self.size, call.last_loc.count, 0
        if call.prefix_lens.count != requests:
            return -1
        for index in range(requests):
            last, length = call.last_loc.at[index], call.seq_lens.at[index]
            prefix = call.prefix_lens.at[index]
            if prefix < 0 or length < prefix or last < NO_LOC:
                return -1
            page = self._page(last) if last >= 0 else PAD_PAGE
            offset = last - page * size + 1
            if offset == size:
                offset = 0
            if page > full.size_pages or offset != prefix - self._page(prefix) * size:
                return -1
            growth = length - prefix
            if growth == 0:
                continue
            if last != NO_LOC and not is_owned(full, page):
                return -1
            if offset:
                room = min(size - offset, growth)
                if not self._fills_up(effect, last, page, offset, room):
                    return -1
                growth -= room
            used = self._gets_pages(effect, used, growth)
            if used < 0:
                return -1
        return used

    def _fills_up(self, effect: RunEffect, last: int, page: int, offset: int, count: int) -> bool:
        """Whether a request got the `count` slots behind its last one, on the same pages.

        Args:
            page: the full page, live.
            offset: of the first of them.
        """
        full, mapping = self.truth.full, self.truth.mapping
        if last >= mapping.room or full.cells[page * CELL + MARK] == self.truth.mark:
            return False  # somebody else grew into the page: perhaps into the same slots
        full.cells[page * CELL + MARK] = self.truth.mark
        peer = mapping.table[last]
        if peer < self.size:
            return False
        swa_page = self._page(peer)
        if peer - swa_page * self.size + 1 != offset or not is_owned(self.truth.swa, swa_page):
            return False
        return self._wrote(effect, last + 1, peer + 1, count)

    def _decodes(self, call: RunCall, effect: RunEffect) -> int:
        """As `_extends`, for the one slot that each request of a decode gets.

        Nearly all calls are decodes: this looks at each request in one go.
        """
        last_locs, lengths, requests = call.last_loc, call.seq_lens, call.last_loc.count
        slots, peers, runs = effect.slots, effect.peers, effect.lengths
        full_taken, swa_taken = effect.full_taken, effect.swa_taken
        full, swa, mapping = self.truth.full, self.truth.swa, self.truth.mapping
        full_known, swa_known = len(full.by_id), len(swa.by_id)
        size, mark, used, run, ahead = self.size, self.truth.mark, 0, 0, 0
        for index in range(requests):
            slot, prefix = last_locs.at[index] + 1, lengths.at[index] - 1
            if slot < 0 or prefix < 0:
                return -1
            page = self._page(slot)
            offset = slot - page * size
            if offset != prefix - self._page(prefix) * size:
                return -1
            if offset:
                if not PAD_PAGE < page < full_known or slot > mapping.room:
                    return -1
                cell = page * CELL
                if full.cells[cell + STANDING] != OWNED or full.cells[cell + MARK] == mark:
                    return -1
                full.cells[cell + MARK] = mark
                peer = mapping.table[slot - 1] + 1
                if peer <= size:
                    return -1
                swa_page = self._page(peer)
                if swa_page >= swa_known or swa.cells[swa_page * CELL + STANDING] != OWNED:
                    return -1
                if peer - swa_page * size != offset:
                    return -1
            else:
                if used == full_taken.count or (slot and not is_owned(full, page - 1)):
                    return -1
                slot, peer = full_taken.at[used] * size, swa_taken.at[used] * size
                used += 1
            if slot < mapping.room and mapping.table[slot] != UNMAPPED:
                return -1
            if run == runs.count or slots.at[run] + ahead != slot or peers.at[run] + ahead != peer:
                return -1
            ahead += 1
            if ahead == runs.at[run]:
                run, ahead = run + 1, 0
        self.run = run
        return used if ahead == 0 else -1

    def _wrote(self, effect: RunEffect, slot: int, peer: int, count: int) -> bool:
        """Whether the next `count` entries written are these, and all were unmapped."""
        mapping = self.truth.mapping
        if slot < mapping.room and mapping.table[slot] != UNMAPPED:
            return False
        if count > 1 and mapping.count_mapped(slot, slot + count):
            return False
        while count > 0:
            run, ahead = self.run, self.ahead
            if run == effect.lengths.count:
                return False
            if effect.slots.at[run] + ahead != slot or effect.peers.at[run] + ahead != peer:
                return False
            part = min(effect.lengths.at[run] - ahead, count)
            if part <= 0:
                return False
            if ahead + part == effect.lengths.at[run]:
                self.run, self.ahead = run + 1, 0
            else:
                self.ahead = ahead + part
            slot += part
            peer += part
            count -= part
        return True

    def _page(self, slot: int) -> int:
        return slot >> self.shift if self.shift >= 0 else slot // self.size


def are_free(pool: PoolTruth, pages: Ints, mark: int) -> bool:
    """Whether pages are of the pool, free, and different from each other; marks them."""
    for index in range(pages.count):
        page = pages.at[index]
        if not PAD_PAGE < page <= pool.size_pages:
            return False
        if page >= len(pool.by_id):
            pool.reserve(page + 1)
        cell = page * CELL
        if pool.cells[cell + STANDING] != OWNERLESS or pool.cells[cell + MARK] == mark:
            return False
        pool.cells[cell + MARK] = mark
    return True


def is_owned(pool: PoolTruth, page: int) -> bool:
    """Whether a page is of the pool and live, and its release does not wait."""
    return PAD_PAGE < page < len(pool.by_id) and pool.cells[page * CELL + STANDING] == OWNED
