"""Helpers for tests of `swasim minimize`: events from text, one pass at a time, buried faults."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from swasim.allocator import registry
from swasim.config import SimConfig
from swasim.fuzz.habits import Habits
from swasim.fuzz.workload import Workload
from swasim.minimize.search import Search
from swasim.minimize.target import Target
from swasim.replayer import Replayer
from swasim.trace import events as ev
from swasim.trace.events import AnyEvent, Entry
from swasim.trace.reader import from_events
from swasim.trace.writer import encode_event

DOUBLE_FREE = Target("double-free", "full", None, allocated=True, first=True)


def small(**changes: Any) -> SimConfig:
    """Page size 2, six pages in each pool, allocator fixed."""
    return SimConfig(**{"page_size": 2, "kv_size": 12, "kv_size_swa": 12} | changes)


def parsed(*lines: str) -> list[AnyEvent]:
    """Events from JSON lines."""
    return [entry.event for entry in from_events(lines)]


def search_on(
    lines: Iterable[str],
    target: Target = DOUBLE_FREE,
    config: SimConfig | None = None,
    **settings: Any,
) -> Search:
    """A search that has taken the trace over, unshrunk."""
    search = Search(target, **settings)
    taken = search.offer_events(parsed(*lines), config or small())
    assert taken, "the start trace does not show the finding"
    return search


def after(work: Callable[[Search], None], lines: Iterable[str], **given: Any) -> list[str]:
    """What one pass makes of a trace."""
    search = search_on(lines, **given)
    work(search)
    return written(search.events)


def written(events: Iterable[AnyEvent]) -> list[str]:
    """Events as lines."""
    return [encode_event(event).decode() for event in events]


FREE = '{"op":"free","req":"REQ","start":4,"end":8}'
BURIED = {
    "double free": ("fixed", (FREE, FREE), 3),
    "window": (
        "fixed",
        (
            '{"op":"free_swa","req":"REQ","start":8,"end":12}',
            '{"op":"alloc_decode","reqs":["REQ"]}',
        ),
        3,
    ),
    "dropped group": (
        "fault:38159",
        (
            '{"op":"free_group_begin"}',
            FREE,
            '{"op":"free_group_begin"}',
            '{"op":"free_group_end"}',
        ),
        5,
    ),
    "stranded peer": ("fault:36723-free-full", ('{"op":"free_full","req":"REQ"}',), 3),
}
"""Name to allocator, what is buried, and how many events the smallest trace needs."""


def workload(
    count: int, allocator: str, seed: int, fault: Sequence[str], *, page_size: int = 4
) -> tuple[SimConfig, list[AnyEvent]]:
    """Contract-respecting work with `fault` in the middle; REQ stands for a running request."""
    rng = random.Random(seed)
    size = 128 * page_size
    config = SimConfig(
        page_size=page_size,
        kv_size=size,
        kv_size_swa=size,
        sliding_window_size=3 * page_size,
        allocator=allocator,
    )
    replayer = Replayer(config)
    profile = registry.profile(allocator)
    work = Workload(
        config.geometry,
        profile.operations,
        Habits(8, 4 * page_size, 3 * page_size),
        rng,
        replayer.resolver.rows,
        skips_unmapped=profile.filter_page_size_1 and profile.filter_segments,
    )
    events: list[AnyEvent] = []
    out: list[int] | None = None
    pending = list(fault)
    while len(events) < count + len(fault):
        event = work.next_event(*replayer.available, out)
        if pending and len(events) >= count // 2:
            req = faulty_request(events, replayer, page_size)
            if req is not None and not inside_a_group(events):
                names = [line.replace("REQ", req) for line in pending]
                pending = []
                for made in parsed(*names):
                    events.append(made)
                    replayer.step(Entry(len(events), len(events), made))
        events.append(event)
        step = replayer.step(Entry(len(events), len(events), event))
        out = step.effect.out if step.effect is not None else None
    assert not pending
    return config, events


def faulty_request(events: list[AnyEvent], replayer: Replayer, page_size: int) -> str | None:
    """A request that got two whole pages in one extend just now."""
    event = events[-1]
    if isinstance(event, ev.AllocExtend) and event.reqs:
        for req in event.reqs:
            row = replayer.resolver.rows.get(req)
            if row is not None and len(row) >= 3 * page_size and len(set(row.births)) == 1:
                return str(req)
    return None


def inside_a_group(events: list[AnyEvent]) -> bool:
    kinds = [e for e in events if isinstance(e, ev.FreeGroupBegin | ev.FreeGroupEnd)]
    return bool(kinds) and isinstance(kinds[-1], ev.FreeGroupBegin)
