"""The events of trace format version 1, as typed records: one class per operation.

The class is chosen by the `op` field; unknown operations, unknown fields and wrong types are
refused by the decoder, what types cannot say by `swasim.trace.check`. Fields stand in the order
in which the writer puts them. What must not be added here: anything that knows an allocator.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from swasim.geometry import Pool

TRACE_VERSION = 1

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Count: TypeAlias = Annotated[int, Meta(ge=0, le=INT64_MAX)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=INT64_MAX)]
Slot: TypeAlias = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)]
"""A slot as it was given: misuse, such as a negative slot, must be writable."""
ReqName: TypeAlias = str | int
IndexList: TypeAlias = list[int | tuple[int, int]]
"""Slots: an int, or a half-open run `[start, end)`. Order is meaningful.

The ints carry no constraint: msgspec 0.23 misreads a bounded int beside a tuple, and crashes.
"""


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """First object of a trace: defaults for the configuration."""

    swasim_trace: int
    page_size: Positive | None = None
    kv_size: Count | None = None
    kv_size_swa: Count | None = None
    sliding_window_size: Count | None = None
    need_sort: bool | None = None
    source: str | None = None
    note: str | None = None


class RowRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Positions `[start, end)` of one row; the whole row by default."""

    req: ReqName
    start: Count | None = None
    end: Count | None = None


Target: TypeAlias = IndexList | RowRange


