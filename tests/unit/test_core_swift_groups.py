"""Which free groups and segments the swift way answers, and what it leaves to `perform`."""

from __future__ import annotations

import pytest

from swasim.call import Call, Segment
from swasim.runs import FREE, RunCall
from tests.support.two_pairs import (
    BEGIN,
    END,
    TwoPairs,
    answered,
    extend,
    free,
    pairs,
    used,
    used_slots,
)

EVERY_QUEUE = ("0.5.14", "0.5.18", "0.5.19", "0.5.23", "ideal", "fault:36081", "fault:36646")
"""The ways in which releases queue what a group frees, one of each."""


def group_answered(made: TwoPairs, *frees: Call) -> bool:
    """Whether the group was; that it was answered rightly has been compared."""
    before = made.plain.total()
    made.perform_group([*frees])
    return made.plain.total() > before


def segment(op: str, *slots: int, at: int = 0) -> Call:
    return Call(op, indices=[*slots], start_pos=at)


def mapped(full: list[int], swa: list[int]) -> Call:
    return Call("set_full_to_swa_mapping", full=full, swa=swa)


def overfill_swa(made: TwoPairs) -> None:
    for _ in range(6):
        made.perform(Call("free", indices=[4], pool="swa"))


# -- groups


@pytest.mark.parametrize("name", EVERY_QUEUE)
@pytest.mark.parametrize(
    "frees",
    [
        [],
        [free()],
        [free(20, 21, 22, 23)],
        [free(20, 21, 22, 23), free(), free(*range(4, 12))],
        [free(20, 21), free(22, 23, 4, 5, 6, 7)],
    ],
    ids=["empty", "of nothing", "one", "several", "a page in two"],
)
def test_a_group_of_frees_is_answered(frees: list[Call], name: str) -> None:
    assert group_answered(used(name), *frees)


@pytest.mark.parametrize("name", EVERY_QUEUE)
def test_a_group_at_page_size_1_is_answered_in_the_order_of_its_frees(name: str) -> None:
    made = used_slots(name)
    assert group_answered(made, free(5, 3), free(1))
    assert made.effect.full_returned.tolist() == [5, 3, 1]
    assert made.effect.swa_returned.tolist() == [5, 3, 1]


@pytest.mark.parametrize("need_sort", [False, True])
@pytest.mark.parametrize("name", EVERY_QUEUE)
def test_pages_of_a_group_come_back_ascending(name: str, need_sort: bool) -> None:
    made = used(name, need_sort)
    assert group_answered(made, free(20, 21, 22, 23), free(*range(4, 12)))
    assert made.effect.full_returned.tolist() == [1, 2, 5]
    assert made.effect.swa_returned.tolist() == [1, 2, 5]


@pytest.mark.parametrize(
    ("name", "kept"), [("0.5.14", [20, 21, 22, 23, 16, 17]), ("0.5.19", []), ("ideal", [])]
)
def test_slots_stay_queued_where_the_release_forgets_to_empty_its_queue(
    name: str, kept: list[int]
) -> None:
    made = used(name)
    assert group_answered(made, free(20, 21, 22, 23), free(16, 17))
    assert made.fast.queue == kept


def test_an_empty_group_empties_the_queue_of_the_one_before() -> None:
    made = used("0.5.14")
    assert group_answered(made, free(16, 17))
    assert made.fast.queue == [16, 17]
    assert group_answered(made)
    assert made.fast.queue == []


def test_a_second_end_frees_again_what_stayed_queued() -> None:
    made = used("0.5.14")
    assert group_answered(made, free(20, 21, 22, 23))
    effect = made.perform(END)
    assert effect.full_returned == [5]
    assert made.fast.queue == [20, 21, 22, 23]


@pytest.mark.parametrize(
    "frees",
    [
        [free(20, 21, 22, 23), free(20, 21, 22, 23)],
        [free(20, 21), free(4, 5, 6, 7), free(22, 23)],
        [free(20, 21, 22, 23), free(16)],
        [free(21, 22, 23)],
        [free(0, 1, 2, 3)],
        [free(20, 21, 22, 23), free(36)],
        [free(-4)],
    ],
)
@pytest.mark.parametrize("name", EVERY_QUEUE)
def test_a_group_with_an_odd_free_is_left_to_perform(frees: list[Call], name: str) -> None:
    assert not group_answered(used(name), *frees)


