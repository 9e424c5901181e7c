"""An allocator that nobody here wrote, watched by comparing what it holds before and after.

`Watched` turns a `Call` into a method call on a live object and derives the `Effect` from two
snapshots of its free lists and its mapping. It reads only what every release of SGLang's
`SWATokenToKVPoolAllocator` has: `full_attn_allocator` and `swa_attn_allocator`, each with
`free_pages` and `release_pages` or `staged_pages`, and `full_to_swa_index_mapping`.

What must not be added here: knowledge of what a call should have done.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

import torch

from swasim.allocator.integers import integers
from swasim.allocator.methods import Methods
from swasim.call import AllocatorState, Call, Effect
from swasim.errors import SwasimError, UsageError
from swasim.geometry import Geometry, Pool

_FIRST_PIECE = 256
_LARGEST_PIECE = 1 << 18
"""Items compared at once at the start and at most."""


@dataclass(frozen=True)
class Snapshot:
    """What an allocator held at one moment; fresh storage, int64, on the allocator's device.

    Attributes:
        full_free, swa_free: [pages] free lists, in order.
        full_staged, swa_staged: [pages] freed pages not merged yet, in order.
        mapping: [entries] the whole mapping.
    """

    full_free: torch.Tensor
    swa_free: torch.Tensor
    full_staged: torch.Tensor
    swa_staged: torch.Tensor
    mapping: torch.Tensor

    def lists(self, pool: Pool) -> tuple[torch.Tensor, torch.Tensor]:
        """Free and staged pages of one pool."""
        if pool == "full":
            return self.full_free, self.full_staged
        return self.swa_free, self.swa_staged


@dataclass(frozen=True)
class Outcome:
    """How a call left: what it returned, or the exception that it raised."""

    result: Any = None
    error: BaseException | None = None


class Watched:
    """Any object with the methods of `SWATokenToKVPoolAllocator`, as an `Allocator`.

    Cost of a call: one copy and one comparison of the lists and the mapping, on the device.

    Attributes:
        name: as the user named it.
        geometry: sizes of the pools.
        target: the object itself, unmodified.
        version: release of SGLang that it came from, or "".
    """

    def __init__(self, target: Any, name: str, geometry: Geometry, version: str = "") -> None:
        self.target = target
        self.name = name
        self.geometry = geometry
        self.version = version
        self._methods = Methods(target)
        self._last = self.snapshot()

    def perform(self, call: Call) -> Effect:
        """Carry out one call on the object and report what changed since the last one.

        What the object prints goes to standard error: standard output is the report's.

        Raises:
            UsageError: the object has no such method, it uses a part of its package that is not
                installed, or what it returned or holds afterwards are no page ids and slots.
        """
        before = self._last
        with redirect_stdout(sys.stderr):
            outcome = _outcome(lambda: self._methods.perform(call))
            self._last = self.snapshot()
            effect = self._effect(before, self._last, outcome, call.op.startswith("alloc"))
        if call.op == "clear":
            return Effect(
                raised=effect.raised,
                raised_text=effect.raised_text,
                full_available=effect.full_available,
                swa_available=effect.swa_available,
            )
        return effect

    def observe(self, run: Callable[[], Any], *, allocates: bool = True) -> tuple[Effect, Outcome]:
        """Report what `run` changes in the object; for calls that somebody else makes.

        An exception of `run` is reported in both parts of the answer and not raised here, so that
        the caller can raise it where it belongs.

        Args:
            run: makes the call.
            allocates: what it returns are slots, or None where it refused.

        Raises:
            SwasimError: raised by swasim itself inside `run`.
            UsageError: what the object holds, or what `run` returned, cannot be read.
        """
        before = self.snapshot()
        outcome = _outcome(run)
        return self._effect(before, self.snapshot(), outcome, allocates), outcome

    def state(self) -> AllocatorState:
        """Everything the object holds, as plain values."""
        now = self.snapshot()
        return AllocatorState(
            full_free=now.full_free.tolist(),
            swa_free=now.swa_free.tolist(),
            full_staged=now.full_staged.tolist(),
            swa_staged=now.swa_staged.tolist(),
            mapping=now.mapping.tolist(),
        )

    def snapshot(self) -> Snapshot:
        """A copy of the lists and the mapping.

        Raises:
            UsageError: the object lacks one of them; the message names it.
        """
        full, swa = self._pool("full"), self._pool("swa")
        return Snapshot(
            full_free=_pages(full, "full_attn_allocator"),
            swa_free=_pages(swa, "swa_attn_allocator"),
            full_staged=_staged(full),
            swa_staged=_staged(swa),
            mapping=integers(
                _part(self.target, "full_to_swa_index_mapping", "the allocator"),
                "full_to_swa_index_mapping",
            ),
        )

    def _pool(self, pool: Pool) -> Any:
        return _part(self.target, f"{pool}_attn_allocator", "the allocator")

    def _available(self, pool: Pool, now: Snapshot) -> int:
        own = getattr(self.target, f"{pool}_available_size", None)
        if own is None:
            own = getattr(self._pool(pool), "available_size", None)
        if own is not None:
            return _tokens(own)
        free, staged = now.lists(pool)
        return (free.numel() + staged.numel()) * self.geometry.page_size

    def _effect(
        self, before: Snapshot, after: Snapshot, outcome: Outcome, allocates: bool
    ) -> Effect:
        full_taken, full_returned = pages_moved(before.lists("full"), after.lists("full"))
        swa_taken, swa_returned = pages_moved(before.lists("swa"), after.lists("swa"))
        out: list[int] | None = None
        if allocates and outcome.result is not None:
            out = integers(outcome.result, f"what {type(self.target).__name__} returned").tolist()
        slots, old, new = entries_changed(before.mapping, after.mapping, out or ())
        error = outcome.error
        return Effect(
            out=out,
            raised=type(error).__name__ if error is not None else None,
            raised_text=_text(error),
            full_taken=full_taken,
            full_returned=full_returned,
            swa_taken=swa_taken,
            swa_returned=swa_returned,
            mapped_slots=slots,
            mapped_from=old,
            mapped_to=new,
            full_available=self._available("full", after),
            swa_available=self._available("swa", after),
        )


def pages_moved(
    before: tuple[torch.Tensor, torch.Tensor], after: tuple[torch.Tensor, torch.Tensor]
) -> tuple[list[int], list[int]]:
    """Pages that left the free and staged lists of a pool, and pages that entered them.

    Args:
        before, after: free list and staged list, [pages] int64 each.

    Returns:
        Pages taken, in the order in which they were handed out (ascending where the lists were
        merged first), and pages returned, in the order of the lists, repeats kept. A page that
        moved out and in again within one call shows in neither.
    """
    old, new = _joined(before), _joined(after)
    common = min(old.numel(), new.numel())
    if _equal_run(old[:common], new[:common]) == old.numel():
        return [], new[old.numel() :].tolist()
    tail = _equal_run(old[old.numel() - common :], new[new.numel() - common :], from_end=True)
    old, new = old[: old.numel() - tail], new[: new.numel() - tail]
    common = min(old.numel(), new.numel())
    head = _equal_run(old[:common], new[:common])
    left, entered = old[head:].tolist(), new[head:].tolist()
    taken, returned = _without(left, entered), _without(entered, left)
    if before[1].numel() and not after[1].numel():
        taken.sort()
    return taken, returned


def _joined(lists: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    free, staged = lists
    return torch.cat(lists) if staged.numel() else free


def _equal_run(a: torch.Tensor, b: torch.Tensor, *, from_end: bool = False) -> int:
    """How many leading (or trailing) items of two lists of equal length are the same.

    Most calls change an end of a list of millions, so it is compared piece by piece.
    """
    length, done, piece = a.numel(), 0, _FIRST_PIECE
    while done < length:
        to = min(done + piece, length)
        cut = slice(length - to, length - done) if from_end else slice(done, to)
        if not torch.equal(a[cut], b[cut]):
            places = (a[cut] != b[cut]).nonzero().flatten()
            return to - 1 - int(places[-1]) if from_end else done + int(places[0])
        done, piece = to, min(piece * 4, _LARGEST_PIECE)
    return length


def _without(items: list[int], others: list[int]) -> list[int]:
    """`items` in order, less one occurrence for every item of `others`."""
    spare = Counter(others)
    kept: list[int] = []
    for item in items:
        if spare[item] > 0:
            spare[item] -= 1
        else:
            kept.append(item)
    return kept


def entries_changed(
    before: torch.Tensor, after: torch.Tensor, order: Sequence[int] = ()
) -> tuple[list[int], list[int], list[int]]:
    """Full slots whose mapping entry differs, with the SWA slot before and after.

    Args:
        before, after: the whole mapping.
        order: slots in the order of writing, as far as it is known; others follow, ascending.
    """
    if before.numel() != after.numel():
        size = max(before.numel(), after.numel())
        before, after = _padded(before, size), _padded(after, size)
    slots = _differing(before, after)
    if order and slots.numel() > 1:
        rank = {slot: place for place, slot in enumerate(order)}
        ranked = sorted(slots.tolist(), key=lambda slot: rank.get(slot, len(rank)))
        slots = torch.tensor(ranked, dtype=torch.int64, device=slots.device)
    return slots.tolist(), before[slots].tolist(), after[slots].tolist()


def _differing(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Places at which two tensors of equal length differ, ascending; most pieces do not."""
    places = []
    for start in range(0, a.numel(), _LARGEST_PIECE):
        piece = slice(start, start + _LARGEST_PIECE)
        if not torch.equal(a[piece], b[piece]):
            places.append((a[piece] != b[piece]).nonzero().flatten() + start)
    return torch.cat(places) if places else a.new_empty(0)


