"""The state of an allocator, as calls that rebuild it.

Trace format 1 needs no addition for it: everything is taken from each sub-pool, then given back
so that the free lists stand in the same order, repeats and strays included, and the mapping is
written entry by entry. An `expect` at the end compares the result with what was seen, so a
replay whose allocator orders its lists otherwise says so at that event.

How an order is reached depends on what a release does to a pool: token pools (page size 1)
append; paged pools put the pages of one call, ascending, in front; under `need_sort` freed pages
are staged and an allocation that runs short merges and sorts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from swasim.geometry import NO_LOC, UNMAPPED, Pool
from swasim.recorder.tensors import keep, numbers
from swasim.sanitizer.expectation import mapping_runs, sha256_of
from swasim.trace.events import (
    Alloc,
    AnyEvent,
    Clear,
    Expect,
    ExpectOnly,
    Free,
    SetFullToSwaMapping,
    compress,
)

SITE = "snapshot"
_LISTED = 4096
"""Lists and mappings of up to this many items are compared item by item, others by digest."""


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """One sub-pool: page ids in order, kept (see `tensors.keep`), and how it orders them.

    Attributes:
        free: page ids ready to be handed out.
        staged: freed page ids that are not merged yet, piece by piece.
        stages: a free goes to the staged list (`need_sort`).
        appends: a free goes behind the list it enters, otherwise in front of it.
        size: tokens of the pool, as it was told; page ids are 1 … size // page_size.
    """

    free: Any
    staged: tuple[Any, ...]
    stages: bool
    appends: bool
    size: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Both pools and the mapping tensor, kept. Sizes in tokens."""

    page_size: int
    full: PoolSnapshot
    swa: PoolSnapshot
    mapping: Any


def take(allocator: Any) -> Snapshot:
    """The state of an SGLang pair of pools. Copies, no synchronisation."""
    page_size = int(allocator.page_size)
    return Snapshot(
        page_size,
        _take_pool(allocator.full_attn_allocator, page_size),
        _take_pool(allocator.swa_attn_allocator, page_size),
        keep(allocator.full_to_swa_index_mapping),
    )


def _take_pool(pool: Any, page_size: int) -> PoolSnapshot:
    stages = bool(getattr(pool, "need_sort", True))
    pieces = getattr(pool, "staged_pages", None)
    # From 0.5.20 on paged pools collect staged pages in a list, in the order of the calls;
    # swasim's own engine says of which release it is.
    own_order = getattr(getattr(pool, "profile", None), "staged_order", None)
    appends = page_size == 1 or (stages and (pieces is not None or own_order == "append"))
    if pieces is None:
        merged = getattr(pool, "release_pages", None)
        pieces = [] if merged is None else [merged]
    staged = tuple(keep(piece) for piece in pieces)
    return PoolSnapshot(keep(pool.free_pages), staged, stages, appends, int(pool.size))


def rebuild(snapshot: Snapshot, *, t: float | None, fresh_file: bool) -> list[AnyEvent]:
    """Events that bring an allocator into the state of `snapshot`; none for a new allocator.

    Args:
        snapshot: what `take` saw; its copies have arrived.
        t: time of the events.
        fresh_file: nothing was called in this trace before, so no `clear` is needed.
    """
    events: list[AnyEvent] = [] if fresh_file else [Clear(t=t, site=SITE)]
    if _is_new(snapshot):
        return events
    page = snapshot.page_size
    full_free, full_staged = _lists(snapshot.full)
    swa_free, swa_staged = _lists(snapshot.swa)
    mapping = numbers(snapshot.mapping)
    # Releases up to 0.5.7 have no trailing -1 for `last_loc`; where there is one it may be lost.
    ends_so = mapping[-1] == NO_LOC or len(mapping) == snapshot.full.size + page + 1
    sentinel = mapping[-1] if ends_so else None
    inner = mapping if sentinel is None else mapping[:-1]
    pools: tuple[tuple[Pool, PoolSnapshot, list[int], list[int]], ...] = (
        ("full", snapshot.full, full_free, full_staged),
        ("swa", snapshot.swa, swa_free, swa_staged),
    )
    for name, pool, free, staged in pools:
        events.extend(_rebuild_pool(name, pool, page, free, staged, t))
    mapped = [slot for slot, peer in enumerate(inner) if peer != UNMAPPED]
    written = mapped if sentinel in (None, NO_LOC) else [*mapped, len(inner)]
    if written:
        peers = compress([mapping[slot] for slot in written])
        events.append(SetFullToSwaMapping(full=compress(written), swa=peers, t=t, site=SITE))
    fields: dict[str, Any] = {}
    for key, pages in (
        ("full_free", full_free),
        ("swa_free", swa_free),
        ("full_staged", full_staged),
        ("swa_staged", swa_staged),
    ):
        fields |= {key: compress(pages)} if len(pages) <= _LISTED else _digest(key, pages)
    if len(mapped) <= _LISTED:
        fields["mapping"] = mapping_runs((slot, mapping[slot]) for slot in mapped)
        fields |= {} if sentinel in (None, NO_LOC) else {"sentinel": sentinel}
    else:
        fields |= _digest("mapping", mapping)
    return [*events, ExpectOnly(expect=Expect(**fields), t=t, site=SITE)]


def _is_new(snapshot: Snapshot) -> bool:
    """Whether nothing was ever called; told without reading millions of items one by one."""
    mapping = torch.as_tensor(snapshot.mapping)
    # Releases up to 0.5.7 have no trailing -1 for `last_loc`; another value there is damage.
    inner = mapping[:-1] if mapping[-1] == NO_LOC else mapping
    return not inner.any() and all(
        not any(len(piece) for piece in pool.staged)
        and torch.equal(
            torch.as_tensor(pool.free), torch.arange(1, pool.size // snapshot.page_size + 1)
        )
        for pool in (snapshot.full, snapshot.swa)
    )


def _lists(pool: PoolSnapshot) -> tuple[list[int], list[int]]:
    staged = [page for piece in pool.staged for page in numbers(piece)]
    return numbers(pool.free), staged


def _rebuild_pool(
    name: Pool, pool: PoolSnapshot, page: int, free: list[int], staged: list[int], t: float | None
) -> Iterator[AnyEvent]:
    whole = pool.size // page * page
    yield Alloc(need_size=whole, pool=name, out=[(page, page + whole)], t=t, site=SITE)
    if pool.stages:
        yield from _give_back(name, page, free, pool.appends, t)
        # Refused, since no pool has a page more than it has; the merge happens all the same.
        yield Alloc(need_size=whole + page, pool=name, out=None, t=t, site=SITE)
        yield from _give_back(name, page, staged, pool.appends, t)
    else:
        yield from _give_back(name, page, free, pool.appends, t)


def _give_back(
    name: Pool, page: int, pages: list[int], appends: bool, t: float | None
) -> Iterator[AnyEvent]:
    runs = [pages] if page == 1 and pages else _ascending_runs(pages)
    for run in runs if appends else reversed(runs):
        slots = [slot for number in run for slot in range(number * page, (number + 1) * page)]
        yield Free(indices=compress(slots), pool=name, t=t, site=SITE)


def _ascending_runs(pages: list[int]) -> list[list[int]]:
    """Cut into strictly ascending pieces: one paged release keeps the order of each."""
    runs: list[list[int]] = []
    for page in pages:
        if runs and page > runs[-1][-1]:
            runs[-1].append(page)
        else:
            runs.append([page])
    return runs


def _digest(key: str, values: list[int]) -> dict[str, str]:
    return {f"{key}_sha256": sha256_of(values)}
