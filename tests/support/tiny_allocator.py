"""The smallest allocator with the shape of SGLang's: two token pools and a mapping, page size 1."""

from __future__ import annotations

import torch


class TinyPool:
    def __init__(self, size: int) -> None:
        self.size = size
        self.free_pages = torch.arange(1, size + 1)
        self.release_pages = torch.empty(0, dtype=torch.int64)

    def available_size(self) -> int:
        return len(self.free_pages) + len(self.release_pages)

    def alloc(self, need_size: int) -> torch.Tensor | None:
        if need_size > len(self.free_pages):
            self.free_pages = torch.cat((self.free_pages, self.release_pages)).sort().values
            self.release_pages = self.release_pages[:0]
        if need_size > len(self.free_pages):
            return None
        taken, self.free_pages = self.free_pages[:need_size], self.free_pages[need_size:]
        return taken

    def free(self, index: torch.Tensor) -> None:
        self.release_pages = torch.cat((self.release_pages, index))


class TinyAllocator:
    def __init__(self, size: int, size_swa: int, page_size: int, device: str) -> None:
        self.page_size = page_size
        self.full_attn_allocator = TinyPool(size)
        self.swa_attn_allocator = TinyPool(size_swa)
        self.full_to_swa_index_mapping = torch.zeros(size + 2, dtype=torch.int64, device=device)
        self.full_to_swa_index_mapping[-1] = -1

    def alloc(self, need_size: int) -> torch.Tensor | None:
        full = self.full_attn_allocator.alloc(need_size)
        swa = self.swa_attn_allocator.alloc(need_size)
        if full is None or swa is None:
            return None
        self.full_to_swa_index_mapping[full] = swa
        return full

    def free_swa(self, index: torch.Tensor) -> None:
        peers = self.full_to_swa_index_mapping[index]
        self.swa_attn_allocator.free(peers[peers > 0])
        self.full_to_swa_index_mapping[index] = 0

    def free(self, index: torch.Tensor) -> None:
        self.full_attn_allocator.free(index)
        self.free_swa(index)
        assert self.full_attn_allocator.available_size() <= self.full_attn_allocator.size

    def clear(self) -> None:
        self.full_attn_allocator = TinyPool(self.full_attn_allocator.size)
        self.swa_attn_allocator = TinyPool(self.swa_attn_allocator.size)
        self.full_to_swa_index_mapping[:-1] = 0


class WantsMore(TinyAllocator):
    def __init__(self, size: int, tree_cache: object) -> None:
        super().__init__(size, size, 1, "cpu")


class Unbuildable(TinyAllocator):
    def __init__(self, size: int) -> None:
        raise RuntimeError("no memory")


def make(geometry: object, config: object) -> TinyAllocator:
    return TinyAllocator(5, 3, 1, "cpu")
