"""What somebody else's object holds or returns, as int64, or a complaint that names it."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any

import torch

from swasim.errors import UsageError


def integers(values: Any, what: str, device: torch.device | None = None) -> torch.Tensor:
    """A flat copy of `values`.

    Args:
        values: an integer tensor of any shape, an iterable of integers (list, deque, NumPy
            array), or a list of such.
        what: how a complaint calls them.
        device: where the copy lives; by default with the tensors, otherwise on the CPU.

    Returns:
        [n] int64, fresh storage.

    Raises:
        UsageError: they are no integers.
    """
    if isinstance(values, torch.Tensor):
        if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
            raise _unusable(values, what)
        return values.detach().reshape(-1).to(device or values.device, torch.int64, copy=True)
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise _unusable(values, what)
    items = list(values)
    nested = [item for item in items if isinstance(item, torch.Tensor | list | tuple)]
    if nested:
        if device is None and isinstance(nested[0], torch.Tensor):
            device = nested[0].device
        pieces = [
            item if isinstance(item, torch.Tensor | list | tuple) else [item] for item in items
        ]
        return torch.cat([integers(piece, what, device) for piece in pieces])
    try:
        return torch.tensor(list(map(index, items)), dtype=torch.int64, device=device)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise _unusable(values, what) from None


def _unusable(values: Any, what: str) -> UsageError:
    found = type(values).__name__
    if isinstance(values, torch.Tensor):
        found = f"tensor of {values.dtype}"
    elif isinstance(values, Iterable) and not isinstance(values, str | bytes):
        kinds = sorted({type(item).__name__ for item in values})
        found = f"{found} of {', '.join(kinds[:3])}"
    return UsageError(f"{what}: {found}; accepted are integers, in a tensor or a list")
