"""Which torch devices there are, and one clear line for those that are missing."""

from __future__ import annotations

import torch

from swasim.errors import UsageError

_USABLE = ("cpu", "cuda", "mps")


def torch_device(name: str) -> torch.device:
    """The torch device that `name` stands for, checked to exist on this machine.

    Args:
        name: "cpu", "cuda", "cuda:1", "mps".

    Raises:
        UsageError: the name is no such device, or the machine has none of it.

    State: none.
    """
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(_unknown(name)) from None
    if device.type not in _USABLE:
        raise UsageError(_unknown(name))
    if device.type == "cuda":
        _check_cuda(name, device)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise UsageError(f"device {name!r}: this torch finds no Apple GPU; use --device cpu")
    return device


def _unknown(name: str) -> str:
    return f"unknown device {name!r} (known: cpu, cuda, cuda:N, mps)"


def _check_cuda(name: str, device: torch.device) -> None:
    if not torch.cuda.is_available():
        raise UsageError(f"device {name!r}: this torch finds no CUDA GPU; use --device cpu")
    count = torch.cuda.device_count()
    if (device.index or 0) >= count:
        raise UsageError(f"device {name!r}: this machine has {count} CUDA GPU(s), numbered from 0")
