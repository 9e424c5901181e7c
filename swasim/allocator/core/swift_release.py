"""Releases in which nothing unusual happens, by runs and at once; the rest of `swift.py`.

What comes back is written to the effect first, then unmapped, then put back. A release that is not
plainly of this kind is left alone before anything changes. Where pages are more than a slot, none
comes back twice in one call.

This module is compiled where that is possible (`swift_release.pxd` has its types); it runs as it
stands otherwise. What must not be added here: what a release does in an unusual case.
"""

from __future__ import annotations

from array import array

from swasim.allocator.core.pages import PageList, sort, spread
from swasim.allocator.core.pair import CorePair
from swasim.allocator.profile import Profile
from swasim.runs import (
    FREE,
    FREE_FULL,
    FREE_FULL_SEGMENT,
    FREE_GROUP,
    FREE_SEGMENT,
    FREE_SWA,
    FREE_SWA_SEGMENT,
    Ints,
    RunCall,
    RunEffect,
    zeros,
)

OPERATIONS = 10
"""They are numbered from 0 on."""

FULL_SIDE, SWA_SIDE, FULL_IN_ROWS, SWA_IN_ROWS, MINDS_UNMAPPED = 1, 2, 4, 8, 16
"""What an operation does: which pages it returns, which of them in the order of the row with one
slot standing for its page, and whether an unmapped one makes it release SWA page 0."""


def ways(profile: Profile, page_size: int) -> array[int]:
    """What each operation does, by its number; 0 where it never is plain, or the release lacks it.

    In a group, frees of slots wait until its end and are one free then. Frees by parts queue what
    they find, which is the same where both sides are queued and nothing is named twice.
    """
    free_swa = swa_in_rows = SWA_SIDE
    if page_size == 1 and profile.segments == "pages" and not profile.filter_page_size_1:
        free_swa |= MINDS_UNMAPPED
    if profile.segment_peer == "any":
        swa_in_rows = free_swa
    else:
        swa_in_rows |= SWA_IN_ROWS | (0 if profile.filter_segments else MINDS_UNMAPPED)
    peers_of_full = free_swa if profile.free_full_peers == "releases" else 0
    free = free_segment = FULL_SIDE | free_swa
    if profile.segments == "pages":
        free_segment = FULL_SIDE | FULL_IN_ROWS | swa_in_rows
    queues_both = profile.free_swa_queue != "immediate" and profile.group_full_pool
    found = {
        "free": (FREE, free),
        "free_swa": (FREE_SWA, free_swa),
        "free_full": (FREE_FULL, FULL_SIDE | peers_of_full),
        "free_segment": (FREE_SEGMENT, free_segment),
        "free_swa_segment": (FREE_SWA_SEGMENT, swa_in_rows),
        "free_full_segment": (FREE_FULL_SEGMENT, FULL_SIDE | FULL_IN_ROWS | peers_of_full),
        "free_group_begin": (
            FREE_GROUP,
            free if profile.free_queue == "slots" or queues_both else 0,
        ),
    }
    made = zeros(OPERATIONS)
    for name, (op, way) in found.items():
        if name in profile.operations:
            made[op] = way
    return made


