"""The search: breadth first over situations, each of them once."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from swasim.allocator import registry
from swasim.config import SimConfig
from swasim.errors import UsageError
from swasim.explore.key import digest
from swasim.explore.ledger import Ledger
from swasim.explore.moves import Family
from swasim.explore.situation import Bounds, Situation
from swasim.geometry import Pool
from swasim.replayer import Replayer, Step
from swasim.sanitizer.findings import Finding
from swasim.trace.events import AnyEvent, Entry, op_of
from swasim.trace.writer import encode_event

End = Literal["found", "depth", "closed", "budget", "interrupted"]

NAMES = tuple("ABCDEFG")
LOOK_EVERY_STATES = 64
MAX_PAGES = 1024
"""Every situation is a copy of both pools."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """A sequence that ends in an error: no shorter one does, as far as this error is concerned.

    Attributes:
        events: the sequence.
        finding: the error, as its own replay reports it.
        families: the move that made each event.
    """

    events: tuple[AnyEvent, ...]
    finding: Finding
    families: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the search is; see `Exploration`."""

    tried: int
    distinct: int
    queue: int
    depth: int


@dataclass(frozen=True, slots=True)
class Exploration:
    """A finished exploration.

    Attributes:
        config: sizes and allocator.
        control: the allocator that must not show the error; "" without one.
        bounds: depth, requests, window.
        families: the moves.
        kind: only errors of this kind count; "" : all do.
        found: the shortest sequence to each distinct error, in order of length.
        tried: sequences tried: every distinct situation extended by every move.
        distinct: situations that are not alike.
        queue: of them, those that were not gone on from when the search ended.
        depth: every sequence of up to this many events was tried.
        per_depth: distinct situations that take this many events to reach, from 0 on.
        per_family: tries of each family.
        pruned: sequences given up because the other allocator shows an error too.
        end: why it ended: "found" (the first error), "depth" (the bound is exhausted), "closed"
            (no new situation is left: true of every length), "budget" or "interrupted".
        seconds: of the search.
    """

    config: SimConfig
    control: str
    bounds: Bounds
    families: tuple[Family, ...]
    kind: str
    found: tuple[Sequence, ...]
    tried: int
    distinct: int
    queue: int
    depth: int
    per_depth: tuple[int, ...]
    per_family: dict[str, int]
    pruned: int
    end: End
    seconds: float

    @property
    def exhausted(self) -> bool:
        """Whether every sequence within the bound was tried."""
        return self.end in ("depth", "closed")


@dataclass(slots=True)
class _State:
    """A place in the search: replays and books, to be copied before each move."""

    replayers: tuple[Replayer, ...]
    ledger: Ledger

    def clone(self) -> _State:
        return _State(tuple(r.clone() for r in self.replayers), self.ledger.clone())

    def step(self, event: AnyEvent, number: int) -> list[Step]:
        """Carry one event out everywhere; the books follow the replay under test."""
        entry = Entry(number, number + 1, event)
        steps = [replayer.step(entry) for replayer in self.replayers]
        self.ledger.note(steps[0], self.replayers[0].resolver.rows)
        return steps


