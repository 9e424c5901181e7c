"""Passes that keep fewer tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from swasim.minimize.draft import items_of
from swasim.minimize.project import AllBut, project
from swasim.minimize.search import Search


def smallest(low: int, high: int, holds: Callable[[int], bool]) -> None:
    """Look for the smallest number in `[low, high)` that holds: small ones first, then bisection.

    `holds` takes its number over by itself; numbers above the last that held are not tried again.
    """
    for number in range(low, min(low + 3, high)):
        if holds(number):
            return
    low += 2
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle


def cut_lengths(search: Search) -> None:
    """Fewer tokens of every batch item, whole pages first; the head is kept, or the tail."""
    index = len(search.lines) - 1
    while index >= 0:
        item = 0
        while index < len(search.lines) and item < len(items_of(search.lines[index].event)):
            _cut_item(search, index, item)
            item += 1
        index -= 1


def _cut_item(search: Search, index: int, item: int) -> None:
    page_size = search.config.page_size
    for unit in dict.fromkeys((page_size, 1)):
        for keep_head in (True, False):
            _cut_by(search, index, item, unit, keep_head)


def _cut_by(search: Search, index: int, item: int, unit: int, keep_head: bool) -> None:
    count = len(_fresh(search, index, item))
    units, rest = divmod(count, unit)

    def holds(number: int) -> bool:
        fresh = _fresh(search, index, item)
        gone = len(fresh) - number * unit - rest
        if gone <= 0:
            return False
        dead = fresh[len(fresh) - gone :] if keep_head else fresh[:gone]
        return search.offer(project(search.lines, AllBut(dead), search.config.page_size))

    smallest(0 if rest else 1, units, holds)


def _fresh(search: Search, index: int, item: int) -> Sequence[int]:
    if index >= len(search.lines):
        return ()
    line = search.lines[index]
    items = items_of(line.event)
    if item >= len(items):
        return ()
    at = sum(b - a for _, a, b in items[:item])
    return line.fresh[at : at + items[item][2] - items[item][1]]
