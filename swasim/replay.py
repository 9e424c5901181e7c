"""The step that everything is built from: event, call, effect, findings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from swasim.allocator.base import Allocator
from swasim.allocator.registry import build, names
from swasim.call import Call, Effect
from swasim.config import SimConfig, resolve
from swasim.errors import TraceError, UsageError
from swasim.geometry import Geometry
from swasim.sanitizer.expectation import mismatches
from swasim.sanitizer.findings import Finding
from swasim.sanitizer.sanitizer import Sanitizer, moment_of
from swasim.timeline import Timeline, TimelineRow, detail_of
from swasim.trace import events as ev
from swasim.trace.events import Entry, Expect, compress, op_of
from swasim.trace.reader import TraceReader, from_events, open_trace
from swasim.trace.resolve import Resolved, Resolver, RowError

DEFAULT_MAX_FINDINGS = 200


@dataclass(frozen=True, slots=True)
class Step:
    """One event carried out.

    Attributes:
        entry: the event, with its number and line.
        resolved: its call and the rows that it names.
        effect: what the call changed; None where there was no call.
        findings: found at this event, or only now about an earlier one (`Finding.at` says which).
        full_available, swa_available: tokens, after the event.
        full_change, swa_change: tokens, against the event before.
        skipped: why the event could not be carried out; "" normally.
    """

    entry: Entry
    resolved: Resolved
    effect: Effect | None
    findings: tuple[Finding, ...]
    full_available: int
    swa_available: int
    full_change: int
    swa_change: int
    skipped: str = ""

    @property
    def call(self) -> Call | None:
        """The resolved call; None for events that call nothing (share, mark, expect)."""
        return self.resolved.call

    @property
    def result(self) -> str:
        """One of "ok", "refused", "skipped", the exception's class name, or "" without a call."""
        if self.skipped:
            return "skipped"
        if self.effect is None:
            return ""
        if self.effect.raised:
            return self.effect.raised
        allocation = isinstance(self.entry.event, ev.Allocation)
        return "refused" if allocation and self.effect.out is None else "ok"


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals of a replay.

    Attributes:
        events, calls, refused, raised, skipped: counts of events.
        full_available, swa_available: tokens, after the last event.
        errors, warnings, notes: findings by severity, consequences included.
        consequences: findings that follow from an earlier one.
        hidden: findings beyond the limit, counted above and not listed.
        suppressed: findings that a suppression or the baseline took out, counted nowhere else.
        truncated_line: line at which the trace was cut off, or None.
    """

    events: int = 0
    calls: int = 0
    refused: int = 0
    raised: int = 0
    skipped: int = 0
    full_available: int = 0
    swa_available: int = 0
    errors: int = 0
    warnings: int = 0
    notes: int = 0
    consequences: int = 0
    hidden: int = 0
    suppressed: int = 0
    truncated_line: int | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """A finished replay of one trace on one allocator.

    Attributes:
        trace: path as the user named it, or "<events>".
        timeline: rows that were kept, in order; `timeline_skipped` counts those left out.
        warnings: sentences about the input (rounded pool size, cut trace).
    """

    trace: str
    config: SimConfig
    allocator: str
    findings: tuple[Finding, ...] = ()
    timeline: tuple[TimelineRow, ...] = ()
    timeline_skipped: int = 0
    summary: Summary = field(default_factory=Summary)
    warnings: tuple[str, ...] = ()


class Replayer:
    """Carries events out on one allocator and holds them against the truth. Never prints.

    Args:
        config: sizes of the pools, window.
        allocator: under test; built from `config` when not given.
        trace_path: as the user named the trace.
    """

    def __init__(
        self, config: SimConfig, allocator: Allocator | None = None, trace_path: str = "<events>"
    ) -> None:
        self.config = config
        self.allocator = allocator if allocator is not None else build(config)
        self.resolver = Resolver(trace_path)
        self.sanitizer = Sanitizer(config, self.resolver.rows, trace_path)
        self._geometry: Geometry = config.geometry
        self.available = (config.kv_size, config.kv_size_swa)
        self._diverged = False

    def step(self, entry: Entry) -> Step:
        """Carry out one event.

        Raises:
            TraceError: the event names a row or positions that do not exist.
        """
        try:
            resolved = self.resolver.resolve(entry)
        except RowError as error:
            if error.refused_event is None:
                raise
            return self._skip(entry, str(error.message))
        effect = None if resolved.call is None else self._perform(entry, resolved.call)
        before = self.available
        if effect is not None:
            self.available = (effect.full_available, effect.swa_available)
        changes = self.resolver.commit(entry, resolved, effect.out if effect else None)
        findings = self.sanitizer.observe(entry, resolved, effect, changes)
        if self.resolver.diverged and not self._diverged:
            self._diverged = True
            findings.append(self._divergence(entry, resolved, effect))
        expect = ev.expectation(entry.event)
        if expect is not None:
            findings += self._check_expectation(entry, resolved, effect, expect, findings)
        full, swa = self.available
        return Step(
            entry,
            resolved,
            effect,
            tuple(findings),
            full,
            swa,
            full - before[0],
            swa - before[1],
        )

    def _perform(self, entry: Entry, call: Call) -> Effect:
        try:
            return self.allocator.perform(call)
        except UsageError as error:
            raise TraceError(str(error), self.resolver.path, entry.line) from error

    def _skip(self, entry: Entry, reason: str) -> Step:
        full, swa = self.available
        return Step(entry, Resolved(None), None, (), full, swa, 0, 0, skipped=reason)

    def finish(self, *, truncated: bool = False, idle: bool = False) -> list[Finding]:
        """The trace is over; `idle`: every page must be free now.

        Returns:
            Findings about earlier events that nothing can explain any more.
        """
        if truncated:
            return []
        return self.sanitizer.declare_idle() if idle else self.sanitizer.finish()

    def _divergence(self, entry: Entry, resolved: Resolved, effect: Effect | None) -> Finding:
        recorded = getattr(entry.event, "out", None)
        returned = None if effect is None or effect.out is None else compress(effect.out)
        return self.sanitizer.build.build(
            "replay-divergence",
            f"{op_of(entry.event)} returned other slots than the recording",
            moment_of(entry, resolved),
            expected=_short(recorded),
            actual=_short(returned),
            notes=("from here on recorded slots are translated to those of this replay",),
        )

    def _check_expectation(
        self,
        entry: Entry,
        resolved: Resolved,
        effect: Effect | None,
        expect: Expect,
        earlier: list[Finding],
    ) -> list[Finding]:
        found: list[Finding] = []
        failed = mismatches(
            expect,
            effect,
            self.available,
            self.allocator.state,
            self.resolver.slots_of,
            self._geometry,
        )
        if failed:
            first, *others = failed
            cause = next((f for f in earlier if f.severity == "error"), None)
            found.append(
                self.sanitizer.build.build(
                    "expectation-failed",
                    f"{first.name} is {first.actual}, expected {first.expected}",
                    moment_of(entry, resolved),
                    cause=cause,
                    expected=f"{first.name}: {first.expected}",
                    actual=f"{first.name}: {first.actual}",
                    notes=tuple(
                        f"{other.name}: expected {other.expected}, is {other.actual}"
                        for other in others
                    ),
                )
            )
        if expect.idle is True:
            found += self.sanitizer.declare_idle()
        return found


def _short(slots: object) -> str:
    text = "None" if slots is None else str(slots)
    return text if len(text) <= 200 else text[:196] + " ..."


class Collector:
    """Gathers the steps of a replay into a `Replay`, in bounded memory.

    Args:
        max_findings: findings listed; further ones are only counted.
        every, tail: which rows of the free-space table are kept.
        keep: says of a finding whether it counts (suppressions, baseline); None: all do.
    """

    def __init__(
        self,
        *,
        max_findings: int = DEFAULT_MAX_FINDINGS,
        every: int | None = None,
        tail: int | None = None,
        keep: Callable[[Finding], bool] | None = None,
    ) -> None:
        self.timeline = Timeline(every, tail)
        self.findings: list[Finding] = []
        self.warnings: list[str] = []
        self.errors = 0
        self._max_findings = max_findings
        self._keep = keep
        self._counts = {"error": 0, "warning": 0, "note": 0}
        self._consequences = self._hidden = self._suppressed = 0
        self._events = self._calls = self._refused = self._raised = self._skipped = 0

    def add(self, step: Step) -> None:
        """Take one step over."""
        kinds = self.take(step)
        self.show(step, kinds, interesting=is_interesting(step, kinds))

    def take(self, step: Step) -> tuple[str, ...]:
        """Count one step; hands back the kinds of its findings that count and are about it."""
        self._events += 1
        effect = step.effect
        if effect is not None:
            self._calls += 1
            self._raised += effect.raised is not None
            self._refused += step.result == "refused"
        if step.skipped:
            self._skipped += 1
            self.warnings.append(f"line {step.entry.line} is skipped: {step.skipped}")
        if not step.findings:
            return ()
        findings = [finding for finding in step.findings if self.count(finding)]
        for finding in findings:
            if finding.at.event != step.entry.number:
                self.timeline.mark(finding.at.event, finding.kind)
        return tuple(f.kind for f in findings if f.at.event == step.entry.number)

    def show(self, step: Step, kinds: tuple[str, ...], *, interesting: bool) -> None:
        """Offer the step's row to the free-space table."""
        if interesting or self.timeline.wants(step.entry.number):
            self.timeline.add(row_of(step, kinds), interesting=interesting)
        else:
            self.timeline.skip()

    def count(self, finding: Finding) -> bool:
        """Count one finding; says whether it is kept."""
        if self._keep is not None and not self._keep(finding):
            self._suppressed += 1
            return False
        self._counts[finding.severity] += 1
        self.errors += finding.severity == "error"
        self._consequences += finding.cause is not None
        if len(self.findings) < self._max_findings:
            self.findings.append(finding)
        else:
            self._hidden += 1
        return True

    def late(self, findings: Iterable[Finding]) -> None:
        """Findings that came with the end of the trace."""
        for finding in findings:
            if self.count(finding):
                self.timeline.mark(finding.at.event, finding.kind)

    def result(self, replayer: Replayer, trace: str, truncated_line: int | None = None) -> Replay:
        """The finished record."""
        rows, skipped = self.timeline.rows()
        full, swa = replayer.available
        summary = Summary(
            events=self._events,
            calls=self._calls,
            refused=self._refused,
            raised=self._raised,
            skipped=self._skipped,
            full_available=full,
            swa_available=swa,
            errors=self._counts["error"],
            warnings=self._counts["warning"],
            notes=self._counts["note"],
            consequences=self._consequences,
            hidden=self._hidden,
            suppressed=self._suppressed,
            truncated_line=truncated_line,
        )
        self.findings.sort(key=lambda f: f.at.event)
        return Replay(
            trace=trace,
            config=replayer.config,
            allocator=replayer.config.allocator,
            findings=tuple(self.findings),
            timeline=rows,
            timeline_skipped=skipped,
            summary=summary,
            warnings=tuple(self.warnings),
        )


