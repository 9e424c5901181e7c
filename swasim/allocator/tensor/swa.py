"""The pair of pools, full and SWA: what hands out, and the state that both halves share."""

from __future__ import annotations

import torch

from swasim.allocator.profile import Profile
from swasim.allocator.tensor.base import PoolState
from swasim.allocator.tensor.device import torch_device
from swasim.allocator.tensor.engine import TensorEngine
from swasim.allocator.tensor.paged import PagedTokenToKVPoolAllocator, get_num_new_pages
from swasim.allocator.tensor.swa_release import SWARelease
from swasim.allocator.tensor.tape import Tape
from swasim.geometry import NO_LOC, Geometry


def build(
    profile: Profile, geometry: Geometry, need_sort: bool, device: str, name: str
) -> TensorEngine:
    """The torch reference engine, ready to be replayed on.

    Args:
        profile: which release, or which fault, to be.
        geometry: sizes of the pools.
        need_sort: freed pages are staged and merged in order when an allocation runs short.
        device: "cpu", "cuda", "cuda:N" or "mps".
        name: registry name, for reports.

    Raises:
        UsageError: there is no such device here.
    """
    tape = Tape()
    pair = SWATokenToKVPoolAllocator(
        geometry.kv_size,
        geometry.kv_size_swa,
        geometry.page_size,
        torch_device(device),
        need_sort,
        profile,
        tape,
    )
    return TensorEngine(name, geometry, pair, tape)


