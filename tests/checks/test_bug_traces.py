"""Public faults as traces: each gives the kind that the catalogue of reports names, at its event.

`BUGS` is a literal table that was looked at line by line. A fault of an allocator is replayed on
the variant that has it, a fault of a caller on an allocator without known faults.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from swasim.bundled import list_traces, trace_path
from swasim.collect import Replay
from swasim.run import replay
from swasim.sanitizer.findings import Finding


@dataclass(frozen=True)
class Bug:
    """One trace.

    Attributes:
        name: file name, the catalogue's id in lower case.
        allocator: what it is replayed on.
        found: errors that follow from no other, as (event, kind), each once.
        follows: kinds of the errors that follow from those.
        clean_on: allocator on which the same trace has no error; "" for a fault of the caller.
        catalogue: the kind that the catalogue names, where it is not the first found.
        because: why another kind than the catalogue's is right.
    """

    name: str
    allocator: str
    found: tuple[tuple[int, str], ...]
    follows: tuple[str, ...] = ()
    clean_on: str = ""
    catalogue: str = ""
    because: str = ""


BUGS = (
    Bug(
        "sgl-27779",
        "buggy",
        ((2, "stale-mapping"),),
        follows=("foreign-free", "stale-mapping"),
        clean_on="fixed",
    ),
    Bug(
        "sgl-27789",
        "buggy",
        ((2, "stale-mapping"),),
        follows=("accounting-overflow", "double-free", "foreign-free", "stale-mapping"),
        clean_on="fixed",
        catalogue="accounting-overflow",
    ),
    Bug("sgl-27586", "ideal", ((2, "stale-mapping"),), follows=("foreign-free", "stale-mapping")),
    Bug(
        "sgl-25805",
        "fault:25805",
        ((5, "stale-mapping"),),
        follows=("foreign-free", "stale-mapping"),
        clean_on="fixed",
    ),
    Bug(
        "sgl-25901",
        "fault:25805",
        ((5, "stale-mapping"), (7, "orphaned-page")),
        follows=("accounting-overflow", "double-free", "foreign-free", "stale-mapping"),
        clean_on="fixed",
        catalogue="accounting-overflow",
    ),
    Bug(
        "sgl-36081",
        "fault:36081",
        ((5, "mapping-overwritten"),),
        follows=("foreign-free",),
        clean_on="fixed",
    ),
    Bug("sgl-36646", "fault:36646", ((5, "mapping-overwritten"),), follows=("foreign-free",)),
    Bug(
        "sgl-38519",
        "fault:38519",
        ((3, "padding-page"),),
        follows=("accounting-overflow",),
        clean_on="ideal",
    ),
    Bug("sgl-36723", "fault:36723", ((3, "padding-page"),), clean_on="fixed"),
    Bug(
        "sgl-35592",
        "fault:36723",
        ((3, "padding-page"),),
        clean_on="fixed",
        because="at page size 1 the dead peers read 0, so what is released is slot 0",
    ),
    Bug(
        "sgl-35501",
        "fault:35501",
        ((5, "stale-mapping"),),
        follows=("foreign-free", "stale-mapping"),
        catalogue="foreign-free",
    ),
    Bug("sgl-35338", "fault:35338", ((3, "half-allocation"),), clean_on="ideal"),
    Bug(
        "sgl-34399",
        "fault:34399",
        ((2, "page-aliased"),),
        clean_on="fixed",
        because="what lies beyond the list is handed out: it shows as a page with two owners",
    ),
    Bug("sgl-40305", "fixed", ((3, "double-free"),), follows=("accounting-overflow",)),
    Bug("sgl-37560", "ideal", ((2, "index-out-of-range"),)),
    Bug(
        "sgl-36403",
        "ideal",
        ((5, "stale-mapping"),),
        follows=("accounting-overflow", "double-free"),
        because="the second entry is legal as long as both live; the first release leaves it stale",
    ),
    Bug(
        "sgl-35933",
        "ideal",
        ((3, "index-out-of-range"), (3, "misaligned")),
        follows=("index-out-of-range",),
    ),
    Bug("sgl-25889", "ideal", ((5, "stale-mapping"),)),
    Bug("sgl-26966", "ideal", ((2, "index-out-of-range"),)),
    Bug("sgl-22470", "ideal", ((2, "window-violation"),)),
    Bug("sgl-29860", "ideal", ((2, "window-violation"),)),
    Bug(
        "sgl-34870",
        "ideal",
        ((5, "foreign-free"),),
        because="the wrong unit is the caller's; the allocator sees the release under a new owner",
    ),
    Bug(
        "sgl-29350",
        "ideal",
        ((6, "window-violation"),),
        because="the hit decodes, and its window has no live peers",
    ),
    Bug("sgl-29351", "ideal", ((6, "leaked-page"),)),
    Bug("sgl-29282", "ideal", ((5, "foreign-free"),)),
    Bug(
        "sgl-31486",
        "ideal",
        ((5, "foreign-free"),),
        follows=("foreign-free",),
        because="the hit only reads; what a call does is the eviction under the new owner",
    ),
    Bug(
        "sgl-24972",
        "ideal",
        ((4, "window-violation"),),
        because="locks are not allocator calls; what they allow is an eviction under a reader",
    ),
    Bug(
        "sgl-36350",
        "ideal",
        ((4, "window-violation"),),
        because="locks are not allocator calls; what they allow is an eviction under a reader",
    ),
    Bug(
        "sgl-27038",
        "ideal",
        ((4, "use-after-free"),),
        because="locks are not allocator calls; what they allow is an eviction under a reader",
    ),
    Bug("sgl-26907", "ideal", ((2, "window-violation"),)),
    Bug("sgl-33656", "ideal", ((2, "mapping-overwritten"),)),
    Bug("sgl-23982", "ideal", ((2, "window-violation"),)),
    Bug("sgl-38981", "sglang-0.5.17", ((2, "misaligned"),)),
    Bug("sgl-24527", "ideal", ((4, "use-after-free"),)),
    Bug("sgl-38961", "ideal", ((3, "use-after-free"),)),
    Bug("sgl-37100", "ideal", ((5, "leaked-page"),)),
    Bug("sgl-17630", "ideal", ((2, "index-out-of-range"),)),
    Bug(
        "sgl-28754",
        "ideal",
        ((5, "use-after-free"), (6, "double-free")),
        follows=("accounting-overflow",),
        catalogue="accounting-overflow",
    ),
    Bug("sgl-7130", "ideal", ((3, "leaked-page"),)),
    Bug(
        "sgl-6888",
        "fixed",
        ((3, "double-free"),),
        follows=("accounting-overflow",),
        catalogue="accounting-overflow",
    ),
    Bug(
        "sgl-11970",
        "ideal",
        ((4, "leaked-page"),),
        because="the slot is missing afterwards, as the report's own numbers say",
    ),
    Bug("sgl-26972", "ideal", ((3, "leaked-page"),)),
    Bug("sgl-19518", "ideal", ((4, "leaked-page"),)),
    Bug(
        "sgl-28702", "fixed", ((3, "double-free"),), follows=("accounting-overflow", "double-free")
    ),
    Bug(
        "sgl-13801",
        "fixed",
        ((4, "foreign-free"),),
        because="the pages have a new owner by then; without reuse it is a double free (28702)",
    ),
    Bug("sgl-16067", "ideal", ((3, "leaked-page"),)),
    Bug(
        "sgl-26941",
        "ideal",
        ((4, "foreign-free"),),
        follows=("foreign-free",),
        because="the stale reference is in the request, not in the mapping",
    ),
    Bug("sgl-12994", "ideal", ((3, "double-free"),), follows=("accounting-overflow",)),
    Bug("vllm-42571", "ideal", ((2, "double-free"),), follows=("accounting-overflow",)),
    Bug("vllm-16662", "ideal", ((3, "leaked-page"),)),
    Bug("gms-13398", "ideal", ((2, "double-free"),)),
    Bug("trt-2983", "ideal", ((5, "window-violation"),)),
    Bug(
        "trt-10875",
        "ideal",
        ((2, "window-violation"),),
        because="the wrong length is the caller's; what goes is inside the window of a row",
    ),
    Bug(
        "trt-10183",
        "ideal",
        ((2, "window-violation"),),
        because="the block goes while a row has it in its window, before the hit reads",
    ),
    Bug(
        "trt-16280",
        "ideal",
        ((2, "misaligned"),),
        because="length and last slot do not fit, and that comes before the sentinel is read",
    ),
    Bug("lcpp-29045", "ideal", ((3, "orphaned-page"),), follows=("orphaned-page",)),
    Bug("lcpp-19225", "ideal", ((2, "window-violation"),)),
    Bug("lcpp-14157", "ideal", ((4, "window-violation"),)),
    Bug(
        "ft-204",
        "ideal",
        ((4, "double-free"),),
        follows=("accounting-overflow", "foreign-free", "mapping-overwritten", "page-aliased"),
    ),
    Bug(
        "lmc-5005", "ideal", ((3, "double-free"),), follows=("accounting-overflow", "page-aliased")
    ),
    Bug(
        "atom-1417",
        "ideal",
        ((2, "window-violation"),),
        because="the SWA half goes while a row has it in its window, before the hit reads",
    ),
    Bug("imp-1644", "ideal", ((3, "leaked-page"),)),
    Bug("hf-37574", "ideal", ((2, "window-violation"),)),
)
IDS = [bug.name for bug in BUGS]


def run(bug: Bug, allocator: str) -> Replay:
    return replay(trace_path(f"bugs/{bug.name}"), allocator=allocator)


def errors(result: Replay) -> list[Finding]:
    return [finding for finding in result.findings if finding.severity == "error"]


@pytest.mark.parametrize("bug", BUGS, ids=IDS)
def test_the_fault_is_found_at_its_event_by_its_kind(bug: Bug) -> None:
    result = run(bug, bug.allocator)
    assert result.warnings == ()
    roots = {(f.at.event, f.kind) for f in errors(result) if f.cause is None}
    assert roots == set(bug.found)
    assert {f.kind for f in errors(result) if f.cause is not None} == set(bug.follows)


@pytest.mark.parametrize(
    "bug", [bug for bug in BUGS if bug.clean_on], ids=[bug.name for bug in BUGS if bug.clean_on]
)
def test_a_repaired_allocator_plays_the_same_trace_without_error(bug: Bug) -> None:
    result = run(bug, bug.clean_on)
    assert errors(result) == []
    assert result.warnings == ()


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.catalogue], ids=lambda bug: bug.name)
def test_the_kind_of_the_catalogue_is_found_later_on(bug: Bug) -> None:
    kinds = {finding.kind for finding in run(bug, bug.allocator).findings}
    assert bug.catalogue in kinds


def test_every_bug_trace_has_a_row_and_says_what_it_shows() -> None:
    names = {name.removeprefix("bugs/") for name in list_traces() if name.startswith("bugs/")}
    assert names == set(IDS)
    assert len(names) >= 40
    for bug in BUGS:
        text = trace_path(f"bugs/{bug.name}").read_text(encoding="utf-8")
        assert re.search(r"^# https://\S+$", text, re.MULTILINE), bug.name
        event, kind = bug.found[0]
        assert f"# Found at event {event}: {kind}." in text
        assert f"--allocator {bug.allocator}\n" in text