def is_interesting(step: Step, kinds: tuple[str, ...]) -> bool:
    """Whether a long trace keeps the row of this step."""
    return bool(kinds) or step.effect is None or step.result != "ok"


def row_of(step: Step, kinds: tuple[str, ...]) -> TimelineRow:
    """The row of the free-space table for one step."""
    entry = step.entry
    return TimelineRow(
        event=entry.number,
        line=entry.line,
        op=op_of(entry.event),
        detail="its request was refused" if step.skipped else detail_of(entry.event, step.resolved),
        result=step.result,
        full_available=step.full_available,
        swa_available=step.swa_available,
        full_change=step.full_change,
        swa_change=step.swa_change,
        kinds=kinds,
    )


TraceSource = str | Path | TraceReader | Iterable[Any]


def reader_of(trace: TraceSource) -> TraceReader:
    """A reader for a path, an open reader, or events in memory (objects, dicts, JSON lines)."""
    if isinstance(trace, TraceReader):
        return trace
    if isinstance(trace, str | Path):
        return open_trace(trace)
    return from_events(trace)


def config_for(
    reader: TraceReader, config: SimConfig | None, settings: Mapping[str, Any]
) -> tuple[SimConfig, tuple[str, ...]]:
    """The configuration of a replay and warnings about it.

    A given `config` is changed by the settings; without one, the settings win over the trace
    header, and the header over the defaults.
    """
    if config is not None:
        changed = {key: value for key, value in settings.items() if value is not None}
        return (replace(config, **changed) if changed else config), ()
    resolved = resolve(settings, {}, None, header_settings(reader))
    return resolved.config, resolved.warnings


