"""A package named `sglang` with nothing but an allocator, written to disk for other processes."""

from __future__ import annotations

from pathlib import Path

ALLOCATOR = """
import torch


class Pool:
    def __init__(self, size):
        self.size = size
        self.need_sort = False
        self.free_pages = torch.arange(1, size + 1)
        self.release_pages = self.free_pages[:0]

    def alloc(self, need_size):
        if need_size > len(self.free_pages):
            return None
        taken, self.free_pages = self.free_pages[:need_size], self.free_pages[need_size:]
        return taken

    def free(self, free_index):
        self.free_pages = torch.cat((self.free_pages, free_index))


class SWATokenToKVPoolAllocator:
    def __init__(self, size, size_swa):
        self.page_size = 1
        self.full_attn_allocator = Pool(size)
        self.swa_attn_allocator = Pool(size_swa)
        self.full_to_swa_index_mapping = torch.zeros(size + 2, dtype=torch.int64)
        self.full_to_swa_index_mapping[-1] = -1

    def alloc(self, need_size):
        full = self.full_attn_allocator.alloc(need_size)
        swa = self.swa_attn_allocator.alloc(need_size)
        self.full_to_swa_index_mapping[full] = swa
        return full

    def free(self, free_index):
        self.full_attn_allocator.free(free_index)
        self.free_swa(free_index)

    def free_swa(self, free_index):
        peers = self.full_to_swa_index_mapping[free_index]
        self.swa_attn_allocator.free(peers)

    def clear_full_to_swa_mapping(self, free_index):
        self.full_to_swa_index_mapping[free_index] = 0
"""
"""`free_swa` keeps the entries: the second release of a slot is a double free."""

SCHEDULER = """
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator


def run_scheduler_process(tp_rank, dp_rank=None):
    allocator = SWATokenToKVPoolAllocator(8, 8)
    slots = allocator.alloc(3)
    allocator.free(slots)
    return allocator
"""

MODULE = "sglang/srt/mem_cache/allocator/swa.py"


def write(folder: Path, module: str = MODULE) -> Path:
    """Write the package below `folder`, the allocator in `module`."""
    target = folder / module
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(ALLOCATOR)
    root = folder / "sglang"
    scheduler = root / "srt" / "scheduler.py"
    name = module.removesuffix(".py").replace("/", ".")
    scheduler.write_text(SCHEDULER.replace("sglang.srt.mem_cache.allocator.swa", name))
    for package in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        (package / "__init__.py").touch()
    return folder
