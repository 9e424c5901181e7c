"""Copies of index tensors that are read later, without a device synchronisation now.

A caller may overwrite an index tensor right after the call, and reading one on a GPU waits for
the stream. So each is copied when the call is made (on CUDA into pinned memory, in stream order)
and turned into integers by the writer.
"""

from __future__ import annotations

from typing import Any

import torch

from swasim.trace.events import IndexList

_SHORT = 96
"""Below this many slots a Python loop is faster than the tensor operations."""


def keep(value: Any) -> Any:
    """A copy of `value` that nobody else writes to: tensor, list, number or None.

    Args:
        value: any shape, integer dtype, any device. On CUDA the copy is still under way when
            this returns; take a `marker` after the last one and wait for it before reading.
    """
    if not isinstance(value, torch.Tensor):
        return list(value) if isinstance(value, (list, tuple, range)) else value
    if value.device.type != "cuda":
        return value.clone()
    host = torch.empty(value.shape, dtype=value.dtype, device="cpu", pin_memory=True)
    return host.copy_(value, non_blocking=True)


def marker(device_type: str) -> Any:
    """Something to `wait` for: every copy made before it has arrived. None off CUDA."""
    if device_type != "cuda":
        return None
    return torch.cuda.current_stream().record_event()


def wait(mark: Any) -> None:
    """Block until the copies before `mark` have arrived."""
    if mark is not None:
        mark.synchronize()


def numbers(kept: Any) -> list[int]:
    """The integers of a kept value, flattened, in order."""
    if isinstance(kept, torch.Tensor):
        flat: list[int] = kept.reshape(-1).tolist()
        return flat
    return [int(item) for item in kept]


def index_list(kept: Any) -> IndexList:
    """An index list for a kept value; of a long one, runs become `[start, end)`.

    The writer shortens every list once more, so a short one is left as it is.
    """
    if not isinstance(kept, torch.Tensor) or kept.numel() < _SHORT:
        return list(numbers(kept))
    flat = kept.reshape(-1)
    breaks = (flat[1:] != flat[:-1] + 1).nonzero().reshape(-1) + 1
    if breaks.numel() > flat.numel() // 2:
        return list(numbers(flat))
    starts = torch.cat((breaks.new_zeros(1), breaks))
    ends = torch.cat((breaks, breaks.new_full((1,), flat.numel())))
    firsts, counts = flat[starts].tolist(), (ends - starts).tolist()
    return [(first, first + count) for first, count in zip(firsts, counts, strict=True)]
