from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from swasim.allocator.profile import (
    IDEAL,
    PROFILE_A,
    PROFILE_H,
    PROFILE_I,
    PROFILE_J,
    PROFILE_K,
    Profile,
)
from swasim.allocator.tensor.base import PagePool
from swasim.allocator.tensor.paged import PagedTokenToKVPoolAllocator
from swasim.allocator.tensor.token import TokenToKVPoolAllocator

CPU = torch.device("cpu")


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def tokens(size: int = 6, need_sort: bool = False) -> TokenToKVPoolAllocator:
    return TokenToKVPoolAllocator(size, CPU, need_sort, PROFILE_K)


def pages(size: int = 16, need_sort: bool = False) -> PagedTokenToKVPoolAllocator:
    return PagedTokenToKVPoolAllocator(size, 4, CPU, need_sort, PROFILE_K)


def extend(
    pool: PagedTokenToKVPoolAllocator, prefix: list[int], seq: list[int], last: list[int]
) -> list[int] | None:
    prefix_lens, seq_lens, last_loc = ints(*prefix), ints(*seq), ints(*last)
    count = sum(seq) - sum(prefix)
    out = pool.alloc_extend(prefix_lens, prefix_lens, seq_lens, seq_lens, last_loc, count)
    return None if out is None else out.tolist()


def lists(pool: PagePool) -> tuple[list[int], list[int]]:
    return pool.free_pages.tolist(), pool.release_pages.tolist()


def test_token_pool_hands_out_from_the_front_and_takes_back_at_the_end() -> None:
    pool = tokens()
    taken = pool.alloc(4)
    assert taken is not None
    assert taken.tolist() == [1, 2, 3, 4]
    pool.free(ints(3, 1))
    assert lists(pool) == ([5, 6, 3, 1], [])


def test_token_pool_accepts_a_double_free_in_silence() -> None:
    pool = tokens()
    pool.alloc(2)
    pool.free(ints(2, 2))
    assert lists(pool) == ([3, 4, 5, 6, 2, 2], [])


def test_token_pool_that_is_short_refuses_and_stays_as_it_is() -> None:
    pool = tokens()
    assert pool.alloc(7) is None
    assert lists(pool) == ([1, 2, 3, 4, 5, 6], [])


def test_staged_slots_are_sorted_in_when_an_allocation_runs_short() -> None:
    pool = tokens(need_sort=True)
    pool.alloc(5)
    pool.free(ints(4, 2))
    assert lists(pool) == ([6], [4, 2])
    assert pool.available_size() == 3
    taken = pool.alloc(2)
    assert taken is not None
    assert taken.tolist() == [2, 4]
    assert lists(pool) == ([6], [])


def test_oldest_release_stages_whatever_need_sort_says() -> None:
    pool = TokenToKVPoolAllocator(3, CPU, False, PROFILE_A)
    pool.alloc(1)
    pool.free(ints(1))
    assert lists(pool) == ([2, 3], [1])


