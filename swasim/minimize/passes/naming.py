"""From recorded slots to rows: a trace that names requests and positions holds anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from swasim.geometry import NO_LOC
from swasim.minimize.draft import TOKEN, Line, follow, items_of
from swasim.minimize.search import Search
from swasim.trace import events as ev
from swasim.trace.events import ReqName, expand

_replace = msgspec.structs.replace


def name_rows(search: Search) -> None:
    """Give every allocation a request and name its slots by position."""
    named = rows_named(search.lines, search.config.page_size)
    if named is not None:
        search.offer(named)


def rows_named(lines: Sequence[Line], page_size: int) -> list[Line] | None:
    """The draft with rows where slots were raw; None where nothing can be changed.

    What cannot be said with rows stays raw: an explicit mapping, slots of one pool alone, slots
    that no event of the draft allocates.
    """
    namer = _Namer(page_size, {req for line in lines for req in _reqs(line)})
    named = [made for line in lines for made in namer.name(line)]
    return None if named == list(lines) else named


def _reqs(line: Line) -> list[ReqName]:
    event = line.event
    req = getattr(event, "req", None)
    found = [] if req is None else [req]
    return found + [name for name, _, _ in items_of(event) if name is not None]


class _Namer:
    def __init__(self, page_size: int, taken: set[ReqName]) -> None:
        self._page_size = page_size
        self._rows: dict[ReqName, list[int]] = {}
        self._home: dict[int, tuple[ReqName, int]] = {}
        self._taken = taken
        self._count = 0

    def name(self, line: Line) -> Iterator[Line]:
        for made in self._named(line):
            follow(self._rows, made)
            if isinstance(made.event, ev.Allocation) and not made.refused:
                self._remember(made)
            yield made

    def _named(self, line: Line) -> list[Line]:
        event = line.event
        if isinstance(event, ev.Alloc):
            if event.req is None and event.pool is None:
                return [line._replace(event=_replace(event, req=self._new()))]
            return [line]
        if isinstance(event, ev.AllocExtend | ev.AllocDecode) and event.reqs is None:
            return self._growth(line, event, event.last_loc or [])
        if isinstance(event, ev.AllocExtendSwaTail) and event.req is None:
            last = [event.last_loc if event.last_loc is not None else NO_LOC]
            return self._growth(line, event, last)
        if isinstance(event, ev.Release) and event.req is None:
            return self._release(line, event)
        return [line]

    def _remember(self, line: Line) -> None:
        for req in _reqs(line):
            row = self._rows[req]
            for position, token in enumerate(row):
                self._home.setdefault(token, (req, position))

    def _new(self) -> str:
        while True:
            self._count += 1
            name = f"r{self._count}"
            if name not in self._taken:
                return name

    def _growth(self, line: Line, event: Any, last_loc: Sequence[int]) -> list[Line]:
        """Continue the row that ends in `last_loc`, share up to it, or begin a new one."""
        size = self._page_size
        before: list[Line] = []
        reqs: list[ReqName] = []
        prefix_lens: list[int] = []
        seq_lens: list[int] = []
        req: ReqName
        for (_, prefix_len, seq_len), slot in zip(items_of(event), last_loc, strict=True):
            home = self._living(slot)
            if home is not None and (home[1] + 1) % size != prefix_len % size:
                return [line]
            if home is None:
                if prefix_len % size:
                    return [line]
                req, kept = self._new(), 0
            elif home[1] + 1 == len(self._rows[home[0]]) and home[0] not in reqs:
                req, kept = home[0], home[1] + 1
            elif prefix_len % size == 0:
                req, kept = self._new(), 0
            else:
                req, kept = self._new(), home[1] + 1
                before.append(Line(ev.Share(req=req, from_=home[0], start=0, end=kept)))
            reqs.append(req)
            prefix_lens.append(kept)
            seq_lens.append(kept + seq_len - prefix_len)
        return [*before, line._replace(event=_in_rows(event, reqs, prefix_lens, seq_lens))]

    def _living(self, slot: int) -> tuple[ReqName, int] | None:
        """Where a token stands in its row, if it still does."""
        home = self._home.get(slot - TOKEN) if slot >= TOKEN else None
        if home is None:
            return None
        row = self._rows.get(home[0], [])
        return home if home[1] < len(row) and row[home[1]] == slot - TOKEN else None

    def _release(self, line: Line, event: Any) -> list[Line]:
        """One release per stretch of positions of one row."""
        pieces: list[tuple[ReqName, int, int]] = []
        if getattr(event, "pool", None) is not None:
            return [line]
        for slot in expand(event.indices):
            home = self._living(slot)
            if home is None:
                return [line]
            req, position = home
            if pieces and pieces[-1][0] == req and pieces[-1][2] == position:
                pieces[-1] = (req, pieces[-1][1], position + 1)
            else:
                pieces.append((req, position, position + 1))
        changes: dict[str, Any] = {"indices": None}
        if isinstance(event, ev.SegmentRelease):
            changes["start_pos"] = None
        return [
            Line(_replace(event, req=req, start=start, end=end, **changes))
            for req, start, end in pieces
        ]


def _in_rows(
    event: Any, reqs: list[ReqName], prefix_lens: list[int], seq_lens: list[int]
) -> ev.AnyEvent:
    made: ev.AnyEvent
    if isinstance(event, ev.AllocExtendSwaTail):
        made = _replace(
            event, req=reqs[0], prefix_len=prefix_lens[0], seq_len=seq_lens[0], last_loc=None
        )
    elif isinstance(event, ev.AllocDecode):
        made = _replace(event, reqs=reqs, seq_lens=seq_lens, last_loc=None)
    else:
        assert isinstance(event, ev.AllocExtend), event
        made = _replace(event, reqs=reqs, prefix_lens=prefix_lens, seq_lens=seq_lens, last_loc=None)
    return made
