"""Many slots as one big integer, 64 bits for each: whole batches are added and compared at once."""

from __future__ import annotations

import struct
from functools import lru_cache

LANE_BITS = 64


@lru_cache(maxsize=256)
def _layout(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}q")


def pack(values: list[int]) -> int:
    """The values as one integer, the first in the lowest lane; each must fit in 64 bits.

    Sums and differences of packed lists are those of their values as long as no value is
    negative or leaves 63 bits.
    """
    return int.from_bytes(_layout(len(values)).pack(*values), "little")


@lru_cache(maxsize=256)
def ones(count: int) -> int:
    """A one in each of `count` lanes."""
    return pack([1] * count)


def lane(index: int, value: int) -> int:
    """`value`, which may be negative, to be added to lane `index`."""
    return value << (LANE_BITS * index)