@pytest.mark.parametrize("name", ["ideal", "0.5.14"])
def test_a_group_in_a_group_is_left_to_perform(name: str) -> None:
    made = used(name)
    for frees in ([free(16, 17)], []):
        made.perform(BEGIN)
        assert not group_answered(made, *frees)


@pytest.mark.parametrize("name", ["ideal", "0.5.23", "0.5.14"])
def test_a_group_with_an_overfull_pool_is_left_to_perform(name: str) -> None:
    made = used(name)
    overfill_swa(made)
    assert not group_answered(made)


@pytest.mark.parametrize(
    ("name", "op", "left"),
    [
        ("0.5.18", "free_swa", "swa_slot_queue"),
        ("0.5.19", "free_swa", "swa_queue"),
        ("0.5.19", "free_full", "full_queue"),
    ],
)
def test_what_a_failed_end_left_queued_is_dropped_by_perform(name: str, op: str, left: str) -> None:
    made = used(name)
    overfill_swa(made)
    made.perform(BEGIN)
    made.perform(free(20, 21, 22, 23))
    made.perform(Call(op, indices=[16, 17]))
    assert made.perform(END).raised == "AssertionError"
    made.perform(Call("alloc", need_size=20, pool="swa"))
    assert getattr(made.fast, left)
    assert not group_answered(made)
    assert getattr(made.fast, left) == []
    assert group_answered(made)


def test_slot_0_is_released_by_perform_alone_at_the_end_of_a_group() -> None:
    assert not group_answered(used_slots("0.5.23"), free(3, 4))
    assert group_answered(used_slots("0.5.23"), free(3), free(2))


# -- segments


SEGMENTS = ("free_segment", "free_swa_segment", "free_full_segment")


@pytest.mark.parametrize("name", ["ideal", "0.5.23", "fault:38519"])
@pytest.mark.parametrize("op", SEGMENTS)
@pytest.mark.parametrize(
    "slots",
    [(), (20, 21, 22, 23), (4, 5, 6, 7, 8, 9, 10, 11), (20, 21, 22, 23, 12, 13, 14, 15, 16, 17)],
    ids=["nothing", "a page", "two pages", "pages and a part"],
)
def test_a_segment_is_answered(slots: tuple[int, ...], op: str, name: str) -> None:
    assert answered(used(name), segment(op, *slots, at=8))


@pytest.mark.parametrize("need_sort", [False, True])
@pytest.mark.parametrize("name", ["ideal", "0.5.23"])
def test_pages_of_a_segment_come_back_in_the_order_of_the_row(name: str, need_sort: bool) -> None:
    made = used(name, need_sort)
    assert answered(made, segment("free_segment", *range(20, 24), *range(4, 12)))
    any_peer = made.fast.profile.segment_peer == "any"
    assert made.effect.full_returned.tolist() == [5, 1, 2]
    assert made.effect.swa_returned.tolist() == ([1, 2, 5] if any_peer else [5, 1, 2])
    assert made.effect.slots.tolist() == ([4, 20] if any_peer else [20, 4])


@pytest.mark.parametrize("name", ["0.5.17", "0.5.18", "0.5.19"])
def test_a_segment_is_a_plain_free_where_the_release_takes_it_whole(name: str) -> None:
    made = used(name)
    assert answered(made, segment("free_segment", *range(20, 24), *range(4, 12)))
    assert made.effect.full_returned.tolist() == [1, 2, 5]


@pytest.mark.parametrize(("name", "swa"), [("ideal", [1, 5]), ("0.5.23", [])])
def test_a_full_segment_keeps_or_releases_live_peers(name: str, swa: list[int]) -> None:
    made = used(name)
    assert answered(made, segment("free_full_segment", *range(20, 24), *range(4, 8)))
    assert made.effect.full_returned.tolist() == [5, 1]
    assert made.effect.swa_returned.tolist() == swa


@pytest.mark.parametrize(
    "slots",
    [
        (20, 21, 4, 5, 6, 7),
        (16, 17, 20, 21),
        (20, 21, 22, 23, 20, 21, 22, 23),
        (21, 22, 23),
        (0, 1, 2, 3),
        (36,),
        (-4,),
    ],
    ids=[
        "a short piece before a page",
        "a short piece before another",
        "a page twice",
        "from the second slot of a page on",
        "the padding page",
        "a page beyond the pool",
        "a slot before the first",
    ],
)
@pytest.mark.parametrize("name", ["ideal", "0.5.23"])
@pytest.mark.parametrize("op", ["free_segment", "free_full_segment"])
def test_an_odd_segment_is_left_to_perform(op: str, name: str, slots: tuple[int, ...]) -> None:
    assert not answered(used(name), segment(op, *slots))


