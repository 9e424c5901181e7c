"""From a trace to the shortest one with the same finding: one replay, one slice, then passes."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from swasim.config import SimConfig
from swasim.errors import UsageError
from swasim.minimize.draft import Line
from swasim.minimize.export import replay_command, trace_lines
from swasim.minimize.gate import shows, shows_on_ideal
from swasim.minimize.passes import FINISH, ROUND, Pass
from swasim.minimize.passes.naming import rows_named
from swasim.minimize.record import Recording, check_kind, record, without_collections
from swasim.minimize.search import Judge, OutOfTimeError, Progress, Search
from swasim.minimize.slicing import Slicer, tightened
from swasim.minimize.target import Target
from swasim.run import TraceSource, config_for, reader_of
from swasim.sanitizer.findings import Finding
from swasim.trace.events import AnyEvent


@dataclass(frozen=True, slots=True)
class Helped:
    """What one pass, or the slice, did.

    Attributes:
        name: of the pass.
        times: candidates of it that were taken.
        events: by how many events the trace got shorter.
    """

    name: str
    times: int
    events: int


@dataclass(frozen=True, slots=True)
class Minimized:
    """The shortest trace that was found.

    Attributes:
        trace: the input, as the user named it.
        config: sizes and allocator on which the result shows the finding.
        events: the result.
        finding: what it shows, from its own replay; None where an outside judge decided.
        target: what was kept; None where an outside judge decided.
        by_caller: the finding shows on the ideal allocator too: the calls are wrong.
        events_before: events of the input, up to the finding.
        replays: candidates replayed, the input not counted.
        slice_name, slice_events: what was kept at first, and how many events that was.
        helped: passes that made the trace smaller, in the order in which they first did.
        seconds: of all; `record_seconds` of it for the replay of the input.
        stopped: "" where the search ended by itself, so that no single event can be left out;
            "budget" or "interrupted" where it was ended.
        seed: of the random choices.
    """

    trace: str
    config: SimConfig
    events: tuple[AnyEvent, ...]
    finding: Finding | None
    target: Target | None
    by_caller: bool
    events_before: int
    replays: int
    slice_name: str
    slice_events: int
    helped: tuple[Helped, ...]
    seconds: float
    record_seconds: float
    stopped: str
    seed: int

    @property
    def lines(self) -> list[str]:
        """Header and events as they stand in a file."""
        return list(trace_lines(self))

    def shown_by(self, events: Sequence[AnyEvent]) -> bool:
        """Whether other events show the same finding, with the same side to blame.

        Raises:
            ValueError: an outside judge decided; there is no finding to compare with.
        """
        if self.target is None:
            raise ValueError("an outside judge decided")
        return shows(events, self.config, self.target, by_caller=self.by_caller)

    def command(self, path: str) -> str:
        """The command that shows the finding, for a trace at `path`."""
        return replay_command(self, path)


def minimize(
    trace: TraceSource,
    config: SimConfig | None = None,
    *,
    keep: str | None = None,
    test: Judge | None = None,
    seed: int = 0,
    budget_s: float | None = None,
    expect_idle: bool = False,
    progress: Callable[[Progress], None] | None = None,
    **settings: object,
) -> Minimized:
    """Shrink a trace and keep its finding.

    Args:
        trace: a path, "-", an open `TraceReader`, or events in memory.
        config: without one, `settings` (page_size, allocator, ...) win over the trace header.
        keep: kind of the finding to keep; None: the first error that follows from no other.
        test: an outside judge instead: says of a configuration and events whether they are
            interesting. No finding is looked for then.
        seed: of the few random choices; equal seeds give equal results.
        budget_s: seconds after which the best trace so far is handed back.
        expect_idle: every page must be free at the end of the trace.
        progress: told what is being tried, once per replay.

    Returns:
        The shortest trace found. A `KeyboardInterrupt` after the first candidate was found ends
        the search, and the result says so; before that it is passed on.

    Raises:
        UsageError: the trace gives no such finding, or the judge does not care for the trace.
        TraceError, ConfigError: bad input.
    """
    check_kind(keep)
    started = time.monotonic()
    with reader_of(trace) as reader:
        config, _ = config_for(reader, config, settings)
        recording = record(
            reader,
            config,
            keep=keep,
            judged_outside=test is not None,
            expect_idle=expect_idle,
            look=_looker(progress),
        )
        name = reader.path
    search = Search(recording.target, judge=test, progress=progress, random=random.Random(seed))
    start = _Start(name, started, time.monotonic(), budget_s, seed)
    return _searched(search, recording, config, start)


@dataclass(frozen=True, slots=True)
class _Start:
    """What the trace is called, when the work began, when it was replayed, how long it may take."""

    trace: str
    began: float
    recorded: float
    budget_s: float | None
    seed: int


def _searched(search: Search, recording: Recording, config: SimConfig, start: _Start) -> Minimized:
    """Slice and shrink."""
    search.events_before = len(recording.done)
    slicer = Slicer(recording, config)
    by_caller = _by_caller(slicer, recording.target, config)
    search.controlled = recording.target is not None and not by_caller
    slice_name = _first(search, slicer, recording, config)
    slice_events = len(search.events)
    # Only now: whatever the budget, there is a trace to hand back.
    search.deadline = None if start.budget_s is None else start.began + start.budget_s
    helped, stopped = _shrink(search)
    return Minimized(
        trace=start.trace,
        config=search.config,
        events=search.events,
        finding=search.found,
        target=recording.target,
        by_caller=by_caller,
        events_before=recording.events_total,
        replays=search.replays,
        slice_name=slice_name,
        slice_events=slice_events,
        helped=helped,
        seconds=time.monotonic() - start.began,
        record_seconds=start.recorded - start.began,
        stopped=stopped,
        seed=start.seed,
    )


def _looker(progress: Callable[[Progress], None] | None) -> Callable[[int], None] | None:
    """Tells of the replay of the trace itself."""
    if progress is None:
        return None
    return lambda events: progress(Progress("replaying the trace", events, events, 0))


def _by_caller(slicer: Slicer, target: Target | None, config: SimConfig) -> bool:
    """Whether the ideal allocator gives the finding too: then no allocator is to blame for it.

    Where it does not, no candidate may either: else a fault of the allocator would be shrunk to a
    mistake of its caller that looks the same.
    """
    if target is None or config.allocator == "ideal":
        return True
    with without_collections():
        return shows_on_ideal(slicer.lines, config, target)


def _first(search: Search, slicer: Slicer, recording: Recording, config: SimConfig) -> str:
    """Take the narrowest slice that the gate lets pass; returns its name.

    Raises:
        UsageError: not even everything up to the finding passes.
    """
    search.doing = "slicing"
    for name, draft in slicer.drafts():
        for lines in _forms(draft, config):
            if search.offer(lines, config):
                return name
            if recording.finding is None:
                continue
            outcome = search.attempt(lines, config)
            if outcome is None or len(outcome.done) < len(lines):
                continue
            smaller = tightened(config, recording.available, outcome.available)
            if smaller != config and search.offer(lines, smaller):
                return name
    if search.judge is not None:
        said = getattr(search.judge, "said", "says no")
        raise UsageError(f"the judge does not find the trace itself interesting: it {said}")
    if search.offer_events([done.event for done in recording.done], config):
        return "everything up to the finding"
    raise UsageError("the finding is gone when the trace is replayed a second time")


def _forms(lines: list[Line], config: SimConfig) -> list[list[Line]]:
    """The draft with rows for raw slots, and as it is."""
    named = rows_named(lines, config.page_size)
    return [lines] if named is None else [named, lines]


def _shrink(search: Search) -> tuple[tuple[Helped, ...], str]:
    times: Counter[str] = Counter()
    events: Counter[str] = Counter()
    try:
        while True:
            before = search.key
            for step in ROUND:
                _work(search, step, times, events)
            if search.key == before:
                for step in FINISH:
                    _work(search, step, times, events)
            if search.key == before:
                break
    except OutOfTimeError:
        stopped = "budget"
    except KeyboardInterrupt:
        stopped = "interrupted"
    else:
        stopped = ""
    return tuple(Helped(name, times[name], events[name]) for name in times), stopped


def _work(search: Search, step: Pass, times: Counter[str], events: Counter[str]) -> None:
    search.doing = step.name
    taken, length = search.taken, len(search.events)
    try:
        step.work(search)
    finally:
        if search.taken > taken:
            times[step.name] += search.taken - taken
            events[step.name] += length - len(search.events)
