"""What an event must satisfy beyond its types, without knowing rows or an allocator.

One function per event class that has something to check; `validate_event` picks it. What must
not be added here: rules that need an earlier event (rows: `swasim.trace.resolve`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from msgspec import UNSET

from swasim.trace import events as ev
from swasim.trace.events import INT64_MAX, INT64_MIN, AnyEvent, IndexList

MAX_SLOTS = 1 << 26
"""Most slots that one index list may name: more than any pool, and it still fits in memory."""

SHOWN_DIGITS = 64

_DIGEST = re.compile(r"[0-9a-f]{64}")
_DIGESTS = tuple(name for name in ev.Expect.__struct_fields__ if name.endswith("_sha256"))

FieldPath: TypeAlias = tuple[str | int, ...]


class EventError(ValueError):
    """Why an event cannot be accepted.

    Args:
        field: keys and list positions that lead to the value; empty for the whole event.
        message: what is wrong and what is accepted, without naming the operation.
    """

    def __init__(self, message: str, field: FieldPath = ()) -> None:
        super().__init__(message)
        self.message = message
        self.field = field


def validate_event(event: AnyEvent) -> None:
    """Check what types cannot say.

    Raises:
        EventError: the first thing that is wrong.
    """
    check = _CHECKS.get(type(event))
    if check is not None:
        check(event)
    if event.expect is not None:
        _check_expect(event.expect, ("expect",))


def check_indices(items: IndexList, field: FieldPath) -> int:
    """Check an index list; returns how many slots it names.

    Raises:
        EventError: a run that ends before it starts, an int beyond int64, too many slots.
    """
    count = 0
    for item in items:
        if isinstance(item, int):
            if not INT64_MIN <= item <= INT64_MAX:
                _bad_item(items, field)
            count += 1
        else:
            start, end = item
            if not INT64_MIN <= start <= end <= INT64_MAX:
                _bad_item(items, field)
            count += end - start
    if count > MAX_SLOTS:
        raise EventError(
            f"{show_path(field)} names {count} slots; at most {MAX_SLOTS} are accepted", field
        )
    return count


def show_path(field: FieldPath) -> str:
    """A field path as people write it: `expect.mapped[3]`."""
    text = ""
    for key in field:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def _bad_item(items: IndexList, field: FieldPath) -> NoReturn:
    for at, item in enumerate(items):
        bounds = (item,) if isinstance(item, int) else item
        path = (*field, at)
        if not all(INT64_MIN <= bound <= INT64_MAX for bound in bounds):
            raise EventError(
                f"{show_path(path)} is {list(bounds) if len(bounds) > 1 else item}, which does not"
                " fit in a 64-bit integer",
                path,
            )
        if len(bounds) == 2 and bounds[1] < bounds[0]:
            raise EventError(
                f"{show_path(path)} is the run [{bounds[0]}, {bounds[1]}], which ends before it"
                " starts; a run is half-open: [start, end) with start <= end",
                path,
            )
    raise AssertionError("called for a good list")


def _check_out(event: ev.Allocation) -> None:
    if event.out is not None and event.out is not UNSET:
        check_indices(event.out, ("out",))


def _check_alloc(event: ev.Alloc) -> None:
    _check_out(event)
    _full_rows_only(event.pool, event.req)


def _check_extend(event: ev.AllocExtend) -> None:
    _check_out(event)
    count = len(event.seq_lens)
    _same_length(event, "seq_lens", count, ("prefix_lens", "last_loc", "reqs"))
    _distinct(event.reqs)
    if event.prefix_lens is None and event.reqs is None:
        raise EventError("missing field 'prefix_lens' (or 'reqs', whose rows say how long)")
    for at, prefix_len in enumerate(event.prefix_lens or ()):
        seq_len = event.seq_lens[at]
        if seq_len < prefix_len:
            raise EventError(
                f"seq_lens[{at}] is {seq_len}, less than prefix_lens[{at}] = {prefix_len} tokens",
                ("seq_lens", at),
            )
        if prefix_len and event.reqs is None and event.last_loc is None:
            raise EventError(
                f"missing field 'last_loc' (or 'reqs'): prefix_lens[{at}] is {prefix_len} tokens,"
                " and nothing says where the last of them is"
            )


def _check_decode(event: ev.AllocDecode) -> None:
    _check_out(event)
    _distinct(event.reqs)
    if event.reqs is None:
        for name in ("seq_lens", "last_loc"):
            if getattr(event, name) is None:
                raise EventError(f"missing field {name!r} (or 'reqs', whose rows give both)")
    leader = "seq_lens" if event.seq_lens is not None else "reqs"
    _same_length(event, leader, len(getattr(event, leader)), ("seq_lens", "last_loc", "reqs"))


def _check_tail(event: ev.AllocExtendSwaTail) -> None:
    _check_out(event)
    if event.prefix_len is None:
        if event.req is None:
            raise EventError("missing field 'prefix_len' (or 'req', whose row says how long)")
        return
    if event.seq_len < event.prefix_len:
        raise EventError(
            f"seq_len is {event.seq_len}, less than prefix_len = {event.prefix_len} tokens",
            ("seq_len",),
        )
    if event.prefix_len and event.req is None and event.last_loc is None:
        raise EventError(
            f"missing field 'last_loc' (or 'req'): prefix_len is {event.prefix_len} tokens, and"
            " nothing says where the last of them is"
        )


def _check_release(event: ev.Release) -> None:
    if event.indices is not None:
        check_indices(event.indices, ("indices",))
        for name in ("req", "start", "end"):
            if getattr(event, name) is not None:
                raise EventError(
                    f"{name!r} beside 'indices': the target is either 'indices', or 'req' with"
                    " optional 'start' and 'end'",
                    (name,),
                )
    elif event.req is None:
        raise EventError(
            "missing target: either 'indices', or 'req' with optional 'start' and 'end'"
        )
    _check_range(event.start, event.end, ())


def _check_pool_release(event: ev.Free | ev.FreeSegment) -> None:
    _check_release(event)
    _full_rows_only(event.pool, event.req)


def _check_segments(event: ev.FreeSegments | ev.FreeFullSegments) -> None:
    for at, segment in enumerate(event.segments):
        check_indices(segment.indices, ("segments", at, "indices"))


def _check_set_mapping(event: ev.SetFullToSwaMapping) -> None:
    full = check_indices(event.full, ("full",))
    swa = check_indices(event.swa, ("swa",))
    if full != swa:
        raise EventError(
            f"full names {full} slots and swa names {swa}; they are paired one by one", ("swa",)
        )


def _check_share(event: ev.Share) -> None:
    _check_range(event.start, event.end, ())


def _check_expect_only(event: ev.ExpectOnly) -> None:
    _check_expect(event, ())
    both = [
        name
        for name in ev.Expect.__struct_fields__
        if getattr(event, name) is not UNSET
        and event.expect is not None
        and getattr(event.expect, name) is not UNSET
    ]
    if both:
        raise EventError(f"{both[0]!r} stands both beside 'op' and inside 'expect'", (both[0],))
    if ev.expectation(event) == ev.Expect():
        raise EventError(f"nothing is expected; accepted: {', '.join(ev.Expect.__struct_fields__)}")


def _check_expect(expect: ev.Expect, field: FieldPath) -> None:
    for name in ("full_free", "swa_free", "full_staged", "swa_staged", "mapped", "unmapped"):
        value = getattr(expect, name)
        if value.__class__ is list:
            check_indices(value, (*field, name))
        elif value.__class__ is ev.RowRange:
            _check_range(value.start, value.end, (*field, name))
    for name in _DIGESTS:
        value = getattr(expect, name)
        if value is not UNSET and not _DIGEST.fullmatch(value):
            raise EventError(
                f"{show_path((*field, name))} must be 64 hexadecimal digits in lower case, got"
                f" {value[:SHOWN_DIGITS]!r}",
                (*field, name),
            )
    if expect.mapping is not UNSET:
        for at, (full_slot, swa_slot, length) in enumerate(expect.mapping):
            if length < 0 or max(full_slot, swa_slot, length) + length > INT64_MAX:
                path = (*field, "mapping", at)
                raise EventError(
                    f"{show_path(path)} is {[full_slot, swa_slot, length]}; accepted is"
                    " [full_slot, swa_slot, length] with length >= 0, within 64 bits",
                    path,
                )


def _check_range(start: int | None, end: int | None, field: FieldPath) -> None:
    if start is not None and end is not None and start > end:
        raise EventError(
            f"{show_path((*field, 'start'))} is {start}, beyond {show_path((*field, 'end'))} ="
            f" {end}; positions are half-open: [start, end)",
            (*field, "start"),
        )


def _full_rows_only(pool: str | None, req: ev.ReqName | None) -> None:
    if pool == "swa" and req is not None:
        raise EventError(
            "'req' with pool \"swa\": a row holds full slots; name SWA slots by 'indices'",
            ("req",),
        )


def _same_length(event: Any, leader: str, count: int, names: tuple[str, ...]) -> None:
    for name in names:
        value = getattr(event, name)
        if value is not None and len(value) != count:
            raise EventError(
                f"{name} has {len(value)} items and {leader} has {count}; one per request", (name,)
            )


def _distinct(reqs: list[ev.ReqName] | None) -> None:
    if reqs is not None and len(set(reqs)) != len(reqs):
        at = next(i for i, req in enumerate(reqs) if req in reqs[:i])
        raise EventError(
            f"reqs[{at}] is {reqs[at]!r} a second time; a batch names each row once", ("reqs", at)
        )


_CHECKS: dict[type[Any], Callable[[Any], None]] = {
    ev.Alloc: _check_alloc,
    ev.AllocExtend: _check_extend,
    ev.AllocDecode: _check_decode,
    ev.AllocExtendSwaTail: _check_tail,
    ev.Free: _check_pool_release,
    ev.FreeSwa: _check_release,
    ev.FreeFull: _check_release,
    ev.FreeSegment: _check_pool_release,
    ev.FreeSwaSegment: _check_release,
    ev.FreeFullSegment: _check_release,
    ev.FreeSegments: _check_segments,
    ev.FreeFullSegments: _check_segments,
    ev.SetFullToSwaMapping: _check_set_mapping,
    ev.ClearFullToSwaMapping: _check_release,
    ev.Share: _check_share,
    ev.ExpectOnly: _check_expect_only,
}
