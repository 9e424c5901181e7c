"""One pool in plain integers: the order of its lists, and what it refuses."""

from __future__ import annotations

import pytest

from swasim.allocator.core.pools import (
    PagedPool,
    TokenPool,
    new_pages,
    page_disjoint,
    page_starts,
)
from swasim.allocator.profile import RELEASES
from swasim.allocator.registry import profile

FIRST, PAGED, TRIMS, NEWEST = (RELEASES[r] for r in ("0.4.10", "0.5.14", "0.5.17", "0.5.23"))


def test_a_token_pool_appends_what_is_freed() -> None:
    pool = TokenPool(5, 1, need_sort=False, profile=PAGED)
    assert pool.alloc(3) == [1, 2, 3]
    pool.free([2, 1, 2])
    assert list(pool.free_pages) == [4, 5, 2, 1, 2]
    assert pool.alloc(4) == [4, 5, 2, 1]


def test_a_paged_pool_prepends_pages_in_ascending_order_and_each_once() -> None:
    pool = PagedPool(20, 4, need_sort=False, profile=PAGED)
    assert pool.alloc(12) == list(range(4, 16))
    pool.free([13, 4, 12, 5])
    assert list(pool.free_pages) == [1, 3, 4, 5]


def test_sorted_pools_stage_and_merge_when_an_allocation_runs_short() -> None:
    pool = PagedPool(12, 4, need_sort=True, profile=PAGED)
    pool.alloc(8)
    pool.free([8])
    pool.free([4])
    assert (list(pool.free_pages), list(pool.staged_pages)) == ([3], [1, 2])
    assert pool.available_size() == 12
    assert pool.alloc(8) == list(range(4, 12))
    assert (list(pool.free_pages), list(pool.staged_pages)) == ([3], [])


def test_the_newest_paged_pool_appends_to_the_staged_list() -> None:
    pool = PagedPool(12, 4, need_sort=True, profile=NEWEST)
    pool.alloc(12)
    pool.free([8])
    pool.free([4])
    assert list(pool.staged_pages) == [2, 1]


def test_the_first_release_stages_without_being_asked() -> None:
    pool = TokenPool(3, 1, need_sort=False, profile=FIRST)
    pool.alloc(3)
    pool.free([3, 1])
    assert (list(pool.free_pages), list(pool.staged_pages)) == ([], [3, 1])
    assert pool.alloc(1) == [1]


def test_a_refused_allocation_takes_nothing_but_may_merge() -> None:
    pool = PagedPool(8, 4, need_sort=True, profile=PAGED)
    pool.alloc(8)
    pool.free([8])
    assert pool.alloc(8) is None
    assert (list(pool.free_pages), list(pool.staged_pages)) == ([2], [])


def test_an_extend_fills_the_old_page_then_whole_pages_then_the_head_of_the_last() -> None:
    pool = PagedPool(40, 4, need_sort=False, profile=PAGED)
    count = new_pages([2, 0], [11, 3], 4)
    assert count == 3
    out = pool.alloc_extend([2, 0], [11, 3], [37, -1], 12, count)
    assert out == [38, 39, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14]
    assert list(pool.free_pages) == [4, 5, 6, 7, 8, 9, 10]


def test_an_extend_inside_a_page_without_last_slot_hands_out_slot_0() -> None:
    pool = PagedPool(8, 4, need_sort=False, profile=PAGED)
    assert pool.alloc_extend([1], [3], [-1], 2, 0) == [0, 1]


def test_a_decode_takes_a_page_for_each_request_whose_page_is_full() -> None:
    pool = PagedPool(40, 4, need_sort=False, profile=PAGED)
    assert page_starts([5, 6, 1], 4) == [0, 2]
    assert pool.alloc_decode([5, 6, 1], [35, 41, -1]) == [4, 42, 8]


def test_a_pool_that_reads_beyond_its_list_repeats_the_last_page() -> None:
    pool = PagedPool(8, 4, need_sort=False, profile=profile("fault:34399"))
    assert pool.alloc_extend([0], [12], [-1], 12, 3) == [4, 5, 6, 7, 8, 9, 10, 11, 8, 9, 10, 11]
    assert list(pool.free_pages) == []


def test_segments_come_back_in_row_order_and_repeats_stay() -> None:
    pool = PagedPool(20, 4, need_sort=False, profile=NEWEST)
    pool.alloc(20)
    pool.free_segment([12, 13, 14, 15, 4, 5, 6, 7, 12], 0)
    assert list(pool.free_pages) == [3, 1, 3]


def test_a_segment_inside_a_page_is_refused_by_the_newest_and_taken_by_the_older() -> None:
    newest = PagedPool(20, 4, need_sort=False, profile=NEWEST)
    with pytest.raises(AssertionError, match="segment start 3 is not page-aligned"):
        newest.free_segment([7, 12], 3)
    older = PagedPool(20, 4, need_sort=False, profile=TRIMS)
    older.alloc(20)
    older.free_segment([7, 12, 13, 14, 15, 4], 3)
    assert list(older.free_pages) == [1, 3, 1]


def test_a_page_that_two_segments_share_is_trimmed_or_refused() -> None:
    pieces = [([4, 5], 0), ([6, 7, 8], 2)]
    assert list(page_disjoint(pieces, 4, TRIMS)) == [([4, 5], 0), ([8], 4)]
    disjoint = page_disjoint(pieces, 4, NEWEST)
    assert next(disjoint) == ([4, 5], 0)
    with pytest.raises(AssertionError, match="segment at 2 shares a page with the one ending at 2"):
        next(disjoint)


def test_a_group_defers_and_the_end_carries_out_slots_before_page_ids() -> None:
    pool = PagedPool(20, 4, need_sort=False, profile=NEWEST)
    pool.alloc(20)
    pool.free_group_begin()
    pool.free_page_ids([5])
    pool.free([4])
    pool.free([8])
    assert list(pool.free_pages) == []
    pool.free_group_end()
    assert list(pool.free_pages) == [5, 1, 2]


def test_moved_pages_are_noted_in_order() -> None:
    pool = PagedPool(20, 4, need_sort=False, profile=PAGED)
    pool.alloc(8)
    pool.free([4])
    assert (pool.taken, pool.returned) == ([1, 2], [1])


def test_a_clone_shares_nothing() -> None:
    pool = PagedPool(20, 4, need_sort=True, profile=NEWEST)
    pool.alloc(8)
    twin = pool.clone()
    assert twin.key() == pool.key()
    twin.free([4])
    assert (list(pool.staged_pages), list(twin.staged_pages)) == ([], [1])
    assert twin.key() != pool.key()
