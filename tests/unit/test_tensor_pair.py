from __future__ import annotations

import pytest
import torch

from swasim.allocator.profile import (
    IDEAL,
    PROFILE_A,
    PROFILE_B,
    PROFILE_C,
    PROFILE_D,
    PROFILE_E,
    PROFILE_F,
    PROFILE_G,
    PROFILE_I,
    PROFILE_J,
    PROFILE_K,
    Profile,
)
from swasim.allocator.tensor.swa import SWATokenToKVPoolAllocator

Lists = tuple[list[int], list[int]]


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def pair(
    profile: Profile, page: int = 4, full: int = 16, swa: int = 16
) -> SWATokenToKVPoolAllocator:
    return SWATokenToKVPoolAllocator(full, swa, page, torch.device("cpu"), False, profile)


def extend(
    allocator: SWATokenToKVPoolAllocator, prefix: int, seq: int, last: int = -1
) -> list[int] | None:
    before, after = ints(prefix), ints(seq)
    out = allocator.alloc_extend(before, before, after, after, ints(last), seq - prefix)
    return None if out is None else out.tolist()


def tail(allocator: SWATokenToKVPoolAllocator, seq: int, tail_len: int) -> list[int] | None:
    none, after = ints(0), ints(seq)
    out = allocator.alloc_extend_swa_tail(none, none, after, after, ints(-1), seq, tail_len)
    return None if out is None else out.tolist()


def decode(allocator: SWATokenToKVPoolAllocator, seq: int, last: int) -> list[int] | None:
    out = allocator.alloc_decode(ints(seq), ints(seq), ints(last))
    return None if out is None else out.tolist()


def free_lists(allocator: SWATokenToKVPoolAllocator) -> Lists:
    full, swa = allocator.full_attn_allocator, allocator.swa_attn_allocator
    return full.free_pages.tolist(), swa.free_pages.tolist()


def entries(allocator: SWATokenToKVPoolAllocator) -> dict[int, int]:
    mapping = allocator.full_to_swa_index_mapping[:-1].tolist()
    return {slot: peer for slot, peer in enumerate(mapping) if peer}


@pytest.mark.parametrize(
    ("profile", "page", "length", "last"),
    [(PROFILE_B, 1, 8 + 6 + 1, 0), (PROFILE_C, 1, 8 + 1 + 1, -1), (PROFILE_K, 2, 8 + 2 + 1, -1)],
    ids=["B", "C", "K"],
)
def test_mapping_has_the_length_and_the_trailing_entry_of_its_release(
    profile: Profile, page: int, length: int, last: int
) -> None:
    mapping = pair(profile, page, 8, 6).full_to_swa_index_mapping
    assert mapping.dtype == torch.int64
    assert mapping.tolist() == [0] * (length - 1) + [last]


def test_tokens_are_paired_in_free_list_order() -> None:
    allocator = pair(PROFILE_K, 1, 6, 4)
    allocator.swa_attn_allocator.alloc(1)
    out = allocator.alloc(2)
    assert out is not None
    assert out.tolist() == [1, 2]
    assert entries(allocator) == {1: 2, 2: 3}


def test_alloc_of_tokens_is_refused_whole_where_one_pool_is_short() -> None:
    allocator = pair(PROFILE_K, 1, 6, 4)
    assert allocator.alloc(5) is None
    assert free_lists(allocator) == ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4])


def test_alloc_of_tokens_wants_page_size_1() -> None:
    with pytest.raises(AssertionError):
        pair(PROFILE_K).alloc(4)


def test_extend_of_pages_wants_more_than_page_size_1() -> None:
    with pytest.raises(AssertionError):
        extend(pair(PROFILE_K, 1), 0, 4)
    with pytest.raises(NotImplementedError, match="alloc_extend is only for paged allocator"):
        extend(pair(PROFILE_B, 1), 0, 4)
    with pytest.raises(NotImplementedError, match="alloc_decode is only for paged allocator"):
        decode(pair(PROFILE_A, 1), 1, -1)


def test_extend_asked_for_a_page_more_than_it_needs_until_0_5_11() -> None:
    assert extend(pair(PROFILE_C), 0, 13) is None
    assert extend(pair(PROFILE_D), 0, 13) == list(range(4, 17))


def test_extend_reads_the_peer_of_the_last_slot() -> None:
    allocator = pair(PROFILE_K)
    allocator.swa_attn_allocator.alloc(4)
    assert extend(allocator, 0, 2) == [4, 5]
    assert extend(allocator, 2, 4, 5) == [6, 7]
    assert entries(allocator) == {4: 8, 5: 9, 6: 10, 7: 11}


def test_decode_onto_a_page_without_a_peer_lands_on_the_padding_page() -> None:
    allocator = pair(PROFILE_K)
    extend(allocator, 0, 2)
    allocator.free_swa(ints(4))
    assert decode(allocator, 3, 5) == [6]
    assert entries(allocator) == {6: 1}


