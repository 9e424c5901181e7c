"""Allocators that answer in ways that SGLang's never does: the adapter must say what it met."""

from __future__ import annotations

import sys
from typing import Any

import torch

from tests.support.tiny_allocator import TinyAllocator


class Odd(TinyAllocator):
    def __init__(self) -> None:
        super().__init__(4, 4, 1, "cpu")


class Returns(Odd):
    """`alloc` takes its pages and returns `value`."""

    value: Any = None

    def alloc(self, need_size: int) -> Any:
        super().alloc(need_size)
        return self.value


class ReturnsFloats(Returns):
    value = torch.tensor([1.5])


class ReturnsWords(Returns):
    value = ("first",)


class ReturnsNumber(Returns):
    value = 1


class ReturnsTuple(Returns):
    value = (1,)


class ReturnsMatrix(Returns):
    value = torch.tensor([[1]], dtype=torch.int32)


class ReturnsPieces(Returns):
    value = (torch.tensor([1]),)


class Exits(Odd):
    def alloc(self, need_size: int) -> Any:
        raise SystemExit(0)


class Speechless(Odd):
    def alloc(self, need_size: int) -> Any:
        class NoTextError(Exception):
            def __str__(self) -> str:
                raise RuntimeError

        raise NoTextError


class ExitsWhenBuilt(Odd):
    def __init__(self) -> None:
        raise SystemExit(0)


class WantsMoreOnAlloc(Odd):
    def __init__(self) -> None:
        super().__init__()
        self.alloc: Any = self._alloc

    def _alloc(self, need_size: int, tree_cache: object) -> None:
        raise NotImplementedError


class SizeUnknown(Odd):
    def full_available_size(self) -> Any:
        return None


class NoMapping(Odd):
    def free(self, index: torch.Tensor) -> None:
        self.full_to_swa_index_mapping = torch.full((6,), float("nan"))


class PagesInPieces(Odd):
    def free(self, index: torch.Tensor) -> None:
        pool: Any = self.full_attn_allocator
        pool.release_pages = [index.reshape(1, -1), [3]]


class Talks(Odd):
    def __init__(self) -> None:
        sys.stdout.write("built\n")
        super().__init__()

    def alloc(self, need_size: int) -> torch.Tensor | None:
        sys.stdout.write("called\n")
        return super().alloc(need_size)
