"""One look at a trace, in one pass and in memory that does not grow with the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from swasim.config import SimConfig
from swasim.errors import UsageError
from swasim.inspect.records import Inspection, View
from swasim.inspect.rowwatch import START, RowWatch
from swasim.inspect.state import state_view
from swasim.inspect.target import Target
from swasim.inspect.watch import PageWatch
from swasim.replayer import Replayer, Step
from swasim.sanitizer.findings import Finding, Moment
from swasim.sanitizer.scene import moment_of
from swasim.trace.events import Entry
from swasim.trace.reader import Batch, TraceReader

OnProgress = Callable[[int], None]
"""Is told now and then how many events are done."""


class Watch(Protocol):
    """Looks on while a trace is replayed."""

    def before(self, entry: Entry) -> None:
        """An event is about to be carried out."""

    def after(self, step: Step) -> None:
        """It has been."""

    def late(self, findings: Iterable[Finding]) -> None:
        """Findings that came with the end of the trace."""


def walk(
    entries: Iterable[Entry],
    replayer: Replayer,
    watches: Sequence[Watch],
    *,
    on_progress: OnProgress | None = None,
) -> Moment:
    """Carry every event out under the eyes of `watches`; hands back the last one."""
    step: Step | None = None
    for entry in entries:
        for watch in watches:
            watch.before(entry)
        step = replayer.step(entry)
        for watch in watches:
            watch.after(step)
        if on_progress is not None:
            on_progress(entry.number)
    return START if step is None else moment_of(step.entry, step.resolved)


def conclude(replayer: Replayer, watches: Sequence[Watch], *, truncated: bool) -> None:
    """The trace is over: what only its end shows."""
    findings = replayer.finish(truncated=truncated)
    for watch in watches:
        watch.late(findings)


def inspect_pages(
    reader: TraceReader,
    config: SimConfig,
    targets: Sequence[Target],
    *,
    on_progress: OnProgress | None = None,
) -> Inspection:
    """The lives of pages and slots, all in one replay."""
    replayer = Replayer(config, trace_path=reader.path)
    watches = [PageWatch(replayer, target) for target in targets]
    last = walk(reader, replayer, watches, on_progress=on_progress)
    conclude(replayer, watches, truncated=reader.truncated_line is not None)
    return _inspection(reader, config, *(watch.life(last) for watch in watches))


def inspect_row(
    reader: TraceReader, config: SimConfig, req: str, *, on_progress: OnProgress | None = None
) -> Inspection:
    """The row of one request and what concerned it.

    Raises:
        UsageError: the trace has no such request.
    """
    replayer = Replayer(config, trace_path=reader.path)
    watch = RowWatch(replayer, req)
    walk(reader, replayer, [watch], on_progress=on_progress)
    conclude(replayer, [watch], truncated=reader.truncated_line is not None)
    return _inspection(reader, config, watch.view())


def inspect_moment(
    reader: TraceReader, config: SimConfig, event: int, *, on_progress: OnProgress | None = None
) -> Inspection:
    """Everything after one event; 0 is the initial state. Later events are not read.

    Raises:
        UsageError: the trace ends before that event.
    """
    replayer = Replayer(config, trace_path=reader.path)
    step: Step | None = None
    last = 0
    for batch in reader.batches() if event else ():
        step = _at_the_end(replayer, batch, event) or step
        last = batch.number + len(batch) - 1
        if on_progress is not None:
            on_progress(last)
        if last >= event:
            break
    if last < event:
        raise UsageError(no_such_event(event, last))
    return _inspection(reader, config, state_view(replayer, step))


def _at_the_end(replayer: Replayer, batch: Batch, event: int) -> Step | None:
    """Carry out a batch up to an event; the step of that event, or None where it comes later."""
    at, end = 0, event - batch.number
    while at < min(end, len(batch)):
        passage = replayer.advance(batch, at, end - 1)
        at += passage.passed + (passage.step is not None)
    return replayer.step(batch.entry(end)) if end < len(batch) else None


def no_such_event(event: int, events: int) -> str:
    """The sentence for an event beyond the trace."""
    return (
        f"--at {event}: the trace has events 1 to {events}"
        " (0 is the initial state; events are counted without the header, comments and blank lines)"
    )


def _inspection(reader: TraceReader, config: SimConfig, *views: View) -> Inspection:
    cut = reader.truncated_line
    warnings = () if cut is None else (f"the trace is cut off inside line {cut}",)
    return Inspection(reader.path, config, views, warnings)
