"""Releases: whose page it was, whether it was free already, and whether it arrived."""

from __future__ import annotations

import pytest

from tests.support.events import (
    BEGIN,
    END,
    alloc,
    errors,
    everything,
    extend,
    findings,
    free,
    free_slots,
    free_swa,
    one,
    release,
)


def test_a_page_that_nobody_had_is_released() -> None:
    finding = one("double-free", free_slots(8), allocator="fixed")
    assert finding.headline == "full page 2 is released, but was never allocated"
    assert finding.released is None


def test_two_halves_of_a_page_are_two_releases_of_it() -> None:
    halves = [extend("A", 4), free("A", 0, 2), free("A", 2, 4)]
    assert errors(*halves) == [(3, "double-free")]


def test_both_halves_in_one_call_are_one_release() -> None:
    assert everything(extend("A", 4), free_slots(4, 5, 6, 7, 4)) == []


@pytest.mark.parametrize(("start", "end", "named"), [(0, 1, 1), (1, 4, 3)])
def test_a_release_of_part_of_a_page_is_a_warning_and_no_more(
    start: int, end: int, named: int
) -> None:
    [finding] = findings(extend("A", 4), free_swa("A", start, end))
    assert (finding.kind, finding.severity) == ("partial-page-free", "warning")
    assert finding.headline == f"{named} of 4 live tokens of SWA page 1 named, all go"


def test_a_release_of_all_tokens_that_a_page_holds_is_whole() -> None:
    assert everything(extend("A", 2), free_swa("A"), free("A")) == []


def test_a_release_without_effect_is_a_note() -> None:
    [finding] = findings(extend("A", 4), free_swa("A"), free_swa("A"))
    assert (finding.at.event, finding.kind, finding.severity) == (3, "redundant-free", "note")


def test_an_empty_release_is_nothing() -> None:
    assert everything(free_slots(), free_slots(op="free_swa")) == []


def test_padding_goes_with_peers_that_are_gone_already() -> None:
    gone = [alloc(2, req="A"), free_swa("A"), free_swa("A")]
    finding = one("padding-page", *gone, allocator="sglang-0.5.23", page_size=1)
    assert (finding.at.event, finding.pool, finding.page, finding.slots) == (3, "swa", 0, (1, 2))
    assert everything(*gone, allocator="ideal", page_size=1) == [(3, "redundant-free")]


def test_padding_of_the_full_pool_is_released_by_its_name() -> None:
    finding = one("padding-page", extend("A", 4), free_slots(0), allocator="fixed")
    assert (finding.pool, finding.page) == ("full", 0)


@pytest.mark.parametrize("slot", [36, 99])
def test_a_slot_beyond_the_pool_is_out_of_range(slot: int) -> None:
    finding = one("index-out-of-range", free_slots(slot, op="free_swa"))
    assert finding.headline == f"free_swa names slot {slot}, the full pool ends at 35"


def test_the_last_slot_of_the_pool_is_inside() -> None:
    assert everything(extend("A", 32), free_slots(35, op="free_swa")) == [(2, "partial-page-free")]


def test_a_negative_slot_is_out_of_range() -> None:
    assert (1, "index-out-of-range") in errors(free_slots(-1, op="free_swa"))


@pytest.mark.parametrize("op", ["free_segment", "free_swa_segment", "free_full_segment"])
def test_a_segment_that_starts_inside_a_page_is_misaligned(op: str) -> None:
    assert errors(extend("A", 8), release(op, "A", 2, 8))[0] == (2, "misaligned")
    assert all(kind != "misaligned" for _, kind in errors(extend("A", 8), release(op, "A", 4, 8)))


def test_a_full_page_may_go_one_call_before_its_peer() -> None:
    row_by_parts = [
        extend("A", 8),
        release("free_segment", "A", 0, 8) | {"pool": "full"},
        release("free_swa_segment", "A", 0, 8),
    ]
    assert everything(*row_by_parts, allocator="sglang-0.5.23") == []


def test_a_peer_may_go_long_before_its_full_page() -> None:
    assert everything(extend("A", 8), free_swa("A", 0, 4), extend("A", 9), free("A")) == []


def test_a_release_of_one_pool_is_judged_in_that_pool() -> None:
    assert (
        everything(
            alloc(4, pool="swa"),
            free_slots(4, 5, 6, 7, pool="swa"),
            alloc(4, pool="full", req="H"),
            free("H") | {"pool": "full"},
        )
        == []
    )
    twice = [alloc(4, pool="swa"), free_slots(4, pool="swa"), free_slots(4, pool="swa")]
    finding = one("double-free", *twice)
    assert (finding.at.event, finding.pool, finding.page) == (3, "swa", 1)


def test_a_release_that_never_arrives_is_an_accounting_mismatch() -> None:
    lost = [extend("A", 8), BEGIN, free("A"), BEGIN, END]
    finding = findings(*lost, allocator="sglang-0.5.19")[0]
    assert finding.headline == "2 released full pages never reached the free list"
    assert finding.surroundings is not None
    assert (finding.surroundings.free_pages, finding.surroundings.lost_pages) == (6, 2)
