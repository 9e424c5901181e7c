"""Pairs of slots, cut where a page ends on either side.

Calls name slots by the hundred, and nearly all of them lie in consecutive runs. What holds for a
run is found out once per run and not once per slot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import repeat
from operator import floordiv


def page_runs(slots: list[int], peers: list[int], size: int) -> Iterator[tuple[int, int]]:
    """Index ranges `[start, end)` in which both lists count up by one and stay on one page.

    Args:
        slots, peers: of equal length.
        size: tokens per page, of both sides.
    """
    start, limit = 0, len(slots)
    if size == 1:
        yield from zip(range(limit), range(1, limit + 1), strict=True)
        return
    while start < limit:
        slot, peer = slots[start], peers[start]
        end = start + 1
        if end < limit and slots[end] == slot + 1 and peers[end] == peer + 1:
            end = start + min(size - slot % size, size - peer % size, limit - start)
            count = end - start
            if slots[start:end] != list(range(slot, slot + count)) or peers[start:end] != list(
                range(peer, peer + count)
            ):
                end = start + 1
        yield start, end
        start = end


def pages_of(slots: list[int], size: int) -> Iterator[int]:
    """The page of each slot."""
    return map(floordiv, slots, repeat(size))


def count_by_page(slots: list[int], size: int) -> dict[int, int]:
    """Distinct named slots of each page, in order of first mention."""
    if size == 1:
        return dict.fromkeys(slots, 1)
    counts: dict[int, int] = {}
    start, limit = 0, len(slots)
    while start < limit:
        slot = slots[start]
        page, offset = divmod(slot, size)
        end = min(start + size - offset, limit)
        if page in counts or slots[start:end] != list(range(slot, slot + end - start)):
            return dict(Counter(pages_of(list(dict.fromkeys(slots)), size)))
        counts[page] = end - start
        start = end
    return counts
