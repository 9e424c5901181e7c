"""Events of hand-written traces, short enough to read a test as a sentence."""

from __future__ import annotations

from typing import Any

from swasim.collect import Replay
from swasim.run import replay
from swasim.sanitizer.findings import Finding
from swasim.trace.events import AnyEvent
from swasim.trace.reader import from_events

Event = dict[str, Any]


def event_of(line: str) -> AnyEvent:
    """The event that a line of a trace means."""
    return next(iter(from_events([line]))).event


def extend(req: str, seq_len: int, prefix_len: int | None = None) -> Event:
    """Grow a row to `seq_len` tokens."""
    event: Event = {"op": "alloc_extend", "reqs": [req], "seq_lens": [seq_len]}
    return event if prefix_len is None else event | {"prefix_lens": [prefix_len]}


def decode(*reqs: str) -> Event:
    """One token for each row."""
    return {"op": "alloc_decode", "reqs": list(reqs)}


def alloc(need_size: int, **fields: Any) -> Event:
    """Whole pages, or tokens at page size 1."""
    return {"op": "alloc", "need_size": need_size, **fields}


def tail(req: str, seq_len: int, swa_tail_len: int) -> Event:
    """Full slots for all, SWA slots for the tail."""
    return {"op": "alloc_extend_swa_tail", "req": req, "seq_len": seq_len} | {
        "swa_tail_len": swa_tail_len
    }


def release(op: str, req: str, start: int | None = None, end: int | None = None) -> Event:
    """Any of the releases, by row."""
    event: Event = {"op": op, "req": req}
    if start is not None:
        event["start"] = start
    if end is not None:
        event["end"] = end
    return event


def free(req: str, start: int | None = None, end: int | None = None) -> Event:
    """`free` by row."""
    return release("free", req, start, end)


def free_swa(req: str, start: int | None = None, end: int | None = None) -> Event:
    """`free_swa` by row."""
    return release("free_swa", req, start, end)


def free_slots(*slots: int, op: str = "free", **fields: Any) -> Event:
    """A release by raw slots."""
    return {"op": op, "indices": list(slots), **fields}


def share(req: str, source: str, start: int = 0, end: int | None = None) -> Event:
    """Append slots of another row."""
    event: Event = {"op": "share", "req": req, "from": source, "start": start}
    return event if end is None else event | {"end": end}


def set_mapping(full: list[int], swa: list[int]) -> Event:
    """Point full slots at SWA slots."""
    return {"op": "set_full_to_swa_mapping", "full": full, "swa": swa}


def finish(req: str) -> Event:
    """Release what the row holds and forget it."""
    return {"op": "finish", "req": req}


BEGIN: Event = {"op": "free_group_begin"}
END: Event = {"op": "free_group_end"}
CLEAR: Event = {"op": "clear"}
IDLE: Event = {"op": "expect", "idle": True}


def play(*events: Event, allocator: str = "ideal", page_size: int = 4, **settings: Any) -> Replay:
    """Replay events on eight pages per pool, unless told otherwise."""
    sizes = {"page_size": page_size, "kv_size": 8 * page_size, "kv_size_swa": 8 * page_size}
    return replay(list(events), allocator=allocator, **{**sizes, **settings})


def findings(*events: Event, **settings: Any) -> tuple[Finding, ...]:
    """All findings, in order of their events."""
    return play(*events, **settings).findings


def errors(*events: Event, **settings: Any) -> list[tuple[int, str]]:
    """Errors that follow from no other, as (event, kind)."""
    found = findings(*events, **settings)
    return [(f.at.event, f.kind) for f in found if f.severity == "error" and f.cause is None]


def everything(*events: Event, **settings: Any) -> list[tuple[int, str]]:
    """All findings of any severity, consequences included, as (event, kind)."""
    return [(f.at.event, f.kind) for f in findings(*events, **settings)]


def one(kind: str, *events: Event, **settings: Any) -> Finding:
    """The only finding of a kind."""
    [finding] = [f for f in findings(*events, **settings) if f.kind == kind]
    return finding
