"""The regression of SGLang PR 27779, on the allocator class: free_swa of part of a page."""

from __future__ import annotations

import pytest
import torch

from swasim.allocator.profile import PROFILE_F, PROFILE_G, PROFILE_K, Profile
from swasim.allocator.tensor.swa import SWATokenToKVPoolAllocator

REPAIRED = [pytest.param(profile, id=profile.name) for profile in (PROFILE_G, PROFILE_K)]
PAGE_AND_POSITION = [(page, position) for page in (2, 4, 16, 64) for position in range(page)]


def slots(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def pools(profile: Profile, page_size: int, pages: int = 4) -> SWATokenToKVPoolAllocator:
    size = page_size * pages
    return SWATokenToKVPoolAllocator(size, size, page_size, torch.device("cpu"), False, profile)


def extend(allocator: SWATokenToKVPoolAllocator, tokens: int) -> torch.Tensor:
    nothing, length = slots(0), slots(tokens)
    out = allocator.alloc_extend(nothing, nothing, length, length, slots(-1), tokens)
    assert out is not None
    return out


def entries(allocator: SWATokenToKVPoolAllocator) -> dict[int, int]:
    """Mapped slots, the trailing entry left out."""
    mapping = allocator.full_to_swa_index_mapping[:-1].tolist()
    return {slot: peer for slot, peer in enumerate(mapping) if peer}


@pytest.mark.parametrize("profile", REPAIRED)
@pytest.mark.parametrize(("page_size", "position"), PAGE_AND_POSITION)
def test_any_position_releases_its_page_once_and_unmaps_all_of_it(
    profile: Profile, page_size: int, position: int
) -> None:
    allocator = pools(profile, page_size)
    page = extend(allocator, page_size)

    allocator.free_swa(page[position : position + 1])

    assert allocator.swa_attn_allocator.free_pages.tolist() == [1, 2, 3, 4]
    assert entries(allocator) == {}
    assert allocator.full_available_size() == 3 * page_size


@pytest.mark.parametrize("profile", REPAIRED)
@pytest.mark.parametrize(("page_size", "position"), PAGE_AND_POSITION)
def test_releasing_the_rest_of_the_page_and_then_all_returns_nothing_twice(
    profile: Profile, page_size: int, position: int
) -> None:
    allocator = pools(profile, page_size)
    page = extend(allocator, page_size)

    allocator.free_swa(page[position : position + 1])
    allocator.free_swa(torch.cat((page[:position], page[position + 1 :])))
    allocator.free(page)

    assert allocator.swa_attn_allocator.free_pages.tolist() == [1, 2, 3, 4]
    assert allocator.full_attn_allocator.free_pages.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(("page_size", "position"), PAGE_AND_POSITION)
def test_before_the_repair_every_other_position_stays_mapped(page_size: int, position: int) -> None:
    allocator = pools(PROFILE_F, page_size)
    page = extend(allocator, page_size)

    allocator.free_swa(page[position : position + 1])

    assert allocator.swa_available_size() == 4 * page_size
    left = {slot: slot for slot in page.tolist() if slot != page_size + position}
    assert entries(allocator) == left


def test_before_the_repair_the_page_is_returned_again_and_the_pool_overflows() -> None:
    allocator = pools(PROFILE_F, 4)
    page = extend(allocator, 4)

    allocator.free_swa(page[:1])
    allocator.free_swa(page[1:2])
    assert allocator.swa_attn_allocator.free_pages.tolist() == [1, 1, 2, 3, 4]
    assert entries(allocator) == {6: 6, 7: 7}

    with pytest.raises(AssertionError):
        allocator.free(page)
    assert allocator.swa_available_size() == 24
    assert allocator.full_available_size() == 16


@pytest.mark.parametrize("profile", REPAIRED)
def test_slots_that_were_never_handed_out_free_nothing(profile: Profile) -> None:
    allocator = pools(profile, 4)
    page = extend(allocator, 2)
    assert entries(allocator) == {4: 4, 5: 5}

    allocator.free_swa(page[:1])

    assert allocator.swa_attn_allocator.free_pages.tolist() == [1, 2, 3, 4]
    assert entries(allocator) == {}


@pytest.mark.parametrize("profile", REPAIRED)
def test_a_position_beyond_the_tokens_of_a_page_releases_the_page_it_lies_in(
    profile: Profile,
) -> None:
    allocator = pools(profile, 4)
    extend(allocator, 2)

    allocator.free_swa(slots(7))

    assert allocator.swa_attn_allocator.free_pages.tolist() == [1, 2, 3, 4]
    assert entries(allocator) == {}


@pytest.mark.parametrize("profile", REPAIRED)
def test_a_page_whose_peer_is_gone_frees_nothing_and_leaves_other_pages_mapped(
    profile: Profile,
) -> None:
    allocator = pools(profile, 4)
    two_pages = extend(allocator, 8)
    allocator.free_swa(two_pages[:4])
    assert allocator.swa_attn_allocator.free_pages.tolist() == [1, 3, 4]

    allocator.free_swa(two_pages[1:2])

    assert allocator.swa_attn_allocator.free_pages.tolist() == [1, 3, 4]
    assert entries(allocator) == {8: 8, 9: 9, 10: 10, 11: 11}


@pytest.mark.parametrize("profile", REPAIRED)
def test_a_recycled_peer_is_not_freed_through_the_page_that_had_it_first(
    profile: Profile,
) -> None:
    allocator = pools(profile, 4)
    first = extend(allocator, 4)
    allocator.free_swa(first[:1])
    second = extend(allocator, 4)
    assert entries(allocator) == {8: 4, 9: 5, 10: 6, 11: 7}

    allocator.free_swa(first[1:])

    assert allocator.swa_attn_allocator.free_pages.tolist() == [2, 3, 4]
    assert entries(allocator) == {8: 4, 9: 5, 10: 6, 11: 7}
    allocator.free(second)
    assert allocator.swa_attn_allocator.free_pages.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("profile", REPAIRED)
@pytest.mark.parametrize("position", [0, 1, 3])
def test_page_0_frees_nothing_and_clears_no_entry(profile: Profile, position: int) -> None:
    allocator = pools(profile, 4)
    extend(allocator, 4)

    allocator.free_swa(slots(position))

    assert allocator.swa_attn_allocator.free_pages.tolist() == [2, 3, 4]
    assert entries(allocator) == {4: 4, 5: 5, 6: 6, 7: 7}
    assert int(allocator.full_to_swa_index_mapping[-1]) == -1


@pytest.mark.parametrize("profile", REPAIRED)
def test_the_last_page_leaves_the_trailing_entry_alone(profile: Profile) -> None:
    allocator = pools(profile, 4)
    row = extend(allocator, 16)

    allocator.free_swa(row[-1:])

    assert allocator.swa_attn_allocator.free_pages.tolist() == [4]
    assert entries(allocator) == {slot: slot for slot in range(4, 16)}
    assert int(allocator.full_to_swa_index_mapping[-1]) == -1


@pytest.mark.parametrize("profile", REPAIRED)
def test_slots_of_several_pages_release_each_page_once(profile: Profile) -> None:
    allocator = pools(profile, 4)
    row = extend(allocator, 12)

    allocator.free_swa(row[[9, 1, 8, 2, 1]])

    assert allocator.swa_attn_allocator.free_pages.tolist() == [1, 3, 4]
    assert entries(allocator) == {8: 8, 9: 9, 10: 10, 11: 11}


def test_expanding_gives_every_slot_of_each_page_once_and_in_order() -> None:
    allocator = pools(PROFILE_G, 4)
    assert allocator._expand_to_full_pages(slots(14, 5, 12, 6)).tolist() == [
        4, 5, 6, 7, 12, 13, 14, 15,
    ]  # fmt: skip


@pytest.mark.parametrize("profile", REPAIRED)
def test_an_empty_release_changes_nothing(profile: Profile) -> None:
    allocator = pools(profile, 4)
    extend(allocator, 4)

    allocator.free_swa(slots())

    assert allocator.swa_attn_allocator.free_pages.tolist() == [2, 3, 4]
    assert entries(allocator) == {4: 4, 5: 5, 6: 6, 7: 7}
