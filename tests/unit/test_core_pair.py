"""The pair in plain integers, call by call, with the lists and entries that SGLang would have."""

from __future__ import annotations

import pytest

from swasim.call import Call, Segment
from swasim.errors import UsageError
from tests.support.pair import Pair


def test_before_the_repair_a_page_is_released_once_for_each_token() -> None:
    pair = Pair("sglang-0.5.13.post1")
    assert pair.extend(4) == [4, 5, 6, 7]
    pair("free_swa", indices=[4])
    assert pair.mapped == {5: 5, 6: 6, 7: 7}
    pair("free_swa", indices=[5])
    assert pair.free == ([2, 3, 4], [1, 1, 2, 3, 4])
    pair("free", indices=[4, 5, 6, 7])
    assert pair.effect.raised == "AssertionError"
    assert (pair.effect.full_available, pair.effect.swa_available) == (16, 24)


def test_after_the_repair_the_page_goes_once_and_its_entries_with_it() -> None:
    pair = Pair("sglang-0.5.14")
    pair.extend(4)
    pair("free_swa", indices=[4])
    assert pair.effect.swa_returned == [1]
    assert pair.effect.mapped_slots == [4, 5, 6, 7]
    assert pair.effect.mapped_from == [4, 5, 6, 7]
    assert pair.effect.mapped_to == [0, 0, 0, 0]
    pair("free_swa", indices=[5])
    assert pair.effect.swa_returned == []
    pair("free", indices=[4, 5, 6, 7])
    assert (pair.effect.raised, pair.free) == (None, ([1, 2, 3, 4], [1, 2, 3, 4]))


def test_a_coarse_check_refuses_what_an_exact_one_grants() -> None:
    coarse, exact = Pair("sglang-0.5.10"), Pair("sglang-0.5.11")
    assert coarse.extend(16) is None
    assert exact.extend(16) == list(range(4, 20))


def test_tokens_are_paired_at_page_size_1() -> None:
    pair = Pair("sglang-0.4.10", page_size=1, full=4, swa=3)
    assert pair("alloc", need_size=2) == [1, 2]
    assert pair("alloc", need_size=2) is None
    pair("free", indices=[2])
    state = pair.core.state()
    assert (state.full_free, state.full_staged) == ([3, 4], [2])
    assert len(state.mapping) == 8
    assert state.mapping[1] == 1


def test_alloc_with_pages_is_an_assertion_and_changes_nothing() -> None:
    pair = Pair("fixed")
    assert pair("alloc", need_size=4) is None
    assert pair.effect.raised == "AssertionError"
    assert pair.free == ([1, 2, 3, 4], [1, 2, 3, 4])


def test_a_release_without_pages_does_not_implement_extend() -> None:
    pair = Pair("sglang-0.5.7", page_size=1)
    pair.extend(4)
    assert pair.effect.raised == "NotImplementedError"


def test_a_last_slot_outside_the_table_raises_before_anything_is_taken() -> None:
    pair = Pair("fixed")
    pair.extend(6, 2, last=21)
    assert pair.effect.raised == "IndexError"
    assert pair.effect.raised_text == "index 21 is out of bounds for dimension 0 with size 21"
    assert pair.free == ([1, 2, 3, 4], [1, 2, 3, 4])


def test_a_decode_that_one_pool_refuses_keeps_the_page_of_the_other() -> None:
    pair = Pair("sglang-0.5.23", swa=4)
    pair.extend(4)
    assert pair("alloc_decode", seq_lens=[5], last_loc=[7]) is None
    assert pair.effect.full_taken == [2]
    assert pair.free == ([3, 4], [])
    assert pair.mapped == {4: 4, 5: 5, 6: 6, 7: 7}


def test_the_ideal_decode_asks_both_pools_first() -> None:
    pair = Pair("ideal", swa=4)
    pair.extend(4)
    assert pair("alloc_decode", seq_lens=[5], last_loc=[7]) is None
    assert pair.effect.full_taken == []
    assert pair.free == ([2, 3, 4], [])


