"""Helpers for tests of `swasim minimize`: events from text, and one pass at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from swasim.config import SimConfig
from swasim.minimize.search import Search
from swasim.minimize.target import Target
from swasim.trace.events import AnyEvent
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