class Expect(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What must hold after an event; see docs/trace-format.md."""

    full_available: Count | UnsetType = UNSET
    swa_available: Count | UnsetType = UNSET
    unmapped: Target | UnsetType = UNSET
    mapped: Target | UnsetType = UNSET
    full_free: IndexList | UnsetType = UNSET
    swa_free: IndexList | UnsetType = UNSET
    full_staged: IndexList | UnsetType = UNSET
    swa_staged: IndexList | UnsetType = UNSET
    mapping: list[tuple[int, int, int]] | UnsetType = UNSET
    sentinel: Slot | UnsetType = UNSET
    full_free_sha256: str | UnsetType = UNSET
    swa_free_sha256: str | UnsetType = UNSET
    full_staged_sha256: str | UnsetType = UNSET
    swa_staged_sha256: str | UnsetType = UNSET
    mapping_sha256: str | UnsetType = UNSET
    raises: str | UnsetType = UNSET
    idle: bool | UnsetType = UNSET


class Event(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="op",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """Fields that every event may carry."""

    t: float | None = None
    site: str | None = None
    expect: Expect | None = None


class Allocation(Event, frozen=True, kw_only=True):
    """Common to the operations that hand out slots."""

    out: IndexList | UnsetType | None = UNSET
    """What the recorded allocator returned; null when it returned None; absent: not recorded."""


class Alloc(Allocation, frozen=True, kw_only=True, tag="alloc"):
    """Tokens at page size 1, or whole pages; `pool` calls one sub-allocator alone."""

    need_size: Count
    req: ReqName | None = None
    pool: Pool | None = None


class AllocExtend(Allocation, frozen=True, kw_only=True, tag="alloc_extend"):
    """Grow each request from its prefix length to `seq_lens` tokens."""

    prefix_lens: list[Count] | None = None
    seq_lens: list[Count]
    last_loc: list[Slot] | None = None
    reqs: list[ReqName] | None = None


class AllocDecode(Allocation, frozen=True, kw_only=True, tag="alloc_decode"):
    """One token per request; the default `seq_lens` is the row's length + 1."""

    seq_lens: list[Positive] | None = None
    last_loc: list[Slot] | None = None
    reqs: list[ReqName] | None = None


class AllocExtendSwaTail(Allocation, frozen=True, kw_only=True, tag="alloc_extend_swa_tail"):
    """Full slots for all tokens, SWA slots for the last `swa_tail_len` only."""

    prefix_len: Count | None = None
    seq_len: Count
    swa_tail_len: Count
    last_loc: Slot | None = None
    req: ReqName | None = None


class Release(Event, frozen=True, kw_only=True):
    """Common to the operations with a target: raw slots, or positions of a row."""

    indices: IndexList | None = None
    req: ReqName | None = None
    start: Count | None = None
    end: Count | None = None


class SegmentRelease(Release, frozen=True, kw_only=True):
    """Common to the releases of one contiguous, page-aligned piece of a row."""

    start_pos: Count | None = None


class Free(Release, frozen=True, kw_only=True, tag="free"):
    """Release full slots and their SWA peers (`pool`: in that sub-allocator alone)."""

    pool: Pool | None = None


class FreeSwa(Release, frozen=True, kw_only=True, tag="free_swa"):
    """Release the SWA peers only."""


class FreeFull(Release, frozen=True, kw_only=True, tag="free_full"):
    """Release full slots whose SWA peers are gone already."""


class FreeSegment(SegmentRelease, frozen=True, kw_only=True, tag="free_segment"):
    """`free` of one contiguous, page-aligned piece of a row."""

    pool: Pool | None = None


class FreeSwaSegment(SegmentRelease, frozen=True, kw_only=True, tag="free_swa_segment"):
    """`free_swa` of one such piece."""


class FreeFullSegment(SegmentRelease, frozen=True, kw_only=True, tag="free_full_segment"):
    """`free_full` of one such piece."""


class SegmentItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One piece of a row, by raw slots."""

    indices: IndexList
    start_pos: Count


class FreeSegments(Event, frozen=True, kw_only=True, tag="free_segments"):
    """`free` of several pieces of one row in one call."""

    segments: list[SegmentItem]


class FreeFullSegments(Event, frozen=True, kw_only=True, tag="free_full_segments"):
    """`free_full` of several pieces of one row in one call."""

    segments: list[SegmentItem]


class FreeGroupBegin(Event, frozen=True, kw_only=True, tag="free_group_begin"):
    """Defer releases until `free_group_end`."""


class FreeGroupEnd(Event, frozen=True, kw_only=True, tag="free_group_end"):
    """Carry out the deferred releases."""


class Finish(Event, frozen=True, kw_only=True, tag="finish"):
    """`free` of everything the row still holds, then forget the row."""

    req: ReqName


class SetFullToSwaMapping(Event, frozen=True, kw_only=True, tag="set_full_to_swa_mapping"):
    """Point full slots at SWA slots, pairwise."""

    full: IndexList
    swa: IndexList


class ClearFullToSwaMapping(Release, frozen=True, kw_only=True, tag="clear_full_to_swa_mapping"):
    """Reset entries to 0 without releasing anything."""


class BackupState(Event, frozen=True, kw_only=True, tag="backup_state"):
    """Save the free lists under a name."""

    slot: str


class RestoreState(Event, frozen=True, kw_only=True, tag="restore_state"):
    """Bring saved free lists back."""

    slot: str


class Clear(Event, frozen=True, kw_only=True, tag="clear"):
    """Back to empty pools."""


class Share(Event, frozen=True, kw_only=True, tag="share"):
    """Append slots of another row: a prefix-cache hit, or the cache taking a prefix over."""

    req: ReqName
    from_: ReqName = msgspec.field(name="from")
    start: Count | None = None
    end: Count | None = None


class Mark(Event, frozen=True, kw_only=True, tag="mark"):
    """A named point in the trace."""

    label: str


class ExpectOnly(Expect, frozen=True, kw_only=True, tag_field="op", tag="expect"):
    """A check with no call: the fields of `expect`, beside `op` or inside `expect`."""

    t: float | None = None
    site: str | None = None
    expect: Expect | None = None


AnyEvent: TypeAlias = (
    Alloc
    | AllocExtend
    | AllocDecode
    | AllocExtendSwaTail
    | Free
    | FreeSwa
    | FreeFull
    | FreeSegment
    | FreeSwaSegment
    | FreeFullSegment
    | FreeSegments
    | FreeFullSegments
    | FreeGroupBegin
    | FreeGroupEnd
    | Finish
    | SetFullToSwaMapping
    | ClearFullToSwaMapping
    | BackupState
    | RestoreState
    | Clear
    | Share
    | Mark
    | ExpectOnly
)


class Entry(msgspec.Struct, frozen=True, gc=False):
    """An event and where it stands.

    Attributes:
        number: 1-based count of events in the trace; the header is not one.
        line: 1-based line of the file.
    """

    number: int
    line: int
    event: AnyEvent


ALL_EVENTS: tuple[type[AnyEvent], ...] = get_args(AnyEvent)
"""Every event class, in the order of the reference."""

OPS: dict[str, type[AnyEvent]] = {str(cls.__struct_config__.tag): cls for cls in ALL_EVENTS}
"""Operation name to event class."""

_OP_OF = {cls: op for op, cls in OPS.items()}


def op_of(event: AnyEvent) -> str:
    """The operation name of an event."""
    return _OP_OF[type(event)]


def fields_of(record: type[msgspec.Struct]) -> tuple[str, ...]:
    """The field names that a record accepts, as a trace spells them, common ones last."""
    names: tuple[str, ...] = record.__struct_encode_fields__
    common = [name for name in ("out", "t", "site", "expect") if name in names]
    return (*(name for name in names if name not in common), *common)


def expectation(event: AnyEvent) -> Expect | None:
    """What must hold after `event`, or None; an `expect` event's own fields are folded in."""
    if not isinstance(event, ExpectOnly):
        return event.expect
    inside = event.expect or Expect()
    values = {name: getattr(inside, name) for name in Expect.__struct_fields__}
    own = {name: getattr(event, name) for name in Expect.__struct_fields__}
    return Expect(**{name: own[name] if own[name] is not UNSET else values[name] for name in own})


def expand(indices: IndexList) -> list[int]:
    """Slots of an index list, in order."""
    slots: list[int] = []
    for item in indices:
        if isinstance(item, int):
            slots.append(item)
        else:
            slots.extend(range(item[0], item[1]))
    return slots


def compress(slots: list[int]) -> IndexList:
    """The shortest index list for `slots`: runs of two or more become `[start, end)`."""
    if len(slots) > 1:
        start, end = slots[0], slots[0] + len(slots)
        if slots[-1] == end - 1 and slots == list(range(start, end)):
            return [(start, end)]
    return canonical(list(slots))


def canonical(indices: IndexList) -> IndexList:
    """The shortest index list with the same slots in the same order; runs stay runs."""
    out: IndexList = []
    start = end = 0
    for item in indices:
        first, last = (item, item + 1) if isinstance(item, int) else item
        if first == end and end > start:
            end = max(last, end)
            continue
        if end > start:
            out.append((start, end) if end - start > 1 else start)
        start, end = first, last
    if end > start:
        out.append((start, end) if end - start > 1 else start)
    return out
