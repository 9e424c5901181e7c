"""Python stand-ins for the two Triton kernels of the paged allocator, for tensors on the CPU.

Releases up to 0.5.21 have no CPU path in `PagedTokenToKVPoolAllocator`: they launch Triton kernels
whatever the device. These functions compute the same slots. Only the kernel is replaced, only for
tensors on the CPU; on an accelerator the real kernel runs.

What must not be added here: allocator logic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

CONSTANTS = {"triton.language.core.TRITON_MAX_TENSOR_NUMEL": 1 << 20}
"""What 0.5.9 reads from Triton on every extend, to choose between two kernels."""


def extend_slots(
    prefix_lens: list[int],
    seq_lens: list[int],
    last_locs: list[int],
    free_pages: list[int],
    page_size: int,
) -> list[int]:
    """Slots that an extend hands out, request by request.

    Each request gets the rest of its last page, from `last_loc + 1`, and then the next pages of
    the free list. Pages beyond the end of the list read as 0: the caller refuses afterwards.
    """
    slots: list[int] = []
    taken_pages = 0
    for prefix_len, seq_len, last_loc in zip(prefix_lens, seq_lens, last_locs, strict=True):
        page_end = -(-prefix_len // page_size) * page_size
        head_fill = max(min(seq_len, page_end) - prefix_len, 0)
        slots.extend(range(last_loc + 1, last_loc + 1 + head_fill))
        for position in range(page_end, seq_len, page_size):
            page = free_pages[taken_pages] if taken_pages < len(free_pages) else 0
            first = page * page_size
            slots.extend(range(first, first + min(page_size, seq_len - position)))
            taken_pages += 1
    return slots


def decode_slots(
    seq_lens: list[int], last_locs: list[int], free_pages: list[int], page_size: int
) -> list[int]:
    """Slot that a decode hands out to each request: the next one, or the first of a new page."""
    prefix_lens = [seq_len - 1 for seq_len in seq_lens]
    return extend_slots(prefix_lens, seq_lens, last_locs, free_pages, page_size)


def _extend(
    prefix_lens: torch.Tensor,
    seq_lens: torch.Tensor,
    last_loc: torch.Tensor,
    free_pages: torch.Tensor,
    out: torch.Tensor,
    _batch_limit: int,
    page_size: int,
    *_more: Any,
) -> None:
    reach = out.numel() // page_size + len(seq_lens) + 1
    slots = extend_slots(
        prefix_lens.tolist(),
        seq_lens.tolist(),
        last_loc.tolist(),
        free_pages[:reach].tolist(),
        page_size,
    )[: out.numel()]
    out[: len(slots)] = torch.tensor(slots, dtype=out.dtype)


def _decode(
    seq_lens: torch.Tensor,
    last_loc: torch.Tensor,
    free_pages: torch.Tensor,
    out: torch.Tensor,
    _batch_limit: int,
    page_size: int,
) -> None:
    reach = len(seq_lens)
    slots = decode_slots(
        seq_lens.tolist(), last_loc.tolist(), free_pages[:reach].tolist(), page_size
    )
    out.copy_(torch.tensor(slots, dtype=out.dtype))


class CpuKernel:
    """A kernel that runs in Python for CPU tensors and as it was for all others."""

    def __init__(self, kernel: Any, on_cpu: Callable[..., None]) -> None:
        self._kernel = kernel
        self._on_cpu = on_cpu

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(first: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if first.device.type == "cpu":
                return self._on_cpu(first, *args, **kwargs)
            return self._kernel[grid](first, *args, **kwargs)

        return launch


_STAND_INS: dict[str, Callable[..., None]] = {
    "alloc_extend_kernel": _extend,
    "alloc_decode_kernel": _decode,
}


def install(allocator_class: type) -> tuple[str, ...]:
    """Let the paged allocator `allocator_class` launch its kernels on CPU tensors.

    Returns:
        Names of the kernels that have a stand-in now.

    State: the globals of the modules that define the class and its bases.
    """
    replaced: list[str] = []
    for base in allocator_class.__mro__:
        for method in ("alloc_extend", "alloc_decode"):
            names: dict[str, Any] = getattr(base.__dict__.get(method), "__globals__", {})
            for kernel, on_cpu in _STAND_INS.items():
                if kernel in names and not isinstance(names[kernel], CpuKernel):
                    names[kernel] = CpuKernel(names[kernel], on_cpu)
                    replaced.append(kernel)
    return tuple(replaced)