def _padded(entries: torch.Tensor, size: int) -> torch.Tensor:
    return torch.cat((entries, entries.new_zeros(size - entries.numel())))


def _part(owner: Any, name: str, what: str) -> Any:
    value = getattr(owner, name, None)
    if value is None:
        raise UsageError(
            f"{what} ({type(owner).__name__}) has no {name}; to be watched it needs "
            "full_attn_allocator and swa_attn_allocator, each with free_pages, and "
            "full_to_swa_index_mapping"
        )
    return value


def _pages(pool: Any, what: str) -> torch.Tensor:
    return integers(_part(pool, "free_pages", what), f"{what}.free_pages")


def _staged(pool: Any) -> torch.Tensor:
    for name in ("staged_pages", "release_pages"):
        staged = getattr(pool, name, None)
        if staged is not None:
            return integers(staged, f"{type(pool).__name__}.{name}", _device(pool))
    return torch.empty(0, dtype=torch.int64, device=_device(pool))


def _device(pool: Any) -> torch.device:
    pages = pool.free_pages
    return pages.device if isinstance(pages, torch.Tensor) else torch.device("cpu")


def _outcome(run: Callable[[], Any]) -> Outcome:
    """How `run` leaves. Only what ends the whole process on purpose is not caught."""
    try:
        return Outcome(result=run())
    except (SwasimError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        return Outcome(error=error)


def _text(error: BaseException | None) -> str:
    try:
        return "" if error is None else " ".join(str(error).split())
    except Exception as second:
        return f"(its text cannot be made: {type(second).__name__})"


def _tokens(available_size: Callable[[], Any]) -> int:
    name = getattr(available_size, "__qualname__", "available_size")
    try:
        return int(available_size())
    except Exception as error:
        raise UsageError(
            f"{name}() does not say how many tokens are available: "
            f"{type(error).__name__}: {_text(error)}"
        ) from error
