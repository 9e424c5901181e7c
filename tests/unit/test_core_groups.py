"""Free groups, release by release: what waits, what is looked up when, and in which order."""

from __future__ import annotations

import pytest

from swasim.call import Segment
from tests.support.pair import Pair


def grouped(name: str) -> Pair:
    """A pair with three pages in use and an open group."""
    pair = Pair(name)
    pair.extend(12)
    pair("free_group_begin")
    return pair


@pytest.mark.parametrize("name", ["0.5.14", "0.5.17", "0.5.18", "0.5.19", "0.5.23", "ideal"])
def test_free_waits_for_the_end(name: str) -> None:
    pair = grouped(name)
    pair("free", indices=[4, 5, 6, 7])
    assert pair.free == ([4], [4])
    pair("free_group_end")
    assert pair.free == ([1, 4], [1, 4])


@pytest.mark.parametrize(
    ("name", "at_once"), [("0.5.17", [1, 4]), ("0.5.18", [4]), ("0.5.19", [4]), ("0.5.23", [4])]
)
def test_free_swa_ignores_the_group_in_older_releases(name: str, at_once: list[int]) -> None:
    pair = grouped(name)
    pair("free_swa", indices=[4])
    assert pair.free[1] == at_once
    pair("free_group_end")
    assert pair.free[1] == [1, 4]


@pytest.mark.parametrize(("name", "lost"), [("0.5.18", True), ("0.5.19", False), ("0.5.23", False)])
def test_a_slot_that_is_mapped_anew_in_the_group_loses_a_page_where_it_resolves_late(
    name: str, lost: bool
) -> None:
    pair = grouped(name)
    pair("free_swa", indices=[4])
    pair("set_full_to_swa_mapping", full=[4, 5, 6, 7], swa=[16, 17, 18, 19])
    pair("free_group_end")
    assert pair.effect.swa_returned == ([4] if lost else [1])


@pytest.mark.parametrize(("name", "lost"), [("0.5.19", True), ("0.5.23", False)])
def test_the_same_for_free(name: str, lost: bool) -> None:
    pair = grouped(name)
    pair("free", indices=[4])
    pair("set_full_to_swa_mapping", full=[4, 5, 6, 7], swa=[16, 17, 18, 19])
    pair("free_group_end")
    assert pair.effect.swa_returned == ([4] if lost else [1])


@pytest.mark.parametrize(("name", "again"), [("0.5.18", [1]), ("0.5.19", []), ("0.5.23", [])])
def test_a_second_end_frees_again_in_older_releases(name: str, again: list[int]) -> None:
    pair = grouped(name)
    pair("free", indices=[4])
    pair("free_group_end")
    pair("free_group_end")
    assert pair.effect.full_returned == again


def test_a_nested_begin_drops_the_queue_in_older_releases() -> None:
    pair = grouped("0.5.19")
    pair("free", indices=[4])
    pair("free_group_begin")
    assert pair.effect.raised is None
    pair("free_group_end")
    assert pair.free == ([4], [4])


def test_a_nested_begin_is_refused_by_the_newest_and_keeps_the_queue() -> None:
    pair = grouped("0.5.23")
    pair("free", indices=[4])
    pair("free_group_begin")
    assert pair.effect.raised == "AssertionError"
    assert pair.effect.raised_text == "free groups cannot be nested"
    pair("free_group_end")
    assert pair.free == ([1, 4], [1, 4])


def test_the_end_flushes_segments_before_sets_on_the_swa_side_and_after_them_on_the_full() -> None:
    pair = grouped("0.5.23")
    pair("free", indices=[4])
    pair("free_segments", segments=[Segment([12, 13, 14, 15], 0), Segment([8, 9], 4)])
    pair("free_group_end")
    assert pair.effect.swa_returned == [3, 2, 1]
    assert pair.effect.full_returned == [1, 3, 2]
    assert pair.free == ([3, 2, 1, 4], [1, 3, 2, 4])


@pytest.mark.parametrize(("name", "at_once"), [("0.5.19", [1, 4]), ("0.5.23", [4])])
def test_the_full_pool_by_itself_waits_too_in_the_newest(name: str, at_once: list[int]) -> None:
    pair = grouped(name)
    pair("free", indices=[4], pool="full")
    assert pair.free[0] == at_once
    pair("free", indices=[4], pool="swa")
    assert pair.free[1] == [1, 4]


def test_free_full_waits_in_the_pair_or_in_the_pool() -> None:
    for name in ("0.5.19", "0.5.23"):
        pair = grouped(name)
        pair("free_swa", indices=[4])
        pair("free_full", indices=[4])
        assert pair.free == ([4], [4])
        pair("free_group_end")
        assert pair.free == ([1, 4], [1, 4])


def test_an_allocation_in_a_group_sees_the_lists_before_the_flush() -> None:
    pair = grouped("0.5.23")
    pair("free", indices=[4])
    assert pair.extend(8) is None
    assert pair.extend(4) == [16, 17, 18, 19]


def test_an_end_that_raises_leaves_the_group_of_the_full_pool_open() -> None:
    pair = Pair("0.5.23", swa=4)
    pair.extend(4)
    pair("free", indices=[4], pool="swa")
    pair("free_group_begin")
    pair("free", indices=[4])
    pair("free_group_end")
    assert pair.effect.raised == "AssertionError"
    assert pair.free == ([2, 3, 4], [1, 1])
    pair("free_group_begin")
    assert pair.effect.raised_text == "free groups cannot be nested"


@pytest.mark.parametrize(("name", "closed"), [("0.5.1", False), ("0.5.2", True)])
def test_clear_closes_a_group_except_in_the_first_releases(name: str, closed: bool) -> None:
    pair = Pair(name, page_size=1)
    pair("free_group_begin")
    pair("clear")
    pair("alloc", need_size=1)
    pair("free", indices=[1])
    assert (pair.effect.full_returned == [1]) is closed
