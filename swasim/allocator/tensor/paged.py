"""One pool of whole pages."""

from __future__ import annotations

import torch

from swasim.allocator.profile import Profile
from swasim.allocator.tensor.base import PagePool, assert_page_aligned
from swasim.allocator.tensor.tape import Tape
from swasim.geometry import Pool


def get_num_new_pages(seq_lens: torch.Tensor, prefix_lens: torch.Tensor, page_size: int) -> int:
    """Pages that a batch needs to grow.

    Args:
        seq_lens: [batch] int64 cpu, tokens after the call.
        prefix_lens: [batch] int64 cpu, tokens before it.
        page_size: tokens per page.

    Returns:
        Pages that the batch must take anew, all requests together.

    Mirrors: sglang utils/common.py get_num_new_pages.
    """
    return int((_pages_of(seq_lens, page_size) - _pages_of(prefix_lens, page_size)).sum())


def _pages_of(lens: torch.Tensor, page_size: int) -> torch.Tensor:
    return (lens + (page_size - 1)) // page_size


class PagedTokenToKVPoolAllocator(PagePool):
    """Pages of one pool, taken from the front of the free list.

    Freed pages go to its front: within one free in ascending order and each once.

    Mirrors: sglang mem_cache/allocator/paged.py PagedTokenToKVPoolAllocator.
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
        self.free_page_ids_group: list[torch.Tensor] = []
        self._offsets = torch.arange(page_size, dtype=torch.int64, device=device)
        super().__init__(size, page_size, device, need_sort, profile, pool, tape)

    def clear(self) -> None:
        """As in the base class; the queue of page ids is dropped too."""
        super().clear()
        self.free_page_ids_group = []

    def slots_of(self, pages: torch.Tensor) -> torch.Tensor:
        """Every slot of some pages.

        Args:
            pages: [n] int64 on the pool's device.

        Returns:
            [n * page_size] int64, ascending within each page. Fresh storage.
        """
        return (pages[:, None] * self.page_size + self._offsets).reshape(-1)

    def alloc(self, need_size: int) -> torch.Tensor | None:
        """Hand out whole pages.

        Args:
            need_size: tokens; a rest beyond whole pages is dropped.

        Returns:
            [need_size // page_size * page_size] int64 on the pool's device, page by page; None
            where the pool is short. Fresh storage.

        State: takes the pages; None leaves the lists as they are but may merge them.
        Mirrors: sglang mem_cache/allocator/paged.py alloc.
        """
        count_pages = need_size // self.page_size
        if count_pages > len(self.free_pages):
            self.merge_and_sort_free()
        if count_pages > len(self.free_pages):
            return None
        return self.slots_of(self._take_pages(count_pages))

    def alloc_extend(
        self,
        prefix_lens: torch.Tensor,
        prefix_lens_cpu: torch.Tensor,
        seq_lens: torch.Tensor,
        seq_lens_cpu: torch.Tensor,
        last_loc: torch.Tensor,
        extend_num_tokens: int,
        num_new_pages: int | None = None,
    ) -> torch.Tensor | None:
        """Grow each request from its prefix to its sequence length.

        A request gets, in this order, the rest of its old page behind `last_loc`, whole pages,
        and the head of its last page.

        Args:
            prefix_lens, seq_lens: [batch] int64 on the pool's device, tokens before and after.
            prefix_lens_cpu, seq_lens_cpu: the same on the CPU.
            last_loc: [batch] int64 on the pool's device, last slot of each prefix, or -1.
            extend_num_tokens: sum of seq_lens - prefix_lens.
            num_new_pages: pages to take, where the caller has counted them.

        Returns:
            [extend_num_tokens] int64 on the pool's device, request by request; None where the
            pool is short. Fresh storage.

        State: takes the pages; None leaves the lists as they are but may merge them.
        Mirrors: sglang mem_cache/allocator/paged.py alloc_extend.
        """
        batch = len(prefix_lens_cpu)
        if extend_num_tokens // self.page_size + batch + 1 > len(self.free_pages):
            self.merge_and_sort_free()
        if num_new_pages is None:
            num_new_pages = get_num_new_pages(seq_lens_cpu, prefix_lens_cpu, self.page_size)
        pages = self._pages_for(num_new_pages)
        if pages is None:
            return None
        return self._lay_out(prefix_lens, seq_lens, last_loc, extend_num_tokens, pages)

    def alloc_decode(
        self, seq_lens: torch.Tensor, seq_lens_cpu: torch.Tensor, last_loc: torch.Tensor
    ) -> torch.Tensor | None:
        """Grow each request by one token.

        Args:
            seq_lens: [batch] int64 on the pool's device, tokens after the call.
            seq_lens_cpu: the same on the CPU.
            last_loc: [batch] int64 on the pool's device, last slot of each request, or -1.

        Returns:
            [batch] int64 on the pool's device: the slot behind `last_loc`, or the first of a new
            page; None where the pool is short. Fresh storage.

        State: takes the pages; None leaves the lists as they are but may merge them.
        Mirrors: sglang mem_cache/allocator/paged.py alloc_decode.
        """
        if len(seq_lens_cpu) > len(self.free_pages):
            self.merge_and_sort_free()
        pages = self._pages_for(self.pages_for_decode(seq_lens_cpu))
        if pages is None:
            return None
        behind_last = last_loc + 1
        if pages.numel() == 0:
            return behind_last
        starts_page = seq_lens % self.page_size == 1
        rank = (torch.cumsum(starts_page, 0) - 1).clamp_(min=0)
        return torch.where(starts_page, pages[rank] * self.page_size, behind_last)

    def pages_for_decode(self, seq_lens_cpu: torch.Tensor) -> int:
        """Pages that a decode step needs: one for each request that begins a page.

        Args:
            seq_lens_cpu: [batch] int64 cpu, tokens after the step.

        Mirrors: sglang utils/common.py get_num_new_pages (decode).
        """
        return int((seq_lens_cpu % self.page_size == 1).sum())

    def free(self, free_index: torch.Tensor) -> None:
        """Return the pages of some slots, each once however many of its slots are named.

        Nothing is checked: not the range, not whether the pages are free already.

        Args:
            free_index: [n] int64 on the pool's device, slots.

        State: pages join the front of the free list in ascending order (under `need_sort` the
            staged list), or the slots the queue of an open group.
        Mirrors: sglang mem_cache/allocator/paged.py free.
        """
        if free_index.numel() == 0:
            return
        if self.in_free_group:
            self.free_group.append(free_index)
            return
        self._release_page_ids(torch.unique(free_index // self.page_size))

    def free_segment(self, free_index: torch.Tensor, *, start_pos: int) -> None:
        """Return the pages of one contiguous piece of a row, in row order.

        One slot stands for its page, so nothing is sorted and a repeat goes unnoticed.

        Args:
            free_index: [n] int64 on the pool's device, slots in row order.
            start_pos: row position (tokens) of the first.

        Raises:
            AssertionError: `start_pos` lies inside a page (profiles with page segments; older
                ones count the part before the page boundary as a page of its own).

        Mirrors: sglang mem_cache/allocator/paged.py free_segment.
        """
        if free_index.numel() == 0:
            return
        if self.profile.segments == "pages":
            assert_page_aligned(start_pos, self.page_size)
        offset = start_pos % self.page_size
        representatives = free_index[:: self.page_size]
        if offset:
            rest = free_index[self.page_size - offset :: self.page_size]
            representatives = torch.cat((free_index[:1], rest))
        self.free_page_ids(representatives // self.page_size)

    def free_page_ids(self, page_ids: torch.Tensor) -> None:
        """As in the base class."""
        if page_ids.numel() == 0:
            return
        if self.in_free_group:
            self.free_page_ids_group.append(page_ids)
            return
        self._release_page_ids(page_ids)

    def free_group_begin(self) -> None:
        """As in the base class; the queue of page ids starts empty too."""
        super().free_group_begin()
        self.free_page_ids_group = []

    def free_group_end(self) -> None:
        """As in the base class; queued page ids follow the queued slots."""
        super().free_group_end()
        pending, self.free_page_ids_group = self.free_page_ids_group, []
        if pending:
            self._release_page_ids(torch.cat(pending))

    def _release_page_ids(self, page_ids: torch.Tensor) -> None:
        self._note_returned(page_ids)
        if not self.need_sort:
            self.free_pages = torch.cat((page_ids, self.free_pages))
        elif self.profile.staged_order == "append":
            self.release_pages = torch.cat((self.release_pages, page_ids))
        else:
            self.release_pages = torch.cat((page_ids, self.release_pages))

    def _pages_for(self, count_pages: int) -> torch.Tensor | None:
        """Take pages, or answer None (a fault: repeat the last one) where the list is short."""
        missing = count_pages - len(self.free_pages)
        if missing <= 0:
            return self._take_pages(count_pages)
        if self.profile.short_list == "refuses" or len(self.free_pages) == 0:
            return None
        pages = self._take_pages(len(self.free_pages))
        return torch.cat((pages, pages[-1:].expand(missing)))

    def _lay_out(
        self,
        prefix_lens: torch.Tensor,
        seq_lens: torch.Tensor,
        last_loc: torch.Tensor,
        extend_num_tokens: int,
        pages: torch.Tensor,
    ) -> torch.Tensor:
        """The slots of an extend: [extend_num_tokens] int64.

        For each request: [prefix_len, old_end) lies in the page it holds already, and
        [old_end, seq_len) in the pages from `first_page` on.
        """
        old_end = torch.minimum(seq_lens, _pages_of(prefix_lens, self.page_size) * self.page_size)
        head_fill = old_end - prefix_lens
        new_pages = _pages_of(seq_lens, self.page_size) - _pages_of(prefix_lens, self.page_size)
        first_page = torch.cumsum(new_pages, 0) - new_pages
        extend_lens = seq_lens - prefix_lens
        first_token = torch.cumsum(extend_lens, 0) - extend_lens
        request = torch.repeat_interleave(extend_lens, output_size=extend_num_tokens)
        token = torch.arange(extend_num_tokens, dtype=torch.int64, device=self.device)
        token = token - first_token[request]
        behind_last = last_loc[request] + 1 + token
        if pages.numel() == 0:
            return behind_last
        beyond = token - head_fill[request]
        place = (beyond + first_page[request] * self.page_size).clamp_(min=0)
        fresh = pages[place // self.page_size] * self.page_size + place % self.page_size
        return torch.where(beyond < 0, behind_last, fresh)
