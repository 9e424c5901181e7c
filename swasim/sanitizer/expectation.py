"""`expect` and recorded `out`: what the trace itself says must hold."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from swasim.call import AllocatorState, Effect
from swasim.geometry import NO_LOC, UNMAPPED, Geometry
from swasim.trace.events import Expect, IndexList, Target, compress, expand

TEXT_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One field of an `expect` that does not hold, both sides as text."""

    name: str
    expected: str
    actual: str


def mismatches(
    expect: Expect,
    effect: Effect | None,
    available: tuple[int, int],
    state: Callable[[], AllocatorState],
    slots_of: Callable[[Target], list[int]],
    geometry: Geometry,
) -> list[Mismatch]:
    """The fields of `expect` that do not hold, in the order of the format.

    Args:
        effect: of the event's call; None where there was none.
        available: tokens in the full and the SWA pool, after the event.
        state: the allocator's state; only called when a field needs it.
        slots_of: full slots of an index list or a row range.
        geometry: sizes of the pools.
    """
    found = list(_availability(expect, available))
    found += _raises(expect, effect)
    if _needs_state(expect):
        found += _lists(expect, state())
        found += _mapping(expect, state().mapping, slots_of, geometry)
    return found


def _availability(expect: Expect, available: tuple[int, int]) -> Iterator[Mismatch]:
    for name, wanted, actual in (
        ("full_available", expect.full_available, available[0]),
        ("swa_available", expect.swa_available, available[1]),
    ):
        if wanted is not UNSET and wanted != actual:
            yield Mismatch(name, str(wanted), str(actual))


def _raises(expect: Expect, effect: Effect | None) -> Iterator[Mismatch]:
    """An exception that `expect` does not announce is as wrong as one that does not come."""
    raised = effect.raised if effect else None
    wanted = None if isinstance(expect.raises, UnsetType) else expect.raises
    if raised != wanted:
        yield Mismatch("raises", wanted or "no exception", raised or "no exception")


_STATE_FIELDS = (
    "full_free",
    "swa_free",
    "full_staged",
    "swa_staged",
    "full_free_sha256",
    "swa_free_sha256",
    "full_staged_sha256",
    "swa_staged_sha256",
    "mapping",
    "mapping_sha256",
    "sentinel",
    "mapped",
    "unmapped",
)


def _needs_state(expect: Expect) -> bool:
    return any(getattr(expect, name) is not UNSET for name in _STATE_FIELDS)


def _lists(expect: Expect, state: AllocatorState) -> Iterator[Mismatch]:
    """Free and staged lists. Where an expectation gives a pool's free list, its staged list is
    given too: absent means empty."""
    for pool in ("full", "swa"):
        free: list[int] = getattr(state, f"{pool}_free")
        staged: list[int] = getattr(state, f"{pool}_staged")
        wanted: IndexList | UnsetType = getattr(expect, f"{pool}_free")
        digest: str | UnsetType = getattr(expect, f"{pool}_free_sha256")
        yield from _list(f"{pool}_free", wanted, free)
        yield from _digest(f"{pool}_free_sha256", digest, free)
        wanted_staged: IndexList | UnsetType = getattr(expect, f"{pool}_staged")
        staged_digest: str | UnsetType = getattr(expect, f"{pool}_staged_sha256")
        yield from _digest(f"{pool}_staged_sha256", staged_digest, staged)
        if wanted_staged is UNSET and staged_digest is UNSET and (wanted, digest) != (UNSET, UNSET):
            wanted_staged = []
        yield from _list(f"{pool}_staged", wanted_staged, staged)


def _list(name: str, wanted: IndexList | UnsetType, actual: list[int]) -> Iterator[Mismatch]:
    if not isinstance(wanted, UnsetType) and expand(wanted) != actual:
        yield Mismatch(name, cut(compress(expand(wanted))), cut(compress(actual)))


def _digest(name: str, wanted: str | UnsetType, actual: list[int]) -> Iterator[Mismatch]:
    if isinstance(wanted, UnsetType):
        return
    digest = sha256_of(actual)
    if digest != wanted:
        yield Mismatch(name, wanted, f"{digest} ({len(actual)} entries)")


def _mapping(
    expect: Expect,
    mapping: list[int],
    slots_of: Callable[[Target], list[int]],
    geometry: Geometry,
) -> Iterator[Mismatch]:
    body = mapping[: geometry.slot_limit("full")]
    has_sentinel = len(mapping) == len(body) + 1
    yield from _digest("mapping_sha256", expect.mapping_sha256, mapping)
    if not isinstance(expect.mapping, UnsetType):
        runs = mapping_runs(enumerate(body))
        if [tuple(run) for run in expect.mapping] != runs:
            yield Mismatch("mapping", cut(list(expect.mapping)), cut(runs))
        if expect.sentinel is UNSET and has_sentinel and mapping[-1] != NO_LOC:
            yield Mismatch("sentinel", str(NO_LOC), str(mapping[-1]))
    if expect.sentinel is not UNSET and mapping[-1] != expect.sentinel:
        yield Mismatch("sentinel", str(expect.sentinel), str(mapping[-1]))
    if not isinstance(expect.mapped, UnsetType):
        missing = [s for s in slots_of(expect.mapped) if _entry(body, s) == UNMAPPED]
        if missing:
            yield Mismatch("mapped", "an SWA slot for each", f"none for {cut(compress(missing))}")
    if not isinstance(expect.unmapped, UnsetType):
        extra = [s for s in slots_of(expect.unmapped) if _entry(body, s) != UNMAPPED]
        if extra:
            pairs = [(s, _entry(body, s)) for s in extra]
            yield Mismatch("unmapped", "0 for each", f"full to SWA slots {cut(pairs)}")


def _entry(body: list[int], slot: int) -> int:
    return body[slot] if 0 <= slot < len(body) else UNMAPPED


def cut(value: object, limit: int = TEXT_LIMIT) -> str:
    """A value as text of at most `limit` signs."""
    text = str(value)
    return text if len(text) <= limit else text[: limit - 4] + " ..."


def sha256_of(values: list[int]) -> str:
    """SHA-256 of the values as little-endian int64."""
    data = array("q", values)
    return hashlib.sha256(data.tobytes()).hexdigest()


def mapping_runs(entries: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Entries other than 0, as runs (full slot, SWA slot, length).

    Args:
        entries: full slot and SWA slot of each, by ascending full slot.
    """
    runs: list[tuple[int, int, int]] = []
    for slot, swa_slot in entries:
        if swa_slot == UNMAPPED:
            continue
        first, peer, length = runs[-1] if runs else (0, 0, 0)
        if length and (slot, swa_slot) == (first + length, peer + length):
            runs[-1] = (first, peer, length + 1)
        else:
            runs.append((slot, swa_slot, 1))
    return runs
