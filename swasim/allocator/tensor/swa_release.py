"""The pair of pools, full and SWA: what takes back, free groups, and the mapping."""

from __future__ import annotations

import torch

from swasim.allocator.profile import Profile
from swasim.allocator.tensor.base import BaseTokenToKVPoolAllocator, assert_page_aligned
from swasim.allocator.tensor.mapping import SlotMapping
from swasim.allocator.tensor.paged import PagedTokenToKVPoolAllocator
from swasim.allocator.tensor.tape import Tape
from swasim.allocator.tensor.token import TokenToKVPoolAllocator
from swasim.geometry import UNMAPPED, Pool


class SWARelease(BaseTokenToKVPoolAllocator):
    """The releasing half of `SWATokenToKVPoolAllocator`, and what both halves hold.

    Attributes:
        full_attn_allocator, swa_attn_allocator: the two pools.
        swa_free_group: what free_swa has queued in an open group: SWA slots, or full slots where
            the profile reads the mapping at the end.
        swa_page_ids_group: SWA page ids that segment forms have queued.
        full_free_group: full slots that free_full has queued.
    """

    def __init__(
        self,
        size: int,
        size_swa: int,
        page_size: int,
        device: torch.device,
        need_sort: bool,
        profile: Profile,
        tape: Tape | None = None,
    ) -> None:
        super().__init__(min(size, size_swa), page_size, device, need_sort, profile)
        self.size_full = size
        self.size_swa = size_swa
        self.full_attn_allocator = self._new_pool(size, "full", tape)
        self.swa_attn_allocator = self._new_pool(size_swa, "swa", tape)
        slots = profile.mapping_slots(size, size_swa, page_size)
        self._mapping = SlotMapping(slots, profile.paged, device, tape)
        self._offsets = torch.arange(page_size, dtype=torch.int64, device=device)
        self.swa_free_group: list[torch.Tensor] = []
        self.swa_page_ids_group: list[torch.Tensor] = []
        self.full_free_group: list[torch.Tensor] = []

    @property
    def full_to_swa_index_mapping(self) -> torch.Tensor:
        """SWA slot of every full slot, 0 where there is none: [slots] int64, the live storage.

        Profiles with pages have size + page_size entries and a trailing one that starts as -1.

        Mirrors: sglang mem_cache/allocator/swa.py full_to_swa_index_mapping.
        """
        return self._mapping.entries

    @property
    def check_range(self) -> bool:
        """Whether slots are compared with the mapping's length before they are used.

        On a CPU torch does it by itself. Elsewhere a slot out of range would end the process, so
        it is on unless the caller answers for its slots; each look is one synchronisation.
        """
        return self._mapping.check_range

    @check_range.setter
    def check_range(self, wanted: bool) -> None:
        self._mapping.check_range = wanted

    def clear(self) -> None:
        """Back to empty pools: whole free lists, no entries, no queues.

        The trailing -1 is not set again where it was overwritten.

        Mirrors: sglang mem_cache/allocator/swa.py clear.
        """
        self.swa_attn_allocator.clear()
        self.full_attn_allocator.clear()
        self._mapping.clear()
        if self.profile.clear_ends_group:
            self.in_free_group = False
        self.free_group = []
        self._drop_queues()

    def available_size(self) -> int:
        """Tokens available in both pools.

        Mirrors: sglang mem_cache/allocator/swa.py available_size (from 0.5.9).
        """
        return min(self.full_available_size(), self.swa_available_size())

    def full_available_size(self) -> int:
        """Tokens available in the full pool, repeats counted.

        Mirrors: sglang mem_cache/allocator/swa.py full_available_size.
        """
        return self.full_attn_allocator.available_size()

    def swa_available_size(self) -> int:
        """Tokens available in the SWA pool, repeats counted.

        Mirrors: sglang mem_cache/allocator/swa.py swa_available_size.
        """
        return self.swa_attn_allocator.available_size()

    def set_full_to_swa_mapping(
        self, full_indices: torch.Tensor, swa_indices: torch.Tensor
    ) -> None:
        """Point full slots at SWA slots, pairwise, whatever they pointed at.

        Args:
            full_indices, swa_indices: [n] each.

        Raises:
            AssertionError: the lengths differ.
            IndexError: a full slot lies outside the mapping; those before it are written.

        Mirrors: sglang mem_cache/allocator/swa.py set_full_to_swa_mapping.
        """
        if full_indices.numel() == 0:
            return
        if full_indices.numel() != swa_indices.numel():
            raise AssertionError(
                f"{full_indices.numel()} full slots for {swa_indices.numel()} SWA slots"
            )
        self._mapping.write(full_indices, swa_indices)

    def clear_full_to_swa_mapping(self, full_indices: torch.Tensor) -> None:
        """Make full slots unmapped without releasing anything.

        Args:
            full_indices: [n] full slots.

        Raises:
            IndexError: a slot lies outside the mapping; those before it are cleared.

        Mirrors: sglang mem_cache/allocator/swa.py clear_full_to_swa_mapping.
        """
        self._mapping.write(full_indices, None)

    def free(self, free_index: torch.Tensor) -> None:
        """Release full slots and their SWA peers.

        Args:
            free_index: [n] full slots.

        Raises:
            AssertionError: a pool then has more available than its size.
            IndexError: a slot lies outside the mapping.

        State: pages enter both lists or the queues of an open group; entries are cleared. Up to
            0.5.19 the full pages have moved before either error; from 0.5.20 they have not.
        Mirrors: sglang mem_cache/allocator/swa.py free.
        """
        if free_index.numel() == 0:
            return
        swa_first = self.profile.free_order == "swa_first"
        if self.in_free_group and self.profile.free_queue == "slots":
            self.free_group.append(free_index)
        elif swa_first:
            self.free_swa(free_index)
            self._free_full_side(free_index)
        else:
            self.full_attn_allocator.free(free_index)
            self.free_swa(free_index)
        if not swa_first:
            self._check_both()

    def free_swa(self, free_index: torch.Tensor) -> None:
        """Release the SWA peers of full slots, and keep the full slots.

        From PR 27779 on the release is by page: every entry of each page is read and cleared, so
        that no entry of a released page stays behind. Before it, only the slots that are named.

        Args:
            free_index: [n] full slots.

        Raises:
            AssertionError: the SWA pool then has more available than its size (from 0.5.20).
            IndexError: a slot lies outside the mapping; nothing has changed.

        State: entries are cleared, SWA pages enter the list or the queue of an open group.
        Mirrors: sglang mem_cache/allocator/swa.py free_swa.
        """
        if free_index.numel() == 0:
            return
        if self.in_free_group and self.profile.free_swa_queue == "slots":
            self.swa_free_group.append(free_index)
            return
        if self.page_size == 1 and self.profile.segments == "pages":
            self._free_swa_pages(free_index, self.profile.filter_page_size_1)
            return
        swa_indices = self._detach(self._released_with(free_index))
        swa_indices = self._without_padding(swa_indices)
        if self.in_free_group and self.profile.free_swa_queue == "resolved":
            self.swa_free_group.append(swa_indices)
        else:
            self._release_swa(swa_indices)

    def free_full(self, free_index: torch.Tensor) -> None:
        """Release full slots whose SWA peers are gone already; live peers are stranded.

        Args:
            free_index: [n] full slots.

        Raises:
            AssertionError: the full pool then has more available than its size.

        State: full pages enter the list or the queue of an open group.
        Mirrors: sglang mem_cache/allocator/swa.py free_full.
        """
        if free_index.numel() == 0:
            return
        self._before_free_full(free_index)
        self._free_full_side(free_index)

    def _free_full_side(self, free_index: torch.Tensor) -> None:
        if self.in_free_group and not self.profile.group_full_pool:
            self.full_free_group.append(free_index)
        else:
            self.full_attn_allocator.free(free_index)
        self._check("full")

    def free_segment(self, free_index: torch.Tensor, *, start_pos: int) -> None:
        """`free` of one contiguous piece of a row.

        Args:
            free_index: [n] full slots in row order.
            start_pos: row position (tokens) of the first.

        Raises:
            AssertionError: `start_pos` lies inside a page (from 0.5.20), or as `free_swa`.
            IndexError: a slot lies outside the mapping.

        Mirrors: sglang mem_cache/allocator/swa.py free_segment.
        """
        if self.profile.segments == "whole":
            self.free(free_index)
        elif free_index.numel():
            self.free_swa_segment(free_index, start_pos=start_pos)
            self.full_attn_allocator.free_segment(free_index, start_pos=start_pos)

    def free_swa_segment(self, free_index: torch.Tensor, *, start_pos: int) -> None:
        """`free_swa` of one contiguous piece of a row: one slot stands for its page.

        Up to 0.5.23 a page without a peer releases the padding page.

        Args:
            free_index: [n] full slots in row order.
            start_pos: row position (tokens) of the first.

        Raises:
            AssertionError: `start_pos` lies inside a page; the SWA pool then has more available
                than its size.
            IndexError: a slot lies outside the mapping.

        Mirrors: sglang mem_cache/allocator/swa.py free_swa_segment.
        """
        if free_index.numel() == 0:
            return
        assert_page_aligned(start_pos, self.page_size)
        if self.profile.segment_peer == "any":
            self.free_swa(free_index)
        else:
            self._free_swa_pages(free_index, self.profile.filter_segments)

    def free_full_segment(self, free_index: torch.Tensor, *, start_pos: int) -> None:
        """`free_full` of one contiguous piece of a row; arguments as in `free_segment`.

        Raises:
            AssertionError: `start_pos` lies inside a page.

        Mirrors: sglang mem_cache/allocator/swa.py free_full_segment.
        """
        if free_index.numel() == 0:
            return
        self._before_free_full(free_index)
        self.full_attn_allocator.free_segment(free_index, start_pos=start_pos)

    def free_group_begin(self) -> None:
        """As in the base class, with the queues of both pools.

        Mirrors: sglang mem_cache/allocator/swa.py free_group_begin.
        """
        super().free_group_begin()
        self._drop_queues()
        if self.profile.group_full_pool:
            self.full_attn_allocator.free_group_begin()

    def free_group_end(self) -> None:
        """Carry out the frees that waited: `free`, SWA pages, SWA slots, full side.

        Raises:
            AssertionError: a pool then has more available than its size. What was queued behind
                the failing part is lost, or waits in the full pool's own group (from 0.5.20).
            IndexError: a queued slot lies outside the mapping (profiles that read it here).

        Mirrors: sglang mem_cache/allocator/swa.py free_group_end.
        """
        super().free_group_end()
        pending = []
        if self.profile.free_swa_queue == "slots":
            pending, self.swa_free_group = self.swa_free_group, []
        if pending:
            self.free_swa(torch.cat(pending))
        pages, self.swa_page_ids_group = self.swa_page_ids_group, []
        if pages:
            self.swa_attn_allocator.free_page_ids(torch.cat(pages))
        pending, self.swa_free_group = self.swa_free_group, []
        if pending:
            self._release_swa(torch.cat(pending))
        full, self.full_free_group = self.full_free_group, []
        if full:
            self.free_full(torch.cat(full))
        if self.profile.group_full_pool:
            self.full_attn_allocator.free_group_end()
        if self.profile.swa_checks:
            self._check_both()

    def _free_swa_pages(self, free_index: torch.Tensor, skips_unmapped: bool) -> None:
        """Release the SWA pages of full slots, each slot at a page's distance for its page."""
        representatives = free_index[:: self.page_size]
        swa_indices = self._mapping.read(representatives)
        self._mapping.write(self._slots_of(representatives // self.page_size), None)
        if skips_unmapped:
            swa_indices = self._without_padding(swa_indices)
        swa_pages = swa_indices // self.page_size
        if self.in_free_group:
            self.swa_page_ids_group.append(swa_pages)
            return
        self.swa_attn_allocator.free_page_ids(swa_pages)
        self._check("swa")

    def _before_free_full(self, free_index: torch.Tensor) -> None:
        """What looks at the peers before only the full side goes."""
        if self.profile.free_full_reads:
            self._mapping.read(free_index)
        if self.profile.free_full_peers == "releases":
            self.free_swa(free_index)

    def _expand_to_full_pages(self, indices: torch.Tensor) -> torch.Tensor:
        """Every slot of the pages that some slots lie in: [pages * page_size], ascending.

        Mirrors: sglang mem_cache/allocator/swa.py _expand_to_full_pages.
        """
        return self._slots_of(torch.unique(indices // self.page_size))

    def _slots_of(self, pages: torch.Tensor) -> torch.Tensor:
        return (pages[:, None] * self.page_size + self._offsets).reshape(-1)

    def _released_with(self, free_index: torch.Tensor) -> torch.Tensor:
        """The slots whose entries go when `free_index` is released."""
        if self.page_size == 1 or self.profile.free_swa_unit == "tokens":
            return free_index
        return self._expand_to_full_pages(free_index)

    def _detach(self, full_indices: torch.Tensor) -> torch.Tensor:
        """Read the entries of full slots and clear them: [n] SWA slots."""
        swa_indices = self._mapping.read(full_indices)
        self._mapping.write(full_indices, None)
        return swa_indices

    def _without_padding(self, swa_indices: torch.Tensor) -> torch.Tensor:
        first_real = self.page_size if self.profile.padding == "page" else UNMAPPED + 1
        return swa_indices[swa_indices >= first_real]

    def _release_swa(self, swa_indices: torch.Tensor) -> None:
        self.swa_attn_allocator.free(swa_indices)
        if self.profile.swa_checks:
            self._check("swa")

    def _check_both(self) -> None:
        self._check("full")
        self._check("swa")

    def _check(self, pool: Pool) -> None:
        """What upstream asserts after a release: no pool has more than it was built with."""
        owner = self.full_attn_allocator if pool == "full" else self.swa_attn_allocator
        available = owner.available_size()
        if available > owner.size:
            raise AssertionError(
                f"{pool} pool has {available} tokens available, its size is {owner.size}"
            )

    def _drop_queues(self) -> None:
        self.swa_free_group = []
        self.swa_page_ids_group = []
        self.full_free_group = []

    def _new_pool(
        self, tokens: int, name: Pool, tape: Tape | None
    ) -> TokenToKVPoolAllocator | PagedTokenToKVPoolAllocator:
        device, need_sort, profile = self.device, self.need_sort, self.profile
        if self.page_size == 1:
            return TokenToKVPoolAllocator(tokens, device, need_sort, profile, name, tape)
        return PagedTokenToKVPoolAllocator(
            tokens, self.page_size, device, need_sort, profile, name, tape
        )
