"""Many random traces: seed after seed, in as many processes as are wanted, finds in seed order.

What is found does not depend on the number of processes: traces are played anywhere, but judged
in the order of their seeds. What must not be added here: printing, files (`state.py` has one).
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

from swasim.config import SimConfig
from swasim.errors import SwasimError
from swasim.fuzz.find import Find, find_of, rough_fingerprint
from swasim.fuzz.play import (
    Contract,
    NotPlayedError,
    Play,
    contract_for,
    play,
    random_config,
)
from swasim.fuzz.sloppy import WRONG
from swasim.fuzz.workers import Workers, wanted_no_more
from swasim.replayer import Replayer, has_error
from swasim.trace.events import AnyEvent, Entry

CHUNK_SEEDS = 4
AHEAD_CHUNKS = 2
"""Chunks that wait for each process, so that none is idle."""

End = Literal["found", "seeds", "budget", "interrupted"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that decides what is played; equal settings and seeds give equal traces.

    Attributes:
        allocator: under test.
        against: a second one, in lockstep; "" without.
        control: an allocator that must not show the error; "" without.
        callers: "careful", "sloppy" or "wrong".
        mistakes: those of wrong callers, of which each trace has one kind.
        calls: events of each trace.
        given: configuration keys that are not left to chance.
    """

    allocator: str = "fixed"
    against: str = ""
    control: str = ""
    callers: str = "careful"
    mistakes: tuple[str, ...] = WRONG
    calls: int = 500
    given: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one seed.

    Attributes:
        events: events carried out.
        failed: the trace, where it has an error or the two parted; else None.
        excused: the control allocator shows an error too.
    """

    seed: int
    events: int
    failed: Play | None = None
    excused: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a campaign is."""

    seeds: int
    calls: int
    finds: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Campaign:
    """A finished campaign.

    Attributes:
        first_seed, seeds: seeds first_seed ... first_seed + seeds - 1 were played here.
        calls: events carried out in them.
        finds: distinct ones, in the order of their seeds.
        repeats: traces that found nothing new.
        excused: traces with an error that the control allocator shows too.
        end: why it ended: "found" (the first find), "seeds" (all were played), "budget",
            "interrupted".
    """

    settings: Settings
    first_seed: int
    seeds: int
    calls: int
    finds: tuple[Find, ...]
    repeats: int
    excused: int
    end: End
    seconds: float


def play_seed(
    settings: Settings,
    contract: Contract,
    seed: int,
    is_over: Callable[[], bool] | None = None,
) -> Played:
    """Play one seed.

    Raises:
        NotPlayedError: `is_over`, asked now and then, says that it is not wanted any more.
    """
    config = random_config(
        random.Random(seed),
        settings.allocator,
        given=settings.given,
        paged=contract.paged,
    )
    played = play(
        config,
        contract,
        seed,
        settings.calls,
        callers=settings.callers,
        mistakes=settings.mistakes,
        against=settings.against,
        is_over=is_over,
    )
    count = len(played.entries)
    if not played.errors and played.divergence is None:
        return Played(seed, count)
    if settings.control and shows_error(replace(config, allocator=settings.control), played.events):
        return Played(seed, count, excused=True)
    return Played(seed, count, played)


def shows_error(config: SimConfig, events: tuple[AnyEvent, ...]) -> bool:
    """Whether a trace has an error on an allocator; one that cannot answer it shows one."""
    replayer = Replayer(config)
    try:
        for number, event in enumerate(events, 1):
            if has_error(replayer.step(Entry(number, number + 1, event)).findings):
                return True
    except SwasimError:
        return True
    return has_error(replayer.finish())


def contract_of_settings(settings: Settings) -> Contract:
    """What the callers may do to every allocator of a campaign.

    Raises:
        UsageError: an unknown allocator, or one that cannot be built.
    """
    sample = random_config(random.Random(0), settings.allocator, given=settings.given)
    contract = contract_for(settings.allocator, sample)
    return contract & contract_for(settings.against, sample) if settings.against else contract


