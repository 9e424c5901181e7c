"""Cutting tokens and lines out of a draft, with every later length and position following."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

import msgspec

from swasim.geometry import NO_LOC
from swasim.minimize.draft import TOKEN, Line, items_of
from swasim.trace import events as ev
from swasim.trace.events import AnyEvent, ReqName, expand

_replace = msgspec.structs.replace


class AllBut:
    """Every token but some."""

    def __init__(self, dead: Iterable[int]) -> None:
        self._dead = frozenset(dead)

    def __contains__(self, token: object) -> bool:
        return token not in self._dead


def project(
    lines: Iterable[Line],
    alive: Container[int],
    page_size: int,
    *,
    skip: Container[int] = (),
    marked: Container[int] | None = None,
) -> list[Line]:
    """The draft without the tokens that are not `alive`.

    An allocation keeps the batch items that still allocate something, a release the positions
    that are still there; what is left with nothing is left out.

    Args:
        skip: indices of lines to leave out; their tokens should not be alive.
        marked: for a slice: indices of the lines that the finding names. The others lose what
            they expect, and go where they frame nothing: an empty group, a leading `clear`.
    """
    cutter = _Cutter(alive, page_size)
    kept: list[tuple[int, Line]] = []
    for index, line in enumerate(lines):
        cut = cutter.cut(line, skipped=index in skip)
        if cut is None:
            continue
        if marked is not None and index not in marked:
            if isinstance(cut.event, ev.ExpectOnly) or _frames_nothing(cut, kept, marked):
                continue
            if cut.event.expect is not None:
                cut = cut._replace(event=_replace(cut.event, expect=None))
        kept.append((index, cut))
    return [line for _, line in kept]


def _frames_nothing(line: Line, kept: list[tuple[int, Line]], marked: Container[int]) -> bool:
    """Whether a line closes an empty group, which then goes too, or resets a new state."""
    event = line.event
    if not kept:
        return isinstance(event, ev.Clear | ev.FreeGroupEnd)
    index, last = kept[-1]
    if isinstance(event, ev.FreeGroupEnd) and isinstance(last.event, ev.FreeGroupBegin):
        if index not in marked:
            kept.pop()
        return index not in marked
    return isinstance(event, ev.Clear) and isinstance(last.event, ev.Clear)


class _Row:
    """Survivors of a row: `left[n]` of its first `n` tokens are alive."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = [0]

    def upto(self, length: int | None) -> int:
        if length is None:
            return self.left[-1]
        return self.left[min(length, len(self.left) - 1)]


