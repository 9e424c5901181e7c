"""Several allocators in lockstep on one trace, and the first event at which they part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from swasim.allocator.registry import info, is_foreign
from swasim.collect import DEFAULT_MAX_FINDINGS, Collector, Replay, is_interesting
from swasim.config import SimConfig
from swasim.errors import UsageError
from swasim.replayer import Replayer, Step
from swasim.run import TraceSource, config_for, reader_of
from swasim.sanitizer.expectation import cut
from swasim.sanitizer.findings import Finding
from swasim.timeline import TimelineRow
from swasim.trace.events import Entry, compress, op_of
from swasim.wording import counted

TEXT_LIMIT = 120


@dataclass(frozen=True, slots=True)
class CompareCell:
    """One allocator's side of a row; tokens, result as in `TimelineRow`."""

    full_available: int
    swa_available: int
    result: str
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompareRow:
    """One event, side by side; `cells` parallel to the allocators.

    Attributes:
        parted: the allocators had parted by this event (or at it).
    """

    event: int
    line: int
    op: str
    detail: str
    cells: tuple[CompareCell, ...]
    parted: bool = False


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first event at which two allocators part.

    Attributes:
        what: "out", "raises", "full_available", "swa_available", "full_free", "swa_free",
            "mapping": the first of these that differs.
        values: one text per allocator, parallel to the runs.
    """

    event: int
    line: int
    op: str
    what: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One allocator's outcome. `expected_faulty`: the registry lists it as a known fault."""

    allocator: str
    clean: bool
    expected_faulty: bool
    text: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A finished comparison; `runs`, `verdicts` and the cells of each row are parallel."""

    trace: str
    runs: tuple[Replay, ...]
    verdicts: tuple[Verdict, ...]
    rows: tuple[CompareRow, ...] = ()
    rows_skipped: int = 0
    first_divergence: Divergence | None = None
    warnings: tuple[str, ...] = ()


class Lockstep:
    """Carries each event out on every allocator before the next one is read.

    Args:
        configs: one per allocator; they differ in `allocator` only.
        trace_path: as the user named the trace.
    """

    def __init__(self, configs: Sequence[SimConfig], trace_path: str) -> None:
        self.replayers = [Replayer(config, trace_path=trace_path) for config in configs]
        self.first_divergence: Divergence | None = None

    def step(self, entry: Entry) -> list[Step]:
        """One event on each allocator."""
        steps = [replayer.step(entry) for replayer in self.replayers]
        if self.first_divergence is None:
            parting = self._parting(steps)
            if parting is not None:
                what, values = parting
                self.first_divergence = Divergence(
                    entry.number, entry.line, op_of(entry.event), what, values
                )
        return steps

    def _parting(self, steps: Sequence[Step]) -> tuple[str, tuple[str, ...]] | None:
        """What differs between the effects of one event, and each side of it."""
        for what, view in _VIEWS:
            values = [view(step) for step in steps]
            if all(value == values[0] for value in values[1:]):
                continue
            if what in ("full_free", "swa_free") and self._lists_are_equal(values):
                continue
            return what, tuple(_text(value) for value in values)
        return None

    def _lists_are_equal(self, returned: Sequence[object]) -> bool:
        """Whether the same pages lie in the same order everywhere.

        An effect that was derived from outside tells the order of the list and not that of the
        returns, where one call returned pages twice.
        """
        pages = [sorted(value) for value in returned if isinstance(value, list)]
        if len(pages) < len(returned) or any(value != pages[0] for value in pages[1:]):
            return False
        states = [replayer.allocator.state() for replayer in self.replayers]
        lists = [(s.full_free, s.full_staged, s.swa_free, s.swa_staged) for s in states]
        return all(value == lists[0] for value in lists[1:])


def _effect_view(name: str) -> Callable[[Step], object]:
    def view(step: Step) -> object:
        return None if step.effect is None else getattr(step.effect, name)

    return view


def _mapping_view(step: Step) -> object:
    """Net mapping changes of the event: full slot to new SWA slot."""
    effect = step.effect
    if effect is None:
        return []
    return sorted(dict(zip(effect.mapped_slots, effect.mapped_to, strict=True)).items())


_VIEWS: tuple[tuple[str, Callable[[Step], object]], ...] = (
    ("out", _effect_view("out")),
    ("raises", _effect_view("raised")),
    ("full_available", lambda step: step.full_available),
    ("swa_available", lambda step: step.swa_available),
    ("full_free", _effect_view("full_returned")),
    ("swa_free", _effect_view("swa_returned")),
    ("mapping", _mapping_view),
)


def _text(value: object) -> str:
    if value is None or value == []:
        text = "none"
    elif isinstance(value, list) and all(isinstance(item, int) for item in value):
        text = str(compress(value))
    elif isinstance(value, list):
        text = ", ".join(f"{slot}->{swa}" for slot, swa in value)
    else:
        text = str(value)
    return cut(text, TEXT_LIMIT)


def compare(
    trace: TraceSource,
    config: SimConfig | None = None,
    *,
    allocators: Sequence[str] = ("buggy", "fixed"),
    expect_idle: bool = False,
    stop_at_first: bool = False,
    max_findings: int = DEFAULT_MAX_FINDINGS,
    every: int | None = None,
    tail: int | None = None,
    keep: Callable[[Finding], bool] | None = None,
    on_step: Callable[[Step], None] | None = None,
    on_progress: Callable[[int], None] | None = None,
    **settings: Any,
) -> Comparison:
    """Replay a trace on several allocators in lockstep.

    Args:
        trace: as for `replay`.
        config: as for `replay`; its `allocator` is not used.
        allocators: registry names or "package.module:Class", two or more.
        stop_at_first: stop after the first event at which they part, or that has an error.
        expect_idle, max_findings, every, tail, keep, on_step, on_progress, settings: as for
            `replay`.

    Raises:
        UsageError: fewer than two allocators, or an unknown one.
        TraceError, ConfigError: bad input.
    """
    if isinstance(allocators, str):
        raise UsageError(f"allocators is the text {allocators!r}; accepted is a list of names")
    if len(allocators) < 2:
        raise UsageError(f"compare needs two allocators or more, got {list(allocators)}")
    with closing(reader_of(trace)) as reader:
        base, warnings = config_for(reader, config, settings)
        lockstep = Lockstep([replace(base, allocator=name) for name in allocators], reader.path)
        collectors = [
            Collector(max_findings=max_findings, every=every, tail=tail, keep=keep)
            for _ in allocators
        ]
        stopped = False
        for entry in reader:
            steps = lockstep.step(entry)
            _collect(steps, collectors)
            if on_step is not None:
                on_step(steps[0])
            if on_progress is not None:
                on_progress(entry.number)
            if stop_at_first and (lockstep.first_divergence or any(c.errors for c in collectors)):
                stopped = True
                break
        cut = reader.truncated_line
        if not stopped:
            for collector, replayer in zip(collectors, lockstep.replayers, strict=True):
                collector.late(replayer.finish(truncated=cut is not None, idle=expect_idle))
        runs = tuple(
            collector.result(replayer, reader.path, cut)
            for collector, replayer in zip(collectors, lockstep.replayers, strict=True)
        )
        return _comparison(reader.path, runs, lockstep.first_divergence, warnings)


def _collect(steps: Sequence[Step], collectors: Sequence[Collector]) -> None:
    """Take one event over; a row that is interesting on one side is kept on all."""
    kinds = [collector.take(step) for collector, step in zip(collectors, steps, strict=True)]
    interesting = any(map(is_interesting, steps, kinds))
    for collector, step, found in zip(collectors, steps, kinds, strict=True):
        collector.show(step, found, interesting=interesting)


def _comparison(
    path: str,
    runs: tuple[Replay, ...],
    first: Divergence | None,
    warnings: tuple[str, ...],
) -> Comparison:
    rows, skipped = _side_by_side(runs, first)
    return Comparison(
        trace=path,
        runs=runs,
        verdicts=tuple(_verdict(run) for run in runs),
        rows=rows,
        rows_skipped=skipped,
        first_divergence=first,
        warnings=tuple(dict.fromkeys([*warnings, *(w for run in runs for w in run.warnings)])),
    )


def _side_by_side(
    runs: tuple[Replay, ...], first: Divergence | None
) -> tuple[tuple[CompareRow, ...], int]:
    """Events that every run kept a row for, side by side."""
    by_event = [{row.event: row for row in run.timeline} for run in runs]
    shared = set(by_event[0]).intersection(*by_event[1:])
    rows = tuple(
        _compare_row([rows[event] for rows in by_event], first) for event in sorted(shared)
    )
    return rows, runs[0].summary.events - len(rows)


def _compare_row(rows: Sequence[TimelineRow], first: Divergence | None) -> CompareRow:
    head = rows[0]
    return CompareRow(
        event=head.event,
        line=head.line,
        op=head.op,
        detail=next((r.detail for r in rows if r.result != "skipped"), head.detail),
        cells=tuple(
            CompareCell(r.full_available, r.swa_available, r.result, r.kinds) for r in rows
        ),
        parted=first is not None and head.event >= first.event,
    )


def _verdict(run: Replay) -> Verdict:
    known = None if is_foreign(run.allocator) else info(run.allocator)
    faulty = known is not None and known.faulty
    summary = run.summary
    clean = summary.errors == 0
    if clean:
        text = "clean"
        if summary.warnings:
            text += f", {counted(summary.warnings, 'warning')}"
        for number, outcome in ((summary.raised, "raised"), (summary.skipped, "skipped")):
            if number:
                text += f", {number} of {counted(summary.events, 'event')} {outcome}"
    else:
        first = next((f for f in run.findings if f.severity == "error"), None)
        text = counted(summary.errors, "error")
        if first is not None:
            text += f", the first is {first.kind} at event {first.at.event}"
    if known is not None and faulty:
        text += f" (known fault: {known.mirrors})"
    return Verdict(run.allocator, clean, faulty, text)
