"""Passes that make the world smaller: pools, pages, window."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from swasim.config import SimConfig
from swasim.minimize.draft import TOKEN, Line, follow, items_of
from swasim.minimize.passes.lengths import smallest
from swasim.minimize.project import AllBut, project
from swasim.minimize.search import Search
from swasim.trace import events as ev
from swasim.trace.events import AnyEvent, ReqName, expand


def fit_pools(search: Search) -> None:
    """Pools that hold all that is ever asked for: nothing is refused, and replays are cheap."""
    config = search.config
    page = config.page_size
    pages = sum(
        -(-(seq_len - prefix_len) // page) + 1
        for line in search.lines
        for _, prefix_len, seq_len in items_of(line.event)
    )
    size = max(pages, 1) * page
    search.offer(
        search.lines,
        replace(
            config,
            kv_size=min(config.kv_size, size),
            kv_size_swa=min(config.kv_size_swa, size),
        ),
    )


def smaller_pools(search: Search) -> None:
    """Fewer pages in each pool, both together first."""
    for pools in (("kv_size", "kv_size_swa"), ("kv_size_swa",), ("kv_size",)):
        sizes = [getattr(search.config, pool) for pool in pools]
        page = search.config.page_size

        def holds(pages: int, pools: tuple[str, ...] = pools, page: int = page) -> bool:
            sizes = {p: min(pages * page, getattr(search.config, p)) for p in pools}
            return search.offer(search.lines, replace(search.config, **sizes))

        smallest(1, max(sizes) // page, holds)


def smaller_pages(search: Search) -> None:
    """Pages of fewer tokens: every page keeps its first ones, and the pools their pages."""
    page_size = 2
    while page_size < search.config.page_size:
        if search.offer(_shrunk(search, page_size), _scaled(search, page_size)):
            break
        page_size *= 2
    if search.config.page_size > 1:
        lines = _as_single_tokens(_shrunk(search, 1))
        if lines is not None:
            search.offer(lines, _scaled(search, 1))


def _scaled(search: Search, page_size: int) -> SimConfig:
    config = search.config
    return replace(
        config,
        page_size=page_size,
        kv_size=config.kv_size // config.page_size * page_size,
        kv_size_swa=config.kv_size_swa // config.page_size * page_size,
    )


def _shrunk(search: Search, page_size: int) -> list[Line]:
    """The draft with the first tokens of every page only."""
    old = search.config.page_size
    places: dict[int, int] = {}
    rows: dict[ReqName, list[int]] = {}
    for line in search.lines:
        at = 0
        for req, prefix_len, seq_len in items_of(line.event):
            first = len(rows.get(req, ())) if req is not None and prefix_len < 0 else prefix_len
            for nth in range(seq_len - prefix_len):
                places[line.fresh[at + nth]] = (max(first, 0) + nth) % old
            at += seq_len - prefix_len
        follow(rows, line)
    dead = [token for token, offset in places.items() if offset >= page_size]
    cut = project(search.lines, AllBut(dead), page_size)
    return [line._replace(event=_literals_moved(line.event, old, page_size)) for line in cut]


def _literals_moved(event: AnyEvent, old: int, new: int) -> AnyEvent:
    """Slots that are given as numbers, on the same page of the smaller size."""

    def move(slot: int) -> int | None:
        if slot < 0 or slot >= TOKEN:
            return slot
        page, offset = divmod(slot, old)
        return page * new + offset if offset < new else None

    if isinstance(event, ev.SetFullToSwaMapping):
        moved = [
            (move(a), move(b)) for a, b in zip(expand(event.full), expand(event.swa), strict=True)
        ]
        pairs = [(a, b) for a, b in moved if a is not None and b is not None]
        return msgspec.structs.replace(event, full=[a for a, _ in pairs], swa=[b for _, b in pairs])
    if isinstance(event, ev.Release) and event.indices is not None:
        slots = [move(slot) for slot in expand(event.indices)]
        return _moved(event, [slot for slot in slots if slot is not None])
    return event


def _moved(event: Any, indices: list[int]) -> AnyEvent:
    made: AnyEvent = msgspec.structs.replace(event, indices=indices)
    return made


def _as_single_tokens(lines: list[Line]) -> list[Line] | None:
    """Page size 1 knows `alloc` only; None where a line has no such form."""
    made: list[Line] = []
    rows: dict[ReqName, list[int]] = {}
    for line in lines:
        event = line.event
        if isinstance(event, ev.AllocExtend | ev.AllocDecode):
            if event.reqs is None or event.last_loc is not None:
                return None
            at = 0
            for req, prefix_len, seq_len in items_of(event):
                if prefix_len != len(rows.get(req, ())) if req is not None else True:
                    return None
                count = seq_len - prefix_len
                alloc = ev.Alloc(need_size=count, req=req, expect=event.expect)
                made.append(Line(alloc, line.fresh[at : at + count]))
                at += count
        elif isinstance(event, ev.AllocExtendSwaTail):
            return None
        else:
            made.append(line)
        follow(rows, line)
    return made


def smaller_window(search: Search) -> None:
    """No window, else the smallest one."""
    window = search.config.sliding_window_size
    if window is None or search.offer(
        search.lines, replace(search.config, sliding_window_size=None)
    ):
        return
    smallest(
        1,
        window,
        lambda size: search.offer(search.lines, replace(search.config, sliding_window_size=size)),
    )


def no_sorting(search: Search) -> None:
    """The plain free list."""
    if search.config.need_sort:
        search.offer(search.lines, replace(search.config, need_sort=False))
