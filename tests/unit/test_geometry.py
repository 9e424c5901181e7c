from __future__ import annotations

from swasim.geometry import NO_LOC, PAD_PAGE, UNMAPPED, Geometry, number_runs

GEOMETRY = Geometry(page_size=4, kv_size=16, kv_size_swa=8)


def test_pools_are_counted_in_whole_pages() -> None:
    assert (GEOMETRY.full_pages, GEOMETRY.swa_pages) == (4, 2)
    assert (GEOMETRY.pages("full"), GEOMETRY.pages("swa")) == (4, 2)
    assert (GEOMETRY.size_tokens("full"), GEOMETRY.size_tokens("swa")) == (16, 8)


def test_the_last_slot_lies_in_the_last_page() -> None:
    assert (GEOMETRY.slot_limit("full"), GEOMETRY.slot_limit("swa")) == (20, 12)
    assert GEOMETRY.page_of(GEOMETRY.slot_limit("full") - 1) == 4


def test_a_page_and_its_slots_point_at_each_other() -> None:
    assert list(GEOMETRY.slots_of(3)) == [12, 13, 14, 15]
    assert [GEOMETRY.page_of(slot) for slot in (0, 3, 4, 15, 16)] == [0, 0, 1, 3, 4]


def test_at_page_size_one_page_and_slot_are_the_same_number() -> None:
    token = Geometry(page_size=1, kv_size=8, kv_size_swa=4)
    assert token.page_of(5) == 5
    assert list(token.slots_of(5)) == [5]
    assert token.slot_limit("swa") == 5


def test_the_named_constants_are_those_of_upstream() -> None:
    assert (PAD_PAGE, NO_LOC, UNMAPPED) == (0, -1, 0)


def test_numbers_are_runs_of_consecutive_ones_in_their_order() -> None:
    assert number_runs([4, 5, 6, 9, 8, 1, 2, 2]) == ((4, 6), (9, 9), (8, 8), (1, 2), (2, 2))
    assert number_runs(iter(())) == ()
