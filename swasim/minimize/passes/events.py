"""Passes that leave events out."""

from __future__ import annotations

import itertools

from swasim.minimize.draft import Line, items_of
from swasim.minimize.project import AllBut, project
from swasim.minimize.search import Search
from swasim.trace import events as ev
from swasim.trace.events import AnyEvent, ReqName

PAIRS = 300
"""Pairs tried at most; every one of them where there are no more than that."""


def drop_events(search: Search) -> None:
    """Leave runs of lines out, long ones first, from the end."""
    chunk = max(len(search.lines) // 2, 1)
    while True:
        end = len(search.lines)
        while end > 0:
            start = max(end - chunk, 0)
            _without(search, range(start, end))
            end = min(start, len(search.lines))
        if chunk == 1:
            return
        chunk = max(min(chunk // 2, len(search.lines) // 2), 1)


def _without(search: Search, skip: range | set[int]) -> bool:
    lines = search.lines
    dead = [token for index in skip for token in lines[index].fresh]
    return search.offer(project(lines, AllBut(dead), search.config.page_size, skip=skip))


def drop_requests(search: Search) -> None:
    """Leave one row out, with every event that is about it alone."""
    for req in reversed(requests_of([line.event for line in search.lines])):
        lines = search.lines
        dead: list[int] = []
        skip: set[int] = set()
        for index, line in enumerate(lines):
            dead += _tokens_for(line, req)
            if getattr(line.event, "req", None) == req:
                skip.add(index)
        search.offer(project(lines, AllBut(dead), search.config.page_size, skip=skip))


def requests_of(events: list[AnyEvent] | tuple[AnyEvent, ...]) -> list[ReqName]:
    """Rows in order of first appearance."""
    names: dict[ReqName, None] = {}
    for event in events:
        if isinstance(event, ev.AllocExtend | ev.AllocDecode):
            names.update(dict.fromkeys(event.reqs or ()))
            continue
        if isinstance(event, ev.Share):
            names[event.from_] = None
        req = getattr(event, "req", None)
        if req is not None:
            names[req] = None
    return list(names)


def _tokens_for(line: Line, req: ReqName) -> list[int]:
    found: list[int] = []
    at = 0
    for name, prefix_len, seq_len in items_of(line.event):
        count = seq_len - prefix_len
        if name == req:
            found += line.fresh[at : at + count]
        at += count
    return found


def drop_items(search: Search) -> None:
    """Leave single requests out of batches."""
    for index in reversed(range(len(search.lines))):
        item = len(items_of(search.lines[index].event)) - 1
        while item >= 0 and index < len(search.lines):
            line = search.lines[index]
            items = items_of(line.event)
            if len(items) < 2 or item >= len(items):
                break
            at = sum(b - a for _, a, b in items[:item])
            dead = line.fresh[at : at + items[item][2] - items[item][1]]
            search.offer(project(search.lines, AllBut(dead), search.config.page_size))
            item -= 1


def ungroup(search: Search) -> None:
    """Leave out a begin and the end that belongs to it."""
    begin = len(search.lines) - 1
    while begin >= 0:
        lines = search.lines
        if begin < len(lines) and isinstance(lines[begin].event, ev.FreeGroupBegin):
            ends = [
                at
                for at in range(begin, len(lines))
                if isinstance(lines[at].event, ev.FreeGroupEnd)
            ]
            _without(search, {begin, *ends[:1]})
        begin -= 1


def drop_single(search: Search) -> None:
    """Leave out any one event of the finished trace: what is left is 1-minimal."""
    at = len(search.events) - 1
    while at >= 0:
        events = search.events
        if at < len(events) and search.offer_events(events[:at] + events[at + 1 :]):
            at = len(search.events)
        at -= 1


def drop_pairs(search: Search) -> None:
    """Leave out any two lines: a request and its release may only go together."""
    count = len(search.lines)
    pairs = list(itertools.combinations(range(count), 2))
    if len(pairs) > PAIRS:
        pairs = search.random.sample(pairs, PAIRS)
    for first, second in pairs:
        if second < len(search.lines):
            _without(search, {first, second})