@pytest.mark.parametrize(
    ("name", "tail", "kept"),
    [
        ("sglang-0.5.12", 4, {4: 12, 8: 4}),
        ("sglang-0.5.12.post1", 4, {8: 4}),
        ("sglang-0.5.12.post1", 0, {4: 12, 8: 12}),
        ("ideal", 0, {}),
    ],
)
def test_a_tail_allocation_clears_old_entries_by_release(
    name: str, tail: int, kept: dict[int, int]
) -> None:
    pair = Pair(name)
    pair("set_full_to_swa_mapping", full=[4, 8], swa=[12, 12])
    slots = pair(
        "alloc_extend_swa_tail",
        seq_lens=[8],
        prefix_lens=[0],
        last_loc=[-1],
        swa_tail_len=tail,
    )
    assert slots == list(range(4, 12))
    assert {slot: peer for slot, peer in pair.mapped.items() if slot in (4, 8)} == kept


def test_a_tail_longer_than_the_extend_is_an_assertion() -> None:
    pair = Pair("fixed")
    pair("alloc_extend_swa_tail", seq_lens=[4], prefix_lens=[0], last_loc=[-1], swa_tail_len=5)
    assert pair.effect.raised == "AssertionError"


def test_the_newest_release_checks_the_swa_side_before_full_pages_come_back() -> None:
    pair = Pair("sglang-0.5.23", swa=4)
    pair.extend(4)
    pair("free", indices=[4], pool="swa")
    pair("free", indices=[4, 5, 6, 7])
    assert pair.effect.raised == "AssertionError"
    assert pair.free == ([2, 3, 4], [1, 1])


def test_an_older_release_returns_full_pages_before_it_checks() -> None:
    pair = Pair("sglang-0.5.19", swa=4)
    pair.extend(4)
    pair("free", indices=[4], pool="swa")
    pair("free", indices=[4, 5, 6, 7])
    assert pair.effect.raised == "AssertionError"
    assert pair.free == ([1, 2, 3, 4], [1, 1])


@pytest.mark.parametrize(("name", "pushed"), [("sglang-0.5.23", [0]), ("ideal", [])])
def test_slot_0_is_released_for_a_dead_entry_at_page_size_1(name: str, pushed: list[int]) -> None:
    pair = Pair(name, page_size=1)
    pair("alloc", need_size=1)
    pair("free_swa", indices=[1])
    pair("free_swa", indices=[1])
    assert pair.effect.swa_returned == pushed


@pytest.mark.parametrize(("name", "pushed"), [("sglang-0.5.23", [0, 0]), ("ideal", [])])
def test_page_0_is_released_for_each_dead_page_of_a_segment(name: str, pushed: list[int]) -> None:
    pair = Pair(name)
    slots = pair.extend(8)
    pair("free_swa", indices=slots)
    pair("free_swa_segment", indices=slots, start_pos=0)
    assert pair.effect.swa_returned == pushed


def test_an_entry_on_the_padding_page_is_pushed_upstream_and_skipped_by_the_ideal() -> None:
    for name, pushed in (("sglang-0.5.23", [0]), ("ideal", [])):
        pair = Pair(name)
        pair.extend(2)
        pair("free_swa", indices=[4])
        pair("alloc_decode", seq_lens=[3], last_loc=[5])
        assert pair.mapped == {6: 1}
        pair("free_swa", indices=[6])
        assert pair.effect.swa_returned == pushed


def test_free_full_strands_live_peers_unless_repaired() -> None:
    for name, swa in (("sglang-0.5.23", []), ("ideal", [1])):
        pair = Pair(name)
        pair.extend(4)
        pair("free_full", indices=[4, 5, 6, 7])
        assert (pair.effect.full_returned, pair.effect.swa_returned) == ([1], swa)


def test_several_segments_come_back_in_row_order() -> None:
    pair = Pair("sglang-0.5.23")
    pair.extend(12)
    pieces = [Segment([4, 5, 6, 7], 0), Segment([12, 13], 8)]
    pair("free_segments", segments=pieces)
    assert (pair.effect.full_returned, pair.effect.swa_returned) == ([1, 3], [1, 3])


def test_an_out_of_range_slot_leaves_what_the_release_had_done_before() -> None:
    older, newest = Pair("sglang-0.5.19"), Pair("sglang-0.5.23")
    for pair, returned in ((older, [5]), (newest, [])):
        pair("free", indices=[21])
        assert pair.effect.raised == "IndexError"
        assert pair.effect.full_returned == returned