class _Search:
    def __init__(
        self,
        config: SimConfig,
        bounds: Bounds,
        families: tuple[Family, ...],
        control: str,
        kind: str,
        collect: bool,
        deadline: float | None,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.config = config
        self.bounds = bounds
        self.families = families
        self.kind = kind
        self.collect = collect
        self.deadline = deadline
        self.progress = progress
        self.names = NAMES[: bounds.requests]
        self.operations = registry.profile(config.allocator).operations
        self.configs = [config, *([replace(config, allocator=control)] if control else [])]
        # Parent and event of every distinct situation: a situation is rebuilt from its path.
        self.parents: list[int] = [-1]
        self.events: list[AnyEvent | None] = [None]
        self.made_by: list[str] = [""]
        self.queue: deque[int] = deque([0])
        self.seen: set[bytes] = set()
        self.per_depth: list[int] = [1]
        self.per_family: Counter[str] = Counter()
        self.found: dict[tuple[str, Pool | None, str], Sequence] = {}
        self.tried = self.pruned = self.expanded = 0
        self.end: End = "closed"

    def run(self) -> None:
        """Go on until something ends the search."""
        root = _State(
            tuple(Replayer(config) for config in self.configs), Ledger(self.config.geometry)
        )
        self.root = root
        self.seen.add(digest(root.replayers, root.ledger, self.names))
        depth = 0
        try:
            while self.queue:
                if depth >= self.bounds.depth:
                    self.end = "depth"
                    return
                self.per_depth.append(0)
                for _ in range(len(self.queue)):
                    if self._is_over():
                        return
                    if self._expand(self.queue[0], depth + 1):
                        self.end = "found"
                        return
                    self.queue.popleft()
                depth += 1
        except KeyboardInterrupt:
            self.end = "interrupted"

    def _is_over(self) -> bool:
        self.expanded += 1
        if self.expanded % LOOK_EVERY_STATES != 1:
            return False
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self.end = "budget"
            return True
        if self.progress is not None:
            depth = len(self.per_depth) - 1
            self.progress(Progress(self.tried, len(self.parents), len(self.queue), depth))
        return False

    def _path(self, state: int) -> tuple[list[AnyEvent], list[str]]:
        events: list[AnyEvent] = []
        families: list[str] = []
        while (event := self.events[state]) is not None:
            events.append(event)
            families.append(self.made_by[state])
            state = self.parents[state]
        return events[::-1], families[::-1]

    def _expand(self, number: int, depth: int) -> bool:
        """Try every move from one situation; says whether the search is over by that."""
        path, _ = self._path(number)
        here = self.root.clone()
        for at, event in enumerate(path, 1):
            here.step(event, at)
        first = here.replayers[0]
        now = Situation(
            self.config.page_size,
            self.operations,
            self.bounds,
            self.names,
            first.resolver.rows,
            here.ledger,
        )
        tried: set[bytes] = set()
        for family in self.families:
            for event in family.moves(now):
                mark = encode_event(event)
                if mark in tried:
                    continue
                tried.add(mark)
                self.tried += 1
                self.per_family[family.name] += 1
                if self._try(here, event, family, number, depth):
                    return True
        return False

    def _try(self, here: _State, event: AnyEvent, family: Family, parent: int, depth: int) -> bool:
        there = here.clone()
        steps = there.step(event, depth)
        errors = [_errors(step, family) for step in steps]
        if any(errors[1:]):
            self.pruned += 1
            return False
        wanted = [f for f in errors[0] if f.kind == self.kind or not self.kind]
        if wanted:
            root = next((f for f in wanted if f.cause is None), wanted[0])
            self._note(root, event, family, parent)
            return not self.collect
        key = digest(there.replayers, there.ledger, self.names)
        if key not in self.seen:
            self.seen.add(key)
            self.queue.append(len(self.parents))
            self.parents.append(parent)
            self.events.append(event)
            self.made_by.append(family.name)
            self.per_depth[depth] += 1
        return False

    def _note(self, finding: Finding, event: AnyEvent, family: Family, parent: int) -> None:
        # Who did what before does not make an error another one.
        distinct = (finding.kind, finding.pool, op_of(event))
        if distinct not in self.found:
            path, families = self._path(parent)
            self.found[distinct] = Sequence((*path, event), finding, (*families, family.name))


def _errors(step: Step, family: Family) -> list[Finding]:
    """Errors that are the allocator's: where an exception is an answer, it is none."""
    return [
        finding
        for finding in step.findings
        if finding.severity == "error"
        and not (family.may_raise and finding.kind == "expectation-failed")
    ]


def _check(config: SimConfig, bounds: Bounds, control: str) -> None:
    if config.engine != "core":
        raise UsageError("explore copies the allocator at every step: engine core only")
    for name in filter(None, (config.allocator, control)):
        if registry.is_foreign(name):
            raise UsageError(
                f"{name} cannot be explored: its state cannot be copied; `swasim fuzz` can take it"
            )
    pages = max(config.geometry.full_pages, config.geometry.swa_pages)
    if pages > MAX_PAGES:
        raise UsageError(f"explore is for tiny pools: at most {MAX_PAGES} pages, found {pages}")
    if not 1 <= bounds.requests <= len(NAMES):
        raise UsageError(f"--requests must be 1 to {len(NAMES)}, found {bounds.requests}")


def explore(
    config: SimConfig,
    bounds: Bounds,
    families: tuple[Family, ...],
    *,
    control: str = "",
    kind: str = "",
    collect: bool = False,
    budget_s: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Exploration:
    """Try every sequence of events up to a bound, the short ones first.

    A sequence ends at its first error (of `kind`, where one is given).

    Args:
        config: sizes and allocator; the core engine's only.
        bounds: longest sequence, requests at a time, window.
        families: the moves; see `chosen_families`.
        control: an allocator on which the same sequence must show no error: then the fault is
            the allocator's and not the caller's.
        kind: errors of this kind only.
        collect: go on after the first error; gather those distinct in kind, pool or operation.
        budget_s: seconds after which to stop.
        progress: told now and then.

    Raises:
        UsageError: an allocator that cannot be copied, or an unknown one; bounds or pools that are
            too large.
    """
    _check(config, bounds, control)
    started = time.monotonic()
    deadline = None if budget_s is None else started + budget_s
    search = _Search(config, bounds, families, control, kind, collect, deadline, progress)
    search.run()
    complete = len(search.per_depth) - 1 - (0 if search.end in ("depth", "closed") else 1)
    return Exploration(
        config=config,
        control=control,
        bounds=bounds,
        families=families,
        kind=kind,
        found=tuple(search.found.values()),
        tried=search.tried,
        distinct=len(search.parents),
        queue=len(search.queue),
        depth=complete,
        per_depth=tuple(search.per_depth),
        per_family={f.name: search.per_family[f.name] for f in families},
        pruned=search.pruned,
        end=search.end,
        seconds=time.monotonic() - started,
    )
