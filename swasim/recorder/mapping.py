"""Writes to the mapping tensor that bypass the allocator's methods.

Before 0.5.19 SGLang's own callers assigned to `allocator.full_to_swa_index_mapping[...]`. The
attribute is replaced by a tensor on the same storage whose item assignment is told to the
recorder; every other operation is that of a plain tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from swasim.recorder.tensors import keep

SITE = "direct tensor write"
ATTRIBUTE = "full_to_swa_index_mapping"

OnWrite: TypeAlias = Callable[[Any, Callable[[], object]], None]
"""Told of an assignment: its key, and a function that makes it."""


class WatchedMapping(torch.Tensor):
    """A mapping tensor that tells of item assignment. Results of operations are plain tensors."""

    on_write: OnWrite

    def __setitem__(self, key: Any, value: Any) -> None:
        self.on_write(key, lambda: torch.Tensor.__setitem__(self, key, value))

    def fill_(self, value: Any) -> torch.Tensor:
        """As the tensor's; told as a write of every entry."""
        self.on_write(slice(None), lambda: torch.Tensor.fill_(self, value))
        return self

    def zero_(self) -> torch.Tensor:
        """As the tensor's; told as a write of every entry."""
        return self.fill_(0)

    def copy_(self, other: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        """As the tensor's; told as a write of every entry."""
        self.on_write(slice(None), lambda: torch.Tensor.copy_(self, other, non_blocking))
        return self


# Not in the class body: the attribute has another type than the method that it replaces.
_DISPATCH = "__torch_function__"
setattr(WatchedMapping, _DISPATCH, torch._C._disabled_torch_function_impl)


def watch(mapping: torch.Tensor, on_write: OnWrite) -> WatchedMapping:
    """A watched tensor on the storage of `mapping`.

    Args:
        mapping: [entries] integer, any device.
        on_write: called for each assignment, which it has to make.
    """
    watched = mapping.as_subclass(WatchedMapping)
    watched.on_write = on_write
    return watched


def written(mapping: torch.Tensor, key: Any) -> tuple[Any, Any]:
    """Entries that an assignment with `key` wrote, and what they hold now; both kept."""
    plain = mapping.as_subclass(torch.Tensor)
    if isinstance(key, torch.Tensor) and key.dtype not in (torch.bool, torch.uint8):
        return keep(key), keep(plain[key])
    entries = torch.arange(plain.numel(), device=plain.device)[key]
    return keep(entries), keep(plain[key])


def differing(mapping: torch.Tensor, seen: torch.Tensor) -> tuple[Any, Any] | None:
    """Entries that differ from `seen`, and what they hold now; None where there are none.

    Synchronises the device.
    """
    plain = mapping.as_subclass(torch.Tensor)
    if torch.equal(plain, seen):
        return None
    entries = (plain != seen).nonzero().reshape(-1)
    return keep(entries), keep(plain[entries])
