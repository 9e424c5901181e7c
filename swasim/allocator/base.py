"""The contract between swasim and an allocator: answer a call, report its effect.

Anything that satisfies `Allocator` can be replayed and watched: the torch reference, the plain
core, an installed SGLang, or a class that nobody here wrote.
"""

from __future__ import annotations

from typing import Protocol

from swasim.call import AllocatorState, Call, Effect
from swasim.geometry import Geometry


class Allocator(Protocol):
    """A pair of pools, full and SWA, that answers calls.

    Attributes:
        name: registry name, or `package.module:Class`.
        geometry: sizes of the pools.
    """

    name: str
    geometry: Geometry

    def perform(self, call: Call) -> Effect:
        """Carry out one call and report what changed.

        An exception of the allocator under test (AssertionError, IndexError, ...) does not leave
        this method: it is reported as `Effect.raised`, with what had changed before it.

        Raises:
            UsageError: the operation does not exist in this allocator at all.

        State: changes as the call does upstream, refusals and half-done calls included.
        """
        ...

    def state(self) -> AllocatorState:
        """Everything the allocator holds, as plain values. Cost: the size of the pools."""
        ...
