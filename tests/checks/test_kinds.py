"""The smallest trace of every kind gives that kind, and no other fault."""

import pytest

from swasim.bundled import trace_path
from swasim.run import replay
from swasim.sanitizer.kinds import KINDS

CONSEQUENCES_OF = {
    # More can only be free than exists when something was released twice, and capacity is only
    # missing when something lost it: these two never come alone.
    "accounting-overflow": "double-free",
    "false-exhaustion": "half-allocation",
}

EVENT_OF = {
    "double-free": 4,
    "foreign-free": 4,
    "stale-mapping": 2,
    "page-aliased": 1,
    "padding-page": 3,
    "mapping-overwritten": 3,
    "orphaned-page": 2,
    "half-allocation": 3,
    "accounting-overflow": 3,
    "accounting-mismatch": 5,
    "index-out-of-range": 2,
    "misaligned": 2,
    "use-after-free": 3,
    "window-violation": 2,
    "expectation-failed": 1,
    "replay-divergence": 1,
    "leaked-page": 2,
    "false-exhaustion": 6,
    "partial-page-free": 2,
    "remap-in-free-group": 5,
    "redundant-free": 3,
}


@pytest.mark.parametrize("kind", KINDS)
def test_smallest_trace_gives_its_kind_at_its_event(kind: str) -> None:
    info = KINDS[kind]
    result = replay(trace_path(info.trace), allocator=info.allocator)
    events = [f.at.event for f in result.findings if f.kind == kind]
    assert events[0] == EVENT_OF[kind]
    assert set(events) == {EVENT_OF[kind]}


@pytest.mark.parametrize("kind", KINDS)
def test_smallest_trace_gives_no_other_error(kind: str) -> None:
    info = KINDS[kind]
    result = replay(trace_path(info.trace), allocator=info.allocator)
    others = {f.kind for f in result.findings if f.severity == "error"} - {kind}
    assert others == ({CONSEQUENCES_OF[kind]} if kind in CONSEQUENCES_OF else set())


@pytest.mark.parametrize("kind", CONSEQUENCES_OF)
def test_a_kind_that_never_comes_alone_names_its_cause(kind: str) -> None:
    info = KINDS[kind]
    result = replay(trace_path(info.trace), allocator=info.allocator)
    finding = next(f for f in result.findings if f.kind == kind)
    assert finding.cause_kind == CONSEQUENCES_OF[kind]


def test_every_severity_has_a_kind_and_every_headline_fits() -> None:
    assert {info.severity for info in KINDS.values()} == {"error", "warning", "note"}
    for info in KINDS.values():
        for finding in replay(trace_path(info.trace), allocator=info.allocator).findings:
            assert len(finding.headline) <= 80
            assert finding.severity == KINDS[finding.kind].severity
