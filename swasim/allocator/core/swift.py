"""The core engine's answer to calls in which nothing unusual happens, by runs and at once.

A server's calls find room, name slots that they hold, and free them once. `Swift` recognises such a
call, and does to the pools and the table what `CorePair.perform` would do, without an object for
each slot. Everything is looked at before anything changes: a call that is not plainly of this kind
is left to `perform`, which finds all as it was.

This module is compiled where that is possible (`swift.pxd` has its types); it runs as it stands
otherwise. What must not be added here: what a release does in an unusual case. That stands in
`pools.py`, `release.py` and `pair.py`, once.
"""

from __future__ import annotations

from swasim.allocator.core.pages import sort, spread
from swasim.allocator.core.pair import CorePair
from swasim.runs import ALLOC, DECODE, EXTEND, FREE_FULL, FREE_SWA, Ints, RunCall, RunEffect

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
        self.full_size, self.swa_size = full.size, swa.size
        self.grows = profile.paged and page_size > 1
        self.asks_for_more = profile.extend_check == "coarse"
        self.has_free_full = "free_full" in profile.operations
        self.free_full_frees_peers = profile.free_full_peers == "releases"
        self.clears_pages = profile.free_swa_unit == "pages"
        # At page size 1 these release SWA slot 0 for each unmapped entry.
        self.minds_unmapped = profile.segments == "pages" and not profile.filter_page_size_1
        stages = full.stages
        self.full_home = self.full_staged if stages else self.full_free
        self.swa_home = self.swa_staged if stages else self.swa_free
        self.appends = page_size == 1 or (stages and profile.staged_order == "append")
        self.ends = Ints()

    def __reduce__(self) -> tuple[type[Swift], tuple[CorePair]]:
        return Swift, (self.pair,)

    def answer(self, call: RunCall, effect: RunEffect) -> bool:
        """Carry a call on the whole pair out, if it is plain.

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
            done = self._release(call, effect)
        if done:
            full_pages = self.full_free.count + self.full_staged.count
            swa_pages = self.swa_free.count + self.swa_staged.count
            effect.full_available = full_pages * self.page_size
            effect.swa_available = swa_pages * self.page_size
        return done

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
                self._set(effect, run, False)
                return False
            for index in range(length):
                entries[slot + index] = peer + index
        self.full_free.take_to(pages, effect.full_taken)
        self.swa_free.take_to(pages, effect.swa_taken)
        return True

    # -- releases: what comes back is written to the effect, then unmapped, then put back

    def _release(self, call: RunCall, effect: RunEffect) -> bool:
        op = call.op
        if op == FREE_FULL and not self.has_free_full:
            return False
        full_side = op != FREE_SWA
        swa_side = op != FREE_FULL or self.free_full_frees_peers
        if self.page_size == 1:
            plain = self._name_slots(call, full_side, swa_side, effect)
        else:
            plain = self._name_pages(call, full_side, swa_side, effect)
        return plain and self._unmap_and_put(effect)

    def _name_slots(
        self, call: RunCall, full_side: bool, swa_side: bool, effect: RunEffect
    ) -> bool:
        """What comes back where a slot is a page: slots and peers in the order of the call."""
        named = 0
        for run in range(call.starts.count):
            slot, length = call.starts.at[run], call.lengths.at[run]
            if not 1 <= slot < self.full_limit or not 0 < length <= self.full_limit - slot:
                return False
            named += length
        if full_side:
            spread(call.starts, call.lengths, named, effect.full_returned)
        if swa_side:
            make_room(effect, named)
            if not self._read_slots(call, effect):
                return False
            spread(effect.peers, effect.lengths, named, effect.swa_returned)
        return True

    def _read_slots(self, call: RunCall, effect: RunEffect) -> bool:
        """Add the runs that the named slots map; False where that is not plain."""
        entries = self.entries
        for run in range(call.starts.count):
            slot = call.starts.at[run]
            end = slot + call.lengths.at[run]
            while slot < end:
                peer, length = entries[slot], 1
                if peer == 0 and not self.minds_unmapped:
                    slot += 1
                    continue
                if not self._can_map(slot, peer, 1):
                    return False
                while slot + length < end and entries[slot + length] == peer + length:
                    length += 1
                if not self._can_map(slot, peer, length):
                    return False
                add_run(effect, slot, peer, length)
                slot += length
        return True

    def _name_pages(
        self, call: RunCall, full_side: bool, swa_side: bool, effect: RunEffect
    ) -> bool:
        """What comes back as pages: in ascending order, each once."""
        ends = self.ends
        if not self._cut(call) or (self.clears_pages and not self._sort_pieces()):
            return False
        if swa_side and not self._read_pieces(effect):
            return False
        if not self.clears_pages and not self._sort_pieces():
            return False
        if full_side:
            effect.full_returned.reserve(ends.count)
            for index in range(ends.count):
                effect.full_returned.at[index] = self._page_of(ends.at[index])
            effect.full_returned.count = ends.count
        return sort(effect.swa_returned)

    def _cut(self, call: RunCall) -> bool:
        """Cut what a release names into pieces of a page each; `ends` gets their last slots.

        A piece starts with its page, so its last slot tells page and length. False where one
        does not.
        """
        ends, page_size = self.ends, self.page_size
        ends.count = 0
        for run in range(call.starts.count):
            start, length = call.starts.at[run], call.lengths.at[run]
            if start < page_size or start >= self.full_limit or self._offset_of(start):
                return False
            if not 0 < length <= self.full_limit - start:
                return False
            end = start + length
            ends.reserve(ends.count + self._pages_of(length))
            while start < end:
                ends.at[ends.count] = min(start + page_size, end) - 1
                ends.count += 1
                start += page_size
        return True

    def _sort_pieces(self) -> bool:
        """Sort the pieces; False where a page is there twice."""
        ends = self.ends
        sort(ends)
        for index in range(1, ends.count):
            if self._page_of(ends.at[index - 1]) == self._page_of(ends.at[index]):
                return False
        return True

    def _read_pieces(self, effect: RunEffect) -> bool:
        """Add the runs that the pieces map, and their SWA pages.

        False unless each piece is unmapped, or is mapped from the start of an SWA page on; with
        nothing mapped behind it.
        """
        entries, ends, page_size = self.entries, self.ends, self.page_size
        swa = effect.swa_returned
        make_room(effect, ends.count)
        swa.reserve(ends.count)
        for piece in range(ends.count):
            length = self._offset_of(ends.at[piece]) + 1
            start = ends.at[piece] + 1 - length
            peer = entries[start]
            if peer == 0:
                length = 0
            elif peer < 0 or peer >= self.swa_limit or self._offset_of(peer):
                return False
            else:
                add_run(effect, start, peer, length)
                swa.at[swa.count] = self._page_of(peer)
                swa.count += 1
            strange = 0
            for index in range(length):
                strange |= entries[start + index] ^ (peer + index)
            for index in range(length, page_size):
                strange |= entries[start + index]
            if strange:
                return False
        return True

    def _unmap_and_put(self, effect: RunEffect) -> bool:
        """Carry a release out; False, and nothing is changed, where that would not be plain."""
        full, swa = effect.full_returned, effect.swa_returned
        full_pages = self.full_free.count + self.full_staged.count + full.count
        swa_pages = self.swa_free.count + self.swa_staged.count + swa.count
        if full_pages * self.page_size > self.full_size:
            return False
        if swa_pages * self.page_size > self.swa_size:
            return False
        if self.page_size > 1:
            self._set(effect, effect.slots.count, False)
        elif not self._unmap_once(effect):
            return False
        if self.appends:
            self.full_home.put_back_from(full)
            self.swa_home.put_back_from(swa)
        else:
            self.full_home.put_front_from(full)
            self.swa_home.put_front_from(swa)
        return True

    def _unmap_once(self, effect: RunEffect) -> bool:
        """Unmap all runs; False, and nothing is changed, where two of them name one slot."""
        entries = self.entries
        for run in range(effect.slots.count):
            slot, peer = effect.slots.at[run], effect.peers.at[run]
            length = effect.lengths.at[run]
            strange = 0
            for index in range(length):
                strange |= entries[slot + index] ^ (peer + index)
            if strange:
                self._set(effect, run, True)
                return False
            for index in range(length):
                entries[slot + index] = 0
        return True

    def _set(self, effect: RunEffect, runs: int, mapped: bool) -> None:
        """Map, or unmap, the entries of the first `runs` runs."""
        entries = self.entries
        for run in range(runs):
            slot, peer = effect.slots.at[run], effect.peers.at[run]
            for index in range(effect.lengths.at[run]):
                entries[slot + index] = peer + index if mapped else 0

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
