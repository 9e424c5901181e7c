"""The mapping: entries that outlive a page, overwrite a live one, or were the only way to it."""

from __future__ import annotations

import pytest

from tests.support.events import (
    CLEAR,
    IDLE,
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

CLEARED = {"op": "clear_full_to_swa_mapping", "indices": [[4, 8]]}
STRANDED = [extend("A", 4), release("free_full", "A")]
"""On releases that keep the peers, SWA page 1 is live and only a free full page leads to it."""


def test_entries_that_outlive_their_page_are_stale() -> None:
    finding = one(
        "stale-mapping", extend("A", 4), free_swa("A", 0, 1), allocator="sglang-0.5.13.post1"
    )
    assert (finding.at.event, finding.page, finding.slots) == (2, 1, (5, 6, 7))
    assert finding.headline == "SWA page 1 is released, 3 mapping entries still point at it"
    assert errors(extend("A", 4), free_swa("A", 0, 1), allocator="fixed") == []


def test_an_entry_that_is_written_anew_with_the_same_value_holds_again() -> None:
    restored = [
        {"op": "backup_state", "slot": "s"},
        extend("A", 4),
        {"op": "restore_state", "slot": "s"},
        extend("B", 4),
        free_slots(4, 5, 6, 7),
    ]
    assert errors(*restored, allocator="sglang-0.5.12") == [(3, "stale-mapping")]
    assert len(findings(*restored, allocator="sglang-0.5.12")) == 1


def test_a_stale_entry_that_is_set_again_holds_again() -> None:
    set_again = [
        extend("A", 4),
        free_swa("A", 0, 1),
        alloc(4, pool="swa"),
        set_mapping([5, 6, 7], [5, 6, 7]),
        set_mapping([4], [4]),
        free("A"),
    ]
    assert errors(*set_again, allocator="sglang-0.5.13.post1") == [(2, "stale-mapping")]


def test_the_last_entry_to_a_live_page_is_overwritten() -> None:
    overwritten = [
        extend("A", 4),
        alloc(4, pool="swa"),
        set_mapping([4, 5, 6, 7], [8, 9, 10, 11]),
    ]
    finding = one("mapping-overwritten", *overwritten)
    assert (finding.at.event, finding.page, finding.slots) == (3, 1, (4, 5, 6, 7))
    assert finding.mapped is not None
    assert finding.mapped.event == 1


def test_an_entry_may_be_overwritten_while_another_leads_to_the_page() -> None:
    shared = [
        extend("A", 4),
        alloc(4, pool="full", req="H"),
        set_mapping([8, 9, 10, 11], [4, 5, 6, 7]),
        alloc(4, pool="swa"),
        set_mapping([8, 9, 10, 11], [8, 9, 10, 11]),
    ]
    assert everything(*shared) == []


def test_an_entry_may_be_moved_within_its_page() -> None:
    assert everything(extend("A", 2), set_mapping([4, 5], [5, 4])) == []


@pytest.mark.parametrize(
    ("end", "events"),
    [("idle", [IDLE]), ("clear", [CLEAR]), ("reuse", [extend("B", 4)]), ("the trace ends", [])],
    ids=["idle", "clear", "reuse", "end"],
)
def test_a_stranded_peer_is_an_orphan_since_it_was_stranded(
    end: str, events: list[dict[str, object]]
) -> None:
    found = errors(*STRANDED, *events, allocator="sglang-0.5.23")
    assert found == [(2, "orphaned-page")], end


def test_a_peer_that_is_released_afterwards_was_no_orphan() -> None:
    released = [*STRANDED, free_swa("A")]
    assert errors(*released, allocator="sglang-0.5.23") == []
    assert errors(*STRANDED, allocator="ideal") == []


def test_an_entry_that_is_cleared_may_be_set_again() -> None:
    again = [extend("A", 4), CLEARED, set_mapping([4, 5, 6, 7], [4, 5, 6, 7]), free("A")]
    assert everything(*again) == []
    assert errors(extend("A", 4), CLEARED) == [(2, "orphaned-page")]


def test_an_swa_page_that_its_caller_holds_may_be_released_directly() -> None:
    held = [extend("A", 4), CLEARED, free_slots(4, 5, 6, 7, pool="swa"), free("A")]
    assert everything(*held) == []


def test_a_row_that_drops_a_live_page_orphans_it() -> None:
    finding = one("orphaned-page", extend("A", 4), extend("A", 4, 0))
    assert (finding.at.event, finding.page, finding.slots) == (2, 1, (4, 5, 6, 7))
    assert finding.headline == "req A drops live full page 1, which no other row names"


def test_a_dropped_page_that_another_row_names_is_none() -> None:
    shared = [extend("A", 8), {"op": "share", "req": "cache", "from": "A"}, extend("A", 4, 0)]
    assert everything(*shared) == []


def test_a_dropped_page_that_is_released_by_its_slots_was_none() -> None:
    assert everything(extend("A", 4), extend("A", 4, 0), free_slots(4, 5, 6, 7)) == []


def test_a_restored_page_without_an_entry_is_an_orphan_since_then() -> None:
    travelled = [
        extend("A", 4),
        {"op": "backup_state", "slot": "s"},
        free("A"),
        {"op": "restore_state", "slot": "s"},
    ]
    finding = one("orphaned-page", *travelled, allocator="sglang-0.5.12")
    assert finding.at.event == 4
    assert finding.headline == "SWA page 1 is live again, without an entry"


def test_a_restored_page_has_the_owner_of_that_time() -> None:
    back = [
        extend("A", 4),
        {"op": "backup_state", "slot": "s"},
        free("A"),
        extend("B", 4),
        {"op": "restore_state", "slot": "s"},
        free("A"),
    ]
    assert errors(*back, allocator="sglang-0.5.12") == []
