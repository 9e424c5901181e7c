"""What both pool allocators share: the free list, the staged list, free groups, segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import torch

from swasim.allocator.profile import Profile
from swasim.allocator.tensor.tape import Tape
from swasim.geometry import Pool

PoolState: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""A saved free list and staged list of one pool."""

Segments: TypeAlias = Iterable[tuple[torch.Tensor, int]]
"""Pieces of one row: full slots [n] int64, and the row position of the first."""


class BaseTokenToKVPoolAllocator:
    """Groups and segments, the same for one pool and for the pair.

    Attributes:
        size: tokens in the pool; of a pair, in the smaller one.
        page_size: tokens per page.
        device: where every tensor lives.
        need_sort: freed pages wait in the staged list until an allocation runs short.
        in_free_group: whether frees wait for `free_group_end`.
        free_group: what they queued, in order.

    Mirrors: sglang mem_cache/allocator/base.py BaseTokenToKVPoolAllocator.
    """

    def __init__(
        self, size: int, page_size: int, device: torch.device, need_sort: bool, profile: Profile
    ) -> None:
        self.size = size
        self.page_size = page_size
        self.device = device
        self.need_sort = profile.staged(need_sort)
        self.profile = profile
        self.in_free_group = False
        self.free_group: list[torch.Tensor] = []

    def free(self, free_index: torch.Tensor) -> None:
        """Return the pages of some slots; see the subclasses."""
        raise NotImplementedError

    def free_full(self, free_index: torch.Tensor) -> None:
        """Return the pages of some slots; one pool alone has no peers, so this is `free`.

        Mirrors: sglang mem_cache/allocator/base.py free_full.
        """
        self.free(free_index)

    def free_segment(self, free_index: torch.Tensor, *, start_pos: int) -> None:
        """Return the pages of one contiguous piece of a row.

        Args:
            free_index: [n] int64 on the pool's device, slots in row order.
            start_pos: row position (tokens) of the first.

        Raises:
            AssertionError: `start_pos` lies inside a page (profiles with page segments).

        Mirrors: sglang mem_cache/allocator/base.py free_segment.
        """
        if self.profile.segments == "pages":
            assert_page_aligned(start_pos, self.page_size)
        self.free(free_index)

    def free_segments(self, segments: Segments) -> None:
        """Return the pages of several pieces of one row, each page once.

        Raises:
            AssertionError: two pieces share a page (profiles with page segments; older ones
                trim the second). The pieces before have been returned already.

        Mirrors: sglang mem_cache/allocator/base.py free_segments.
        """
        for free_index, start_pos in self._page_disjoint(segments):
            self.free_segment(free_index, start_pos=start_pos)

    def free_full_segment(self, free_index: torch.Tensor, *, start_pos: int) -> None:
        """`free_full` of one contiguous piece of a row; arguments as in `free_segment`.

        Mirrors: sglang mem_cache/allocator/base.py free_full_segment.
        """
        assert_page_aligned(start_pos, self.page_size)
        self.free_full(free_index)

    def free_full_segments(self, segments: Segments) -> None:
        """`free_full` of several pieces of one row; as in `free_segments`.

        Mirrors: sglang mem_cache/allocator/base.py free_full_segments.
        """
        for free_index, start_pos in self._page_disjoint(segments):
            self.free_full_segment(free_index, start_pos=start_pos)

    def free_group_begin(self) -> None:
        """Let frees wait until `free_group_end`.

        Raises:
            AssertionError: a group is open already (profiles that refuse to nest). Older ones
                forget what was queued.

        Mirrors: sglang mem_cache/allocator/base.py free_group_begin.
        """
        if self.in_free_group and self.profile.nested_begin == "asserts":
            raise AssertionError("free groups cannot be nested")
        self.in_free_group = True
        self.free_group = []

    def free_group_end(self) -> None:
        """Carry out the frees that waited.

        Mirrors: sglang mem_cache/allocator/base.py free_group_end.
        """
        self.in_free_group = False
        pending = self.free_group
        if not self.profile.end_keeps_queue:
            self.free_group = []
        if pending:
            self.free(torch.cat(pending))

    def _page_disjoint(self, segments: Segments) -> Iterator[tuple[torch.Tensor, int]]:
        """The non-empty pieces, such that no two of them name the same page of the row."""
        previous_end = 0
        for free_index, start_pos in segments:
            tokens = free_index.numel()
            if tokens == 0:
                continue
            end = start_pos + tokens
            if previous_end:
                page, last_page = (p // self.page_size for p in (start_pos, previous_end - 1))
                if self.profile.segments == "pages" and page <= last_page:
                    raise AssertionError(
                        f"segment at {start_pos} shares a page with the one ending at"
                        f" {previous_end}"
                    )
                if page == last_page:
                    boundary = (page + 1) * self.page_size
                    free_index = free_index[boundary - start_pos :]
                    start_pos = boundary
            previous_end = end
            yield free_index, start_pos


class PagePool(BaseTokenToKVPoolAllocator):
    """Pages of one pool and who may have them next.

    Attributes:
        num_pages: pages in the pool, ids 1 … num_pages.
        free_pages: [n] int64 on `device`, page ids in the order in which they are handed out.
        release_pages: [n] int64 on `device`, the staged list.
    """

    def __init__(
        self,
        size: int,
        page_size: int,
        device: torch.device,
        need_sort: bool,
        profile: Profile,
        pool: Pool = "full",
        tape: Tape | None = None,
    ) -> None:
        super().__init__(size, page_size, device, need_sort, profile)
        self.num_pages = size // page_size
        self._pool: Pool = pool
        self._tape = tape
        self._no_pages = torch.empty(0, dtype=torch.int64, device=device)
        self.free_pages = self._no_pages
        self.release_pages = self._no_pages
        self.clear()

    def clear(self) -> None:
        """Make every page free again, in ascending order; page 0 stays out.

        State: new free list, empty staged list, no group.
        Mirrors: sglang mem_cache/allocator/token.py, paged.py clear.
        """
        self.free_pages = torch.arange(1, self.num_pages + 1, dtype=torch.int64, device=self.device)
        self.release_pages = self._no_pages
        self.in_free_group = False
        self.free_group = []

    def available_size(self) -> int:
        """Tokens that can be handed out: free and staged pages, repeats counted.

        Mirrors: sglang mem_cache/allocator/base.py available_size.
        """
        return (len(self.free_pages) + len(self.release_pages)) * self.page_size

    def merge_and_sort_free(self) -> None:
        """Move the staged pages into the free list and sort it.

        Mirrors: sglang mem_cache/allocator/base.py merge_and_sort_free.
        """
        if len(self.release_pages) == 0:
            return
        merged = torch.cat((self.free_pages, self.release_pages))
        self.free_pages = torch.sort(merged).values
        self.release_pages = self._no_pages

    def backup_state(self) -> PoolState:
        """The free list and the staged list as they are now.

        Mirrors: sglang mem_cache/allocator.py backup_state (releases up to 0.5.16).
        """
        return self.free_pages, self.release_pages

    def restore_state(self, state: PoolState) -> None:
        """Bring both lists of a `backup_state` back.

        Mirrors: sglang mem_cache/allocator.py restore_state (releases up to 0.5.16).
        """
        self.free_pages, self.release_pages = state

    def alloc(self, need_size: int) -> torch.Tensor | None:
        """Hand out whole pages; see the subclasses."""
        raise NotImplementedError

    def free_page_ids(self, page_ids: torch.Tensor) -> None:
        """Return pages by id, in the order given and without looking for repeats.

        Args:
            page_ids: [n] int64 on the pool's device.

        State: pages enter the free or staged list, or the queue of an open group.
        Mirrors: sglang mem_cache/allocator/paged.py free_page_ids.
        """
        raise NotImplementedError

    def _take_pages(self, count_pages: int) -> torch.Tensor:
        """Take pages from the front of the free list: [count_pages] int64."""
        pages = self.free_pages[:count_pages]
        self.free_pages = self.free_pages[count_pages:]
        if self._tape is not None and count_pages:
            self._tape.taken(self._pool, pages)
        return pages

    def _note_returned(self, pages: torch.Tensor) -> None:
        if self._tape is not None and pages.numel():
            self._tape.returned(self._pool, pages)


def assert_page_aligned(start_pos: int, page_size: int) -> None:
    """Refuse a segment that starts inside a page.

    Raises:
        AssertionError: as upstream raises it.
    """
    if start_pos % page_size:
        raise AssertionError(f"segment start {start_pos} is not page-aligned")
