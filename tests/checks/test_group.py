"""Free groups: what waits, what comes back twice, what is forgotten, what is rewritten."""

from __future__ import annotations

from tests.support.events import (
    BEGIN,
    CLEAR,
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
    set_mapping,
)

SLOTS_QUEUED = "sglang-0.5.18"
"""free and free_swa in a group queue full slots, and the mapping is read at the end."""

NESTED_DROPS = "sglang-0.5.19"
NESTED_ASSERTS = "sglang-0.5.23"

REMAPPED = [
    extend("A", 4),
    BEGIN,
    free_swa("A"),
    alloc(4, pool="swa"),
    set_mapping([4, 5, 6, 7], [8, 9, 10, 11]),
    END,
]


def test_what_a_group_was_asked_to_release_comes_back_at_its_end() -> None:
    for allocator in (SLOTS_QUEUED, NESTED_DROPS, NESTED_ASSERTS, "ideal"):
        assert everything(extend("A", 4), BEGIN, free("A"), END, allocator=allocator) == []


def test_a_page_that_waits_is_pending_in_the_equation() -> None:
    finding = one(
        "index-out-of-range", extend("A", 4), BEGIN, free("A"), free_slots(99, op="free_swa")
    )
    assert finding.surroundings is not None
    assert finding.surroundings.live_pages == 0
    assert finding.surroundings.pending_pages == 1
    assert finding.surroundings.free_pages == 7
    assert finding.surroundings.lost_pages == 0


def test_growing_from_a_page_that_waits_is_a_use_after_free() -> None:
    grow = {"op": "alloc_decode", "reqs": ["A"]}
    finding = one("use-after-free", extend("A", 3), BEGIN, free("A"), grow, END)
    assert finding.headline.endswith("queued for release")


def test_a_second_release_in_the_same_group_is_told_though_a_page_pool_makes_one_of_it() -> None:
    for allocator in (SLOTS_QUEUED, NESTED_DROPS, NESTED_ASSERTS, "ideal"):
        twice = [extend("A", 4), BEGIN, free("A"), free("A"), END]
        assert errors(*twice, allocator=allocator) == [(4, "double-free")]
        finding = findings(*twice, allocator=allocator)[0]
        assert finding.released is not None
        assert (finding.pool, finding.page, finding.released.event) == ("full", 1, 3)


def test_two_parts_of_a_page_may_be_released_in_one_group() -> None:
    parts = [extend("A", 4), BEGIN, free("A", 0, 2), free("A", 2, 4), END]
    for allocator in (SLOTS_QUEUED, NESTED_DROPS, NESTED_ASSERTS, "ideal"):
        assert errors(*parts, allocator=allocator) == []


def test_a_token_pool_carries_a_second_release_out_and_the_call_that_asked_is_named() -> None:
    twice = [alloc(2, req="A"), BEGIN, free("A"), free("A"), END]
    for allocator in (SLOTS_QUEUED, NESTED_DROPS, NESTED_ASSERTS, "ideal"):
        found = errors(*twice, allocator=allocator, page_size=1)
        assert found[0] == (4, "double-free"), allocator
        assert [kind for _, kind in found] == ["double-free"], allocator


def test_a_group_begun_inside_a_group_forgets_what_the_first_was_asked_for() -> None:
    nested = [extend("A", 4), BEGIN, free("A"), BEGIN, END]
    finding = findings(*nested, allocator=NESTED_DROPS)[0]
    assert (finding.at.event, finding.kind, finding.page) == (5, "accounting-mismatch", 1)
    assert finding.released is not None
    assert finding.released.event == 3
    assert finding.notes == ("full pages 1", "a group was begun inside this one at event 4")
    assert errors(*nested, allocator=NESTED_DROPS) == [(5, "accounting-mismatch")]


def test_a_release_that_refuses_to_nest_keeps_what_it_was_asked_for() -> None:
    nested = [extend("A", 4), BEGIN, free("A"), BEGIN, END]
    assert everything(*nested, allocator=NESTED_ASSERTS) == []


def test_a_group_that_is_ended_twice_releases_twice() -> None:
    ended_twice = [extend("A", 4), BEGIN, free("A"), END, END]
    finding = one("double-free", *ended_twice, allocator=SLOTS_QUEUED)
    assert (finding.at.event, finding.pool, finding.page) == (5, "full", 1)
    assert finding.released is not None
    assert finding.released.event == 4
    assert everything(*ended_twice, allocator=NESTED_ASSERTS) == []


def test_a_remap_inside_a_group_is_found_where_the_entry_is_set() -> None:
    first, second = [
        f for f in findings(*REMAPPED, allocator=SLOTS_QUEUED) if f.severity == "error"
    ]
    assert (first.at.event, first.kind, first.page) == (5, "mapping-overwritten", 1)
    assert first.at.op == "set_full_to_swa_mapping"
    assert first.released is not None
    assert first.released.event == 3
    assert (second.at.event, second.kind, second.page) == (6, "foreign-free", 2)
    assert (second.cause_kind, second.cause_at) == ("mapping-overwritten", 5)
    assert second.cause == first.fingerprint


def test_where_the_queue_is_looked_up_at_once_a_remap_is_a_warning() -> None:
    for allocator in (NESTED_DROPS, NESTED_ASSERTS, "ideal"):
        assert everything(*REMAPPED, allocator=allocator) == [(5, "remap-in-free-group")]


def test_where_free_swa_ignores_the_group_nothing_is_queued_that_could_be_rewritten() -> None:
    recovered = [
        extend("A", 4),
        BEGIN,
        free_swa("A"),
        alloc(4, pool="swa"),
        set_mapping([4, 5, 6, 7], [4, 5, 6, 7]),
        END,
    ]
    assert everything(*recovered, allocator="fixed") == []


def test_clear_inside_a_group_forgets_the_group() -> None:
    for allocator in (SLOTS_QUEUED, NESTED_DROPS, NESTED_ASSERTS, "ideal"):
        found = everything(
            extend("A", 4),
            BEGIN,
            free("A"),
            CLEAR,
            END,
            extend("B", 4),
            free("B"),
            allocator=allocator,
        )
        assert found == [], allocator


def test_the_parts_of_free_wait_too() -> None:
    parts = [BEGIN, free_swa("A"), release("free_full", "A"), END]
    for allocator in (NESTED_DROPS, NESTED_ASSERTS, "ideal"):
        assert everything(extend("A", 4), *parts, allocator=allocator) == []