class _Cutter:
    def __init__(self, alive: Container[int], page_size: int) -> None:
        self._alive = alive
        self._page_size = page_size
        self._rows: dict[ReqName, _Row] = {}
        self._tokens: dict[ReqName, list[int]] = {}

    def cut(self, line: Line, *, skipped: bool) -> Line | None:
        event = line.event
        if isinstance(event, ev.Allocation):
            return self._allocation(line, skipped)
        if isinstance(event, ev.Share):
            return self._share(event, skipped)
        if isinstance(event, ev.Finish):
            row = self._rows.pop(event.req, None)
            self._tokens.pop(event.req, None)
            return None if skipped or row is None or not row.left[-1] else line
        if isinstance(event, ev.Clear):
            self._rows.clear()
            self._tokens.clear()
        if skipped:
            return None
        if isinstance(event, ev.Release):
            return self._release(event)
        if isinstance(event, ev.SetFullToSwaMapping):
            return self._set_mapping(event)
        if isinstance(event, ev.FreeSegments | ev.FreeFullSegments):
            pieces = [
                _replace(item, indices=left)
                for item in event.segments
                if (left := self._left(item.indices))
            ]
            return Line(_replace(event, segments=pieces)) if pieces else None
        return line

    def _left(self, indices: ev.IndexList) -> list[Any]:
        alive = self._alive
        return [s for s in expand(indices) if s < TOKEN or s - TOKEN in alive]

    def _allocation(self, line: Line, skipped: bool) -> Line | None:
        event, alive = line.event, self._alive
        items: list[tuple[ReqName | None, int, int]] = []
        fresh: list[int] = []
        picked: list[int] = []
        at = 0
        for index, (req, prefix_len, seq_len) in enumerate(items_of(event)):
            count = seq_len - prefix_len
            born = line.fresh[at : at + count]
            at += count
            live = [token for token in born if token in alive]
            new_prefix = self._grow(req, prefix_len, born, line.refused)
            if live and not skipped:
                items.append((req, new_prefix, new_prefix + len(live)))
                fresh += live
                picked.append(index)
        if not items:
            return None
        return Line(self._rebuilt(event, items, picked, line.fresh), fresh, line.refused)

    def _grow(
        self, req: ReqName | None, prefix_len: int, born: Sequence[int], refused: bool
    ) -> int:
        """Carry the row on; returns what is left of the prefix."""
        if req is None:
            return max(prefix_len, 0) % self._page_size
        row = self._rows.get(req)
        if row is None:
            row = self._rows[req] = _Row()
            self._tokens[req] = []
        kept = len(row.left) - 1 if prefix_len < 0 else min(prefix_len, len(row.left) - 1)
        left = row.left[kept]
        if not refused:
            del row.left[kept + 1 :]
            del self._tokens[req][kept:]
            self._append(req, born)
        return left

    def _append(self, req: ReqName, tokens: Sequence[int]) -> None:
        left, alive = self._rows[req].left, self._alive
        total = left[-1]
        for token in tokens:
            total += token in alive
            left.append(total)
        self._tokens[req].extend(tokens)

    def _rebuilt(
        self,
        event: AnyEvent,
        items: list[tuple[ReqName | None, int, int]],
        picked: list[int],
        born: Sequence[int],
    ) -> AnyEvent:
        if isinstance(event, ev.Alloc):
            return _replace(event, need_size=items[0][2] - items[0][1])
        if isinstance(event, ev.AllocExtendSwaTail):
            last, prefix_lens, seq_lens = self._last(event.req is not None, [event.last_loc], items)
            tail = born[len(born) - event.swa_tail_len :]
            return _replace(
                event,
                prefix_len=prefix_lens[0],
                seq_len=seq_lens[0],
                swa_tail_len=sum(token in self._alive for token in tail),
                last_loc=None if last is None else last[0],
            )
        assert isinstance(event, ev.AllocExtend | ev.AllocDecode), event
        given = None if event.last_loc is None else [event.last_loc[i] for i in picked]
        last, prefix_lens, seq_lens = self._last(event.reqs is not None, given, items)
        reqs = None if event.reqs is None else [event.reqs[i] for i in picked]
        if isinstance(event, ev.AllocDecode):
            return _replace(event, reqs=reqs, seq_lens=seq_lens, last_loc=last)
        return _replace(event, reqs=reqs, prefix_lens=prefix_lens, seq_lens=seq_lens, last_loc=last)

    def _last(
        self,
        in_rows: bool,
        given: Sequence[int | None] | None,
        items: list[tuple[ReqName | None, int, int]],
    ) -> tuple[list[int] | None, list[int], list[int]]:
        """`last_loc`, prefix and new lengths: a request whose last token went starts anew."""
        prefix_lens = [item[1] for item in items]
        seq_lens = [item[2] for item in items]
        if given is None or given[0] is None:
            return None, prefix_lens, seq_lens
        last: list[int] = []
        for index, slot in enumerate(given):
            assert slot is not None
            gone = slot >= TOKEN and slot - TOKEN not in self._alive
            if in_rows and gone:
                return None, prefix_lens, seq_lens
            if not in_rows and (gone or not prefix_lens[index]):
                seq_lens[index] -= prefix_lens[index]
                prefix_lens[index], slot = 0, NO_LOC
            last.append(slot)
        return last, prefix_lens, seq_lens

    def _share(self, event: ev.Share, skipped: bool) -> Line | None:
        source = self._rows.get(event.from_)
        if source is None:
            return None
        first, last = source.upto(event.start), source.upto(event.end)
        taken = self._tokens[event.from_][event.start : event.end]
        if not skipped:
            if event.req not in self._rows:
                self._rows[event.req] = _Row()
                self._tokens[event.req] = []
            self._append(event.req, taken)
        if skipped or first == last:
            return None
        return Line(_replace(event, start=first, end=last))

    def _release(self, event: Any) -> Line | None:
        if event.req is None:
            indices = self._left(event.indices)
            return Line(_replace(event, indices=indices)) if indices else None
        row = self._rows.get(event.req)
        if row is None:
            return None
        first, last = row.upto(event.start), row.upto(event.end)
        return None if first == last else Line(_replace(event, start=first, end=last))

    def _set_mapping(self, event: ev.SetFullToSwaMapping) -> Line | None:
        pairs = [
            (full, swa)
            for full, swa in zip(expand(event.full), expand(event.swa), strict=False)
            if all(slot < TOKEN or slot - TOKEN in self._alive for slot in (full, swa))
        ]
        if not pairs:
            return None
        return Line(_replace(event, full=[a for a, _ in pairs], swa=[b for _, b in pairs]))
