"""What every finding carries: event, provenance, surroundings, fingerprint, the next command."""

from __future__ import annotations

import pytest

from swasim.bundled import list_traces, trace_path
from swasim.run import replay
from swasim.sanitizer.findings import Finding, Moment, PageCell
from swasim.sanitizer.kinds import KINDS
from tests.support.events import (
    decode,
    extend,
    findings,
    finish,
    free,
    free_swa,
    one,
)

ROBBED = [
    {**extend("A", 4), "site": "prefill", "t": 0.5},
    extend("N", 4),
    {**free("A"), "site": "abort", "t": 1.0},
    extend("B", 4),
    {**free("A"), "site": "finish", "t": 2.0},
]
"""A is released twice, and B has its page 1 in between; N is the neighbour on page 2."""


def robbery() -> Finding:
    return findings(*ROBBED)[0]


def test_the_event_is_named_with_line_request_site_and_time() -> None:
    assert robbery().at == Moment(5, 5, "free", "A", "finish", 2.0)
    assert robbery().positions == (0, 4)


def test_the_page_says_who_had_it_who_released_it_and_who_mapped_it() -> None:
    finding = one(
        "foreign-free",
        extend("A", 4),
        free_swa("A", 0, 1),
        extend("B", 4),
        free_swa("A", 1, 2),
        allocator="buggy",
    )
    assert (finding.pool, finding.page) == ("swa", 1)
    assert finding.allocated == Moment(3, 3, "alloc_extend", "B")
    assert finding.mapped == Moment(3, 3, "alloc_extend", "B")
    assert finding.released == Moment(2, 2, "free_swa", "A")
    assert finding.owner == Moment(3, 3, "alloc_extend", "B")


def test_the_release_that_came_first_is_named() -> None:
    assert robbery().released == Moment(3, 3, "free", "A", "abort", 1.0)
    assert robbery().allocated == Moment(4, 4, "alloc_extend", "B")


def test_strips_show_the_neighbourhood_before_and_after() -> None:
    around = robbery().surroundings
    assert around is not None
    assert [cell.page for cell in around.before] == [0, 1, 2, 3, 4]
    assert around.before[:3] == (
        PageCell(0, "padding", "", 0),
        PageCell(1, "live", "B", 0),
        PageCell(2, "live", "N", 0),
    )
    assert around.after[1] == PageCell(1, "free", "", 1)
    assert around.after[2] == around.before[2]
    assert around.owners == (
        ("B", "event 4 alloc_extend req B"),
        ("N", "event 2 alloc_extend req N"),
    )


def test_a_page_that_stands_twice_in_the_list_is_shown_with_its_copies() -> None:
    finding = one("double-free", extend("A", 4), free("A"), free("A"))
    assert finding.surroundings is not None
    assert finding.surroundings.before[1] == PageCell(1, "free", "", 1)
    assert finding.surroundings.after[1] == PageCell(1, "free", "", 2)
    assert finding.surroundings.free_pages == 9
    assert finding.surroundings.lost_pages == -1


def test_a_page_that_waits_in_a_group_is_shown_as_pending() -> None:
    group = [extend("A", 3), {"op": "free_group_begin"}, free("A"), decode("A")]
    finding = one("use-after-free", *group)
    assert finding.surroundings is not None
    assert finding.surroundings.after[1] == PageCell(1, "pending", "A", 0)


def test_a_page_that_was_lost_is_shown_as_lost() -> None:
    finding = one("half-allocation", extend("A", 4), decode("A"), allocator="fixed", kv_size_swa=4)
    assert finding.surroundings is not None
    assert finding.surroundings.after[2] == PageCell(2, "lost", "", 0)


def test_the_next_commands_name_the_trace_the_allocator_and_the_page() -> None:
    assert robbery().help == (
        "swasim inspect '<events>' --allocator ideal --page full:1",
        "swasim minimize '<events>' --allocator ideal --keep foreign-free",
    )


def test_a_fingerprint_does_not_depend_on_event_numbers() -> None:
    before = [extend("X", 4), finish("X"), {"op": "mark", "label": "start"}]
    later = [f for f in findings(*before, *ROBBED) if f.kind == "foreign-free"]
    assert [f.fingerprint for f in later] == [f.fingerprint for f in findings(*ROBBED)]
    assert later[0].at.event == 8


def test_a_fingerprint_does_not_depend_on_page_ids() -> None:
    moved = [f for f in findings(extend("X", 8), *ROBBED) if f.kind == "foreign-free"]
    assert [f.fingerprint for f in moved] == [f.fingerprint for f in findings(*ROBBED)]
    assert moved[0].page == 3


def test_a_fingerprint_tells_places_and_causes_apart() -> None:
    elsewhere = [*ROBBED[:-1], {**free("A"), "site": "evict"}]
    assert findings(*elsewhere)[0].fingerprint != robbery().fingerprint
    twice = [extend("A", 4), free("A"), free("A")]
    assert one("double-free", *twice).fingerprint != robbery().fingerprint


def test_a_finding_looks_the_same_whichever_engine_answers() -> None:
    for engine in ("core", "torch"):
        assert findings(*ROBBED, engine=engine) == findings(*ROBBED)


@pytest.mark.parametrize("req", ["0123456789abcdef" * 4, "request with a long name " * 8])
def test_a_headline_fits_whatever_the_request_is_called(req: str) -> None:
    window = {"sliding_window_size": 4}
    traces = [
        [extend(req, 8), free(req, 0, 4), decode(req)],
        [extend(req, 8), free_swa(req, 4, 8), decode(req)],
        [extend(req, 8), extend(req, 4, 0)],
        [extend(req, 8), free(req), extend("B", 8), free(req)],
    ]
    for events in traces:
        found = findings(*events, **window)
        assert found
        assert all(0 < len(f.headline) <= 80 for f in found)


@pytest.mark.parametrize(
    "name", [name for name in list_traces() if name.startswith(("faults/", "bugs/"))]
)
def test_every_finding_of_the_bundled_traces_is_complete(name: str) -> None:
    for finding in replay(trace_path(name), allocator="sglang-0.5.23").findings:
        assert 0 < len(finding.headline) <= 80
        assert finding.severity == KINDS[finding.kind].severity
        assert len(finding.fingerprint) == 16
        assert finding.help
        assert finding.at.event >= 1
        assert (finding.surroundings is None) == (finding.pool is None)