def test_decode_takes_full_pages_that_nobody_gets_where_the_swa_pool_is_empty() -> None:
    allocator = pair(PROFILE_K, 4, 16, 4)
    extend(allocator, 0, 4)
    assert decode(allocator, 5, 7) is None
    assert free_lists(allocator) == ([3, 4], [])
    assert entries(allocator) == {4: 4, 5: 5, 6: 6, 7: 7}


def test_ideal_decode_asks_both_pools_before_it_takes() -> None:
    allocator = pair(IDEAL, 4, 16, 4)
    extend(allocator, 0, 4)
    assert decode(allocator, 5, 7) is None
    assert free_lists(allocator) == ([2, 3, 4], [])


def test_tail_maps_only_the_last_tokens() -> None:
    allocator = pair(PROFILE_K)
    assert tail(allocator, 6, 3) == [4, 5, 6, 7, 8, 9]
    assert entries(allocator) == {7: 4, 8: 5, 9: 6}
    assert free_lists(allocator) == ([3, 4], [2, 3, 4])


@pytest.mark.parametrize(
    ("profile", "after_tail", "after_empty_tail"),
    [
        (PROFILE_E, {4: 9, 5: 4, 6: 5, 7: 6}, {4: 9}),
        (PROFILE_F, {5: 4, 6: 5, 7: 6}, {4: 9}),
        (IDEAL, {5: 4, 6: 5, 7: 6}, {}),
    ],
    ids=["E", "F", "ideal"],
)
def test_entries_before_the_tail_are_the_profile_s(
    profile: Profile, after_tail: dict[int, int], after_empty_tail: dict[int, int]
) -> None:
    for tail_len, expected in ((3, after_tail), (0, after_empty_tail)):
        allocator = pair(profile)
        allocator.set_full_to_swa_mapping(ints(4), ints(9))
        assert tail(allocator, 4, tail_len) == [4, 5, 6, 7]
        assert entries(allocator) == expected


def test_tail_longer_than_the_extend_is_refused_before_anything_is_taken() -> None:
    allocator = pair(PROFILE_K)
    with pytest.raises(AssertionError, match="a tail of 5 tokens of 4 new ones"):
        tail(allocator, 4, 5)
    assert free_lists(allocator) == ([1, 2, 3, 4], [1, 2, 3, 4])


def test_sequence_shorter_than_its_prefix_is_refused_before_anything_is_taken() -> None:
    allocator = pair(PROFILE_K)
    with pytest.raises(RuntimeError, match="shorter than the prefix"):
        extend(allocator, 8, 4, 11)
    assert free_lists(allocator) == ([1, 2, 3, 4], [1, 2, 3, 4])


def test_free_returns_both_sides_and_unmaps() -> None:
    allocator = pair(PROFILE_K)
    extend(allocator, 0, 8)
    allocator.free(ints(8, 9))
    assert free_lists(allocator) == ([2, 3, 4], [2, 3, 4])
    assert entries(allocator) == {4: 4, 5: 5, 6: 6, 7: 7}


@pytest.mark.parametrize(
    ("profile", "full_after"),
    [(PROFILE_J, [1, 2, 3, 4]), (PROFILE_K, [2, 3, 4])],
    ids=["J", "K"],
)
def test_overfull_swa_pool_raises_after_or_before_the_full_pages_move(
    profile: Profile, full_after: list[int]
) -> None:
    allocator = pair(profile)
    extend(allocator, 0, 4)
    allocator.swa_attn_allocator.free(ints(4))
    with pytest.raises(AssertionError, match="swa pool has 20 tokens available, its size is 16"):
        allocator.free(ints(4))
    assert free_lists(allocator)[0] == full_after


@pytest.mark.parametrize(
    ("profile", "full_after"),
    [(PROFILE_G, [5, 2, 3, 4]), (PROFILE_K, [2, 3, 4])],
    ids=["G", "K"],
)
def test_slot_out_of_range_raises_after_or_before_the_full_page_moves(
    profile: Profile, full_after: list[int]
) -> None:
    allocator = pair(profile)
    extend(allocator, 0, 4)
    with pytest.raises(IndexError, match="index 21 is out of bounds for dimension 0 with size 21"):
        allocator.free(ints(21))
    assert free_lists(allocator)[0] == full_after
    assert entries(allocator) == {4: 4, 5: 5, 6: 6, 7: 7}


def test_write_out_of_range_has_written_what_came_before() -> None:
    allocator = pair(PROFILE_K)
    with pytest.raises(IndexError):
        allocator.set_full_to_swa_mapping(ints(4, 99, 5), ints(8, 9, 10))
    assert entries(allocator) == {4: 8}


def test_mapping_lists_of_unequal_length_are_refused() -> None:
    with pytest.raises(AssertionError, match="2 full slots for 1 SWA slots"):
        pair(PROFILE_K).set_full_to_swa_mapping(ints(4, 5), ints(8))


def test_clearing_the_mapping_releases_nothing() -> None:
    allocator = pair(PROFILE_K)
    extend(allocator, 0, 4)
    allocator.clear_full_to_swa_mapping(ints(5, 7))
    assert entries(allocator) == {4: 4, 6: 6}
    assert free_lists(allocator)[1] == [2, 3, 4]


