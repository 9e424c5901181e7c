"""Whatever faulty trace goes in, what comes out shows the same finding, and nothing less does."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swasim.allocator import registry
from swasim.config import SimConfig
from swasim.errors import UsageError
from swasim.fuzz.habits import Habits
from swasim.fuzz.workload import Workload
from swasim.minimize import minimize
from swasim.replayer import Replayer
from swasim.run import replay
from swasim.trace import events as ev
from swasim.trace.events import AnyEvent, Entry, compress

ALLOCATORS = ("fixed", "buggy", "ideal", "sglang-0.5.12", "sglang-0.5.23", "fault:38159")


def faulty(
    allocator: str, page_size: int, seed: int, *, raw: bool
) -> tuple[SimConfig, list[AnyEvent]]:
    """Work with a release repeated, or cut to a part of a page, now and then."""
    rng = random.Random(seed)
    config = SimConfig(
        page_size=page_size,
        kv_size=page_size * rng.randint(8, 24),
        kv_size_swa=page_size * rng.randint(8, 24),
        sliding_window_size=rng.choice([None, page_size, 2 * page_size + 1]),
        need_sort=rng.random() < 0.5,
        allocator=allocator,
    )
    replayer = Replayer(config)
    profile = registry.profile(allocator)
    work = Workload(
        config.geometry,
        profile.operations,
        Habits(3, 3 * page_size, 2 * page_size),
        rng,
        replayer.resolver.rows,
        skips_unmapped=profile.filter_page_size_1 and profile.filter_segments,
    )
    events: list[AnyEvent] = []
    out: list[int] | None = None
    for _ in range(120):
        made = [work.next_event(*replayer.available, out)]
        if isinstance(made[0], ev.Free | ev.FreeSwa) and rng.random() < 0.2:
            made = [made[0], made[0]] if rng.random() < 0.6 else [half(made[0])]
        for event in made:
            number = len(events) + 1
            step = replayer.step(Entry(number, number, event))
            out = step.effect.out if step.effect is not None else None
            if raw and isinstance(event, ev.Free | ev.FreeSwa) and step.call is not None:
                event = type(event)(indices=compress(step.call.indices))
            events.append(event)
    return config, events


def half(event: ev.Free | ev.FreeSwa) -> ev.Free | ev.FreeSwa:
    start, end = event.start or 0, event.end or 0
    return type(event)(req=event.req, start=start, end=max(start + 1, (start + end) // 2))


@given(
    allocator=st.sampled_from(ALLOCATORS),
    page_size=st.sampled_from([1, 2, 4]),
    seed=st.integers(0, 10**6),
    raw=st.booleans(),
)
def test_the_result_shows_the_finding_and_no_single_event_can_go(
    allocator: str, page_size: int, seed: int, raw: bool
) -> None:
    config, events = faulty(allocator, page_size, seed, raw=raw)
    if not replay(events, config).summary.errors:
        with pytest.raises(UsageError, match="nothing to minimize"):
            minimize(events, config)
        return
    result = minimize(events, config)
    assert result.shown_by(result.events)
    assert len(result.events) <= result.events_before
    for at in range(len(result.events)):
        assert not result.shown_by([*result.events[:at], *result.events[at + 1 :]])
