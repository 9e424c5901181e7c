"""Passes that make one event of two, or one request of two."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from swasim.minimize.draft import Line, follow, items_of
from swasim.minimize.search import Search
from swasim.trace import events as ev
from swasim.trace.events import ReqName

_replace = msgspec.structs.replace

FAR_LINES = 60
"""Longer drafts are merged between neighbours only: the pairs are too many."""


def merge(search: Search) -> None:
    """Join two allocations, or two releases of neighbouring positions."""
    second = len(search.lines) - 1
    while second > 0:
        lines = search.lines
        nearest = 0 if len(lines) <= FAR_LINES else second - 1
        for first in range(second - 1, nearest - 1, -1):
            if second < len(lines) and _merge_at(search, first, second):
                break
        second = min(second - 1, len(search.lines) - 1)


def _merge_at(search: Search, first: int, second: int) -> bool:
    lines = search.lines
    joined = _joined(lines[first], lines[second])
    if joined is None:
        return False
    rest = [line for at, line in enumerate(lines) if at not in (first, second)]
    early = [*rest[:first], joined, *rest[first:]]
    late = [*rest[: second - 1], joined, *rest[second - 1 :]]
    return search.offer(early) or search.offer(late)


def _joined(a: Line, b: Line) -> Line | None:
    one, two = a.event, b.event
    if one.expect is not None or two.expect is not None:
        return None
    if isinstance(one, ev.Alloc) and isinstance(two, ev.Alloc):
        if one.req is None or (one.req, one.pool) != (two.req, two.pool):
            return None
        fresh = [*a.fresh, *b.fresh]
        return Line(_replace(one, need_size=len(fresh)), fresh)
    if isinstance(one, ev.Release) and isinstance(two, ev.Release):
        if type(one) is not type(two) or one.req is None or one.req != two.req:
            return None
        if getattr(one, "pool", None) != getattr(two, "pool", None):
            return None
        if one.end == two.start:
            return Line(_replace(one, end=two.end))
        return Line(_replace(one, start=two.start)) if one.start == two.end else None
    growths = ev.AllocExtend | ev.AllocDecode
    if isinstance(one, growths) and isinstance(two, growths):
        return _one_batch(a, b, one, two)
    return None


def _one_batch(
    a: Line,
    b: Line,
    one: ev.AllocExtend | ev.AllocDecode,
    two: ev.AllocExtend | ev.AllocDecode,
) -> Line | None:
    """Both batches in one extend; a request in both grows by both."""
    if one.reqs is None or two.reqs is None:
        return None
    if one.last_loc is not None or two.last_loc is not None:
        return None
    items: dict[ReqName, tuple[int, int, list[int]]] = {}
    for line in (a, b):
        at = 0
        for req, prefix_len, seq_len in items_of(line.event):
            fresh = list(line.fresh[at : at + seq_len - prefix_len])
            at += seq_len - prefix_len
            assert req is not None
            if req not in items:
                items[req] = (prefix_len, seq_len, fresh)
            elif items[req][1] == prefix_len:
                items[req] = (items[req][0], seq_len, items[req][2] + fresh)
            else:
                return None
    event = ev.AllocExtend(
        reqs=list(items),
        prefix_lens=[item[0] for item in items.values()],
        seq_lens=[item[1] for item in items.values()],
    )
    return Line(event, [token for item in items.values() for token in item[2]])


def unshare(search: Search) -> None:
    """Name the slots of a sharing row through the row that it shares them with."""
    at = len(search.lines) - 1
    while at >= 0:
        lines = search.lines
        if at < len(lines) and isinstance(lines[at].event, ev.Share):
            redirected = _redirected(lines, at)
            if redirected is not None:
                search.offer(redirected)
        at -= 1


def _redirected(lines: Sequence[Line], share_at: int) -> list[Line] | None:
    share = lines[share_at].event
    assert isinstance(share, ev.Share)
    rows: dict[ReqName, list[int]] = {}
    made: list[Line] = []
    for at, line in enumerate(lines):
        event = line.event
        if at == share_at:
            pass
        elif at > share_at and isinstance(event, ev.Release) and event.req == share.req:
            tokens = rows.get(share.req, [])[event.start : event.end]
            start = _place_of(tokens, rows.get(share.from_, []))
            if start is None:
                return None
            end = start + len(tokens)
            made.append(Line(_replace(event, req=share.from_, start=start, end=end)))
        elif at > share_at and isinstance(event, ev.Finish) and event.req == share.req:
            if rows.get(share.req, []) != rows.get(share.from_, []):
                return None
            made.append(Line(ev.Free(req=share.from_, start=0, end=len(rows[share.req]))))
        else:
            made.append(line)
        follow(rows, line)
    return made


def _place_of(tokens: Sequence[int], row: Sequence[int]) -> int | None:
    if not tokens or tokens[0] not in row:
        return None
    start = row.index(tokens[0])
    return start if list(row[start : start + len(tokens)]) == list(tokens) else None
