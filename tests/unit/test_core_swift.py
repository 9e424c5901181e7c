"""What the swift way answers, and what it leaves to `perform`, case by case."""

from __future__ import annotations

import pickle

import pytest

from swasim.allocator.core.swift import Swift
from swasim.call import Call
from swasim.runs import FREE, RunCall, RunEffect
from tests.support.two_pairs import answered, extend, free, in_runs, pairs, used, used_slots

MOST = (1 << 63) - 1


def decode(seq_lens: list[int], last_loc: list[int]) -> Call:
    return Call("alloc_decode", seq_lens=seq_lens, last_loc=last_loc)


def mapped(full: list[int], swa: list[int]) -> Call:
    return Call("set_full_to_swa_mapping", full=full, swa=swa)


def unmapped(*slots: int) -> Call:
    return Call("clear_full_to_swa_mapping", indices=[*slots])


def free_swa(*slots: int) -> Call:
    return Call("free_swa", indices=[*slots])


PLAIN = {
    "a new page and the next slot": decode([9, 7], [11, 17]),
    "slots that follow one another": decode([7, 9], [17, 11]),
    "nobody decodes": decode([], []),
    "a first token": decode([1], [-1]),
    "a new page and a rest": extend([6, 0], [9, 3], [17, -1]),
    "no token": extend([6, 8], [6, 8], [17, 11]),
    "nobody grows": extend([], [], []),
    "all that is left": extend([0], [12], [-1]),
    "one page": free(*range(20, 24)),
    "part of a page, all that is mapped": free(16, 17),
    "pages in any order": free(20, 21, 22, 23, *range(4, 12)),
    "nothing": free(),
    "one page of two": free_swa(*range(4, 8)),
    "full pages that strand or release their peers": Call("free_full", indices=[20, 21, 22, 23]),
}

LEFT = {
    "two behind one slot": decode([7, 7], [17, 17]),
    "one behind the slot of the other": decode([7, 8], [17, 18]),
    "behind a slot that is not mapped": decode([8], [18]),
    "behind the last slot": decode([8], [35]),
    "behind no slot, inside a page": decode([7], [-1]),
    "outside the table": decode([7], [37]),
    "outside the table, where a page starts": decode([5], [37]),
    "before the table, where a page starts": decode([5], [-38]),
    "a negative length": decode([-3], [17]),
    "onto a slot that is held": decode([6], [4]),
    "a length too few": decode([7], [17, 23]),
    "more pages than there are": decode([1, 1, 1, 1], [-1] * 4),
    "a length below the prefix": extend([6], [5], [17]),
    "a prefix below nothing": extend([-1], [5], [17]),
    "a rest over slots that are held": extend([5], [8], [8]),
    "a rest that goes on into a page that is held": extend([5], [8], [18]),
    "longer than any pool": extend([0], [MOST], [-1]),
    "behind more than any pool": extend([MOST - 1], [MOST], [17]),
    "a rest in front of its own new page": extend([5, 0], [8, 1], [22, -1]),
    "a page too many": extend([0], [13], [-1]),
    "a page twice": free(20, 21, 22, 23, 20, 21, 22, 23),
    "a page in two pieces": free(20, 21, 4, 5, 6, 7, 22, 23),
    "a page from its second slot on": free(21, 22, 23),
    "part of what a page maps": free(20, 21, 22),
    "the padding page": free(0, 1, 2, 3),
    "a page beyond the pool": free(36),
    "a page of the pool and one beyond": free(*range(32, 38)),
    "a slot before the first": free(-4),
    "a page and a slot beyond": free(*range(20, 24), MOST),
    "slots of pages": Call("alloc", need_size=2),
}


@pytest.mark.parametrize("name", ["ideal", "0.5.23", "0.5.19"])
@pytest.mark.parametrize("case", PLAIN)
def test_a_plain_call_is_answered(case: str, name: str) -> None:
    assert answered(used(name), PLAIN[case])


@pytest.mark.parametrize("name", ["ideal", "0.5.23", "0.5.19"])
@pytest.mark.parametrize("case", LEFT)
def test_a_call_that_is_not_plain_is_left_to_perform(case: str, name: str) -> None:
    made = used(name)
    call = LEFT[case]
    if case == "a length too few":
        runs, before = in_runs(call, 4), made.fast.key()
        assert runs is not None
        assert not made.swift.answer(runs, made.effect)
        assert made.fast.key() == before
    else:
        assert not answered(made, call)


@pytest.mark.parametrize(
    ("before", "call"),
    [
        (mapped([17], [MOST]), decode([7], [17])),
        (mapped([17], [35]), decode([7], [17])),
        (mapped([17], [2]), decode([7], [17])),
        (mapped([35, 36], [17, 0]), decode([8], [35])),
        (mapped([27], [9]), extend([0], [12], [-1])),
        (mapped([24], [9]), decode([9, 7], [11, 17])),
        (mapped([18], [9]), free(16, 17)),
        (mapped([23], [9]), free(20, 21, 22, 23)),
        (mapped([20, 21, 22, 23], [4, 5, 6, 7]), free(*range(4, 12), 20, 21, 22, 23)),
        (mapped([20, 21, 22, 23], [9, 10, 11, 12]), free(20, 21, 22, 23)),
        (mapped([20, 21, 22, 23], [36, 37, 38, 39]), free(20, 21, 22, 23)),
        (mapped([20, 21, 22, 23], [-4, -3, -2, -1]), free(20, 21, 22, 23)),
        (mapped([4, 5, 6, 7], [0, 9, 0, 0]), free_swa(4, 5, 6, 7)),
        (unmapped(20), free(20, 21, 22, 23)),
        (unmapped(*range(4, 12)), Call("alloc", need_size=2)),
        (Call("free", indices=[0], pool="full"), extend([0], [8], [-1])),
        (Call("free", indices=[0], pool="swa"), extend([0], [8], [-1])),
        (Call("free", indices=[36], pool="full"), decode([9], [11])),
        (Call("free", indices=[36], pool="swa"), decode([9], [11])),
        (Call("free", indices=[4], pool="full"), decode([9], [11])),
        (Call("alloc", need_size=12, pool="swa"), decode([9], [11])),
        (Call("free_group_begin"), decode([7], [17])),
    ],
)
def test_what_calls_have_done_before_can_make_a_call_odd(before: Call, call: Call) -> None:
    made = used()
    made.perform(before)
    asked = made.asked[call.op]
    assert not answered(made, call)
    assert made.asked[call.op] == asked + (before.op != "free_group_begin")


