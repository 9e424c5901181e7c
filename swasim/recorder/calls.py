"""The methods that are recorded: how the arguments of each are kept, and which event they are.

Keeping happens while the server waits and does only copies; building the event happens in the
writer. Parameter names are looked up once per method, because they moved between releases.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from swasim.geometry import Pool
from swasim.recorder.tensors import index_list, keep, numbers
from swasim.trace.events import (
    Alloc,
    AllocDecode,
    AllocExtend,
    AllocExtendSwaTail,
    AnyEvent,
    Clear,
    ClearFullToSwaMapping,
    Expect,
    Free,
    FreeFull,
    FreeFullSegment,
    FreeFullSegments,
    FreeGroupBegin,
    FreeGroupEnd,
    FreeSegment,
    FreeSegments,
    FreeSwa,
    FreeSwaSegment,
    SegmentItem,
    SetFullToSwaMapping,
    compress,
)


class Arguments:
    """Arguments of one call by parameter name, in whatever way they were passed."""

    __slots__ = ("_order", "args", "kwargs")

    def __init__(
        self, order: dict[str, int], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._order, self.args, self.kwargs = order, args, kwargs

    def __getitem__(self, name: str) -> Any:
        if name in self.kwargs:
            return self.kwargs[name]
        position = self._order.get(name, len(self.args))
        return self.args[position] if position < len(self.args) else None

    def first(self) -> Any:
        """The first argument, whatever its name."""
        if self.args:
            return self.args[0]
        return next(iter(self.kwargs.values()))

    def list_first(self) -> None:
        """Make the first argument a list: it may be a generator, and is read twice."""
        if self.args:
            self.args = (list(self.args[0]), *self.args[1:])
        elif self.kwargs:
            name = next(iter(self.kwargs))
            self.kwargs = {**self.kwargs, name: list(self.kwargs[name])}

    def lengths(self, name: str) -> Any:
        """The CPU twin of a length tensor where the release has one: no copy from the device."""
        twin = self[f"{name}_cpu"]
        return keep(self[name] if twin is None else twin)


@dataclass(frozen=True, slots=True)
class Method:
    """One recorded method.

    Attributes:
        keep: copies of the arguments, made before the call.
        build: the event, from what was kept, the fields that every event carries, and `out`.
        returns: the call returns slots (or None).
        repeats_first: the first argument is read twice, so a generator becomes a list.
        after: what was kept, completed by what the call returned.
    """

    keep: Callable[[Arguments], Any]
    build: Callable[[Any, dict[str, Any]], AnyEvent]
    returns: bool = False
    repeats_first: bool = False
    after: Callable[[Any, Any], Any] | None = None


def _keep_nothing(_arguments: Arguments) -> None:
    return None


def _keep_alloc(arguments: Arguments) -> Any:
    return arguments.first()


def _keep_indices(arguments: Arguments) -> Any:
    return keep(arguments.first())


def _keep_extend(arguments: Arguments) -> Any:
    return (
        arguments.lengths("prefix_lens"),
        arguments.lengths("seq_lens"),
        keep(arguments["last_loc"]),
    )


def _keep_decode(arguments: Arguments) -> Any:
    return arguments.lengths("seq_lens"), keep(arguments["last_loc"])


def _keep_tail(arguments: Arguments) -> Any:
    return (*_keep_extend(arguments), arguments["swa_tail_len"])


def _keep_segment(arguments: Arguments) -> Any:
    return keep(arguments.first()), arguments["start_pos"]


def _keep_segments(arguments: Arguments) -> Any:
    return [(keep(indices), start_pos) for indices, start_pos in arguments.first()]


def _keep_mapping(arguments: Arguments) -> Any:
    return keep(arguments["full_indices"]), keep(arguments["swa_indices"])


def _alloc(need_size: Any, common: dict[str, Any]) -> AnyEvent:
    return Alloc(need_size=int(need_size), **common)


def _alloc_extend(kept: Any, common: dict[str, Any]) -> AnyEvent:
    prefix_lens, seq_lens, last_loc = map(numbers, kept)
    return AllocExtend(prefix_lens=prefix_lens, seq_lens=seq_lens, last_loc=last_loc, **common)


def _alloc_decode(kept: Any, common: dict[str, Any]) -> AnyEvent:
    seq_lens, last_loc = map(numbers, kept)
    return AllocDecode(seq_lens=seq_lens, last_loc=last_loc, **common)


def _alloc_tail(kept: Any, common: dict[str, Any]) -> AnyEvent:
    prefix_lens, seq_lens, last_loc = map(numbers, kept[:3])
    return AllocExtendSwaTail(
        prefix_len=prefix_lens[0],
        seq_len=seq_lens[0],
        last_loc=last_loc[0],
        swa_tail_len=int(kept[3]),
        **common,
    )


def _release(event: Callable[..., AnyEvent]) -> Method:
    return Method(_keep_indices, lambda kept, common: event(indices=index_list(kept), **common))


def _release_segment(event: Callable[..., AnyEvent]) -> Method:
    def build(kept: Any, common: dict[str, Any]) -> AnyEvent:
        return event(indices=index_list(kept[0]), start_pos=int(kept[1]), **common)

    return Method(_keep_segment, build)


def _release_segments(event: Callable[..., AnyEvent]) -> Method:
    def build(kept: Any, common: dict[str, Any]) -> AnyEvent:
        segments = [SegmentItem(index_list(indices), int(start)) for indices, start in kept]
        return event(segments=segments, **common)

    return Method(_keep_segments, build, repeats_first=True)


def set_mapping(entries: int, kept: Any, common: dict[str, Any]) -> AnyEvent:
    """The event of writing entries: slots and peers as they stand in `kept`.

    Args:
        entries: length of the mapping tensor, which a negative index counts from; 0 where no
            index is negative.
        kept: indices and values, kept; one value may stand for all.
        common: fields that every event carries.
    """
    slots = [slot if slot >= 0 else entries + slot for slot in numbers(kept[0])]
    peers = numbers(kept[1])
    if len(peers) == 1:
        peers = peers * len(slots)
    return SetFullToSwaMapping(full=compress(slots), swa=compress(peers), **common)


PAIR_METHODS: dict[str, Method] = {
    "alloc": Method(_keep_alloc, _alloc, returns=True),
    "alloc_extend": Method(_keep_extend, _alloc_extend, returns=True),
    "alloc_decode": Method(_keep_decode, _alloc_decode, returns=True),
    "alloc_extend_swa_tail": Method(_keep_tail, _alloc_tail, returns=True),
    "free": _release(Free),
    "free_swa": _release(FreeSwa),
    "free_full": _release(FreeFull),
    "free_segment": _release_segment(FreeSegment),
    "free_swa_segment": _release_segment(FreeSwaSegment),
    "free_full_segment": _release_segment(FreeFullSegment),
    "free_segments": _release_segments(FreeSegments),
    "free_full_segments": _release_segments(FreeFullSegments),
    "free_group_begin": Method(_keep_nothing, lambda _kept, common: FreeGroupBegin(**common)),
    "free_group_end": Method(_keep_nothing, lambda _kept, common: FreeGroupEnd(**common)),
    "set_full_to_swa_mapping": Method(_keep_mapping, partial(set_mapping, 0)),
    "clear_full_to_swa_mapping": _release(ClearFullToSwaMapping),
    "clear": Method(_keep_nothing, lambda _kept, common: Clear(**common)),
}
"""Calls on the pair. `backup_state` and `restore_state` are in `special`."""


def pool_methods(pool: Pool, page_size: int) -> dict[str, Method]:
    """Calls that somebody makes on one sub-allocator, as events with `pool`."""

    def alloc(kept: Any, common: dict[str, Any]) -> AnyEvent:
        return Alloc(need_size=int(kept), pool=pool, **common)

    def free(kept: Any, common: dict[str, Any]) -> AnyEvent:
        return Free(indices=index_list(kept), pool=pool, **common)

    def free_segment(kept: Any, common: dict[str, Any]) -> AnyEvent:
        indices = index_list(kept[0])
        return FreeSegment(indices=indices, start_pos=int(kept[1]), pool=pool, **common)

    def free_page_ids(kept: Any, common: dict[str, Any]) -> AnyEvent:
        # A segment release hands on the page of every page_size-th slot: the same page ids.
        slots = [page * page_size + offset for page in numbers(kept) for offset in range(page_size)]
        return FreeSegment(indices=index_list(slots), start_pos=0, pool=pool, **common)

    return {
        "alloc": Method(_keep_alloc, alloc, returns=True),
        "free": Method(_keep_indices, free),
        "free_segment": Method(_keep_segment, free_segment),
        "free_page_ids": Method(_keep_indices, free_page_ids),
    }


POOL_METHODS_WITHOUT_EVENT = (
    "alloc_extend",
    "alloc_decode",
    "free_group_begin",
    "free_group_end",
    "merge_and_sort_free",
    "backup_state",
    "restore_state",
    "clear",
)
"""Calls on one sub-allocator that format 1 cannot say: the state is taken anew after them."""


def parameter_order(function: Callable[..., Any]) -> dict[str, int]:
    """Position of each parameter of a bound method."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    return {name: position for position, name in enumerate(parameters)}


def common_fields(
    t: float, site: str, raised: str | None, returned: tuple[Any] | None
) -> dict[str, Any]:
    """The fields that any event carries, and `out` where the call returned something.

    Args:
        t: seconds since the recording began.
        site: nearest caller outside the allocator.
        raised: class name of the exception that left the call.
        returned: what an allocation returned, kept, in a tuple of one; None for other calls.
    """
    fields: dict[str, Any] = {"t": t, "site": site}
    if raised is not None:
        fields["expect"] = Expect(raises=raised)
    elif returned is not None:
        out = returned[0]
        fields["out"] = None if out is None else index_list(out)
    return fields
