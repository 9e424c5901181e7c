"""Processes that play seeds, and that end when they should: at Ctrl-C, and with their parent.

A pool by itself waits for what it has begun, which may be hours; a worker that is still loading
answers Ctrl-C with a traceback, and so does one whose parent is stopped while it starts it; and a
worker whose parent was killed would wait for ever. So signals are for the parent alone.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from types import TracebackType
from typing import ParamSpec, TypeVar

from swasim.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE_SECONDS = 5.0
"""A worker that was told to end and is stuck inside an allocator is killed after so long."""

_SIGNALS = {
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
}

_over: Event | None = None
"""In a worker: set when its parent wants nothing more."""


class Workers:
    """A pool of processes; leaving the context ends them, whatever they are at."""

    def __init__(self, jobs: int) -> None:
        context = get_context("spawn")
        # Makes the process that tracks semaphores, which would say much when it is stopped.
        with _signals_held_back():
            self._over = context.Event()
        self._others = set(active_children())
        self._pool = ProcessPoolExecutor(
            jobs, mp_context=context, initializer=_begin, initargs=(self._over,)
        )

    def __enter__(self) -> Workers:
        return self

    def submit(self, work: Callable[P, R], /, *arguments: P.args, **named: P.kwargs) -> Future[R]:
        """Have `work` done by one of them."""
        # A process takes over what its parent holds back: so it is deaf to them from the start.
        with _signals_held_back():
            return self._pool.submit(work, *arguments, **named)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with _signals_held_back():
            self._over.set()
            children = set(active_children()) - self._others
            self._pool.shutdown(wait=False, cancel_futures=True)
            _end(children)
        if isinstance(error, BrokenProcessPool):
            raise UsageError(
                "a process of --jobs was killed, perhaps for want of memory; fewer --jobs or"
                " --calls need less"
            ) from None


def wanted_no_more() -> bool:
    """In a worker: whether its parent wants nothing more."""
    return _over is not None and _over.is_set()


def _begin(over: Event) -> None:
    global _over
    _over = over
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _end(children: set[BaseProcess]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    for child in children:
        child.join(max(0.0, deadline - time.monotonic()))
    for child in children:
        if child.is_alive():
            child.kill()


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Signals wait until the end of the context; where the system cannot do that, they do not."""
    mask = getattr(signal, "pthread_sigmask", None)
    if mask is None:
        yield
        return
    before = mask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        mask(signal.SIG_SETMASK, before)