def test_an_overfull_pool_leaves_its_releases_to_perform() -> None:
    made = used()
    for _ in range(5):
        made.perform(Call("free", indices=[4], pool="swa"))
    assert not answered(made, free(20, 21, 22, 23))


def test_a_group_that_stayed_open_in_the_full_pool_leaves_releases_to_perform() -> None:
    made = used()
    for _ in range(5):
        made.perform(Call("free", indices=[4], pool="swa"))
    made.perform(Call("free_group_begin"))
    made.perform(free(20, 21, 22, 23))
    made.perform(Call("free_group_end"))
    made.perform(Call("alloc", need_size=20, pool="swa"))
    assert not made.fast.in_group
    assert made.fast.full_attn_allocator.in_group
    assert not answered(made, free(*range(4, 12)))


@pytest.mark.parametrize("need_sort", [False, True])
def test_pages_are_told_and_put_back_ascending(need_sort: bool) -> None:
    for name in ("ideal", "0.5.13"):
        made = used(name, need_sort)
        assert answered(made, free(20, 21, 22, 23, *range(4, 12)))
        assert made.effect.full_returned.tolist() == [1, 2, 5]
        assert made.effect.swa_returned.tolist() == [1, 2, 5]
        by_page = made.fast.profile.free_swa_unit == "pages"
        assert made.effect.slots.tolist() == ([4, 20] if by_page else [20, 4])


@pytest.mark.parametrize("name", ["ideal", "0.5.13"])
def test_staged_pages_are_merged_by_perform_and_by_nobody_else(name: str) -> None:
    made = used(name, need_sort=True)
    assert answered(made, free(*range(4, 12)))
    assert not answered(made, extend([0], [16], [-1]))
    assert answered(made, decode([7], [17]))


def test_a_coarse_check_is_asked_too() -> None:
    made = used("0.5.10")
    assert not answered(made, extend([0], [12], [-1]))
    assert answered(made, extend([0], [8], [-1]))


@pytest.mark.parametrize("name", ["ideal", "0.5.13", "0.4.10"])
def test_at_page_size_1_slots_come_and_go_in_the_order_of_the_call(name: str) -> None:
    made = used_slots(name)
    assert answered(made, Call("alloc", need_size=3))
    assert answered(made, free(5, 2, 3, 4))
    assert made.effect.full_returned.tolist() == [5, 2, 3, 4]
    assert made.effect.swa_returned.tolist() == [5, 2, 3]
    assert made.effect.slots.tolist() == [5, 2]
    assert made.effect.lengths.tolist() == [1, 2]


@pytest.mark.parametrize(
    "call",
    [
        free(2, 3, 2),
        free(0),
        free(9),
        free(-1),
        free_swa(1, 2, 1),
        Call("alloc", need_size=-1),
        Call("alloc", need_size=9),
        Call("alloc", need_size=MOST),
        decode([2], [1]),
        extend([0], [1], [-1]),
    ],
)
def test_at_page_size_1_odd_calls_are_left_to_perform(call: Call) -> None:
    assert not answered(used_slots(), call)


@pytest.mark.parametrize("swa", [[8, 9], [9, 10]])
def test_at_page_size_1_peers_beyond_the_pool_are_released_by_perform_alone(swa: list[int]) -> None:
    made = used_slots()
    made.perform(mapped([2, 3], swa))
    assert not answered(made, free(2, 3))


def test_a_slot_without_peer_that_is_named_twice_comes_back_twice() -> None:
    made = used_slots("0.5.13")
    assert answered(made, free(4, 4))
    assert made.effect.full_returned.tolist() == [4, 4]


@pytest.mark.parametrize(("name", "plain"), [("ideal", True), ("0.5.23", False), ("0.5.19", True)])
def test_slot_0_is_released_by_perform_alone(name: str, plain: bool) -> None:
    assert answered(used_slots(name), free(3, 4)) is plain


def test_a_page_that_is_free_twice_is_handed_out_by_perform() -> None:
    made = pairs("0.5.19", 1)
    made.perform(Call("alloc", need_size=3))
    made.perform(Call("free", indices=[3, 3], pool="full"))
    assert not answered(made, Call("alloc", need_size=7))


def test_a_method_that_the_release_lacks_is_left_to_perform() -> None:
    assert used("0.5.18").refuses(Call("free_full", indices=[4]))


def test_a_pair_and_its_swift_way_go_through_bytes_together() -> None:
    made = used()
    fast, swift = pickle.loads(pickle.dumps((made.fast, made.swift)))
    call, effect = RunCall(), RunEffect()
    call.op = FREE
    call.name(20, 4)
    assert isinstance(swift, Swift)
    assert swift.answer(call, effect)
    assert fast.state().full_free[0] == 5
    assert made.fast.state().full_free[0] == 6
