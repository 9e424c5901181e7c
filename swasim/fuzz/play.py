"""One random trace: a seed in, events and findings out.

Everything that is random follows from the seed and the configuration, so a seed is a test case.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from swasim.allocator.profile import Profile
from swasim.config import SimConfig
from swasim.fuzz.workload import Habits, Workload
from swasim.replayer import Replayer
from swasim.sanitizer.findings import Finding
from swasim.trace.events import Entry

FIRST_LINE = 2
"""Line of the first event in a written trace: the header stands before it."""


@dataclass(frozen=True, slots=True)
class Play:
    """One random trace, played.

    Attributes:
        config: sizes, allocator.
        seed: everything random follows from it.
        entries: the events, as they were carried out.
        findings: in the order in which they were found.
    """

    config: SimConfig
    seed: int
    entries: tuple[Entry, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings of severity error."""
        return tuple(f for f in self.findings if f.severity == "error")


def play(
    config: SimConfig, profile: Profile, seed: int, calls: int, *, stop_at_first: bool = True
) -> Play:
    """Play one random trace that keeps the contract of `profile`.

    Args:
        config: sizes of the pools, allocator.
        profile: says which operations there are, and what their callers must know.
        seed: of every random choice.
        calls: events to make.
        stop_at_first: stop at the first event with an error.
    """
    rng = random.Random(seed)
    window = config.sliding_window_size or config.page_size
    replayer = Replayer(config)
    workload = Workload(
        config.geometry,
        profile.operations,
        habits_for(profile, config, window, rng),
        rng,
        replayer.resolver.rows,
        skips_unmapped=profile.filter_page_size_1 and profile.filter_segments,
    )
    entries: list[Entry] = []
    findings: list[Finding] = []
    out: list[int] | None = None
    for number in range(1, calls + 1):
        event = workload.next_event(*replayer.available, out)
        entry = Entry(number, number + FIRST_LINE - 1, event)
        step = replayer.step(entry)
        out = step.effect.out if step.effect else None
        entries.append(entry)
        findings += step.findings
        if stop_at_first and any(f.severity == "error" for f in step.findings):
            break
    findings += replayer.finish()
    return Play(config, seed, tuple(entries), tuple(findings))


def habits_for(profile: Profile, config: SimConfig, window: int, rng: random.Random) -> Habits:
    """Habits that the pools can bear and the release can answer."""
    pages = min(config.geometry.full_pages, config.geometry.swa_pages)
    max_running = max(1, min(rng.randint(2, 6), pages // 4))
    prompt_pages = max(1, pages // (2 * max_running))
    habits = Habits(max_running, prompt_pages * config.page_size, window)
    if profile.free_swa_unit == "tokens":
        # Before PR 27779 the rejected tokens of a draft leave stale entries behind: that is the
        # release's fault, and the scheduler's contract does not cover it.
        weights = {move: weight for move, weight in habits.weights.items() if move != "draft"}
        return replace(habits, weights=weights)
    return habits


def random_config(rng: random.Random, allocator: str, page_size: int) -> SimConfig:
    """Small pools of odd proportions, so that they run short often."""
    return SimConfig(
        page_size=page_size,
        kv_size=page_size * rng.randint(8, 48),
        kv_size_swa=page_size * rng.randint(8, 40),
        sliding_window_size=rng.choice((page_size, 2 * page_size, 3 * page_size + 1)),
        need_sort=rng.random() < 0.5,
        allocator=allocator,
    )