@pytest.mark.parametrize(("name", "plain"), [("ideal", True), ("0.5.23", False)])
def test_a_short_piece_matters_where_one_slot_stands_for_its_page(name: str, plain: bool) -> None:
    made = used(name)
    assert answered(made, segment("free_swa_segment", 16, 17, 20, 21, 22, 23)) is plain


@pytest.mark.parametrize(
    ("before", "op", "slots"),
    [
        (mapped([20, 21, 22, 23], [4, 5, 6, 7]), "free_segment", (*range(4, 8), *range(20, 24))),
        (mapped([20, 21, 22, 23], [9, 10, 11, 12]), "free_swa_segment", (20, 21, 22, 23)),
        (mapped([18], [9]), "free_swa_segment", (16, 17)),
        (mapped([20], [0]), "free_segment", (20, 21, 22, 23)),
        (mapped([20], [2]), "free_segment", (20, 21, 22, 23)),
    ],
)
@pytest.mark.parametrize("name", ["ideal", "0.5.23"])
def test_a_segment_over_odd_entries_is_left_to_perform(
    name: str, before: Call, op: str, slots: tuple[int, ...]
) -> None:
    made = used(name)
    made.perform(before)
    assert not answered(made, segment(op, *slots))


@pytest.mark.parametrize(
    ("name", "op", "plain"),
    [
        ("ideal", "free_segment", True),
        ("ideal", "free_swa_segment", True),
        ("ideal", "free_full_segment", True),
        ("0.5.23", "free_segment", False),
        ("0.5.23", "free_swa_segment", False),
        ("0.5.23", "free_full_segment", True),
        ("fault:38519", "free_swa_segment", False),
        ("fault:38519", "free_full_segment", True),
        ("fault:36723", "free_swa_segment", True),
    ],
)
def test_the_padding_page_is_released_by_perform_alone(name: str, op: str, plain: bool) -> None:
    made = used(name)
    made.perform(Call("free_swa", indices=[*range(4, 12)]))
    assert answered(made, segment(op, *range(4, 12))) is plain


@pytest.mark.parametrize(
    ("name", "op", "plain"),
    [
        ("ideal", "free_segment", True),
        ("0.5.23", "free_swa_segment", False),
        ("0.5.23", "free_full_segment", True),
        ("fault:38519", "free_segment", False),
        ("fault:38519", "free_full_segment", True),
        ("fault:36723", "free_segment", False),
        ("fault:36723", "free_full_segment", False),
    ],
)
def test_at_page_size_1_slot_0_is_released_by_perform_alone(
    name: str, op: str, plain: bool
) -> None:
    assert answered(used_slots(name), segment(op, 5, 3, 4)) is plain
    assert answered(used_slots(name), segment(op, 5, 3))


def test_a_list_of_one_segment_is_that_segment() -> None:
    for op in ("free_segments", "free_full_segments"):
        made = used("0.5.23")
        assert answered(made, Call(op, segments=[Segment([*range(20, 24), *range(4, 8)], 4)]))
        assert made.effect.full_returned.tolist() == [5, 1]


def test_segments_that_the_release_lacks_are_left_to_perform() -> None:
    for name, missing in ("0.5.16", SEGMENTS), ("0.5.19", SEGMENTS[1:]):
        for op in missing:
            assert used(name).refuses(segment(op, 20, 21, 22, 23))


def test_a_segment_in_a_group_is_left_to_perform() -> None:
    made = used()
    made.perform(BEGIN)
    assert not answered(made, segment("free_segment", 20, 21, 22, 23))


@pytest.mark.parametrize("op", [-1, 10, 1000])
def test_an_operation_without_a_number_is_left_to_perform(op: int) -> None:
    made = pairs()
    made.perform(extend([0], [4], [-1]))
    call = RunCall()
    call.op = op
    call.name(4, 4)
    assert not made.swift.answer(call, made.effect)
    call.op = FREE
    assert made.swift.answer(call, made.effect)
