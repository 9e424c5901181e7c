"""The pair's releases: free and its parts, and free groups."""

from __future__ import annotations

from collections.abc import Iterable

from swasim.allocator.core.pools import distinct_pages, page_disjoint, require_aligned
from swasim.allocator.core.state import PairState

Segments = list[tuple[list[int], int]]
"""Pieces of one row: full slots, and the row position of the first."""


class ReleasingPair(PairState):
    """What returns pages, or queues them for the end of a group."""

    def free(self, slots: list[int]) -> None:
        """Return full pages and their SWA peers.

        Raises:
            AssertionError: more is available than there is; the state has changed.
            IndexError: a slot outside the table.
        """
        if not slots:
            return
        queued = self.in_group and self.profile.free_queue == "slots"
        if queued:
            self.queue += slots
        if self.profile.free_order == "swa_first":
            if not queued:
                self.free_swa(slots)
                self._free_full_side(slots)
            return
        if not queued:
            self.full_attn_allocator.free(slots)
            self.free_swa(slots)
        self.full_attn_allocator.check_available("full")
        self.swa_attn_allocator.check_available("swa")

    def free_swa(self, slots: list[int]) -> None:
        """Return the SWA peers of slots and unmap the slots."""
        if not slots:
            return
        if self.in_group and self.profile.free_swa_queue == "slots":
            self.swa_slot_queue += slots
            return
        if self.page_size == 1 and self.profile.segments == "pages":
            self._free_swa_pages(slots, self.profile.filter_page_size_1)
            return
        if self.page_size > 1 and self.profile.free_swa_unit == "pages":
            pages = distinct_pages(slots, self.page_size)
            peers = self.mapping.read_and_clear_pages(pages, self.page_size)
        else:
            peers = self.mapping.read(slots)
            self.mapping.clear(slots)
        if self.in_group and self.profile.free_swa_queue == "resolved":
            self.swa_queue += peers
            return
        self._release_swa(peers)

    def free_swa_segment(self, slots: list[int], start_pos: int) -> None:
        """`free_swa` of a piece of a row, one slot standing for its page.

        Raises:
            AssertionError: `start_pos` lies inside a page, or the SWA pool is overfull.
        """
        if not slots:
            return
        require_aligned(start_pos, self.page_size)
        if self.profile.segment_peer == "any":
            self.free_swa(slots)
        else:
            self._free_swa_pages(slots, self.profile.filter_segments)

    def free_full(self, slots: list[int]) -> None:
        """Return full pages whose SWA peers are gone."""
        if not slots:
            return
        self._before_free_full(slots)
        self._free_full_side(slots)

    def _free_full_side(self, slots: list[int]) -> None:
        if self.in_group and not self.profile.group_full_pool:
            self.full_queue += slots
        else:
            self.full_attn_allocator.free(slots)
        self.full_attn_allocator.check_available("full")

    def free_segment(self, slots: list[int], start_pos: int) -> None:
        """`free` of a piece of a row."""
        if self.profile.segments == "whole":
            self.free(slots)
        elif slots:
            self.free_swa_segment(slots, start_pos)
            self.full_attn_allocator.free_segment(slots, start_pos)

    def free_full_segment(self, slots: list[int], start_pos: int) -> None:
        """`free_full` of a piece of a row."""
        if slots:
            self._before_free_full(slots)
            self.full_attn_allocator.free_segment(slots, start_pos)

    def free_segments(self, segments: Segments) -> None:
        """`free_segment` of several pieces of one row."""
        for slots, start_pos in page_disjoint(segments, self.page_size, self.profile):
            self.free_segment(slots, start_pos)

    def free_full_segments(self, segments: Segments) -> None:
        """`free_full_segment` of several pieces of one row."""
        for slots, start_pos in page_disjoint(segments, self.page_size, self.profile):
            self.free_full_segment(slots, start_pos)

    def free_group_begin(self) -> None:
        """Let releases wait for `free_group_end`.

        Raises:
            AssertionError: a group is open, in releases that refuse to nest.
        """
        if self.in_group and self.profile.nested_begin == "asserts":
            raise AssertionError("free groups cannot be nested")
        self.in_group = True
        self._empty_queues()
        if self.profile.group_full_pool:
            self.full_attn_allocator.free_group_begin()

    def free_group_end(self) -> None:
        """Carry out what waited, in the order of the releases: free, SWA side, full side."""
        self.in_group = False
        pending = self.queue
        if not self.profile.end_keeps_queue:
            self.queue = []
        self.free(pending)
        pending, self.swa_slot_queue = self.swa_slot_queue, []
        self.free_swa(pending)
        pending, self.swa_page_queue = self.swa_page_queue, []
        self.swa_attn_allocator.free_page_ids(pending)
        if self.swa_queue:
            pending, self.swa_queue = self.swa_queue, []
            self._release_swa(pending)
        pending, self.full_queue = self.full_queue, []
        self.free_full(pending)
        if self.profile.group_full_pool:
            self.full_attn_allocator.free_group_end()
        if self.profile.swa_checks:
            self.full_attn_allocator.check_available("full")
            self.swa_attn_allocator.check_available("swa")

    def _slots_of(self, pages: Iterable[int]) -> list[int]:
        page_size = self.page_size
        if page_size == 1:
            return list(pages)
        return [slot for page in pages for slot in range(page * page_size, (page + 1) * page_size)]

    def _free_swa_pages(self, slots: list[int], skips_unmapped: bool) -> None:
        page_size = self.page_size
        leads = slots[::page_size]
        peers = self.mapping.read(leads)
        self.mapping.clear(self._slots_of(lead // page_size for lead in leads))
        if skips_unmapped:
            peers = [peer for peer in peers if peer >= self.least_mapped]
        pages = [peer // page_size for peer in peers]
        if self.in_group:
            self.swa_page_queue += pages
            return
        self.swa_attn_allocator.free_page_ids(pages)
        self.swa_attn_allocator.check_available("swa")

    def _release_swa(self, peers: list[int]) -> None:
        peers = list(filter(None, peers))
        if peers and min(peers) < self.least_mapped:
            peers = [peer for peer in peers if peer >= self.least_mapped]
        self.swa_attn_allocator.free(peers)
        if self.profile.swa_checks:
            self.swa_attn_allocator.check_available("swa")

    def _before_free_full(self, slots: list[int]) -> None:
        if self.profile.free_full_reads:
            self.mapping.read(slots)
        if self.profile.free_full_peers == "releases":
            self.free_swa(slots)
