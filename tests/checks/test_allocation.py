"""Allocations: pages with an owner, calls that failed half-way, growth that does not fit."""

from __future__ import annotations

from tests.support.events import (
    alloc,
    decode,
    errors,
    everything,
    extend,
    findings,
    free,
    free_slots,
    free_swa,
    one,
    set_mapping,
)

SHORT_SWA = {"kv_size": 16, "kv_size_swa": 8}
"""Four full pages, two SWA pages, of four tokens."""


def test_a_page_that_is_handed_out_twice_has_two_owners() -> None:
    twice = [extend("A", 4), free("A"), free("A"), extend("B", 4), extend("C", 4)]
    finding = one("page-aliased", *twice, allocator="sglang-0.5.14")
    assert (finding.at.event, finding.pool, finding.page) == (5, "full", 1)
    assert finding.owner is not None
    assert finding.owner.req == "B"
    assert finding.cause_kind == "double-free"


def test_a_page_that_was_released_has_one_owner() -> None:
    assert everything(extend("A", 4), free("A"), extend("B", 4), extend("C", 4)) == []


def test_a_refused_decode_that_keeps_a_page_is_a_half_allocation() -> None:
    refused = [extend("A", 4), extend("B", 4), decode("A")]
    finding = one("half-allocation", *refused, allocator="fixed", **SHORT_SWA)
    assert (finding.at.event, finding.pool, finding.page) == (3, "full", 3)
    assert finding.headline == (
        "alloc_decode returned None and keeps 1 full page that nobody was given"
    )
    assert finding.surroundings is not None
    assert finding.surroundings.lost_pages == 1


def test_a_refusal_that_takes_nothing_is_none() -> None:
    refused = [extend("A", 4), extend("B", 4), decode("A"), extend("C", 4)]
    assert everything(*refused, allocator="ideal", **SHORT_SWA) == []


def test_capacity_that_was_lost_and_would_have_been_enough_makes_a_refusal_false() -> None:
    lost = [extend("A", 4), extend("B", 4), decode("A"), free("B"), free_swa("A")]
    finding = one(
        "false-exhaustion", *lost, extend("C", 8), allocator="fixed", kv_size=12, kv_size_swa=8
    )
    assert finding.headline == "alloc_extend refused: 2 full pages wanted, 1 free, 1 lost"
    assert finding.cause_kind == "half-allocation"


def test_a_refusal_that_the_other_pool_justifies_is_true() -> None:
    lost = [extend("A", 4), extend("B", 4), decode("A"), free("B")]
    kinds = everything(*lost, extend("C", 8), allocator="fixed", kv_size=12, kv_size_swa=8)
    assert kinds == [(3, "half-allocation")]


def test_an_alloc_of_part_of_a_page_is_misaligned() -> None:
    assert errors(alloc(6, pool="full", req="A"))[0] == (1, "misaligned")
    assert errors(alloc(8, pool="full", req="A")) == []


def test_a_last_slot_that_contradicts_the_prefix_is_misaligned() -> None:
    wrong = {"op": "alloc_extend", "seq_lens": [8], "prefix_lens": [4], "last_loc": [6]}
    finding = one("misaligned", extend("A", 4), wrong)
    assert finding.headline == "last_loc 6 contradicts a prefix of 4 tokens"
    right = {**wrong, "last_loc": [7]}
    assert everything(extend("A", 4), right) == []


def test_growth_onto_a_page_whose_peer_is_gone_is_a_use_after_free() -> None:
    finding = one("use-after-free", extend("A", 3), free_swa("A"), decode("A"), allocator="fixed")
    assert (finding.at.event, finding.pool, finding.page) == (3, "swa", 0)
    assert finding.headline == (
        "a request grows from slot 6 without SWA peer, into SWA padding page 0"
    )


def test_growth_onto_a_new_page_needs_no_peer_of_the_last_token() -> None:
    assert everything(extend("A", 4), free_swa("A"), decode("A"), allocator="fixed") == []


def test_a_page_beyond_the_pool_that_came_in_by_a_wrong_release_is_found_going_out() -> None:
    found = findings(
        free_slots(37),
        *[extend(name, 4) for name in "ABCDEFGH"],
        extend("I", 4),
        allocator="sglang-0.5.12",
        kv_size=32,
        kv_size_swa=36,
    )
    out = [f for f in found if f.at.event == 2]
    assert [f.kind for f in out] == ["index-out-of-range", "half-allocation", "half-allocation"]
    assert out[0].headline == "full page 9, outside of the pool, is handed out"
    assert out[0].cause_kind == "index-out-of-range"
    assert out[0].cause_at == 1


def test_a_page_that_was_mapped_while_nobody_owned_it_is_a_use_after_free() -> None:
    finding = one("use-after-free", extend("A", 4), set_mapping([4, 5, 6, 7], [8, 9, 10, 11]))
    assert (finding.at.event, finding.pool, finding.page) == (2, "swa", 2)
