"""The fast engine: the pair of pools in plain integers, without torch."""

from __future__ import annotations

from swasim.allocator.core.pair import CorePair as CorePair

__all__ = ["CorePair"]
