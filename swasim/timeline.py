"""The free-space table: one row per event, and which rows of a long trace are kept.

Memory is bounded whatever the length of the trace: interesting rows are kept first, ordinary ones
are thinned out evenly.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from swasim.runs import ALLOC, DECODE, EXTEND, RunCall
from swasim.trace import events as ev
from swasim.trace.events import IndexList, compress
from swasim.trace.resolve import Resolved

DEFAULT_ROWS = 60
INTERESTING_ROWS = 400
SLOTS_LOOKED_AT = 4096
"""Most slots of a call that its row speaks of."""


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One row of the free-space table; the finished, printable form of a step.

    Attributes:
        detail: the request with its positions, or the slots, short ("B 0:4", "[8, 12)", "3 reqs").
        result: "ok", "refused", "skipped", or the exception's class name; "" where nothing was
            called.
        full_available, swa_available: tokens, after the event.
        full_change, swa_change: tokens, against the event before.
        kinds: kinds of the findings at this event.
    """

    event: int
    line: int
    op: str
    detail: str
    result: str
    full_available: int
    swa_available: int
    full_change: int
    swa_change: int
    kinds: tuple[str, ...] = ()


class Timeline:
    """Collects rows.

    Args:
        every: keep each n-th event, and the interesting ones; None: as many as fit a table.
        tail: keep the last n events only; None: all of the trace.
    """

    def __init__(self, every: int | None = None, tail: int | None = None) -> None:
        self._every = every
        self._stride = every or 1
        self._ordinary: list[TimelineRow] = []
        self._interesting: dict[int, TimelineRow] = {}
        self._tail: deque[TimelineRow] | None = None if tail is None else deque(maxlen=tail)
        self._last: TimelineRow | None = None
        self._seen = 0

    def wants(self, event: int) -> bool:
        """Whether an uninteresting event would be kept, so that its row is worth making."""
        return self._tail is not None or (event - 1) % self._stride == 0

    def next_wanted(self, event: int) -> int:
        """The first event from `event` on that `wants` says yes to, as things stand."""
        return event if self._tail is not None else event + (1 - event) % self._stride

    def add(self, row: TimelineRow, *, interesting: bool) -> None:
        """Offer a row."""
        self._seen += 1
        self._last = row
        if self._tail is not None:
            self._tail.append(row)
        elif interesting and len(self._interesting) < INTERESTING_ROWS:
            self._interesting[row.event] = row
        elif (row.event - 1) % self._stride == 0:
            self._ordinary.append(row)
            if self._every is None and len(self._ordinary) > DEFAULT_ROWS:
                self._stride *= 2
                keep = self._stride
                self._ordinary = [r for r in self._ordinary if (r.event - 1) % keep == 0]

    def skip(self, events: int = 1) -> None:
        """Events whose rows were not worth making."""
        self._seen += events

    def mark(self, event: int, kind: str) -> None:
        """A finding about an earlier event: add it to the row, where that was kept."""
        rows = self._tail if self._tail is not None else self._ordinary
        for at, row in enumerate(rows):
            if row.event == event:
                rows[at] = replace(row, kinds=(*row.kinds, kind))
                return
        kept = self._interesting.get(event)
        if kept is not None:
            self._interesting[event] = replace(kept, kinds=(*kept.kinds, kind))

    def rows(self) -> tuple[tuple[TimelineRow, ...], int]:
        """The kept rows in order, and how many were left out."""
        if self._tail is not None:
            return tuple(self._tail), self._seen - len(self._tail)
        by_event = {row.event: row for row in self._ordinary} | self._interesting
        if self._last is not None:
            by_event.setdefault(self._last.event, self._last)
        rows = tuple(by_event[event] for event in sorted(by_event))
        return rows, self._seen - len(rows)


def detail_of(event: ev.AnyEvent, resolved: Resolved) -> str:
    """What an event is about, in a few words."""
    call = resolved.call
    if isinstance(event, ev.Mark):
        return event.label
    if isinstance(event, ev.Share):
        start, end = resolved.positions or (0, 0)
        return f"{event.req} <- {event.from_} {start}:{end}"
    if isinstance(event, ev.ExpectOnly) or call is None:
        return ""
    if isinstance(event, ev.BackupState | ev.RestoreState):
        return event.slot
    if len(resolved.reqs) == 1:
        return _one_request(resolved)
    if resolved.reqs:
        return f"{len(resolved.reqs)} reqs, +{_new_tokens(resolved)} tokens"
    if isinstance(event, ev.Allocation):
        pool = f" {call.pool}" if call.pool else ""
        return f"+{_new_tokens(resolved)} tokens{pool}"
    if call.full:
        return f"{_slots(call.full)} -> {_slots(call.swa)}"
    slots = call.named_slots
    pool = f" {call.pool}" if call.pool else ""
    return _slots(slots) + pool if slots else pool.strip()


def detail_by_runs(call: RunCall) -> str:
    """`detail_of` for a call on the whole pair that names no request."""
    if call.op == ALLOC:
        return f"+{call.need_size} tokens"
    if call.op == DECODE:
        return f"+{call.seq_lens.count} tokens"
    if call.op == EXTEND:
        return f"+{sum(call.seq_lens.tolist()) - sum(call.prefix_lens.tolist())} tokens"
    parts: IndexList = []
    left = SLOTS_LOOKED_AT
    for run in range(call.starts.count):
        start, length = call.starts.at[run], min(call.lengths.at[run], left)
        if length:
            parts.append(start if length == 1 else (start, start + length))
        left -= length
    return _parts(parts)


def _one_request(resolved: Resolved) -> str:
    call, req = resolved.call, resolved.reqs[0]
    if resolved.positions is not None:
        return f"{req} {resolved.positions[0]}:{resolved.positions[1]}"
    if call is None or not call.seq_lens:
        return f"{req} +{call.need_size if call else 0}"
    first = call.prefix_lens[0] if call.prefix_lens else call.seq_lens[0] - 1
    return f"{req} {first}:{call.seq_lens[0]}"


def _new_tokens(resolved: Resolved) -> int:
    call = resolved.call
    if call is None:
        return 0
    if call.op == "alloc":
        return call.need_size
    if call.op == "alloc_decode":
        return len(call.seq_lens)
    return sum(call.seq_lens) - sum(call.prefix_lens)


def _slots(slots: list[int]) -> str:
    return _parts(compress(slots[:SLOTS_LOOKED_AT]))


def _parts(parts: IndexList) -> str:
    shown = ", ".join(
        str(item) if isinstance(item, int) else f"[{item[0]}, {item[1]})" for item in parts[:3]
    )
    return shown if len(parts) <= 3 else f"{shown} (+{len(parts) - 3})"
