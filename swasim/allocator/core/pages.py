"""Page ids in order: what a pool has to hand out, and what it got back.

Pages are taken from the front, paged pools return them to the front and token pools to the end;
each of these costs the pages that move, not the pool. Ids lie one beside the other in an array, so
that they can be read and moved without an object for each.

This module is compiled where that is possible (`pages.pxd` has its types); it runs as it stands
otherwise. What must not be added here: when pages move.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import chain

from swasim.runs import Ints, zeros

ROOM_BEHIND = 8
"""A list starts with room for one id in so many more."""


class PageList:
    """A list of page ids with room at both ends.

    Attributes:
        at: the ids, with room before and behind them.
        head: index of the first id.
        count: how many they are.

    Raises:
        OverflowError: an id does not fit in 64 bits, here and wherever ids are put in.
    """

    def __init__(self, pages: Iterable[int] = ()) -> None:
        self.replace(pages)

    def __reduce__(self) -> tuple[type[PageList], tuple[list[int]]]:
        return PageList, (self.tolist(),)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PageList) and self.tolist() == other.tolist()

    def __repr__(self) -> str:
        return f"PageList({self.tolist()})"

    def tolist(self) -> list[int]:
        """The ids as a list."""
        return memoryview(self.at)[self.head : self.head + self.count].tolist()

    def copy(self) -> PageList:
        """A list of the same ids that shares nothing with this one."""
        twin = PageList.__new__(PageList)
        ids = memoryview(self.at)[self.head : self.head + self.count]
        twin.at = array("q", ids.tobytes())
        twin.head, twin.count = 0, self.count
        return twin

    def replace(self, pages: Iterable[int]) -> None:
        """Hold these ids, and no others."""
        ids = array("q", pages)
        self.head, self.count = 0, len(ids)
        # Some room behind them from the start: a large pool would else be moved by its first call.
        ids.frombytes(bytes(8 * (self.count // ROOM_BEHIND)))
        self.at = ids

    def merge(self, other: PageList) -> None:
        """Hold the ids of both lists, ascending; the other is empty then."""
        self.replace(sorted(chain(self, other)))
        other.replace(())

    def take(self, count: int) -> list[int]:
        """Remove ids from the front.

        Raises:
            IndexError: there are fewer; nothing has changed.
        """
        if not 0 <= count <= self.count:
            raise IndexError(f"{count} pages of {self.count}")
        taken = memoryview(self.at)[self.head : self.head + count].tolist()
        self.head += count
        self.count -= count
        return taken

    def put_front(self, pages: list[int]) -> None:
        """Put ids before the others; the first of them is the next to be taken."""
        fresh = array("q", pages)
        count = len(fresh)
        if count > self.head:
            self._make_room(count, 0)
        self.at[self.head - count : self.head] = fresh
        self.head -= count
        self.count += count

    def put_back(self, pages: list[int]) -> None:
        """Put ids behind the others."""
        fresh = array("q", pages)
        count, end = len(fresh), self.head + self.count
        if end + count > len(self.at):
            self._make_room(0, count)
            end = self.head + self.count
        self.at[end : end + count] = fresh
        self.count += count

    def take_to(self, count: int, taken: Ints) -> None:
        """`take` ids that are known to be there, and append them to `taken`."""
        taken.reserve(taken.count + count)
        for index in range(count):
            taken.at[taken.count + index] = self.at[self.head + index]
        taken.count += count
        self.head += count
        self.count -= count

    def put_front_from(self, pages: Ints) -> None:
        """`put_front`."""
        if pages.count > self.head:
            self._make_room(pages.count, 0)
        self.head -= pages.count
        self.count += pages.count
        for index in range(pages.count):
            self.at[self.head + index] = pages.at[index]

    def put_back_from(self, pages: Ints) -> None:
        """`put_back`."""
        if self.head + self.count + pages.count > len(self.at):
            self._make_room(0, pages.count)
        end = self.head + self.count
        for index in range(pages.count):
            self.at[end + index] = pages.at[index]
        self.count += pages.count

    def _make_room(self, front: int, back: int) -> None:
        """Move the ids to where so much room is before and behind them.

        Both ends get room for half of all ids more, so that as many are put in before they move
        again as half of those that moved.
        """
        spare = (self.count + front + back + 1) // 2
        fresh = zeros(self.count + front + back + 2 * spare)
        head = front + spare
        fresh[head : head + self.count] = self.at[self.head : self.head + self.count]
        self.at = fresh
        self.head = head


def spread(starts: Ints, lengths: Ints, most: int, slots: Ints) -> None:
    """Fill `slots` with those of runs, `most` of them at most."""
    slots.reserve(most)
    at, count = slots.at, 0
    for run in range(starts.count):
        start = starts.at[run]
        for index in range(lengths.at[run]):
            at[count] = start + index
            count += 1
    slots.count = count


def sort(pages: Ints) -> bool:
    """Sort ascending; whether each is there once.

    Pages mostly come in a few ascending runs, for which Shell's sort takes few steps.
    """
    at, count, gap = pages.at, pages.count, 1
    while 3 * gap < count:
        gap = 3 * gap + 1
    while gap > 0:
        for index in range(gap, count):
            page, place = at[index], index
            while place >= gap and at[place - gap] > page:
                at[place] = at[place - gap]
                place -= gap
            at[place] = page
        gap //= 3
    repeats = 0
    for index in range(1, count):
        repeats += at[index - 1] == at[index]
    return repeats == 0