class SwiftReleases:
    """Carries plain releases out on the pair; what is plain follows from its profile.

    Args:
        pair: see `Swift`.
    """

    def __init__(self, pair: CorePair) -> None:
        profile, page_size = pair.profile, pair.page_size
        full, swa = pair.full_attn_allocator, pair.swa_attn_allocator
        self.pair = pair
        self.full_free, self.full_staged = full.free_pages, full.staged_pages
        self.swa_free, self.swa_staged = swa.free_pages, swa.staged_pages
        self.entries = pair.mapping.entries
        self.page_size = page_size
        # A piece is one number: its page, and below these bits its length.
        self.bits = page_size.bit_length()
        self.length_mask = (1 << self.bits) - 1
        # Pages that do not lie in the table as a whole are none of ours.
        full_pages = min(full.num_pages, len(pair.mapping.entries) // page_size - 1)
        self.full_limit = (full_pages + 1) * page_size
        self.swa_limit = (swa.num_pages + 1) * page_size
        self.full_size, self.swa_size = full.size, swa.size
        self.ways = ways(profile, page_size)
        self.clears_pages = profile.free_swa_unit == "pages"
        self.keeps_queue = profile.free_queue == "slots" and profile.end_keeps_queue
        stages = full.stages
        self.full_home: PageList = self.full_staged if stages else self.full_free
        self.swa_home: PageList = self.swa_staged if stages else self.swa_free
        self.appends = page_size == 1 or (stages and profile.staged_order == "append")
        self.pieces, self.queued = Ints(), Ints()
        self.queue_before: list[int] = []

    def carry_out(self, call: RunCall, effect: RunEffect) -> bool:
        """`Swift.answer` for a release, outside of a group; availability is not filled in."""
        op = call.op
        way = self.ways[op] if 0 <= op < OPERATIONS else 0
        if way == 0 or (op == FREE_GROUP and self._has_leftovers()):
            return False
        if self.page_size == 1:
            plain = self._name_slots(call, way, effect)
        else:
            plain = self._name_pages(call, way, effect)
        if not plain or not self._unmap_and_put(effect):
            return False
        self.queue_before = self.pair.queue
        if op == FREE_GROUP:
            self._leave_queue(call)
        return True

    # -- groups

    def _has_leftovers(self) -> bool:
        """Whether a group that failed at its end left more behind than what `free` had queued.

        The full pool's own queues are empty outside of its groups.
        """
        pair = self.pair
        return bool(pair.swa_slot_queue or pair.swa_page_queue or pair.swa_queue or pair.full_queue)

    def take_back(self, effect: RunEffect) -> None:
        """Undo the release that was carried out last, of which `effect` tells."""
        set_entries(self.entries, effect, effect.slots.count, 1)
        full, swa = effect.full_returned.count, effect.swa_returned.count
        self.full_home.count -= full
        self.swa_home.count -= swa
        if not self.appends:
            self.full_home.head += full
            self.swa_home.head += swa
        self.pair.queue = self.queue_before

    def _leave_queue(self, call: RunCall) -> None:
        """Leave the pair's queue as the end of the group does."""
        if self.keeps_queue and call.starts.count:
            named = 0
            for run in range(call.starts.count):
                named += call.lengths.at[run]
            spread(call.starts, call.lengths, named, self.queued)
            self.pair.queue = self.queued.tolist()
        elif self.pair.queue:
            self.pair.queue = []

    # -- slots: page size 1

    def _name_slots(self, call: RunCall, way: int, effect: RunEffect) -> bool:
        """What comes back where a slot is a page: slots and peers in the order of the call."""
        named = 0
        for run in range(call.starts.count):
            slot, length = call.starts.at[run], call.lengths.at[run]
            if not 1 <= slot < self.full_limit or not 0 < length <= self.full_limit - slot:
                return False
            named += length
        if way & FULL_SIDE:
            spread(call.starts, call.lengths, named, effect.full_returned)
        if way & SWA_SIDE:
            for runs in (effect.slots, effect.peers, effect.lengths):
                runs.reserve(named)
            if not self._read_slots(call, way & MINDS_UNMAPPED, effect):
                return False
            spread(effect.peers, effect.lengths, named, effect.swa_returned)
        return True

    def _read_slots(self, call: RunCall, minds_unmapped: int, effect: RunEffect) -> bool:
        """Write the runs that the named slots map, for which there is room.

        False where that is not plain.
        """
        entries, limit = self.entries, self.swa_limit
        count = 0
        for run in range(call.starts.count):
            slot = call.starts.at[run]
            end = slot + call.lengths.at[run]
            while slot < end:
                peer, length = entries[slot], 1
                if peer == 0 and not minds_unmapped:
                    slot += 1
                    continue
                if not 0 < peer < limit:
                    return False
                while slot + length < end and entries[slot + length] == peer + length:
                    length += 1
                if length > limit - peer:
                    return False
                effect.slots.at[count] = slot
                effect.peers.at[count] = peer
                effect.lengths.at[count] = length
                count += 1
                slot += length
        effect.slots.count = effect.peers.count = effect.lengths.count = count
        return True

    # -- pages

    def _name_pages(self, call: RunCall, way: int, effect: RunEffect) -> bool:
        """What comes back as pages, each once: in ascending order, or in that of the row."""
        swa_in_rows, full_in_rows = way & SWA_IN_ROWS, way & FULL_IN_ROWS
        if not self._cut(call, full_in_rows | swa_in_rows):
            return False
        if full_in_rows:
            self._return_full(effect)
        sorts_first = self.clears_pages and not swa_in_rows
        if sorts_first and not self._sort_pieces():
            return False
        if way & SWA_SIDE and not self._read_pieces(way & MINDS_UNMAPPED, effect):
            return False
        if not sorts_first and not self._sort_pieces():
            return False
        if way & FULL_SIDE and not full_in_rows:
            self._return_full(effect)
        return self._is_once(effect.swa_returned) if swa_in_rows else sort(effect.swa_returned)

    def _cut(self, call: RunCall, in_rows: int) -> bool:
        """Cut what a release names into pieces of a page each, from its first slot on.

        False where one starts inside a page; or ends there before the last one does, where one
        slot stands for its page.
        """
        pieces, page_size, bits = self.pieces, self.page_size, self.bits
        pieces.count = 0
        length = page_size
        for run in range(call.starts.count):
            start, rest = call.starts.at[run], call.lengths.at[run]
            if start < page_size or not 0 < rest <= self.full_limit - start:
                return False
            page = start // page_size
            if page * page_size != start or (in_rows and length != page_size):
                return False
            pieces.reserve(pieces.count + (rest >> (bits - 1)) + 1)
            while rest > 0:
                length = min(rest, page_size)
                pieces.at[pieces.count] = page << bits | length
                pieces.count += 1
                page += 1
                rest -= length
        return True

    def _sort_pieces(self) -> bool:
        """Sort the pieces; False where a page is there twice."""
        pieces, bits = self.pieces, self.bits
        sort(pieces)
        for index in range(1, pieces.count):
            if pieces.at[index - 1] >> bits == pieces.at[index] >> bits:
                return False
        return True

    def _is_once(self, pages: Ints) -> bool:
        """Whether each page is there once; the pieces are lost."""
        pieces = self.pieces
        pieces.reserve(pages.count)
        for index in range(pages.count):
            pieces.at[index] = pages.at[index]
        pieces.count = pages.count
        return sort(pieces)

    def _return_full(self, effect: RunEffect) -> None:
        """Return the full pages in the order of the pieces."""
        pieces, full, bits = self.pieces, effect.full_returned, self.bits
        full.reserve(pieces.count)
        for index in range(pieces.count):
            full.at[index] = pieces.at[index] >> bits
        full.count = pieces.count

    def _read_pieces(self, minds_unmapped: int, effect: RunEffect) -> bool:
        """Add the runs that the pieces map, and their SWA pages.

        False unless each piece is unmapped, or is mapped from the start of an SWA page on; with
        nothing mapped behind it.
        """
        entries, pieces, page_size = self.entries, self.pieces, self.page_size
        swa = effect.swa_returned
        swa.reserve(pieces.count)
        for piece in range(pieces.count):
            length = pieces.at[piece] & self.length_mask
            start = (pieces.at[piece] >> self.bits) * page_size
            peer = entries[start]
            if peer == 0:
                if minds_unmapped:
                    return False
                length = 0
            elif peer < 0 or peer >= self.swa_limit:
                return False
            else:
                page = peer // page_size
                if page * page_size != peer:
                    return False
                effect.entry_run(start, peer, length)
                swa.at[swa.count] = page
                swa.count += 1
            strange = 0
            for index in range(length):
                strange |= entries[start + index] ^ (peer + index)
            for index in range(length, page_size):
                strange |= entries[start + index]
            if strange:
                return False
        return True

    # -- carrying out

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
            set_entries(self.entries, effect, effect.slots.count, 0)
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
                set_entries(entries, effect, run, 1)
                return False
            for index in range(length):
                entries[slot + index] = 0
        return True


def set_entries(entries: array[int], effect: RunEffect, runs: int, mapped: int) -> None:
    """Map, or unmap, the entries of the first `runs` runs."""
    for run in range(runs):
        slot, peer = effect.slots.at[run], effect.peers.at[run]
        for index in range(effect.lengths.at[run]):
            entries[slot + index] = peer + index if mapped else 0
