"""A `Call` as a method call on SGLang's allocator, whatever the release.

Arguments are passed by name, and only those that the method's signature has: `alloc_extend` took
different ones over time. Where a release has no method for a mapping write, the mapping tensor is
written directly, which is what the callers of that release did.

What must not be added here: anything that looks at the outcome.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from swasim.call import Call, Segment
from swasim.errors import UsageError

_SINCE = {
    "alloc_extend_swa_tail": "0.5.12",
    "free_segment": "0.5.17",
    "free_segments": "0.5.17",
    "free_full": "0.5.19",
    "free_swa_segment": "0.5.20",
    "free_full_segment": "0.5.20",
    "free_full_segments": "0.5.20",
}
"""SGLang release that first has the method."""

_UNTIL = {"backup_state": "0.5.16", "restore_state": "0.5.16"}
"""SGLang release that last has the method."""


class Methods:
    """Calls on one allocator object.

    Args:
        target: the object; its tensors live where its mapping lives.
    """

    def __init__(self, target: Any) -> None:
        self._target = target
        self._saved: dict[str, Any] = {}
        self._perform: Mapping[str, Callable[[Call], Any]] = {
            "alloc": self._alloc,
            "alloc_extend": self._alloc_batch,
            "alloc_decode": self._alloc_batch,
            "alloc_extend_swa_tail": self._alloc_batch,
            "free": self._free,
            "free_swa": self._free,
            "free_full": self._free,
            "free_segment": self._free_segment,
            "free_swa_segment": self._free_segment,
            "free_full_segment": self._free_segment,
            "free_segments": self._free_segments,
            "free_full_segments": self._free_segments,
            "free_group_begin": self._plain,
            "free_group_end": self._plain,
            "clear": self._plain,
            "set_full_to_swa_mapping": self._set_mapping,
            "clear_full_to_swa_mapping": self._clear_mapping,
            "backup_state": self._backup,
            "restore_state": self._restore,
        }

    def perform(self, call: Call) -> Any:
        """Make the call; hands back what the method returned.

        Raises:
            UsageError: the object has no such method.
            Exception: whatever the method raised.
        """
        known = self._perform.get(call.op)
        if known is None:
            raise UsageError(f"no method of an allocator answers {call.op!r}")
        return known(call)

    def _method(self, call: Call) -> Any:
        owner = self._target
        if call.pool is not None:
            owner = getattr(owner, f"{call.pool}_attn_allocator")
        method = getattr(owner, call.op, None)
        if method is None:
            raise UsageError(_no_method(type(owner).__name__, call.op))
        return method

    def _tensor(self, values: list[int]) -> torch.Tensor:
        mapping = getattr(self._target, "full_to_swa_index_mapping", None)
        device = mapping.device if isinstance(mapping, torch.Tensor) else "cpu"
        return torch.tensor(values, dtype=torch.int64, device=device)

    def _plain(self, call: Call) -> Any:
        return invoke(self._method(call))

    def _alloc(self, call: Call) -> Any:
        return invoke(self._method(call), call.need_size)

    def _alloc_batch(self, call: Call) -> Any:
        method = self._method(call)
        given: dict[str, Any] = {
            "seq_lens": self._tensor(call.seq_lens),
            "seq_lens_cpu": torch.tensor(call.seq_lens, dtype=torch.int64),
            "last_loc": self._tensor(call.last_loc),
        }
        if call.op != "alloc_decode":
            given["prefix_lens"] = self._tensor(call.prefix_lens)
            given["prefix_lens_cpu"] = torch.tensor(call.prefix_lens, dtype=torch.int64)
            given["extend_num_tokens"] = sum(call.seq_lens) - sum(call.prefix_lens)
        if call.op == "alloc_extend_swa_tail":
            given["swa_tail_len"] = call.swa_tail_len
        return invoke(method, **fitting(method, given))

    def _free(self, call: Call) -> Any:
        return invoke(self._method(call), self._tensor(call.indices))

    def _free_segment(self, call: Call) -> Any:
        indices = self._tensor(call.indices)
        return invoke(self._method(call), indices, start_pos=call.start_pos)

    def _free_segments(self, call: Call) -> Any:
        return invoke(self._method(call), [self._piece(piece) for piece in call.segments])

    def _piece(self, piece: Segment) -> tuple[torch.Tensor, int]:
        return self._tensor(piece.indices), piece.start_pos

    def _set_mapping(self, call: Call) -> Any:
        full, swa = self._tensor(call.full), self._tensor(call.swa)
        method = getattr(self._target, call.op, None)
        if method is not None:
            return invoke(method, full, swa)
        self._target.full_to_swa_index_mapping[full] = swa
        return None

    def _clear_mapping(self, call: Call) -> Any:
        indices = self._tensor(call.indices)
        method = getattr(self._target, call.op, None)
        if method is not None:
            return invoke(method, indices)
        self._target.full_to_swa_index_mapping[indices] = 0
        return None

    def _backup(self, call: Call) -> None:
        method = self._method(call)
        # Known under its name even where saving raises: restoring it then raises the same.
        self._saved[call.slot] = None
        self._saved[call.slot] = invoke(method)

    def _restore(self, call: Call) -> Any:
        method = self._method(call)
        if call.slot not in self._saved:
            raise UsageError(f"restore_state: nothing was saved as {call.slot!r}")
        return invoke(method, self._saved[call.slot])


def invoke(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the method; a signature that does not take these arguments is not its fault.

    Raises:
        UsageError: the method has another signature.
        Exception: whatever the method raised.
    """
    try:
        return method(*args, **kwargs)
    except TypeError as error:
        if _binds(method, args, kwargs):
            raise
        raise UsageError(
            f"{getattr(method, '__qualname__', method)} cannot be called as SGLang calls it: "
            f"{error}"
        ) from error


def _binds(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        inspect.signature(method).bind(*args, **kwargs)
    except TypeError:
        return False
    except ValueError:
        return True  # no signature to read
    return True


def fitting(method: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The part of `given` that the signature of `method` accepts.

    Raises:
        UsageError: the method wants an argument that is not known.
    """
    parameters = inspect.signature(method).parameters.values()
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return dict(given)
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for p in parameters:
        if p.kind in named and p.default is inspect.Parameter.empty and p.name not in given:
            raise UsageError(
                f"{method.__qualname__} wants an argument {p.name!r} that is not known here "
                f"(known: {', '.join(sorted(given))})"
            )
    return {p.name: given[p.name] for p in parameters if p.kind in named and p.name in given}


def _no_method(owner: str, op: str) -> str:
    text = f"{owner} has no method {op}"
    if op in _SINCE:
        return f"{text} (SGLang has it from {_SINCE[op]} on)"
    if op in _UNTIL:
        return f"{text} (SGLang had it up to {_UNTIL[op]})"
    return text
