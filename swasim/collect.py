"""Steps to the record of a replay, in bounded memory whatever the length of the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from swasim.config import SimConfig
from swasim.errors import UsageError
from swasim.replayer import Replayer, Step
from swasim.sanitizer.findings import Finding
from swasim.timeline import Timeline, TimelineRow, detail_of
from swasim.trace.events import op_of

DEFAULT_MAX_FINDINGS = 200
MAX_EVENT_WARNINGS = 20
"""Events of a kind (raised, skipped) that get a sentence each; the rest is counted in one."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals of a replay.

    Attributes:
        events, calls, refused, raised, skipped: counts of events.
        unexplained: calls that raised what neither the trace nor a finding speaks of.
        full_available, swa_available: tokens, after the last event.
        errors, warnings, notes: findings by severity, consequences included.
        consequences: findings that follow from an earlier one.
        by_kind: how many of each kind, in order of first appearance; hidden ones included.
        hidden: findings beyond the limit, counted above and not listed.
        suppressed: findings that a suppression or the baseline took out, counted nowhere else.
        truncated_line: line at which the trace was cut off, or None.
    """

    events: int = 0
    calls: int = 0
    refused: int = 0
    raised: int = 0
    unexplained: int = 0
    skipped: int = 0
    full_available: int = 0
    swa_available: int = 0
    errors: int = 0
    warnings: int = 0
    notes: int = 0
    consequences: int = 0
    by_kind: tuple[tuple[str, int], ...] = ()
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


class Collector:
    """Gathers the steps of a replay into a `Replay`, in bounded memory.

    Args:
        max_findings: findings listed; further ones are only counted.
        every, tail: which rows of the free-space table are kept.
        keep: says of a finding whether it counts (suppressions, baseline); None: all do.

    Raises:
        UsageError: a limit that is no such number.
    """

    def __init__(
        self,
        *,
        max_findings: int = DEFAULT_MAX_FINDINGS,
        every: int | None = None,
        tail: int | None = None,
        keep: Callable[[Finding], bool] | None = None,
    ) -> None:
        limits: tuple[tuple[str, Any, int], ...] = (
            ("max_findings", max_findings, 0),
            ("every", every, 1),
            ("tail", tail, 0),
        )
        for name, value, least in limits:
            if value is not None and (not isinstance(value, int) or value < least):
                raise UsageError(f"{name} is {value!r}; accepted is a number, {least} or more")
        self.timeline = Timeline(every, tail)
        self.findings: list[Finding] = []
        self.warnings: list[str] = []
        self.errors = 0
        self._event_warnings: list[tuple[int, str]] = []
        self._max_findings = max_findings
        self._keep = keep
        self._counts = {"error": 0, "warning": 0, "note": 0}
        self._by_kind: dict[str, int] = {}
        self._consequences = self._hidden = self._suppressed = 0
        self._events = self._calls = self._refused = self._raised = self._skipped = 0
        self._unexplained = 0

    def add(self, step: Step) -> None:
        """Take one step over."""
        kinds = self.take(step)
        self.show(step, kinds, interesting=is_interesting(step, kinds))

    def pass_over(self, calls: int) -> None:
        """Count calls of which there is nothing to say, and whose rows nobody wants."""
        self._events += calls
        self._calls += calls
        self.timeline.skip(calls)

    def add_row(self, row: TimelineRow) -> None:
        """Count a call of which there is nothing to say, and keep its row."""
        self._events += 1
        self._calls += 1
        self.timeline.add(row, interesting=False)

    def take(self, step: Step) -> tuple[str, ...]:
        """Count one step; hands back the kinds of its findings that count and are about it."""
        self._events += 1
        effect = step.effect
        if effect is not None:
            self._calls += 1
            if effect.raised is not None:
                self._note_exception(step, effect.raised)
            self._refused += step.result == "refused"
        if step.skipped:
            self._skipped += 1
            if self._skipped <= MAX_EVENT_WARNINGS:
                self._event_warnings.append((step.entry.line, f"skipped: {step.skipped}"))
        if not step.findings:
            return ()
        findings = [finding for finding in step.findings if self.count(finding)]
        for finding in findings:
            if finding.at.event != step.entry.number:
                self.timeline.mark(finding.at.event, finding.kind)
        return tuple(f.kind for f in findings if f.at.event == step.entry.number)

    def _note_exception(self, step: Step, raised: str) -> None:
        """An exception that neither the trace nor a finding speaks of gets a sentence."""
        self._raised += 1
        event = step.entry.event
        if step.findings or event.expect is not None:
            return
        self._unexplained += 1
        if self._unexplained > MAX_EVENT_WARNINGS:
            return
        text = step.effect.raised_text if step.effect else ""
        sentence = f"{op_of(event)} raised {raised}" + (f": {text}" if text else "")
        self._event_warnings.append((step.entry.line, sentence))

    def _sentences(self, trace: str) -> tuple[str, ...]:
        """Warnings about the input, then about single events, then how many more there are."""
        more = (
            (self._unexplained, "calls raised what neither the trace nor a finding speaks of"),
            (self._skipped, "events were skipped"),
        )
        return (
            *self.warnings,
            *(f"{trace}:{line}: {text}" for line, text in self._event_warnings),
            *(
                f"{trace}: {count - MAX_EVENT_WARNINGS} more {what}"
                for count, what in more
                if count > MAX_EVENT_WARNINGS
            ),
        )

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
        self._by_kind[finding.kind] = self._by_kind.get(finding.kind, 0) + 1
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
            unexplained=self._unexplained,
            skipped=self._skipped,
            full_available=full,
            swa_available=swa,
            errors=self._counts["error"],
            warnings=self._counts["warning"],
            notes=self._counts["note"],
            consequences=self._consequences,
            by_kind=tuple(self._by_kind.items()),
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
            warnings=self._sentences(trace),
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
