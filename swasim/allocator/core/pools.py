"""One pool in plain integers: the free list, the staged list, and the pages between them.

`TokenPool` is a pool at page size 1, `PagedPool` one of whole pages. Their lists are equal, entry
by entry, to those of SGLang's TokenToKVPoolAllocator and PagedTokenToKVPoolAllocator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from operator import add
from typing import Self

from swasim.allocator.core.pages import PageList
from swasim.allocator.profile import Profile

PoolLists = tuple[tuple[int, ...], tuple[int, ...]]
"""Free list and staged list, as values."""


class CorePool:
    """What both kinds of pool share.

    Attributes:
        size: tokens in the pool.
        page_size, num_pages: tokens per page; pages, ids 1 … num_pages.
        free_pages: page ids in the order in which they are handed out.
        staged_pages: freed page ids that wait to be sorted in. Both lists stay the same objects.
        taken, returned: page ids that the present call moved; the pair empties them.
    """

    def __init__(self, size: int, page_size: int, need_sort: bool, profile: Profile) -> None:
        self.size = size
        self.page_size = page_size
        self.num_pages = size // page_size
        self.profile = profile
        self.stages = profile.staged(need_sort)
        self.taken: list[int] = []
        self.returned: list[int] = []
        self.free_pages, self.staged_pages = PageList(), PageList()
        self.clear()

    def clear(self) -> None:
        """Every page free, ascending; nothing staged, no group."""
        self.free_pages.replace(range(1, self.num_pages + 1))
        self.staged_pages.replace(())
        self.in_group = False
        self.queue: list[int] = []
        self.page_queue: list[int] = []

    def clone(self) -> Self:
        """A pool in the same state that shares nothing with this one."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.free_pages = self.free_pages.copy()
        twin.staged_pages = self.staged_pages.copy()
        twin.queue = self.queue.copy()
        twin.page_queue = self.page_queue.copy()
        twin.taken, twin.returned = [], []
        return twin

    def key(self) -> tuple[object, ...]:
        """Hashable; two pools with equal keys answer every call alike."""
        return (*self.lists(), self.in_group, tuple(self.queue), tuple(self.page_queue))

    def lists(self) -> PoolLists:
        """The two page lists as values."""
        return tuple(self.free_pages.tolist()), tuple(self.staged_pages.tolist())

    def replace_lists(self, lists: PoolLists) -> None:
        """Bring two page lists back."""
        self.free_pages.replace(lists[0])
        self.staged_pages.replace(lists[1])

    def available_pages(self) -> int:
        """Free and staged entries, repeats counted."""
        return len(self.free_pages) + len(self.staged_pages)

    def available_size(self) -> int:
        """Tokens available."""
        return self.available_pages() * self.page_size

    def check_available(self, pool: str) -> None:
        """Assert that no more is available than there is; the only check upstream makes.

        Raises:
            AssertionError: after the state has changed.
        """
        if self.available_size() > self.size:
            raise AssertionError(
                f"{pool} available size {self.available_size()} exceeds its size {self.size}"
            )

    def merge_and_sort_free(self) -> None:
        """Put staged pages and free pages together, sorted."""
        if self.staged_pages:
            self.free_pages.merge(self.staged_pages)

    def alloc(self, need_size: int) -> list[int] | None:
        """Hand slots out; see the subclasses."""
        raise NotImplementedError

    def alloc_extend(
        self,
        prefix_lens: list[int],
        seq_lens: list[int],
        last_loc: list[int],
        extend_num_tokens: int,
        num_new_pages: int,
    ) -> list[int] | None:
        """Grow requests; paged pools only."""
        raise NotImplementedError("alloc_extend is only for paged allocator")

    def alloc_decode(self, seq_lens: list[int], last_loc: list[int]) -> list[int] | None:
        """Grow requests by a token; paged pools only."""
        raise NotImplementedError("alloc_decode is only for paged allocator")

    def alloc_next(self, starts: list[int], last_loc: list[int]) -> list[int] | None:
        """Grow requests by a token; paged pools only."""
        raise NotImplementedError("alloc_decode is only for paged allocator")

    def free(self, slots: list[int]) -> None:
        """Return the pages of slots; see the subclasses."""
        raise NotImplementedError

    def free_page_ids(self, pages: list[int]) -> None:
        """Return exactly these pages; see the subclasses."""
        raise NotImplementedError

    def free_full(self, slots: list[int]) -> None:
        """A pool by itself has no peers: `free`."""
        self.free(slots)

    def free_segment(self, slots: list[int], start_pos: int) -> None:
        """Return the pages of a piece of a row.

        Raises:
            AssertionError: `start_pos` lies inside a page (profiles with page segments).
        """
        if self.profile.segments == "pages":
            require_aligned(start_pos, self.page_size)
        self.free(slots)

    def free_full_segment(self, slots: list[int], start_pos: int) -> None:
        """As `free_segment`; through `free`, so that pages come back sorted."""
        require_aligned(start_pos, self.page_size)
        self.free_full(slots)

    def free_group_begin(self) -> None:
        """Let frees wait.

        Raises:
            AssertionError: a group is open, in releases that refuse to nest.
        """
        if self.in_group and self.profile.nested_begin == "asserts":
            raise AssertionError("free groups cannot be nested")
        self.in_group = True
        self.queue, self.page_queue = [], []

    def free_group_end(self) -> None:
        """Carry the waiting frees out."""
        self.in_group = False
        pending, self.queue = self.queue, []
        self.free(pending)
        pages, self.page_queue = self.page_queue, []
        self.free_page_ids(pages)

    def _take(self, count_pages: int) -> list[int]:
        pages = self.free_pages.take(max(count_pages, 0))
        self.taken += pages
        return pages


