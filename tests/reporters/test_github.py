"""Workflow annotations: place, escaping, folding."""

from __future__ import annotations

import io
from dataclasses import replace

from swasim.reporters import Look, reporter
from tests.support import factories


def test_a_finding_annotates_its_line_and_folds_what_follows_from_it() -> None:
    out = io.StringIO()
    reporter("github").write_replay(factories.buggy_replay(), out, Look())
    *annotations, summary = out.getvalue().splitlines()
    assert summary.startswith("swasim: 3 findings: 2 errors (1 a consequence), 1 warning; ")
    assert annotations == [
        "::error file=traces/pr27779.jsonl,line=3,title=swasim stale-mapping::"
        "3 entries still point at SWA page 1 after its release"
        "%0Aat event 2 (line 3) free_swa req A, swa_radix_cache.evict, t 1.250 s"
        "%0Aallocated by event 1 (line 2) alloc_extend req A"
        "%0Amapped by event 1 (line 2) alloc_extend req A"
        "%0Afree_swa cleared the entry of slot 4 only"
        "%0A1 finding follows from it"
        "%0Aswasim inspect traces/pr27779.jsonl --allocator buggy --page swa:1",
        "::warning file=traces/pr27779.jsonl,line=3,title=swasim partial-page-free::"
        "free_swa names 1 of 4 live tokens of page 1; the whole page goes"
        "%0Aat event 2 (line 3) free_swa req A, swa_radix_cache.evict, t 1.250 s",
    ]


def test_signs_with_a_meaning_are_escaped() -> None:
    odd = replace(
        factories.partial_free(), severity="note", headline="100% odd: a, b\nc\r", notes=()
    )
    replay = factories.buggy_replay(trace="a,b:c%/t.jsonl", findings=(odd,))
    out = io.StringIO()
    reporter("github").write_replay(replay, out, Look())
    assert out.getvalue().startswith(
        "::notice file=a%2Cb%3Ac%25/t.jsonl,line=3,title=swasim partial-page-free::"
        "100%25 odd: a, b%0Ac%0Aat event 2"
    )


def test_a_trace_without_a_file_gives_no_place() -> None:
    replay = factories.buggy_replay(trace="-", findings=(factories.partial_free(),))
    out = io.StringIO()
    reporter("github").write_replay(replay, out, Look())
    assert out.getvalue().startswith("::warning title=swasim partial-page-free::free_swa")


def test_a_comparison_names_the_allocator() -> None:
    out = io.StringIO()
    reporter("github").write_comparison(factories.comparison(), out, Look())
    lines = out.getvalue().splitlines()
    assert "title=swasim stale-mapping on buggy::" in lines[0]
    assert lines[-1].startswith("swasim on fixed: no findings")
