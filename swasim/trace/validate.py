"""Checking a trace without an allocator.

Checked: every line (syntax, fields, types, lengths), and every row that an event names. An
allocator is stood in for by the recording: an allocation gives what `out` says, nothing where it
is null or the event is expected to raise, and where the trace does not say, as many slots as were
asked for. So a range beyond a row or a request that was never allocated is found; whether the
pools suffice, or an expectation holds, is for a replay to say.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import UNSET

from swasim.errors import TraceError
from swasim.trace import events as ev
from swasim.trace.check import MAX_SLOTS
from swasim.trace.events import Entry, Header, expand, expectation, op_of
from swasim.trace.reader import TraceReader, open_trace
from swasim.trace.resolve import Resolved, Resolver

MAX_PROBLEMS = 20
"""Row problems after which checking stops: later ones mostly follow from earlier ones."""


@dataclass(frozen=True, slots=True)
class TraceReport:
    """What a trace holds, and what is wrong with it.

    Attributes:
        path: the trace, as the user named it.
        events: events that were read; the header is not one.
        ops: operation name to number of events, in the order of the reference.
        header: the trace's header, or None.
        header_line: the line on which it stands; 0 without one.
        truncated_line: line inside which the trace was cut off, or None.
        problems: errors in the order of the file. One about a line ends the reading.
    """

    path: str
    events: int = 0
    ops: dict[str, int] = field(default_factory=dict)
    header: Header | None = None
    header_line: int = 0
    truncated_line: int | None = None
    problems: tuple[TraceError, ...] = ()


def validate_trace(source: str | Path) -> TraceReport:
    """Check the lines and the rows of a trace.

    Raises:
        UsageError: the path cannot be read. What is wrong inside is in the report.
    """
    try:
        reader = open_trace(source)
    except TraceError as error:
        return TraceReport(error.path, problems=(error,))
    with reader:
        return _validate(reader)


def _validate(reader: TraceReader) -> TraceReport:
    resolver = Resolver(reader.path)
    counts: Counter[str] = Counter()
    problems: list[TraceError] = []
    try:
        for entry in reader:
            counts[op_of(entry.event)] += 1
            if len(problems) < MAX_PROBLEMS:
                try:
                    _step(resolver, entry)
                except TraceError as error:
                    problems.append(error)
    except TraceError as error:
        problems.append(error)
    return TraceReport(
        path=reader.path,
        events=counts.total(),
        ops={op: counts[op] for op in ev.OPS if counts[op]},
        header=reader.header,
        header_line=reader.header_line,
        truncated_line=reader.truncated_line,
        problems=tuple(problems),
    )


def _step(resolver: Resolver, entry: Entry) -> None:
    resolved = resolver.resolve(entry)
    resolver.commit(entry, resolved, _stand_in(entry, resolved))
    expect = expectation(entry.event)
    if expect is None:
        return
    for target in (expect.mapped, expect.unmapped):
        if target is not UNSET:
            resolver.slots_of(target)


def _stand_in(entry: Entry, resolved: Resolved) -> list[int] | None:
    """Slots that the recorded allocator returned, or as many as were asked for."""
    event = entry.event
    if not isinstance(event, ev.Allocation):
        return None
    if event.out is not UNSET:
        return None if event.out is None else expand(event.out)
    if event.expect is not None and event.expect.raises is not UNSET:
        return None
    call = resolved.call
    if call is None or not resolved.reqs:
        return []
    if isinstance(event, ev.Alloc):
        count = event.need_size
    elif call.prefix_lens:
        count = sum(call.seq_lens) - sum(call.prefix_lens)
    else:
        count = len(call.seq_lens)
    # More than any list may name: no pool has that much, so every allocator would refuse.
    return [0] * count if count <= MAX_SLOTS else None