def test_free_full_strands_a_live_peer_and_ideal_releases_it() -> None:
    upstream, ideal = pair(PROFILE_K), pair(IDEAL)
    for allocator in (upstream, ideal):
        extend(allocator, 0, 4)
        allocator.free_full(ints(4))
    assert free_lists(upstream) == ([1, 2, 3, 4], [2, 3, 4])
    assert free_lists(ideal) == ([1, 2, 3, 4], [1, 2, 3, 4])


def test_segment_without_a_peer_releases_the_padding_page_and_ideal_skips_it() -> None:
    upstream, ideal = pair(PROFILE_K), pair(IDEAL)
    for allocator in (upstream, ideal):
        extend(allocator, 0, 12)
        allocator.free_swa(ints(4))
        allocator.free_swa_segment(ints(4, 5, 6, 7, 8, 9, 10, 11), start_pos=0)
        assert entries(allocator) == {12: 12, 13: 13, 14: 14, 15: 15}
    assert free_lists(upstream)[1] == [0, 2, 1, 4]
    assert free_lists(ideal)[1] == [2, 1, 4]


def test_segment_forms_release_both_sides_or_one() -> None:
    allocator = pair(PROFILE_K)
    extend(allocator, 0, 16)
    allocator.free_segment(ints(4, 5, 6, 7), start_pos=0)
    assert free_lists(allocator) == ([1], [1])
    allocator.free_swa(ints(8))
    allocator.free_full_segment(ints(8, 9, 10, 11), start_pos=4)
    assert free_lists(allocator) == ([2, 1], [2, 1])
    allocator.free_segments([(ints(12, 13, 14, 15), 8), (ints(16), 12)])
    assert free_lists(allocator) == ([4, 3, 2, 1], [4, 3, 2, 1])


@pytest.mark.parametrize(
    ("profile", "swa_after", "entries_after"),
    [
        (PROFILE_G, [1, 3, 4], {4: 8, 5: 9, 6: 10, 7: 11}),
        (PROFILE_I, [2, 3, 4], {}),
        (PROFILE_J, [1, 3, 4], {4: 8, 5: 9, 6: 10, 7: 11}),
        (PROFILE_K, [1, 3, 4], {4: 8, 5: 9, 6: 10, 7: 11}),
    ],
    ids=["G", "I", "J", "K"],
)
def test_slot_mapped_anew_inside_a_group_loses_the_page_that_the_release_meant(
    profile: Profile, swa_after: list[int], entries_after: dict[int, int]
) -> None:
    allocator = pair(profile)
    extend(allocator, 0, 4)
    allocator.swa_attn_allocator.alloc(4)
    allocator.free_group_begin()
    allocator.free_swa(ints(4, 5, 6, 7))
    allocator.set_full_to_swa_mapping(ints(4, 5, 6, 7), ints(8, 9, 10, 11))
    allocator.free_group_end()
    assert free_lists(allocator)[1] == swa_after
    assert entries(allocator) == entries_after


def test_group_of_0_5_20_holds_frees_of_the_full_pool_too() -> None:
    allocator = pair(PROFILE_K)
    extend(allocator, 0, 8)
    allocator.free_group_begin()
    allocator.free(ints(4))
    allocator.full_attn_allocator.free(ints(8))
    assert free_lists(allocator) == ([3, 4], [3, 4])
    assert entries(allocator) == {8: 8, 9: 9, 10: 10, 11: 11}
    allocator.free_group_end()
    assert free_lists(allocator) == ([1, 2, 3, 4], [1, 3, 4])


def test_backup_saves_the_lists_and_not_the_mapping() -> None:
    allocator = pair(PROFILE_G)
    saved = allocator.backup_state()
    extend(allocator, 0, 4)
    allocator.restore_state(saved)
    assert free_lists(allocator) == ([1, 2, 3, 4], [1, 2, 3, 4])
    assert entries(allocator) == {4: 4, 5: 5, 6: 6, 7: 7}
    with pytest.raises(NotImplementedError):
        pair(PROFILE_A, 1).backup_state()


def test_clear_does_not_repair_the_trailing_entry() -> None:
    allocator = pair(PROFILE_F)
    extend(allocator, 0, 4)
    allocator.free_swa(ints(20))
    assert int(allocator.full_to_swa_index_mapping[-1]) == 0
    allocator.clear()
    assert free_lists(allocator) == ([1, 2, 3, 4], [1, 2, 3, 4])
    assert allocator.full_to_swa_index_mapping.tolist() == [0] * 21


def test_clear_of_the_oldest_release_leaves_the_group_open() -> None:
    allocator = pair(PROFILE_A, 1, 4, 4)
    allocator.free_group_begin()
    allocator.clear()
    allocator.alloc(1)
    allocator.free(ints(1))
    assert allocator.full_available_size() == 3
    allocator.free_group_end()
    assert allocator.available_size() == 4
