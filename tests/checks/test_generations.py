"""A row entry is a slot and the allocation that it came from; raw slots are never guessed at."""

from __future__ import annotations

import pytest

from tests.support.events import (
    alloc,
    decode,
    errors,
    everything,
    extend,
    findings,
    finish,
    free,
    free_slots,
    one,
    share,
)

RELEASED_TWICE = [extend("A", 4), free("A"), free("A")]
REUSED = [extend("A", 4), free("A"), extend("B", 4)]
"""A is released, and B has its page: full page 1, slots 4 to 7, for A and B alike."""


def test_a_second_release_of_a_free_page_is_a_double_free() -> None:
    assert errors(*RELEASED_TWICE) == [(3, "double-free")]


def test_a_second_release_after_reuse_is_a_foreign_free_although_the_slots_are_the_same() -> None:
    finding = one("foreign-free", *REUSED, free("A"))
    assert finding.at.event == 4
    assert (finding.pool, finding.page, finding.slots) == ("full", 1, (4, 5, 6, 7))
    assert finding.owner is not None
    assert (finding.owner.event, finding.owner.req) == (3, "B")


def test_the_new_owner_may_release_what_it_has() -> None:
    assert everything(*REUSED, free("B")) == []


@pytest.mark.parametrize("grow", [decode("A"), extend("A", 6)], ids=["decode", "extend"])
def test_growing_from_a_released_page_is_a_use_after_free(grow: dict[str, object]) -> None:
    finding = one("use-after-free", extend("A", 3), free("A"), grow)
    assert (finding.at.event, finding.pool, finding.page) == (3, "full", 1)
    assert finding.owner is None


@pytest.mark.parametrize("grow", [decode("A"), extend("A", 6)], ids=["decode", "extend"])
def test_growing_from_a_page_with_a_new_owner_names_the_owner(grow: dict[str, object]) -> None:
    finding = one("use-after-free", extend("A", 3), free("A"), extend("B", 3), grow)
    assert finding.at.event == 4
    assert finding.owner is not None
    assert finding.owner.req == "B"


def test_a_name_that_is_used_again_has_new_entries() -> None:
    assert everything(extend("A", 3), finish("A"), extend("A", 3), decode("A"), finish("A")) == []


def test_a_shared_entry_keeps_its_generation() -> None:
    taken_over = [extend("A", 4), share("cache", "A"), free("A")]
    assert errors(*taken_over, free("cache")) == [(4, "double-free")]
    assert errors(*taken_over, extend("B", 4), free("cache")) == [(5, "foreign-free")]


def test_an_owner_that_takes_a_prefix_over_may_release_it() -> None:
    assert everything(extend("A", 4), share("cache", "A"), free("cache")) == []


def test_a_prefix_that_is_released_under_a_running_request_is_found_at_its_next_step() -> None:
    hit = [
        extend("cache", 8),
        share("A", "cache"),
        extend("A", 10),
        free("cache", 0, 4),
    ]
    assert errors(*hit) == []
    finding = one("use-after-free", *hit, decode("A"))
    assert (finding.at.event, finding.page, finding.slots) == (5, 1, (4, 5, 6, 7))
    assert finding.headline == "req A reads positions 0..3 on released page 1"


def test_a_prefix_that_somebody_else_has_by_now_names_the_owner() -> None:
    finding = one(
        "use-after-free",
        extend("cache", 8),
        share("A", "cache"),
        extend("A", 10),
        free("cache", 0, 4),
        extend("B", 4),
        decode("A"),
    )
    assert finding.at.event == 6
    assert finding.owner is not None
    assert finding.owner.req == "B"


def test_a_request_that_is_over_does_not_read_its_prefix() -> None:
    assert (
        everything(
            extend("cache", 8),
            share("A", "cache"),
            extend("A", 10),
            free("cache"),
            free("A", 8, 10),
        )
        == []
    )


def test_raw_slots_of_a_reused_page_are_not_guessed_at() -> None:
    reused = [extend("A", 4), free_slots(4, 5, 6, 7), extend("B", 4)]
    assert everything(*reused, free_slots(4, 5, 6, 7)) == []


def test_raw_growth_from_a_page_of_another_is_not_guessed_at() -> None:
    grow = {"op": "alloc_decode", "seq_lens": [4], "last_loc": [6]}
    assert everything(extend("A", 3), extend("B", 3), grow) == []


def test_raw_slots_of_a_free_page_are_a_double_free() -> None:
    assert errors(extend("A", 4), free("A"), free_slots(4)) == [(3, "double-free")]


def test_raw_growth_from_a_free_page_is_a_use_after_free() -> None:
    grow = {"op": "alloc_decode", "seq_lens": [4], "last_loc": [6]}
    assert errors(extend("A", 3), free("A"), grow) == [(3, "use-after-free")]


def test_a_row_that_is_released_many_pages_late_is_one_fault() -> None:
    long = [extend("A", 16), free("A"), extend("B", 16), free("A")]
    found = findings(*long)
    assert [f.page for f in found if f.kind == "foreign-free" and f.pool == "full"] == [1, 2, 3, 4]
    assert errors(*long) == [(4, "foreign-free")]


def test_a_page_size_of_one_has_generations_too() -> None:
    reused = [alloc(2, req="A"), free("A"), alloc(8, req="B"), free("A")]
    assert errors(*reused, page_size=1) == [(4, "foreign-free")]
