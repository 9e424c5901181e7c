"""One random trace: a seed in, events and findings out.

Everything that is random follows from the seed and the settings, so a seed is a test case.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from swasim.allocator import registry
from swasim.allocator.base import Allocator
from swasim.allocator.profile import EARLIEST_OPERATIONS, RELEASES, Profile
from swasim.config import SimConfig
from swasim.fuzz.habits import Habits
from swasim.fuzz.sloppy import SLOPPY, WRONG, WRONG_WEIGHT, SloppyWorkload
from swasim.fuzz.workload import Workload
from swasim.lockstep import Divergence, Lockstep
from swasim.replayer import Replayer, Step
from swasim.sanitizer.findings import Finding
from swasim.trace.events import AnyEvent, Entry

FIRST_LINE = 2
"""Line of the first event in a written trace: the header stands before it."""

CALLERS = ("careful", "sloppy", "wrong")
LOOK_EVERY_EVENTS = 1024
PAGE_SIZES = (1, 2, 4, 16, 64)


class NotPlayedError(Exception):
    """A trace was given up before its end, because nobody wants it any more."""


@dataclass(frozen=True, slots=True)
class Contract:
    """What callers must know of an allocator.

    Attributes:
        operations: what it answers.
        paged: page sizes above 1 are possible.
        skips_unmapped: `free` may name slots whose SWA peer is gone.
        drafts: the rejected tokens of a draft may be given back inside a page.
        asks_by_token: an extend is refused by its tokens, not by its new pages.
    """

    operations: frozenset[str]
    paged: bool = True
    skips_unmapped: bool = True
    drafts: bool = True
    asks_by_token: bool = False

    def __and__(self, other: Contract) -> Contract:
        """What callers may do to both of two allocators."""
        return Contract(
            self.operations & other.operations,
            self.paged and other.paged,
            self.skips_unmapped and other.skips_unmapped,
            self.drafts and other.drafts,
            self.asks_by_token or other.asks_by_token,
        )


def contract_of(profile: Profile) -> Contract:
    """The contract of a profile."""
    return Contract(
        profile.operations,
        profile.paged,
        profile.filter_page_size_1 and profile.filter_segments,
        # Before PR 27779 the rejected tokens of a draft leave stale entries behind: that is the
        # release's fault, and the scheduler's contract does not cover it.
        profile.free_swa_unit == "pages",
        profile.extend_check == "coarse",
    )


def contract_for(name: str, config: SimConfig) -> Contract:
    """The contract of an allocator by name.

    Of one from outside the release decides where it is known, else the methods that it has, and
    then nothing is taken for granted.

    Raises:
        UsageError: an unknown name, or one that cannot be built.
    """
    if not registry.is_foreign(name):
        return contract_of(registry.profile(name))
    built: Allocator = registry.build(replace(config, allocator=name))
    version = getattr(built, "version", "")
    if version in RELEASES:
        return contract_of(RELEASES[version])
    target = getattr(built, "target", built)
    by_tensor = {"set_full_to_swa_mapping", "clear_full_to_swa_mapping"}
    optional = frozenset().union(*(p.operations for p in RELEASES.values())) - EARLIEST_OPERATIONS
    found = {op for op in optional | EARLIEST_OPERATIONS if callable(getattr(target, op, None))}
    return Contract(frozenset(found | by_tensor), skips_unmapped=False, drafts=False)


@dataclass(frozen=True, slots=True)
class Play:
    """One random trace, played.

    Attributes:
        config: sizes, allocator.
        seed: everything random follows from it.
        entries: the events, as they were carried out.
        findings: in the order in which they were found.
        divergence: where a second allocator answered differently; None without one.
    """

    config: SimConfig
    seed: int
    entries: tuple[Entry, ...]
    findings: tuple[Finding, ...]
    divergence: Divergence | None = None

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings of severity error."""
        return tuple(f for f in self.findings if f.severity == "error")

    @property
    def events(self) -> tuple[AnyEvent, ...]:
        """The trace."""
        return tuple(entry.event for entry in self.entries)


