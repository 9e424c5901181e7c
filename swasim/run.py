"""A whole trace on one allocator: from a path or events in memory to the finished record."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from swasim.allocator.base import Allocator
from swasim.allocator.registry import names
from swasim.collect import DEFAULT_MAX_FINDINGS, Collector, Replay
from swasim.config import SimConfig, resolve
from swasim.errors import UsageError
from swasim.replayer import Replayer, Step
from swasim.sanitizer.findings import Finding
from swasim.trace.events import Header, op_of
from swasim.trace.reader import Batch, TraceReader, from_events, open_trace

TraceSource = str | Path | TraceReader | Iterable[Any]


def reader_of(trace: TraceSource) -> TraceReader:
    """A reader for a path, an open reader, or events in memory (objects, dicts, JSON lines).

    Raises:
        UsageError: it is none of these.
        TraceError: as `swasim.trace.reader.open_trace`.
    """
    if isinstance(trace, TraceReader):
        return trace
    if isinstance(trace, str | Path):
        return open_trace(trace)
    if isinstance(trace, Mapping | bytes | bytearray) or not isinstance(trace, Iterable):
        raise UsageError(
            "a trace is a path, an open TraceReader, or a list of events, not"
            f" {type(trace).__name__}"
        )
    return from_events(trace)


def config_for(
    reader: TraceReader, config: SimConfig | None, settings: Mapping[str, Any]
) -> tuple[SimConfig, tuple[str, ...]]:
    """The configuration of a replay and warnings about it.

    A given `config` is changed by the settings; without one, the settings win over the trace
    header, and the header over the defaults.

    Raises:
        UsageError: `config` is no `SimConfig`.
        ConfigError: an impossible value.
    """
    if config is not None and not isinstance(config, SimConfig):
        raise UsageError(
            f"config is of type {type(config).__name__}; accepted is a SimConfig"
            " (swasim.config.resolve reads a file)"
        )
    if config is not None:
        changed = {key: value for key, value in settings.items() if value is not None}
        return (replace(config, **changed) if changed else config), ()
    header_at = (reader.path, reader.header_line)
    resolved = resolve(settings, {}, None, header_settings(reader), header_at=header_at)
    return resolved.config, resolved.warnings


def header_settings(reader: TraceReader) -> dict[str, Any]:
    """What a trace header says of the configuration.

    A trace that one release recorded is replayed on that release's profile by default.
    """
    return {} if reader.header is None else header_fields(reader.header)


def header_fields(header: Header) -> dict[str, Any]:
    """Likewise, from the header alone."""
    settings = msgspec.structs.asdict(header)
    recorded_by = re.fullmatch(r"sglang (\S+)", header.source or "")
    if recorded_by and f"sglang-{recorded_by[1]}" in names():
        settings["allocator"] = f"sglang-{recorded_by[1]}"
    return settings


def replay(
    trace: TraceSource,
    config: SimConfig | None = None,
    *,
    allocator: str | Allocator | None = None,
    expect_idle: bool = False,
    stop_at_first: bool = False,
    max_findings: int = DEFAULT_MAX_FINDINGS,
    every: int | None = None,
    tail: int | None = None,
    keep: Callable[[Finding], bool] | None = None,
    on_step: Callable[[Step], None] | None = None,
    on_progress: Callable[[int], None] | None = None,
    **settings: Any,
) -> Replay:
    """Replay a trace on one allocator, every call checked.

    Args:
        trace: a path, "-" for standard input, an open `TraceReader`, or events in memory.
        config: the configuration; without it, `settings` (page_size, kv_size, ...) win over the
            trace header, and the header over the defaults.
        allocator: registry name, "package.module:Class", or an object that answers calls.
        expect_idle: every page must be free at the end.
        stop_at_first: stop after the first event with an error.
        max_findings: findings listed; further ones are only counted.
        every, tail: which rows of the free-space table are kept.
        keep: says of a finding whether it counts; None: all do.
        on_step: called after each step. Without it steps of which there is nothing to say are
            not made, which is many times faster.
        on_progress: called now and then with the number of events so far.

    Raises:
        TraceError, ConfigError, UsageError: bad input, with file, line, field and value.
    """
    with reader_of(trace) as reader:
        if isinstance(allocator, str):
            settings["allocator"] = allocator
        config, warnings = config_for(reader, config, settings)
        under_test = _handed_over(allocator)
        if under_test is not None:
            config = replace(config, allocator=_name_of(under_test))
        replayer = Replayer(config, under_test, reader.path)
        collector = Collector(max_findings=max_findings, every=every, tail=tail, keep=keep)
        collector.warnings.extend(warnings)
        to_the_end = True
        for batch in reader.batches():
            if on_step is None:
                to_the_end = replay_batch(batch, replayer, collector, stop_at_first=stop_at_first)
            else:
                to_the_end = _step_through(batch, replayer, collector, on_step, stop_at_first)
            if not to_the_end:
                break
            if on_progress is not None:
                on_progress(batch.number + len(batch) - 1)
        if to_the_end:
            truncated = reader.truncated_line is not None
            collector.late(replayer.finish(truncated=truncated, idle=expect_idle))
        return collector.result(replayer, reader.path, reader.truncated_line)


def replay_batch(
    batch: Batch, replayer: Replayer, collector: Collector, *, stop_at_first: bool = False
) -> bool:
    """Carry out a batch; False where an error ended that."""
    at, number = 0, batch.number
    while at < len(batch):
        wanted = collector.timeline.next_wanted(number + at) - number
        passage = replayer.advance(batch, at, wanted)
        at += passage.passed
        if at > wanted:
            collector.pass_over(passage.passed - 1)
            op = op_of(batch.events[wanted])
            collector.add_row(replayer.last_row(number + wanted, batch.line + wanted, op))
        elif passage.passed:
            collector.pass_over(passage.passed)
        if passage.step is not None:
            at += 1
            collector.add(passage.step)
            if stop_at_first and collector.errors:
                return False
    return True


def _step_through(
    batch: Batch,
    replayer: Replayer,
    collector: Collector,
    on_step: Callable[[Step], None],
    stop_at_first: bool,
) -> bool:
    """`replay_batch`, for somebody who looks at every step."""
    for at in range(len(batch)):
        step = replayer.step(batch.entry(at))
        collector.add(step)
        on_step(step)
        if stop_at_first and collector.errors:
            return False
    return True


def _handed_over(allocator: str | Allocator | None) -> Allocator | None:
    """The object to be replayed on, where not a name was given."""
    if allocator is None or isinstance(allocator, str):
        return None
    if not callable(getattr(allocator, "perform", None)):
        raise UsageError(
            f"an allocator of type {type(allocator).__name__} answers no calls; accepted are"
            " a name, or an object with perform() and state()"
            " (swasim.allocator.adapter.watch makes one of a live allocator)"
        )
    return allocator


def _name_of(allocator: Allocator) -> str:
    return str(getattr(allocator, "name", "") or type(allocator).__name__)
