"""Page lists: ids taken from the front, put to the front or to the end, in order."""

from __future__ import annotations

import pickle
import random
from collections import deque

import pytest

from swasim.allocator.core.pages import PageList
from swasim.runs import Ints


def ints(*values: int) -> Ints:
    made = Ints()
    made.load(list(values))
    return made


def test_ids_are_taken_from_the_front_in_order() -> None:
    pages = PageList(range(1, 6))
    assert pages.take(2) == [1, 2]
    assert (list(pages), len(pages)) == ([3, 4, 5], 3)


def test_the_first_id_put_to_the_front_is_the_next_to_be_taken() -> None:
    pages = PageList([4, 5])
    pages.put_front([2, 3])
    pages.put_front([1])
    assert pages.take(3) == [1, 2, 3]


def test_ids_put_to_the_end_come_after_all_others() -> None:
    pages = PageList([4, 5])
    pages.put_back([9, 9])
    pages.put_back([])
    assert pages.tolist() == [4, 5, 9, 9]


@pytest.mark.parametrize("count", [-1, 3])
def test_more_than_there_is_cannot_be_taken_and_nothing_changes(count: int) -> None:
    pages = PageList([4, 5])
    with pytest.raises(IndexError, match=f"{count} pages of 2"):
        pages.take(count)
    assert list(pages) == [4, 5]


def test_a_merge_sorts_both_lists_with_their_repeats_and_empties_the_other() -> None:
    free, staged = PageList([3, 1]), PageList([2, 3])
    free.merge(staged)
    assert (list(free), list(staged)) == ([1, 2, 3, 3], [])


def test_a_copy_shares_nothing() -> None:
    pages = PageList([7, 1, 2, 3])
    pages.take(1)
    twin = pages.copy()
    assert twin == pages
    twin.put_front([8])
    twin.put_back([9])
    assert (list(pages), list(twin)) == ([1, 2, 3], [8, 1, 2, 3, 9])


def test_lists_are_equal_by_what_they_hold_and_not_by_where() -> None:
    moved = PageList([5, 1, 2])
    moved.take(1)
    assert moved == PageList([1, 2])
    assert moved != PageList([2, 1])
    assert moved != [1, 2]
    assert repr(moved) == "PageList([1, 2])"


def test_a_list_goes_through_bytes() -> None:
    pages = PageList([5, 1, 2])
    pages.take(1)
    again = pickle.loads(pickle.dumps(pages))
    again.put_back([3])
    assert (list(pages), list(again)) == ([1, 2], [1, 2, 3])


def test_an_id_beyond_64_bits_is_refused_and_nothing_changes() -> None:
    pages = PageList([1])
    for put in (pages.put_front, pages.put_back, pages.replace):
        with pytest.raises(OverflowError):
            put([2, 1 << 63])
    assert list(pages) == [1]


def test_ids_move_to_and_from_integers_that_are_no_python_objects() -> None:
    pages, taken = PageList(range(1, 8)), ints(50)
    pages.take_to(3, taken)
    assert (taken.tolist(), list(pages)) == ([50, 1, 2, 3], [4, 5, 6, 7])
    pages.put_front_from(taken)
    pages.put_back_from(ints(8, 9))
    assert list(pages) == [50, 1, 2, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_of_moves_ends_as_that_of_a_deque(seed: int) -> None:
    chosen = random.Random(seed)
    pages, mirror = PageList(), deque[int]()
    for step in range(3000):
        count = chosen.randint(0, chosen.choice([3, 40]))
        put = [step * 100 + number for number in range(count)]
        move = chosen.randrange(5)
        if move == 0:
            count = min(count, len(mirror))
            assert pages.take(count) == [mirror.popleft() for _ in range(count)]
        elif move == 1:
            pages.put_front(put)
            mirror.extendleft(reversed(put))
        elif move == 2:
            pages.put_back(put)
            mirror.extend(put)
        elif move == 3:
            pages.put_front_from(ints(*put))
            mirror.extendleft(reversed(put))
        else:
            taken, count = Ints(), min(2 * count, len(mirror))
            pages.take_to(count, taken)
            assert taken.tolist() == [mirror.popleft() for _ in range(count)]
        assert len(pages) == len(mirror)
    assert list(pages) == list(mirror)


@pytest.mark.parametrize("end", ["front", "back"])
def test_room_grows_with_what_is_held_and_not_with_what_passes_through(end: str) -> None:
    pages = PageList(range(100))
    for _ in range(2000):
        moved = pages.take(7)
        if end == "front":
            pages.put_front(moved)
        else:
            pages.put_back(moved)
    assert len(pages.at) <= 400
