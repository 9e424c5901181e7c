"""`expect` and recorded `out`: both sides side by side, and what explains the difference."""

from __future__ import annotations

import pytest

from tests.support.events import decode, everything, extend, findings, free_swa, one

TAKEN = {"op": "alloc_extend", "seq_lens": [4], "prefix_lens": [0], "last_loc": [-1]}


@pytest.mark.parametrize(
    ("expect", "expected", "actual"),
    [
        ({"full_available": 32}, "full_available: 32", "full_available: 28"),
        ({"swa_available": 0}, "swa_available: 0", "swa_available: 28"),
        ({"unmapped": [5]}, "unmapped: 0 for each", "unmapped: full to SWA slots [(5, 5)]"),
        ({"mapped": [8]}, "mapped: an SWA slot for each", "mapped: none for [8]"),
        ({"full_free": [[1, 9]]}, "full_free: [(1, 9)]", "full_free: [(2, 9)]"),
        ({"mapping": []}, "mapping: []", "mapping: [(4, 4, 4)]"),
        ({"sentinel": 0}, "sentinel: 0", "sentinel: -1"),
        ({"raises": "AssertionError"}, "raises: AssertionError", "raises: no exception"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_does_not_hold_is_told_with_both_sides(
    expect: dict[str, object], expected: str, actual: str
) -> None:
    [finding] = findings({**extend("A", 4), "expect": expect})
    assert (finding.kind, finding.at.event) == ("expectation-failed", 1)
    assert (finding.expected, finding.actual) == (expected, actual)


@pytest.mark.parametrize(
    "expect",
    [
        {"full_available": 28, "swa_available": 28},
        {"mapped": {"req": "A"}, "unmapped": [[8, 16]]},
        {"full_free": [[2, 9]], "full_staged": [], "mapping": [[4, 4, 4]]},
    ],
    ids=lambda value: next(iter(value)),
)
def test_what_holds_is_silent(expect: dict[str, object]) -> None:
    assert everything({**extend("A", 4), "expect": expect}) == []


def test_further_fields_that_fail_stand_in_the_notes() -> None:
    expect = {"full_available": 1, "swa_available": 2}
    [finding] = findings({**extend("A", 4), "expect": expect})
    assert finding.notes == ("swa_available: expected 2, is 28",)


def test_an_expectation_that_a_finding_explains_names_it() -> None:
    expect = {"unmapped": [5]}
    finding = one(
        "expectation-failed",
        extend("A", 4),
        {**free_swa("A", 0, 1), "expect": expect},
        allocator="buggy",
    )
    assert (finding.cause_kind, finding.cause_at) == ("stale-mapping", 2)


def test_an_exception_that_nothing_announces_and_nothing_explains_is_unexpected() -> None:
    refused = [{"op": "free_group_begin"}, {"op": "free_group_begin"}]
    assert everything(*refused, allocator="sglang-0.5.23") == []
    finding = one(
        "expectation-failed",
        {"op": "backup_state", "slot": "s"},
        allocator="sglang-0.5.2",
        page_size=1,
    )
    assert (
        finding.headline == "backup_state raised NotImplementedError, which the trace does not "
        "expect"
    )


def test_a_recording_that_this_allocator_answers_otherwise_diverges_once() -> None:
    other = {**TAKEN, "out": [[8, 12]]}
    then = {**TAKEN, "out": [[4, 8]]}
    [finding] = findings(other, then, {"op": "free", "indices": [[8, 12]]})
    assert (finding.kind, finding.at.event) == ("replay-divergence", 1)
    assert (finding.expected, finding.actual) == ("[(8, 12)]", "[(4, 8)]")


def test_a_recording_that_holds_is_silent() -> None:
    assert everything({**TAKEN, "out": [[4, 8]]}) == []


def test_a_recorded_refusal_that_is_granted_here_diverges() -> None:
    [finding] = findings({**TAKEN, "out": None})
    assert (finding.kind, finding.expected) == ("replay-divergence", "None")


def test_an_event_for_a_refused_request_is_skipped_and_not_judged() -> None:
    short = {"kv_size": 4, "kv_size_swa": 4}
    assert everything(extend("A", 4), extend("B", 4), decode("B"), **short) == []
