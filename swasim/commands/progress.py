"""A progress bar on standard error, for work that a person waits for."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from swasim.commands.options import OutputOptions
from swasim.trace.reader import TraceReader

if TYPE_CHECKING:
    from swasim.minimize import Progress

PATIENCE_SECONDS = 1.0
STRIDE_EVENTS = 1024
"""Events between two looks at the clock; the replay must not pay for the bar."""


@contextlib.contextmanager
def watching(reader: TraceReader, options: OutputOptions) -> Iterator[Callable[[int], None] | None]:
    """A function to tell how many events are done; None where no bar is wanted.

    The bar appears after a second, on a terminal only, and is gone when the work is done.
    """
    wanted = not (options.quiet or options.no_progress)
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(reader)
    try:
        yield bar.events_done
    finally:
        bar.close()


class _Bar:
    def __init__(self, reader: TraceReader) -> None:
        self._reader = reader
        self._due = time.monotonic() + PATIENCE_SECONDS
        self._next_look = STRIDE_EVENTS
        self._stack = contextlib.ExitStack()
        self._update: Callable[[int], None] | None = None

    def events_done(self, number: int) -> None:
        if number < self._next_look:
            return
        self._next_look = number + STRIDE_EVENTS
        if self._update is not None:
            self._update(number)
        elif time.monotonic() >= self._due:
            self._update = self._open()

    def close(self) -> None:
        self._stack.close()

    def _open(self) -> Callable[[int], None]:
        # Rich's progress module is slow to import; short replays never need it.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[events]} events"),
            TimeRemainingColumn(),
        )
        bar = self._stack.enter_context(
            Progress(*columns, console=Console(stderr=True), transient=True)
        )
        _, total = self._reader.progress()
        task = bar.add_task("replaying", total=total, events=0)

        def update(number: int) -> None:
            done, _ = self._reader.progress()
            bar.update(task, completed=done, events=number)

        return update


@contextlib.contextmanager
def searching(options: OutputOptions) -> Iterator[Callable[[Progress], None] | None]:
    """A function to tell how far a search is; None where nobody looks.

    One line on a terminal, rewritten now and then, and gone when the search ends.
    """
    stream = sys.stderr
    if options.quiet or options.no_progress or stream is None or not stream.isatty():
        yield None
        return
    due = time.monotonic() + PATIENCE_SECONDS

    def tell(progress: Progress) -> None:
        nonlocal due
        now = time.monotonic()
        if now < due:
            return
        due = now + 0.1
        text = f"{progress.doing}: {progress.events} of {progress.events_before} events"
        text += f", {progress.replays} replays" if progress.replays else ""
        stream.write(f"\r\x1b[K{text}")
        stream.flush()

    try:
        yield tell
    finally:
        stream.write("\r\x1b[K")
        stream.flush()