class _Hunt:
    def __init__(self, settings: Settings, first_seed: int, known: frozenset[str]) -> None:
        self.settings = settings
        self.first_seed = first_seed
        self.seen = set(known)
        self.finds: list[Find] = []
        self.seeds = self.calls = self.repeats = self.excused = 0
        self.interrupted = False
        self.started = time.monotonic()

    def take(self, played: Played) -> bool:
        """Count one seed; says whether it gave a new find."""
        rough = "" if played.failed is None else rough_fingerprint(played.failed)
        find = None
        if played.failed is not None and rough not in self.seen:
            seconds = time.monotonic() - self.started
            find = find_of(played.failed, self.settings.against, seconds)
            self.interrupted = find.interrupted
        # A seed whose find was not made out is not done: counted from here on only.
        self.seeds += 1
        self.calls += played.events
        self.excused += played.excused
        if find is None:
            self.repeats += played.failed is not None
            return False
        self.seen.add(rough)
        if find.fingerprint in self.seen and find.fingerprint != rough:
            self.repeats += 1
            return False
        self.seen.add(find.fingerprint)
        self.finds.append(find)
        return True

    def result(self, end: End) -> Campaign:
        """The record."""
        return Campaign(
            settings=self.settings,
            first_seed=self.first_seed,
            seeds=self.seeds,
            calls=self.calls,
            finds=tuple(self.finds),
            repeats=self.repeats,
            excused=self.excused,
            end=end,
            seconds=time.monotonic() - self.started,
        )


def fuzz(
    settings: Settings,
    *,
    seed: int = 0,
    seeds: int | None = None,
    budget_s: float | None = None,
    collect: bool = False,
    jobs: int = 1,
    known: frozenset[str] = frozenset(),
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Callable[[Campaign], None] | None = None,
) -> Campaign:
    """Play seeds `seed`, `seed` + 1, ... and gather what they find, each minimized.

    Args:
        settings: what is played.
        seeds: how many; None: until the budget is spent.
        budget_s: seconds after which to stop.
        collect: go on after the first find, and gather distinct ones.
        jobs: processes; the result does not depend on it.
        known: fingerprints that are no news.
        progress: told after every seed.
        checkpoint: given what is known so far, after every seed.

    Raises:
        UsageError: an allocator that does not exist or cannot be built.
    """
    contract = contract_of_settings(settings)
    hunt = _Hunt(settings, seed, known)
    deadline = None if budget_s is None else time.monotonic() + budget_s
    end: End = "seeds"
    try:
        with _players(settings, contract, seed, seeds, jobs, deadline) as results:
            for played in results:
                new = hunt.take(played)
                if progress is not None:
                    seconds = time.monotonic() - hunt.started
                    progress(Progress(hunt.seeds, hunt.calls, len(hunt.finds), seconds))
                if checkpoint is not None:
                    checkpoint(hunt.result("interrupted"))
                if hunt.interrupted:
                    end = "interrupted"
                    break
                if new and not collect:
                    end = "found"
                    break
                if deadline is not None and time.monotonic() >= deadline:
                    end = "budget"
                    break
    except NotPlayedError:
        end = "budget"
    except KeyboardInterrupt:
        end = "interrupted"
    return hunt.result(end)


@contextmanager
def _players(
    settings: Settings,
    contract: Contract,
    seed: int,
    seeds: int | None,
    jobs: int,
    deadline: float | None,
) -> Iterator[Iterator[Played]]:
    """What comes of the seeds, in their order.

    Raises:
        NotPlayedError: while they are waited for, the deadline passes.
    """
    numbers = _count(seed, None if seeds is None else seed + seeds)
    if jobs == 1:
        is_over = None if deadline is None else lambda: time.monotonic() >= deadline
        yield (play_seed(settings, contract, number, is_over) for number in numbers)
        return
    with Workers(jobs) as workers:
        yield _from_workers(workers, settings, contract, numbers, jobs, deadline)


def _count(first: int, limit: int | None) -> Iterator[int]:
    number = first
    while limit is None or number < limit:
        yield number
        number += 1


def _from_workers(
    workers: Workers,
    settings: Settings,
    contract: Contract,
    numbers: Iterator[int],
    jobs: int,
    deadline: float | None,
) -> Iterator[Played]:
    waiting = deque[Future[list[Played]]]()

    def submit() -> None:
        chunk = list(islice(numbers, CHUNK_SEEDS))
        if chunk:
            waiting.append(workers.submit(_play_chunk, settings, contract, chunk))

    for _ in range(jobs * AHEAD_CHUNKS):
        submit()
    while waiting:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            done = waiting.popleft().result(left)
        except TimeoutError:
            raise NotPlayedError from None
        submit()
        yield from done


def _play_chunk(settings: Settings, contract: Contract, seeds: list[int]) -> list[Played]:
    played = []
    for seed in seeds:
        if wanted_no_more():
            raise NotPlayedError
        played.append(play_seed(settings, contract, seed, wanted_no_more))
    return played