def test_paged_pool_takes_back_at_the_front_ascending_and_each_page_once() -> None:
    pool = pages()
    taken = pool.alloc(12)
    assert taken is not None
    assert taken.tolist() == [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
    pool.free(ints(14, 5, 12, 6))
    assert lists(pool) == ([1, 3, 4], [])


@pytest.mark.parametrize(
    ("profile", "staged"), [(PROFILE_J, [2, 1]), (PROFILE_K, [1, 2])], ids=["J", "K"]
)
def test_releases_stage_pages_at_different_ends(profile: Profile, staged: list[int]) -> None:
    pool = PagedTokenToKVPoolAllocator(16, 4, CPU, True, profile)
    pool.alloc(8)
    pool.free(ints(4))
    pool.free(ints(8))
    assert lists(pool) == ([3, 4], staged)


def test_extend_fills_the_old_page_then_whole_pages_then_a_head() -> None:
    pool = pages(24)
    assert extend(pool, [0], [6], [-1]) == [4, 5, 6, 7, 8, 9]
    assert extend(pool, [6], [13], [9]) == [10, 11, 12, 13, 14, 15, 16]
    assert lists(pool) == ([5, 6], [])


def test_extend_of_a_batch_takes_pages_in_batch_order() -> None:
    pool = pages(40)
    assert extend(pool, [0, 0], [2, 5], [-1, -1]) == [4, 5, 8, 9, 10, 11, 12]
    assert extend(pool, [2, 5, 0], [3, 9, 1], [5, 12, -1]) == [6, 13, 14, 15, 16, 20]


def test_extend_inside_the_old_page_takes_none() -> None:
    pool = pages()
    assert extend(pool, [0], [1], [-1]) == [4]
    assert extend(pool, [1], [4], [4]) == [5, 6, 7]
    assert lists(pool) == ([2, 3, 4], [])


def test_unaligned_prefix_without_a_last_slot_hands_out_slot_0() -> None:
    assert extend(pages(), [2], [4], [-1]) == [0, 1]


def test_extend_that_is_short_refuses_and_takes_nothing() -> None:
    pool = pages(8)
    assert extend(pool, [0], [9], [-1]) is None
    assert lists(pool) == ([1, 2], [])


def test_fault_of_reading_beyond_the_list_repeats_the_last_page() -> None:
    profile = replace(IDEAL, short_list="repeats")
    pool = PagedTokenToKVPoolAllocator(8, 4, CPU, False, profile)
    assert extend(pool, [0], [12], [-1]) == [4, 5, 6, 7, 8, 9, 10, 11, 8, 9, 10, 11]
    assert extend(pool, [0], [1], [-1]) is None


def test_decode_goes_on_behind_the_last_slot_or_on_a_new_page() -> None:
    pool = pages()
    lens = ints(5, 2, 9)
    out = pool.alloc_decode(lens, lens, ints(7, 8, 15))
    assert out is not None
    assert out.tolist() == [4, 9, 8]
    assert lists(pool) == ([3, 4], [])


def test_decode_that_is_short_refuses_and_takes_nothing() -> None:
    pool = pages(4)
    lens = ints(1, 1)
    assert pool.alloc_decode(lens, lens, ints(-1, -1)) is None
    assert lists(pool) == ([1], [])


def test_segment_returns_pages_in_row_order() -> None:
    pool = pages()
    pool.alloc(16)
    pool.free_segment(ints(12, 13, 14, 15, 4, 5), start_pos=8)
    assert lists(pool) == ([3, 1], [])


def test_segment_inside_a_page_is_refused_from_0_5_20() -> None:
    pool = pages()
    with pytest.raises(AssertionError, match="segment start 2 is not page-aligned"):
        pool.free_segment(ints(6, 7), start_pos=2)


def test_segment_inside_a_page_counted_as_a_page_of_its_own_before() -> None:
    pool = PagedTokenToKVPoolAllocator(16, 4, CPU, False, PROFILE_H)
    pool.alloc(16)
    pool.free_segment(ints(6, 7, 12, 13), start_pos=2)
    assert lists(pool) == ([1, 3], [])


def test_segments_that_share_a_page_are_trimmed_or_refused() -> None:
    pieces = [(ints(4, 5, 6), 0), (ints(7, 8, 9), 3)]
    old = PagedTokenToKVPoolAllocator(16, 4, CPU, False, PROFILE_H)
    old.alloc(16)
    old.free_segments(pieces)
    assert lists(old) == ([2, 1], [])

    new = pages()
    new.alloc(16)
    with pytest.raises(AssertionError, match="segment at 3 shares a page with the one ending at 3"):
        new.free_segments(pieces)
    assert lists(new) == ([1], [])


def test_group_waits_and_returns_slots_before_page_ids() -> None:
    pool = pages()
    pool.alloc(16)
    pool.free_group_begin()
    pool.free_page_ids(ints(3))
    pool.free(ints(4, 8))
    assert lists(pool) == ([], [])
    pool.free_group_end()
    assert lists(pool) == ([3, 1, 2], [])


def test_second_group_end_frees_again_up_to_0_5_18() -> None:
    counts = []
    for profile in (PROFILE_I, PROFILE_J):
        pool = TokenToKVPoolAllocator(4, CPU, False, profile)
        pool.alloc(2)
        pool.free_group_begin()
        pool.free(ints(1))
        pool.free_group_end()
        pool.free_group_end()
        counts.append(lists(pool)[0])
    assert counts == [[3, 4, 1, 1], [3, 4, 1]]


def test_nested_group_drops_the_queue_or_is_refused() -> None:
    old = TokenToKVPoolAllocator(4, CPU, False, PROFILE_J)
    old.alloc(2)
    old.free_group_begin()
    old.free(ints(1))
    old.free_group_begin()
    old.free_group_end()
    assert lists(old) == ([3, 4], [])

    new = tokens(4)
    new.free_group_begin()
    with pytest.raises(AssertionError, match="free groups cannot be nested"):
        new.free_group_begin()
    assert new.in_free_group


def test_saved_lists_come_back() -> None:
    pool = pages(need_sort=True)
    pool.alloc(8)
    pool.free(ints(4))
    saved = pool.backup_state()
    pool.alloc(12)
    pool.restore_state(saved)
    assert lists(pool) == ([3, 4], [1])


def test_clear_makes_every_page_free_and_ends_the_group() -> None:
    pool = pages(need_sort=True)
    pool.alloc(8)
    pool.free(ints(4))
    pool.free_group_begin()
    pool.free(ints(8))
    pool.clear()
    pool.free_group_end()
    assert lists(pool) == ([1, 2, 3, 4], [])
