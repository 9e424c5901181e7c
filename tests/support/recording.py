"""Live allocators to record, and their recordings replayed."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import torch

from swasim.allocator import adapter
from swasim.allocator.base import Allocator
from swasim.allocator.methods import Methods
from swasim.allocator.profile import RELEASES
from swasim.allocator.tensor import swa
from swasim.allocator.tensor.swa import SWATokenToKVPoolAllocator
from swasim.call import AllocatorState
from swasim.geometry import Geometry
from swasim.run import replay
from swasim.sanitizer.findings import Finding
from swasim.trace.events import AnyEvent, expand
from swasim.trace.reader import open_trace
from swasim.trace.resolve import Resolver


def live(
    release: str = "0.5.23",
    page_size: int = 4,
    kv_size: int = 32,
    kv_size_swa: int = 32,
    need_sort: bool = False,
) -> SWATokenToKVPoolAllocator:
    """A pair of pools as a server holds it: the object with upstream's methods."""
    return SWATokenToKVPoolAllocator(
        kv_size, kv_size_swa, page_size, torch.device("cpu"), need_sort, RELEASES[release], None
    )


def extend(pair: SWATokenToKVPoolAllocator, tokens: int) -> torch.Tensor:
    """Slots of a new request."""
    zero, length = torch.tensor([0]), torch.tensor([tokens])
    out = pair.alloc_extend(zero, zero, length, length, torch.tensor([-1]), tokens)
    assert out is not None
    return out


def engine(like: SWATokenToKVPoolAllocator) -> Allocator:
    """A new engine of the same release and sizes, to replay on."""
    geometry = Geometry(like.page_size, like.size_full, like.size_swa)
    return swa.build(like.profile, geometry, like.need_sort, "cpu", "again")


def state_of(pair: Any) -> AllocatorState:
    """What a live object holds, as plain values."""
    return adapter.watch(pair).state()


def drive(pair: object, path: Path, *, first: int = 1, last: int | None = None) -> None:
    """Make the calls of a recorded vector, events `first` to `last`, on a live object."""
    methods = Methods(pair)
    with open_trace(path) as trace:
        resolver = Resolver()
        for entry in trace:
            resolved = resolver.resolve(entry)
            out = getattr(entry.event, "out", None)
            resolver.commit(entry, resolved, expand(out) if isinstance(out, list) else None)
            call = resolved.call
            if call is None or entry.number < first or (last and entry.number > last):
                continue
            with contextlib.suppress(AssertionError, IndexError, RuntimeError, NotImplementedError):
                methods.perform(call)


def replayed(path: Path | str, allocator: Allocator) -> list[Finding]:
    """Findings that say that a replay is not what was recorded."""
    result = replay(path, allocator=allocator, max_findings=10_000)
    unfaithful = ("replay-divergence", "expectation-failed")
    return [finding for finding in result.findings if finding.kind in unfaithful]


def events_of(path: Path | str) -> list[AnyEvent]:
    """The events of a trace."""
    with open_trace(path) as trace:
        return [entry.event for entry in trace]
