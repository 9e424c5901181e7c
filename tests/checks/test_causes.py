"""A finding that follows from another names it; a second fault is found beside the first."""

from __future__ import annotations

import pytest

from swasim.sanitizer.findings import Finding
from tests.support.events import (
    BEGIN,
    END,
    IDLE,
    alloc,
    decode,
    errors,
    extend,
    findings,
    finish,
    free,
    free_slots,
    free_swa,
    one,
    set_mapping,
)

BUGGY = "sglang-0.5.13.post1"
STALE = [extend("A", 4), free_swa("A", 0, 1)]
"""On `BUGGY`, three entries of A still point at SWA page 1, which is free."""


def roots_and_rest(found: tuple[Finding, ...]) -> tuple[list[str], set[str]]:
    wrong = [f for f in found if f.severity == "error"]
    return [f.kind for f in wrong if f.cause is None], {f.kind for f in wrong if f.cause}


def test_a_double_free_names_the_stale_entry_that_led_to_it() -> None:
    finding = one("double-free", *STALE, free_swa("A", 1, 2), allocator=BUGGY)
    assert (finding.cause_kind, finding.cause_at) == ("stale-mapping", 2)


def test_a_foreign_free_names_the_stale_entry_however_long_ago_it_was_left() -> None:
    others = [event for n in range(20) for event in (extend(f"R{n}", 4), finish(f"R{n}"))]
    robbed = [*STALE, *others, extend("B", 4), free_swa("A", 1, 2)]
    finding = one("foreign-free", *robbed, allocator=BUGGY)
    assert finding.at.event == 44
    assert (finding.cause_kind, finding.cause_at) == ("stale-mapping", 2)
    assert finding.owner is not None
    assert finding.owner.req == "B"


def test_one_stale_entry_and_all_that_follows_have_one_root() -> None:
    followed = [
        *STALE,
        free_swa("A", 1, 2),
        free("A"),
        extend("B", 4),
        extend("C", 4),
        extend("D", 4),
        finish("B"),
        finish("C"),
        finish("D"),
    ]
    roots, rest = roots_and_rest(findings(*followed, allocator=BUGGY))
    assert roots == ["stale-mapping"]
    assert rest == {"accounting-overflow", "double-free", "page-aliased", "stale-mapping"}


def test_a_second_stale_entry_is_a_second_root() -> None:
    second = [*STALE, extend("B", 4), free_swa("B", 0, 1)]
    assert errors(*second, allocator=BUGGY) == [(2, "stale-mapping"), (4, "stale-mapping")]


def test_a_second_double_free_of_a_page_that_was_handed_out_since_is_a_second_root() -> None:
    again = [
        extend("A", 4),
        free("A"),
        free("A"),
        extend("B", 4),
        free("B"),
        free("B"),
    ]
    assert errors(*again, allocator="fixed") == [(3, "double-free"), (6, "double-free")]


def test_a_second_fault_on_another_page_is_a_second_root() -> None:
    other = [extend("A", 4), extend("B", 4), free("A"), free("A"), free("B"), free("B")]
    assert errors(*other) == [(4, "double-free"), (6, "double-free")]


def test_padding_that_a_token_grew_onto_goes_with_it_and_follows() -> None:
    grown = [extend("A", 3), free_swa("A"), decode("A"), free("A")]
    finding = one("padding-page", *grown, allocator="fixed")
    assert (finding.at.event, finding.cause_kind, finding.cause_at) == (4, "use-after-free", 3)
    assert errors(*grown, allocator="fixed") == [(3, "use-after-free")]


def test_growth_without_a_peer_is_a_fault_of_its_own_whatever_padding_went_through() -> None:
    again = [
        extend("A", 3),
        free_swa("A"),
        decode("A"),
        free("A"),
        extend("B", 3),
        free_swa("B"),
        decode("B"),
    ]
    found = errors(*again, allocator="sglang-0.5.18", kv_size_swa=4 * 4)
    assert found == [(3, "use-after-free"), (7, "use-after-free")]


def test_a_call_that_releases_many_pages_twice_is_one_fault() -> None:
    found = findings(extend("A", 32), free("A"), free("A"), allocator="fixed")
    doubles = [f for f in found if f.kind == "double-free"]
    assert [f.page for f in doubles] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [f.cause for f in doubles] == [None, *[doubles[0].fingerprint] * 7]


def test_an_idle_pool_lists_a_lost_page_once_by_what_lost_it() -> None:
    lost = [extend("A", 4), alloc(4, pool="swa"), set_mapping([4, 5, 6, 7], [8, 9, 10, 11])]
    assert errors(*lost, free("A"), IDLE) == [(3, "mapping-overwritten")]


def test_a_cause_is_a_finding_that_was_told() -> None:
    for allocator in (BUGGY, "fixed", "sglang-0.5.18", "sglang-0.5.23"):
        found = findings(
            *STALE,
            extend("B", 4),
            free_swa("A", 1, 2),
            decode("A"),
            free("A"),
            BEGIN,
            free("B"),
            END,
            END,
            free_slots(4, 8),
            allocator=allocator,
        )
        told = {f.fingerprint for f in found}
        assert all(f.cause in told for f in found if f.cause is not None)


@pytest.mark.parametrize("allocator", [BUGGY, "fixed"])
def test_after_a_finding_the_truth_is_what_the_allocator_did(allocator: str) -> None:
    after = [extend("A", 4), free("A"), free("A"), extend("B", 4), extend("C", 4)]
    healed = [*after, {"op": "clear"}, extend("D", 4), free("D"), IDLE]
    assert errors(*healed, allocator=allocator) == [(3, "double-free")]
