"""The state of a search: the best trace so far, and the only way to a better one."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from swasim.config import SimConfig
from swasim.minimize.draft import Lifter, Line
from swasim.minimize.gate import Key, Outcome, key_of, run, shows_on_ideal
from swasim.minimize.target import Target, is_about_claims
from swasim.sanitizer.findings import Finding
from swasim.trace.events import AnyEvent
from swasim.trace.writer import encode_event

Judge = Callable[[SimConfig, Sequence[AnyEvent]], bool]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the search is.

    Attributes:
        doing: the pass at work, in words.
        events: of the best trace so far.
        events_before: of the trace that was given.
        replays: candidates replayed so far.
    """

    doing: str
    events: int
    events_before: int
    replays: int


class OutOfTimeError(Exception):
    """The budget is spent."""


@dataclass
class Search:
    """Offers go through one gate.

    Args:
        target: the finding to keep; None: the outside judge decides alone.
        controlled: the ideal allocator must not show the finding.
        judge: outside judge, asked last.
        deadline: `time.monotonic` at which to stop, or None.
        progress: told of every replay.
        random: where not everything can be tried.
    """

    target: Target | None
    controlled: bool = False
    judge: Judge | None = None
    deadline: float | None = None
    progress: Callable[[Progress], None] | None = None
    random: random.Random = field(default_factory=lambda: random.Random(0))
    events_before: int = 0
    replays: int = 0
    taken: int = 0
    doing: str = "replaying"
    best: Outcome | None = None
    key: Key = ()
    _tried: set[int] = field(default_factory=set)
    _lines: list[Line] | None = None

    @property
    def config(self) -> SimConfig:
        """Of the best trace."""
        assert self.best is not None
        return self.best.config

    @property
    def lines(self) -> list[Line]:
        """The best trace as a draft, freshly lifted."""
        assert self.best is not None
        if self._lines is None:
            lifter = Lifter(keep_claims=is_about_claims(self.target))
            lifted = [lifter.lift(done) for done in self.best.done]
            self._lines = [line for line in lifted if line is not None]
        return self._lines

    @property
    def events(self) -> tuple[AnyEvent, ...]:
        """The best trace."""
        assert self.best is not None
        return self.best.events

    @property
    def found(self) -> Finding | None:
        """What the best trace shows."""
        return self.best.finding if self.best is not None else None

    def offer(self, lines: Sequence[Line], config: SimConfig | None = None) -> bool:
        """Take the draft over if it passes the gate and is strictly smaller."""
        config = self.config if config is None else config
        mark = hash((config, tuple(encode_event(line.event) for line in lines)))
        if not lines or mark in self._tried:
            return False
        self._tried.add(mark)
        outcome = self._passed(lines, config)
        if outcome is None:
            return False
        key = key_of(outcome)
        if self.best is not None and key >= self.key:
            return False
        if self.judge is not None and not self.judge(config, outcome.events):
            return False
        self.best, self.key, self._lines = outcome, key, None
        self.taken += 1
        return True

    def offer_events(self, events: Iterable[AnyEvent], config: SimConfig | None = None) -> bool:
        """Likewise for events as they stand in a file."""
        return self.offer([Line(event) for event in events], config)

    def attempt(self, lines: Sequence[Line], config: SimConfig) -> Outcome | None:
        """Replay a draft without taking it over."""
        self._tick()
        return run(lines, config, self.target)

    def _passed(self, lines: Sequence[Line], config: SimConfig) -> Outcome | None:
        self._tick()
        outcome = run(lines, config, self.target)
        if outcome is None or (self.target is not None and outcome.finding is None):
            return None
        if (
            self.controlled
            and self.target is not None
            and shows_on_ideal(lines, config, self.target)
        ):
            return None
        return outcome

    def _tick(self) -> None:
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise OutOfTimeError
        self.replays += 1
        if self.progress is not None:
            events = len(self.best.done) if self.best is not None else self.events_before
            self.progress(Progress(self.doing, events, self.events_before, self.replays))
