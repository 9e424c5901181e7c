"""Calls on a live allocator object, handed to somebody before they happen.

The methods of the object and of its two sub-allocators are replaced on the instances. Only what
comes from outside is handed on: a call that the allocator makes on itself runs as it is.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Protocol

from swasim.geometry import Pool
from swasim.recorder import mapping as mapping_writes
from swasim.recorder.calls import (
    PAIR_METHODS,
    POOL_METHODS_WITHOUT_EVENT,
    Arguments,
    Method,
    parameter_order,
    pool_methods,
)
from swasim.recorder.patches import Patches
from swasim.recorder.special import Backups


class Listener(Protocol):
    """Who is told of calls."""

    @property
    def listening(self) -> bool:
        """Whether calls are still of interest."""
        ...

    def on_call(
        self, name: str, original: Callable[..., Any], method: Method, arguments: Arguments
    ) -> Any:
        """Make the call with `Interceptor.run`, and give back what it gave."""
        ...

    def on_wordless(self, label: str) -> None:
        """A call was made that no operation of the trace format stands for."""
        ...

    def on_direct_write(self, key: Any, write: Callable[[], object]) -> None:
        """Make `write`, an assignment to the mapping at `key` that bypasses the allocator."""
        ...


class Interceptor:
    """The replaced methods of one allocator, until `undo`.

    Args:
        allocator: the pair of pools.
        listener: who is told.
        watch_writes: also tell of item assignment on the mapping tensor, where that is a plain
            attribute.
    """

    def __init__(self, allocator: Any, listener: Listener, *, watch_writes: bool) -> None:
        self._listener = listener
        self._patches = Patches()
        self._inside = threading.local()
        self.backups = Backups()
        for name, method in PAIR_METHODS.items():
            self._wrap(allocator, name, method)
        self._wrap(allocator, "backup_state", self.backups.backup)
        self._wrap(allocator, "restore_state", self.backups.restore)
        self._wrap_wordless(allocator, "resize", "resize")
        for pool, owner in pools_of(allocator):
            for name, method in pool_methods(pool, int(allocator.page_size)).items():
                self._wrap(owner, name, method)
            for name in POOL_METHODS_WITHOUT_EVENT:
                self._wrap_wordless(owner, name, f"{name} on the {pool} pool")
        if watch_writes and mapping_writes.ATTRIBUTE in vars(allocator):
            mapping = allocator.full_to_swa_index_mapping
            watched = mapping_writes.watch(mapping, self._written)
            self._patches.put(allocator, mapping_writes.ATTRIBUTE, watched)

    @property
    def nested(self) -> bool:
        """Whether a call is under way in this thread."""
        return bool(getattr(self._inside, "running", False))

    def run(self, original: Callable[..., Any], arguments: Arguments) -> Any:
        """Make the call; what it calls in turn is not handed on."""
        self._inside.running = True
        try:
            return original(*arguments.args, **arguments.kwargs)
        finally:
            self._inside.running = False

    def undo(self) -> None:
        """Put the object back as it was."""
        self._patches.undo()

    def _wrap(self, owner: Any, name: str, method: Method) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return
        order = parameter_order(original)

        @functools.wraps(original)
        def intercepted(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            if self.nested or not self._listener.listening:
                return original(*args, **kwargs)
            arguments = Arguments(order, args, kwargs)
            if method.repeats_first:
                arguments.list_first()
            return self._listener.on_call(name, original, method, arguments)

        self._patches.put(owner, name, intercepted)

    def _wrap_wordless(self, owner: Any, name: str, label: str) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return

        @functools.wraps(original)
        def intercepted(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            if self.nested or not self._listener.listening:
                return original(*args, **kwargs)
            try:
                return self.run(original, Arguments({}, args, kwargs))
            finally:
                self._listener.on_wordless(label)

        self._patches.put(owner, name, intercepted)

    def _written(self, key: Any, write: Callable[[], object]) -> None:
        if self.nested or not self._listener.listening:
            write()
        else:
            self._listener.on_direct_write(key, write)


def pools_of(allocator: Any) -> tuple[tuple[Pool, Any], tuple[Pool, Any]]:
    """The sub-allocators of a pair, by name."""
    return ("full", allocator.full_attn_allocator), ("swa", allocator.swa_attn_allocator)