def play(
    config: SimConfig,
    contract: Contract | Profile,
    seed: int,
    calls: int,
    *,
    callers: str = "careful",
    mistakes: Sequence[str] = WRONG,
    against: str = "",
    stop_at_first: bool = True,
    is_over: Callable[[], bool] | None = None,
) -> Play:
    """Play one random trace that keeps, or breaks, the contract.

    Args:
        config: sizes of the pools, allocator.
        contract: says which operations there are, and what their callers must know.
        seed: of every random choice.
        calls: events to make; what was begun is brought to its end.
        callers: "careful", "sloppy" or "wrong".
        mistakes: those of wrong callers, of which each trace has one kind.
        against: a second allocator, in lockstep; to part is a find.
        stop_at_first: stop at the first event with an error or where the two part.
        is_over: asked now and then whether a trace is still wanted.

    Raises:
        NotPlayedError: `is_over` says that it is not.
    """
    if isinstance(contract, Profile):
        contract = contract_of(contract)
    rng = random.Random(seed)
    lockstep = Lockstep([config, *([replace(config, allocator=against)] if against else [])], "")
    replayer = lockstep.replayers[0]
    workload = _workload(config, contract, callers, mistakes, rng, replayer)
    entries: list[Entry] = []
    findings: list[Finding] = []
    out: list[int] | None = None
    number = 0
    while number < calls or not workload.settled:
        number += 1
        if is_over is not None and number % LOOK_EVERY_EVENTS == 0 and is_over():
            raise NotPlayedError
        event = workload.next_event(*replayer.available, out)
        entry = Entry(number, number + FIRST_LINE - 1, event)
        steps: Sequence[Step] = lockstep.step(entry) if against else (replayer.step(entry),)
        effect = steps[0].effect
        out = effect.out if effect else None
        entries.append(entry)
        if steps[0].findings:
            findings += steps[0].findings
            if stop_at_first and any(f.severity == "error" for f in steps[0].findings):
                break
        if against and lockstep.first_divergence is not None and stop_at_first:
            break
    else:
        findings += replayer.finish()
    return Play(config, seed, tuple(entries), tuple(findings), lockstep.first_divergence)


def _workload(
    config: SimConfig,
    contract: Contract,
    callers: str,
    mistakes: Sequence[str],
    rng: random.Random,
    replayer: Replayer,
) -> Workload:
    window = config.sliding_window_size or config.page_size
    habits = habits_for(contract, config, window, rng)
    if callers != "careful":
        weights = habits.weights | SLOPPY
        if callers == "wrong":
            # One mistake a trace: a find has one cause then.
            weights[rng.choice(mistakes)] = WRONG_WEIGHT
        habits = replace(habits, weights=weights)
    made = Workload if callers == "careful" else SloppyWorkload
    workload = made(
        config.geometry,
        contract.operations,
        habits,
        rng,
        replayer.resolver.rows,
        skips_unmapped=contract.skips_unmapped,
        asks_by_token=contract.asks_by_token,
    )
    if isinstance(workload, SloppyWorkload):
        workload.add_moves(replayer.sanitizer.truth)
    return workload


def habits_for(contract: Contract, config: SimConfig, window: int, rng: random.Random) -> Habits:
    """Habits that the pools can bear and the allocator can answer."""
    pages = min(config.geometry.full_pages, config.geometry.swa_pages)
    max_running = max(1, min(rng.randint(2, 6), pages // 4))
    prompt_pages = max(1, pages // (2 * max_running))
    habits = Habits(max_running, prompt_pages * config.page_size, window)
    if not contract.drafts:
        weights = {move: weight for move, weight in habits.weights.items() if move != "draft"}
        return replace(habits, weights=weights)
    return habits


def random_config(
    rng: random.Random,
    allocator: str,
    given: Mapping[str, Any] | None = None,
    *,
    paged: bool = True,
) -> SimConfig:
    """Small pools of odd proportions, so that they run short often.

    Args:
        given: configuration keys that are not left to chance; pools of theirs must be whole pages.
        paged: the page size is any of `PAGE_SIZES`, unless it is given; False: it is 1.
    """
    fixed = dict(given or {})
    any_size = rng.choice(PAGE_SIZES) if paged else 1
    page_size = int(fixed.get("page_size", any_size))
    settings: dict[str, Any] = {
        "page_size": page_size,
        "kv_size": page_size * rng.randint(8, 48),
        "kv_size_swa": page_size * rng.randint(8, 40),
        "sliding_window_size": rng.choice((page_size, 2 * page_size, 3 * page_size + 1)),
        "need_sort": rng.random() < 0.5,
    }
    return SimConfig(**settings | fixed | {"allocator": allocator})
