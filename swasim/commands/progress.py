"""How far the work is, on standard error, where a person waits for it at a terminal."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import TextIO, TypeVar

from swasim.commands.options import OutputOptions
from swasim.trace.reader import TraceReader

Now = TypeVar("Now")

PATIENCE_SECONDS = 1.0
STEP_SECONDS = 0.1
STRIDE_EVENTS = 1024
"""Events between two looks at the clock; the replay must not pay for the bar."""

_CLEAR = "\r\x1b[K"


@contextlib.contextmanager
def watching(reader: TraceReader, options: OutputOptions) -> Iterator[Callable[[int], None] | None]:
    """A function to tell how many events are done; None where no bar is wanted.

    The bar appears after a second, on a terminal only, and is gone when the work is done.
    """
    if not _is_watched(options):
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
            try:
                self._update = self._open()
            except OSError:
                # The terminal is gone; the work goes on.
                self._due = math.inf

    def close(self) -> None:
        with contextlib.suppress(OSError):
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
def telling(
    options: OutputOptions, line_of: Callable[[Now], str]
) -> Iterator[Callable[[Now], None] | None]:
    """A function to tell how far a search is; None where nobody looks.

    One line, from a second on, on a terminal only; rewritten now and then, and gone at the end.

    Args:
        line_of: the line that says how far it is.
    """
    if not _is_watched(options):
        yield None
        return
    line = _Line(sys.stderr)
    try:
        yield lambda now: line.rewrite(lambda: line_of(now))
    finally:
        line.clear()


class _Line:
    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._due = time.monotonic() + PATIENCE_SECONDS
        self._shown = False

    def rewrite(self, text: Callable[[], str]) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + STEP_SECONDS
            self._shown = True
            # A line that wraps could not be taken back.
            columns = shutil.get_terminal_size().columns - 1
            self._write(f"{_CLEAR}{text()[:columns]}")

    def clear(self) -> None:
        if self._shown:
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        # A terminal that is gone must not end the work.
        with contextlib.suppress(OSError):
            self._terminal.write(text)
            self._terminal.flush()


def _is_watched(options: OutputOptions) -> bool:
    wanted = not (options.quiet or options.no_progress)
    is_screen = sys.stderr is not None and sys.stderr.isatty()
    return wanted and is_screen and os.environ.get("TERM") != "dumb"