class SWATokenToKVPoolAllocator(SWARelease):
    """Full slots with SWA peers: one call serves both pools.

    Every tensor is [n] int64 on `device` unless it says otherwise. Nothing is checked but what
    upstream checks in the release that `profile` declares; an AssertionError about what is
    available comes after the state has changed.

    Args:
        size, size_swa: tokens in the full and the SWA pool, whole pages.
        page_size: tokens per page.
        device: where every tensor lives.
        need_sort: freed pages are staged and merged in order when an allocation runs short.
        profile: which release, or which fault, this is.
        tape: notes every change; None where nobody asks.

    Mirrors: sglang mem_cache/allocator/swa.py SWATokenToKVPoolAllocator.
    """

    def alloc(self, need_size: int) -> torch.Tensor | None:
        """Hand out single tokens; page size 1 only.

        Args:
            need_size: tokens.

        Returns:
            [need_size] full slots; None where either pool is short, and then nothing is taken.

        Raises:
            AssertionError: the page size is not 1.

        State: takes from both pools, maps each slot to its peer.
        Mirrors: sglang mem_cache/allocator/swa.py alloc.
        """
        if self.page_size != 1:
            raise AssertionError(f"alloc() wants page size 1, this is {self.page_size}")
        if need_size > min(self.full_available_size(), self.swa_available_size()):
            return None
        full = self.full_attn_allocator.alloc(need_size)
        swa = self.swa_attn_allocator.alloc(need_size)
        return self._pair(full, swa)

    def alloc_extend(
        self,
        prefix_lens: torch.Tensor,
        prefix_lens_cpu: torch.Tensor,
        seq_lens: torch.Tensor,
        seq_lens_cpu: torch.Tensor,
        last_loc: torch.Tensor,
        extend_num_tokens: int,
    ) -> torch.Tensor | None:
        """Grow each request from its prefix to its sequence length, in both pools.

        Args:
            prefix_lens, seq_lens: [batch], tokens before and after.
            prefix_lens_cpu, seq_lens_cpu: the same on the CPU.
            last_loc: [batch], last full slot of each prefix, or -1.
            extend_num_tokens: sum of seq_lens - prefix_lens.

        Returns:
            [extend_num_tokens] full slots, request by request; None where the profile's check
            finds either pool short, and then nothing is taken.

        Raises:
            NotImplementedError: the profile has no pages.
            AssertionError: the page size is 1; a pool is short after all.
            IndexError: a slot lies outside the mapping.

        State: takes pages of both pools, maps each slot to its peer.
        Mirrors: sglang mem_cache/allocator/swa.py alloc_extend.
        """
        full_pool, swa_pool = self._paged_pools("alloc_extend")
        _check_lens(prefix_lens_cpu, seq_lens_cpu)
        pages = get_num_new_pages(seq_lens_cpu, prefix_lens_cpu, self.page_size)
        if not self._may_extend(pages, extend_num_tokens, len(seq_lens_cpu)):
            return None
        swa_last_loc = self.translate_loc_from_full_to_swa(last_loc)
        lens = (prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu)
        full = full_pool.alloc_extend(*lens, last_loc, extend_num_tokens, pages)
        swa = swa_pool.alloc_extend(*lens, swa_last_loc, extend_num_tokens, pages)
        return self._pair(full, swa)

    def alloc_extend_swa_tail(
        self,
        prefix_lens: torch.Tensor,
        prefix_lens_cpu: torch.Tensor,
        seq_lens: torch.Tensor,
        seq_lens_cpu: torch.Tensor,
        last_loc: torch.Tensor,
        extend_num_tokens: int,
        swa_tail_len: int,
    ) -> torch.Tensor | None:
        """Full slots for all new tokens of one request, SWA slots for the last ones only.

        Args:
            swa_tail_len: tokens at the end that get a peer; the others as in `alloc_extend`,
                with a batch of one.

        Returns:
            [extend_num_tokens] full slots; None where either pool is short, and then nothing is
            taken.

        Raises:
            AssertionError: page size 1, more than one request, or a tail that does not fit.
            IndexError: a slot lies outside the mapping.

        State: takes pages of both pools, maps the tail; what the entries before the tail then
            hold is the profile's.
        Mirrors: sglang mem_cache/allocator/swa.py alloc_extend_swa_tail.
        """
        full_pool, swa_pool = self._paged_pools("alloc_extend_swa_tail")
        self._check_tail(prefix_lens_cpu, seq_lens_cpu, swa_tail_len)
        full_pages = get_num_new_pages(seq_lens_cpu, prefix_lens_cpu, self.page_size)
        swa_pages = -(-swa_tail_len // self.page_size)
        if not self.new_pages_available(full_pages, swa_pages):
            return None
        lens = (prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu)
        full = full_pool.alloc_extend(*lens, last_loc, extend_num_tokens, full_pages)
        if full is None:
            raise AssertionError("the full pool is short")
        before_tail = full[: extend_num_tokens - swa_tail_len]
        if swa_tail_len:
            swa = self._alloc_swa_tail(swa_pool, swa_tail_len, swa_pages)
            self._pair(full[extend_num_tokens - swa_tail_len :], swa)
        clears = self.profile.tail_clears
        if clears == "always" or (clears == "nonempty" and swa_tail_len):
            self._mapping.write(before_tail, None)
        return full

    def alloc_decode(
        self, seq_lens: torch.Tensor, seq_lens_cpu: torch.Tensor, last_loc: torch.Tensor
    ) -> torch.Tensor | None:
        """Grow each request by one token, in both pools.

        Args:
            seq_lens: [batch], tokens after the call.
            seq_lens_cpu: the same on the CPU.
            last_loc: [batch], last full slot of each request, or -1.

        Returns:
            [batch] full slots; None where either pool is short. In every release each pool
            takes its pages by itself, so that those of the other one are lost with a None.

        Raises:
            NotImplementedError: the profile has no pages.
            AssertionError: the page size is 1.
            IndexError: a slot lies outside the mapping.

        State: takes pages of both pools, maps each slot to its peer.
        Mirrors: sglang mem_cache/allocator/swa.py alloc_decode.
        """
        full_pool, swa_pool = self._paged_pools("alloc_decode")
        swa_last_loc = self.translate_loc_from_full_to_swa(last_loc)
        if self.profile.decode_check == "joint":
            pages = full_pool.pages_for_decode(seq_lens_cpu)
            if not self.new_pages_available(pages, pages):
                return None
        full = full_pool.alloc_decode(seq_lens, seq_lens_cpu, last_loc)
        swa = swa_pool.alloc_decode(seq_lens, seq_lens_cpu, swa_last_loc)
        if full is None or swa is None:
            return None
        return self._pair(full, swa)

    def new_pages_available(self, num_full_pages: int, num_swa_pages: int) -> bool:
        """Whether both pools have that many pages, staged ones counted.

        Mirrors: sglang mem_cache/allocator/swa.py new_pages_available.
        """
        return (
            num_full_pages <= self.full_available_size() // self.page_size
            and num_swa_pages <= self.swa_available_size() // self.page_size
        )

    def translate_loc_from_full_to_swa(self, kv_indices: torch.Tensor) -> torch.Tensor:
        """SWA slots that some full slots map to; -1 reads the trailing entry.

        Args:
            kv_indices: [n] full slots.

        Returns:
            [n] SWA slots; 0 where there is none. Fresh storage.

        Raises:
            IndexError: a slot lies outside the mapping.

        Mirrors: sglang mem_cache/swa_memory_pool.py translate_loc_from_full_to_swa.
        """
        return self._mapping.read(kv_indices)

    def backup_state(self) -> list[PoolState]:
        """The lists of both pools, full first. The mapping is not among them.

        Raises:
            NotImplementedError: the profile cannot.

        Mirrors: sglang mem_cache/swa_memory_pool.py backup_state (releases up to 0.5.16).
        """
        self._check_backup()
        return [self.full_attn_allocator.backup_state(), self.swa_attn_allocator.backup_state()]

    def restore_state(self, state: list[PoolState]) -> None:
        """Bring the lists of a `backup_state` back. The mapping stays as it is.

        Raises:
            NotImplementedError: the profile cannot.

        Mirrors: sglang mem_cache/swa_memory_pool.py restore_state (releases up to 0.5.16).
        """
        self._check_backup()
        full, swa = state
        self.full_attn_allocator.restore_state(full)
        self.swa_attn_allocator.restore_state(swa)

    def _check_backup(self) -> None:
        if self.profile.backup == "unsupported":
            raise NotImplementedError

    def _alloc_swa_tail(
        self, pool: PagedTokenToKVPoolAllocator, tail_tokens: int, tail_pages: int
    ) -> torch.Tensor | None:
        """SWA slots of a tail, which begins on a page of its own: [tail_tokens]."""
        rows = torch.tensor([[0], [tail_tokens], [NO_LOC]], dtype=torch.int64)
        prefix_lens, seq_lens, last_loc = rows.to(self.device, non_blocking=True)
        return pool.alloc_extend(
            prefix_lens, rows[0], seq_lens, rows[1], last_loc, tail_tokens, tail_pages
        )

    def _pair(self, full: torch.Tensor | None, swa: torch.Tensor | None) -> torch.Tensor:
        if full is None or swa is None:
            raise AssertionError(f"the {'full' if full is None else 'SWA'} pool is short")
        self._mapping.write(full, swa)
        return full

    def _paged_pools(
        self, op: str
    ) -> tuple[PagedTokenToKVPoolAllocator, PagedTokenToKVPoolAllocator]:
        full, swa = self.full_attn_allocator, self.swa_attn_allocator
        if not self.profile.paged:
            raise NotImplementedError(f"{op} is only for paged allocator")
        if not isinstance(full, PagedTokenToKVPoolAllocator) or not isinstance(
            swa, PagedTokenToKVPoolAllocator
        ):
            raise AssertionError(f"{op} wants pages of more than one token")
        return full, swa

    def _may_extend(self, pages: int, extend_num_tokens: int, batch: int) -> bool:
        check = self.profile.extend_check
        if check == "coarse":
            tokens = extend_num_tokens + batch * self.page_size
            return tokens <= min(self.full_available_size(), self.swa_available_size())
        return check == "none" or self.new_pages_available(pages, pages)

    def _check_tail(
        self, prefix_lens_cpu: torch.Tensor, seq_lens_cpu: torch.Tensor, tail_tokens: int
    ) -> None:
        if len(seq_lens_cpu) != 1 or len(prefix_lens_cpu) != 1:
            raise AssertionError(f"SWA tail allocation takes one request, not {len(seq_lens_cpu)}")
        _check_lens(prefix_lens_cpu, seq_lens_cpu)
        new_tokens = int(seq_lens_cpu[0] - prefix_lens_cpu[0])
        if not 0 <= tail_tokens <= new_tokens:
            raise AssertionError(f"a tail of {tail_tokens} tokens of {new_tokens} new ones")


def _check_lens(prefix_lens_cpu: torch.Tensor, seq_lens_cpu: torch.Tensor) -> None:
    if bool((seq_lens_cpu < prefix_lens_cpu).any()):
        raise RuntimeError(
            f"sequence lengths {seq_lens_cpu.tolist()} are shorter than the prefix lengths"
            f" {prefix_lens_cpu.tolist()}"
        )