def test_the_entry_behind_the_pool_can_be_lost_and_clear_does_not_bring_it_back() -> None:
    pair = Pair("sglang-0.5.14")
    pair("set_full_to_swa_mapping", full=[-1], swa=[0])
    assert (pair.effect.mapped_slots, pair.effect.mapped_from) == ([20], [-1])
    pair("clear")
    assert pair.core.state().mapping[-1] == 0


def test_a_write_that_fails_has_written_what_came_before() -> None:
    pair = Pair("fixed")
    pair("set_full_to_swa_mapping", full=[4, 99, 5], swa=[8, 9, 10])
    assert pair.effect.raised == "IndexError"
    assert pair.mapped == {4: 8}


def test_an_entry_written_twice_is_reported_twice() -> None:
    pair = Pair("fixed")
    pair("set_full_to_swa_mapping", full=[4, 4, 4], swa=[8, 9, 9])
    assert pair.effect.mapped_slots == [4, 4]
    assert pair.effect.mapped_from == [0, 8]
    assert pair.effect.mapped_to == [8, 9]


def test_restored_lists_are_reported_as_the_difference_and_the_mapping_stays() -> None:
    pair = Pair("sglang-0.5.14")
    pair("backup_state", slot="s")
    pair.extend(8)
    pair("restore_state", slot="s")
    assert (pair.effect.full_returned, pair.effect.swa_returned) == ([1, 2], [1, 2])
    assert pair.free == ([1, 2, 3, 4], [1, 2, 3, 4])
    assert pair.mapped[11] == 11


def test_the_first_releases_do_not_implement_backup() -> None:
    pair = Pair("sglang-0.5.2", page_size=1)
    pair("backup_state", slot="s")
    assert pair.effect.raised == "NotImplementedError"


def test_restoring_what_was_never_saved_is_a_usage_error() -> None:
    pair = Pair("fixed")
    with pytest.raises(UsageError, match=r"no state was saved as 'x' \(saved: none\)"):
        pair("restore_state", slot="x")


def test_a_method_that_the_release_lacks_is_a_usage_error_that_says_when_it_came() -> None:
    with pytest.raises(UsageError) as refused:
        Pair("fixed")("free_full", indices=[4])
    assert str(refused.value) == (
        "free_full: this method came with SGLang 0.5.19 and was last seen in 0.5.23; "
        "the allocator mirrors 0.5.14 to 0.5.16"
    )


def test_a_method_that_nobody_has_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no SGLang allocator has a method 'free_all'"):
        Pair("fixed")("free_all")
    with pytest.raises(UsageError, match="a swa pool alone has no method free_swa"):
        Pair("fixed")("free_swa", indices=[4], pool="swa")


def test_one_pool_alone_leaves_the_other_and_the_mapping_as_they_are() -> None:
    pair = Pair("fixed")
    assert pair("alloc", need_size=8, pool="swa") == list(range(4, 12))
    assert pair.free == ([1, 2, 3, 4], [3, 4])
    pair("free", indices=[8], pool="swa")
    assert (pair.free, pair.mapped) == (([1, 2, 3, 4], [2, 3, 4]), {})


def test_a_sequence_shorter_than_its_prefix_raises_and_changes_nothing() -> None:
    pair = Pair("fixed")
    pair.extend(3, 5)
    assert (pair.effect.raised, pair.free[0]) == ("RuntimeError", [1, 2, 3, 4])


def test_clear_empties_everything_without_reporting_pages() -> None:
    pair = Pair("fixed")
    pair.extend(8)
    pair("clear")
    assert (pair.effect.full_returned, pair.effect.mapped_slots) == ([], [])
    assert (pair.free, pair.mapped) == (([1, 2, 3, 4], [1, 2, 3, 4]), {})


def test_a_clone_goes_its_own_way() -> None:
    pair = Pair("sglang-0.5.23")
    pair.extend(8)
    pair("free_group_begin")
    pair("free", indices=[4])
    twin = pair.core.clone()
    assert twin.key() == pair.core.key()
    twin.perform(Call("free_group_end"))
    assert twin.state().full_free == [1, 3, 4]
    assert pair.free == ([3, 4], [3, 4])
    assert hash(twin.key()) != hash(pair.core.key())
