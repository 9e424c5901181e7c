"""The core engine's answer to calls in which nothing unusual happens, by runs and at once.

A server's calls find room, name slots that they hold, and free them once. `Swift` recognises such a
call, and does to the pools and the table what `CorePair.perform` would do, without an object for
each slot. Everything is looked at before anything changes: a call that is not plainly of this kind
is left to `perform`, which finds all as it was. Releases stand in `swift_release.py`.

This module is compiled where that is possible (`swift.pxd` has its types); it runs as it stands
otherwise. What must not be added here: what a release does in an unusual case. That stands in
`pools.py`, `release.py` and `pair.py`, once.
"""

from __future__ import annotations

from swasim.allocator.core.pair import CorePair
from swasim.allocator.core.swift_release import SwiftReleases, set_entries
from swasim.runs import ALLOC, DECODE, EXTEND, RunCall, RunEffect

LONGEST = 1 << 62
"""Tokens of a request; lengths can be added below this."""


class Swift:
    """A second way into a pair, for calls that it can answer like `perform`.

    The pair may be used in either way, call by call; it keeps the state, and nothing is copied.
    What is plain, and where pages come back to, follows from its profile.

    Args:
        pair: and no subclass that performs in a way of its own.
    """

    def __init__(self, pair: CorePair) -> None:
        profile, page_size = pair.profile, pair.page_size
        full, swa = pair.full_attn_allocator, pair.swa_attn_allocator
        self.pair, self.full = pair, full
        self.full_free, self.full_staged = full.free_pages, full.staged_pages
        self.swa_free, self.swa_staged = swa.free_pages, swa.staged_pages
        self.entries = pair.mapping.entries
        self.entries_count = len(pair.mapping.entries)
        self.page_size = page_size
        power_of_two = page_size & (page_size - 1) == 0
        self.shift = page_size.bit_length() - 1 if power_of_two else -1
        # Pages that do not lie in the table as a whole are none of ours.
        self.full_pages = min(full.num_pages, self.entries_count // page_size - 1)
        self.swa_pages = swa.num_pages
        self.full_limit = (self.full_pages + 1) * page_size
        self.swa_limit = (self.swa_pages + 1) * page_size
        self.grows = profile.paged and page_size > 1
        self.asks_for_more = profile.extend_check == "coarse"
        self.releases = SwiftReleases(pair)

    def __reduce__(self) -> tuple[type[Swift], tuple[CorePair]]:
        return Swift, (self.pair,)

    def answer(self, call: RunCall, effect: RunEffect) -> bool:
        """Carry a call on the whole pair out, or a whole group of frees, if it is plain.

        Returns:
            True: the pair is as `perform` would have left it, and `effect` says what changed.
            False: nothing changed, and `effect` means nothing; ask `perform`.
        """
        if self.pair.in_group or self.full.in_group:
            return False
        effect.empty()
        op = call.op
        if op == DECODE:
            done = self._decode(call, effect)
        elif op == EXTEND:
            done = self._extend(call, effect)
        elif op == ALLOC:
            done = self._alloc(call.need_size, effect)
        else:
            done = self.releases.carry_out(call, effect)
        if done:
            full_pages = self.full_free.count + self.full_staged.count
            swa_pages = self.swa_free.count + self.swa_staged.count
            effect.full_available = full_pages * self.page_size
            effect.swa_available = swa_pages * self.page_size
        return done

    def take_back(self, effect: RunEffect) -> None:
        """Undo the release, or the group, that was answered last, of which `effect` tells.

        The pair must not have been used since.
        """
        self.releases.take_back(effect)

    # -- allocations: runs to map are written to the effect, then mapped, then pages are taken

    def _alloc(self, need: int, effect: RunEffect) -> bool:
        if self.page_size != 1 or need < 0 or not self._has_room(need, need):
            return False
        make_room(effect, need)
        full, swa = self.full_free, self.swa_free
        full_at, swa_at = full.at, swa.at
        full_head, swa_head = full.head, swa.head
        index = 0
        while index < need:
            slot, peer = full_at[full_head + index], swa_at[swa_head + index]
            if not self._can_map(slot, peer, 1):
                return False
            start = index
            index += 1
            while index < need and full_at[full_head + index] == slot + index - start:
                if swa_at[swa_head + index] != peer + index - start:
                    break
                index += 1
            if not self._can_map(slot, peer, index - start):
                return False
            add_run(effect, slot, peer, index - start)
        return self._map_and_take(need, effect)

    def _extend(self, call: RunCall, effect: RunEffect) -> bool:
        count, page_size = call.last_loc.count, self.page_size
        prefix_lens, seq_lens = call.prefix_lens.at, call.seq_lens.at
        if not self.grows or call.prefix_lens.count != count or call.seq_lens.count != count:
            return False
        tokens = pages = 0
        for index in range(count):
            prefix_len, seq_len = prefix_lens[index], seq_lens[index]
            if prefix_len < 0 or seq_len < prefix_len or seq_len > LONGEST:
                return False
            tokens += seq_len - prefix_len
            pages += self._pages_of(seq_len) - self._pages_of(prefix_len)
            if tokens > self.full_limit:
                return False
        if not self._has_room(pages, self._page_of(tokens) + count + 1):
            return False
        most = tokens + count * page_size
        if self.asks_for_more and (
            most > (self.full_free.count + self.full_staged.count) * page_size
            or most > (self.swa_free.count + self.swa_staged.count) * page_size
        ):
            return False
        make_room(effect, pages + count)
        taken = 0
        for index in range(count):
            prefix_len, seq_len = prefix_lens[index], seq_lens[index]
            start = self._pages_of(prefix_len) * page_size
            rest = min(seq_len, start) - prefix_len
            if not self._grow(call.last_loc.at[index], rest, effect):
                return False
            while start < seq_len:
                if not self._start_page(taken, min(page_size, seq_len - start), effect):
                    return False
                taken += 1
                start += page_size
        return self._map_and_take(taken, effect)

    def _decode(self, call: RunCall, effect: RunEffect) -> bool:
        count = call.last_loc.count
        seq_lens, last_loc = call.seq_lens.at, call.last_loc.at
        if not self.grows or call.seq_lens.count != count or not self._has_room(0, count):
            return False
        make_room(effect, count)
        ready = min(self.full_free.count, self.swa_free.count)
        taken = 0
        for index in range(count):
            if seq_lens[index] < 0:
                return False
            starts = self._offset_of(seq_lens[index]) == 1
            if not self._grow(last_loc[index], 0 if starts else 1, effect):
                return False
            if starts:
                if taken == ready or not self._start_page(taken, 1, effect):
                    return False
                taken += 1
        return self._map_and_take(taken, effect)

    def _has_room(self, pages: int, merged_below: int) -> bool:
        """Whether both lists have `pages`, and no staged page is merged before.

        Args:
            pages: that are taken.
            merged_below: entries that a free list must have, or staged pages are merged into it.
        """
        full, swa = self.full_free.count, self.swa_free.count
        if full < pages or swa < pages:
            return False
        if full < merged_below and self.full_staged.count:
            return False
        return swa >= merged_below or not self.swa_staged.count

    def _grow(self, last: int, tokens: int, effect: RunEffect) -> bool:
        """Add the run of so many tokens behind `last`; False where that is not plain."""
        if last < -self.entries_count or last >= self.entries_count:
            return False
        if tokens == 0:
            return True
        if last < 0:
            return False
        peer = self.entries[last]
        if peer < 0 or peer >= self.swa_limit or not self._can_map(last + 1, peer + 1, tokens):
            return False
        add_run(effect, last + 1, peer + 1, tokens)
        return True

    def _start_page(self, ahead: int, tokens: int, effect: RunEffect) -> bool:
        """Add the run at the start of the pages that lie `ahead` in the free lists."""
        page = self.full_free.at[self.full_free.head + ahead]
        swa_page = self.swa_free.at[self.swa_free.head + ahead]
        if page < 1 or page > self.full_pages or swa_page < 1 or swa_page > self.swa_pages:
            return False
        add_run(effect, page * self.page_size, swa_page * self.page_size, tokens)
        return True

    def _can_map(self, slot: int, peer: int, length: int) -> bool:
        """Whether both runs lie in their pools; a length is not above that of a pool."""
        page_size = self.page_size
        return (
            page_size <= slot <= self.full_limit - length
            and page_size <= peer <= self.swa_limit - length
        )

    def _map_and_take(self, pages: int, effect: RunEffect) -> bool:
        """Carry an allocation out; False, and nothing is changed, where an entry is not free."""
        entries = self.entries
        for run in range(effect.slots.count):
            slot, peer = effect.slots.at[run], effect.peers.at[run]
            length = effect.lengths.at[run]
            held = 0
            for index in range(length):
                held |= entries[slot + index]
            if held:
                set_entries(entries, effect, run, 0)
                return False
            for index in range(length):
                entries[slot + index] = peer + index
        self.full_free.take_to(pages, effect.full_taken)
        self.swa_free.take_to(pages, effect.swa_taken)
        return True

    # -- pages and slots, without a division where the page size is a power of two

    def _page_of(self, slot: int) -> int:
        return slot >> self.shift if self.shift >= 0 else slot // self.page_size

    def _offset_of(self, slot: int) -> int:
        return slot & (self.page_size - 1) if self.shift >= 0 else slot % self.page_size

    def _pages_of(self, tokens: int) -> int:
        return self._page_of(tokens + self.page_size - 1)


def make_room(effect: RunEffect, runs: int) -> None:
    """Make room for so many runs in all."""
    effect.slots.reserve(runs)
    effect.peers.reserve(runs)
    effect.lengths.reserve(runs)


def add_run(effect: RunEffect, slot: int, peer: int, length: int) -> None:
    """`RunEffect.entry_run` where there is room for it."""
    count = effect.slots.count
    if count:
        before = effect.lengths.at[count - 1]
        if (
            effect.slots.at[count - 1] + before == slot
            and effect.peers.at[count - 1] + before == peer
        ):
            effect.lengths.at[count - 1] = before + length
            return
    effect.slots.at[count] = slot
    effect.peers.at[count] = peer
    effect.lengths.at[count] = length
    effect.slots.count = effect.peers.count = effect.lengths.count = count + 1