def header_settings(reader: TraceReader) -> dict[str, Any]:
    """What a trace header says of the configuration.

    A trace that one release recorded is replayed on that release's profile by default.
    """
    if reader.header is None:
        return {}
    settings = msgspec.structs.asdict(reader.header)
    recorded_by = re.fullmatch(r"sglang (\S+)", reader.header.source or "")
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
        on_step: called after each step, for progress.

    Raises:
        TraceError, ConfigError, UsageError: bad input, with file, line, field and value.
    """
    with reader_of(trace) as reader:
        if isinstance(allocator, str):
            settings["allocator"] = allocator
        config, warnings = config_for(reader, config, settings)
        under_test = None if allocator is None or isinstance(allocator, str) else allocator
        replayer = Replayer(config, under_test, reader.path)
        collector = Collector(max_findings=max_findings, every=every, tail=tail, keep=keep)
        collector.warnings.extend(warnings)
        stopped = False
        for entry in reader:
            step = replayer.step(entry)
            collector.add(step)
            if on_step is not None:
                on_step(step)
            if stop_at_first and collector.errors:
                stopped = True
                break
        if not stopped:
            truncated = reader.truncated_line is not None
            collector.late(replayer.finish(truncated=truncated, idle=expect_idle))
        return collector.result(replayer, reader.path, reader.truncated_line)
