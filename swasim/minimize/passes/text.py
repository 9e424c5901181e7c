"""Passes that leave the calls as they are and say them more plainly."""

from __future__ import annotations

from typing import Any

import msgspec

from swasim.minimize.passes.events import requests_of
from swasim.minimize.search import Search
from swasim.trace import events as ev
from swasim.trace.events import AnyEvent, ReqName

_replace = msgspec.structs.replace

PLAINER: dict[type[Any], type[Any]] = {
    ev.FreeSegment: ev.Free,
    ev.FreeSwaSegment: ev.FreeSwa,
    ev.FreeFullSegment: ev.FreeFull,
}
"""A special operation to the one that it is a form of."""

IMPLIED = ("last_loc", "prefix_lens", "prefix_len", "seq_lens", "start_pos", "start", "end")
"""Fields that rows imply, where an event does not say otherwise."""


def plain_forms(search: Search) -> None:
    """`free` for `free_segment`, and an extend for a tail allocation."""
    for at in range(len(search.lines)):
        lines = list(search.lines)
        event = lines[at].event
        plainer = PLAINER.get(type(event))
        if plainer is not None:
            fields = {
                name: getattr(event, name)
                for name in plainer.__struct_fields__
                if hasattr(event, name)
            }
            lines[at] = lines[at]._replace(event=plainer(**fields))
        elif isinstance(event, ev.AllocExtendSwaTail) and event.req is not None:
            lines[at] = lines[at]._replace(event=_as_extend(event))
        else:
            continue
        search.offer(lines)


def _as_extend(event: ev.AllocExtendSwaTail) -> AnyEvent:
    assert event.req is not None
    return ev.AllocExtend(
        reqs=[event.req],
        prefix_lens=[event.prefix_len or 0],
        seq_lens=[event.seq_len],
        expect=event.expect,
    )


def rename(search: Search) -> None:
    """Requests are A, B, C in order of appearance; saved states s1, s2."""
    names = requests_of(search.events)
    new: dict[ReqName, ReqName] = {name: letters(at) for at, name in enumerate(names)}
    slots = dict.fromkeys(e.slot for e in search.events if isinstance(e, ev.BackupState))
    states = {slot: f"s{at}" for at, slot in enumerate(slots, 1)}
    search.offer_events([_renamed(event, new, states) for event in search.events])


def letters(at: int) -> str:
    """A … Z, then AA, AB, …"""
    name = ""
    at += 1
    while at:
        at, digit = divmod(at - 1, 26)
        name = chr(ord("A") + digit) + name
    return name


def _renamed(event: Any, new: dict[ReqName, ReqName], states: dict[str, str]) -> AnyEvent:
    changes: dict[str, Any] = {}
    if getattr(event, "reqs", None) is not None:
        changes["reqs"] = [new[req] for req in event.reqs]
    if getattr(event, "req", None) is not None:
        changes["req"] = new[event.req]
    if isinstance(event, ev.Share):
        changes["from_"] = new[event.from_]
    if isinstance(event, ev.BackupState | ev.RestoreState):
        changes["slot"] = states.get(event.slot, event.slot)
    made: AnyEvent = _replace(event, **changes) if changes else event
    return made


def drop_fields(search: Search) -> None:
    """Leave implied fields and expectations out, all at once or one by one."""
    names = (*IMPLIED, "expect")
    search.offer_events([_bare(event, names) for event in search.events])
    for at in reversed(range(len(search.events))):
        for name in names:
            events = list(search.events)
            if at < len(events) and getattr(events[at], name, None) is not None:
                events[at] = _bare(events[at], (name,))
                search.offer_events(events)


def _bare(event: Any, names: tuple[str, ...]) -> AnyEvent:
    """Without those of the fields that may be absent."""
    optional = {f.name for f in msgspec.structs.fields(type(event)) if f.default is None}
    gone = dict.fromkeys(name for name in names if name in optional)
    made: AnyEvent = _replace(event, **gone) if gone else event
    return made