class TokenPool(CorePool):
    """A pool at page size 1: a page is a slot.

    Mirrors: sglang TokenToKVPoolAllocator.
    """

    def alloc(self, need_size: int) -> list[int] | None:
        """Slots from the front of the free list, or None where the pool is short."""
        if self.stages and need_size > len(self.free_pages):
            self.merge_and_sort_free()
        if need_size > len(self.free_pages):
            return None
        return self._take(need_size)

    def free(self, slots: list[int]) -> None:
        """Append slots as they come, repeats and all."""
        if not slots:
            return
        if self.in_group:
            self.queue += slots
            return
        (self.staged_pages if self.stages else self.free_pages).put_back(slots)
        self.returned += slots

    def free_page_ids(self, pages: list[int]) -> None:
        """A page id is a slot: `free`."""
        self.free(pages)


class PagedPool(CorePool):
    """A pool of whole pages.

    Mirrors: sglang PagedTokenToKVPoolAllocator.
    """

    def alloc(self, need_size: int) -> list[int] | None:
        """Slots of whole pages from the front of the list; a rest of `need_size` is dropped."""
        count = need_size // self.page_size
        if count > len(self.free_pages):
            self.merge_and_sort_free()
        if count > len(self.free_pages):
            return None
        pages, step = self._take(count), self.page_size
        return [slot for page in pages for slot in range(page * step, page * step + step)]

    def alloc_extend(
        self,
        prefix_lens: list[int],
        seq_lens: list[int],
        last_loc: list[int],
        extend_num_tokens: int,
        num_new_pages: int,
    ) -> list[int] | None:
        """Slots for each request from its prefix to its length, in batch order.

        First the rest of the page behind `last_loc`, then whole pages, then the head of the last
        one. None where the pool is short.
        """
        page_size = self.page_size
        if extend_num_tokens // page_size + len(prefix_lens) + 1 > len(self.free_pages):
            self.merge_and_sort_free()
        pages = self._take_or_refuse(num_new_pages)
        if pages is None:
            return None
        fresh = iter(pages)
        out: list[int] = []
        for prefix_len, seq_len, last in zip(prefix_lens, seq_lens, last_loc, strict=True):
            page_end = -(-prefix_len // page_size) * page_size
            rest = min(seq_len, page_end) - prefix_len
            out.extend(range(last + 1, last + 1 + rest))
            for start in range(page_end, seq_len, page_size):
                slot = next(fresh) * page_size
                out.extend(range(slot, slot + min(page_size, seq_len - start)))
        return out

    def alloc_decode(self, seq_lens: list[int], last_loc: list[int]) -> list[int] | None:
        """The next slot of each request, on a new page where the old one is full."""
        return self.alloc_next(page_starts(seq_lens, self.page_size), last_loc)

    def alloc_next(self, starts: list[int], last_loc: list[int]) -> list[int] | None:
        """The slot behind each of `last_loc`, for the items `starts` the first of a new page."""
        if len(last_loc) > len(self.free_pages):
            self.merge_and_sort_free()
        pages = self._take_or_refuse(len(starts))
        if pages is None:
            return None
        out = list(map(add, last_loc, repeat(1)))
        for index, page in zip(starts, pages, strict=True):
            out[index] = page * self.page_size
        return out

    def free(self, slots: list[int]) -> None:
        """Return the pages of slots: ascending, each page once."""
        if not slots:
            return
        if self.in_group:
            self.queue += slots
            return
        self._release(distinct_pages(slots, self.page_size))

    def free_segment(self, slots: list[int], start_pos: int) -> None:
        """Return the pages of a piece of a row in row order, one slot standing for its page.

        Raises:
            AssertionError: `start_pos` lies inside a page (profiles with page segments; the
                others take the rest of that page as one more page).
        """
        if not slots:
            return
        page_size = self.page_size
        if self.profile.segments == "pages":
            require_aligned(start_pos, page_size)
        offset = start_pos % page_size
        leads = slots[:1] + slots[page_size - offset :: page_size] if offset else slots[::page_size]
        self.free_page_ids([slot // page_size for slot in leads])

    def free_page_ids(self, pages: list[int]) -> None:
        """Return exactly these pages, in this order and as often as they are named."""
        if not pages:
            return
        if self.in_group:
            self.page_queue += pages
            return
        self._release(pages)

    def _release(self, pages: list[int]) -> None:
        self.returned += pages
        if not self.stages:
            self.free_pages.put_front(pages)
        elif self.profile.staged_order == "append":
            self.staged_pages.put_back(pages)
        else:
            self.staged_pages.put_front(pages)

    def _take_or_refuse(self, count_pages: int) -> list[int] | None:
        have = len(self.free_pages)
        if count_pages <= have:
            return self._take(count_pages)
        if self.profile.short_list == "refuses" or not have:
            return None
        pages = self._take(have)
        return pages + pages[-1:] * (count_pages - have)


def new_pages(prefix_lens: list[int], seq_lens: list[int], page_size: int) -> int:
    """Pages that an extend needs, over the whole batch."""
    return sum(-(-length // page_size) for length in seq_lens) - sum(
        -(-length // page_size) for length in prefix_lens
    )


def page_starts(seq_lens: list[int], page_size: int) -> list[int]:
    """The items of a decode whose new token is the first of a page: each needs one."""
    offsets = [length % page_size for length in seq_lens]
    if 1 not in offsets:
        return []
    return [index for index, offset in enumerate(offsets) if offset == 1]


def distinct_pages(slots: list[int], page_size: int) -> list[int]:
    """The pages of slots, ascending, each once; runs of slots are not looked at one by one."""
    pages: set[int] = set()
    start, limit = 0, len(slots)
    while start < limit:
        slot = slots[start]
        page, offset = divmod(slot, page_size)
        end = min(start + page_size - offset, limit)
        if slots[start:end] != list(range(slot, slot + end - start)):
            return sorted({slot // page_size for slot in slots})
        pages.add(page)
        start = end
    return sorted(pages)


def require_aligned(start_pos: int, page_size: int) -> None:
    """Assert that a segment starts on a page boundary.

    Raises:
        AssertionError: it does not.
    """
    if start_pos % page_size:
        raise AssertionError(f"segment start {start_pos} is not page-aligned")


def page_disjoint(
    segments: Iterable[tuple[list[int], int]], page_size: int, profile: Profile
) -> Iterator[tuple[list[int], int]]:
    """Pieces of one row, one after the other, so that no page is named by two.

    Raises:
        AssertionError: a piece shares a page with the one before it (profiles with page
            segments; the others trim its head). The pieces before it have been handed out.
    """
    last_end = 0
    for slots, start_pos in segments:
        if not slots:
            continue
        end = start_pos + len(slots)
        page, last_page = start_pos // page_size, (last_end - 1) // page_size
        if profile.segments == "pages":
            if last_end and page <= last_page:
                raise AssertionError(
                    f"segment at {start_pos} shares a page with the one ending at {last_end}"
                )
        elif last_end and page == last_page:
            boundary = (page + 1) * page_size
            slots, start_pos = slots[boundary - start_pos :], boundary
        last_end = end
        yield slots, start_pos
