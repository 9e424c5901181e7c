"""One pool at page size 1, where a page is a slot."""

from __future__ import annotations

import torch

from swasim.allocator.profile import Profile
from swasim.allocator.tensor.base import PagePool
from swasim.allocator.tensor.tape import Tape
from swasim.geometry import Pool


class TokenToKVPoolAllocator(PagePool):
    """Slots of one pool, handed out one by one from the front of the free list.

    Freed slots go to the end, as they come and as often as they come.

    Mirrors: sglang mem_cache/allocator/token.py TokenToKVPoolAllocator.
    """

    def __init__(
        self,
        size: int,
        device: torch.device,
        need_sort: bool,
        profile: Profile,
        pool: Pool = "full",
        tape: Tape | None = None,
    ) -> None:
        super().__init__(size, 1, device, need_sort, profile, pool, tape)

    def alloc(self, need_size: int) -> torch.Tensor | None:
        """Hand out slots.

        Args:
            need_size: tokens.

        Returns:
            [need_size] int64 on the pool's device, slots in free-list order (a view of a list
            that is never written to); None where the pool is short.

        State: takes the slots; None leaves the lists as they are but may merge them.
        Mirrors: sglang mem_cache/allocator/token.py alloc.
        """
        if self.need_sort and need_size > len(self.free_pages):
            self.merge_and_sort_free()
        if need_size > len(self.free_pages):
            return None
        return self._take_pages(need_size)

    def free(self, free_index: torch.Tensor) -> None:
        """Return slots. Nothing is checked: not the range, not whether they are free already.

        Args:
            free_index: [n] int64 on the pool's device, slots.

        State: slots join the end of the free list (staged list under `need_sort`), or the queue
            of an open group.
        Mirrors: sglang mem_cache/allocator/token.py free.
        """
        if free_index.numel() == 0:
            return
        if self.in_free_group:
            self.free_group.append(free_index)
            return
        self._note_returned(free_index)
        if self.need_sort:
            self.release_pages = torch.cat((self.release_pages, free_index))
        else:
            self.free_pages = torch.cat((self.free_pages, free_index))

    def free_page_ids(self, page_ids: torch.Tensor) -> None:
        """Return slots; at page size 1 a page id is a slot.

        Mirrors: sglang mem_cache/allocator/token.py free_page_ids.
        """
        self.free(page_ids)
