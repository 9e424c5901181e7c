"""Checking a trace without an allocator."""

from __future__ import annotations

from pathlib import Path

import pytest

from swasim.bundled import trace_path
from swasim.errors import UsageError
from swasim.trace.events import Header
from swasim.trace.validate import validate_trace
from tests.support.vectors import BENCH, Vector, all_vectors


def report_lines(folder: Path, *lines: str) -> tuple[list[str], int]:
    path = folder / "t.jsonl"
    path.write_text("\n".join(lines) + "\n")
    report = validate_trace(path)
    return [str(problem).removeprefix(f"{path}:") for problem in report.problems], report.events


def test_the_bundled_regression_is_sound() -> None:
    report = validate_trace(trace_path("pr27779"))
    assert report.problems == ()
    assert report.events == 3
    assert report.ops == {"alloc_extend": 1, "free_swa": 2}
    assert report.truncated_line is None
    assert report.header == Header(
        swasim_trace=1,
        page_size=4,
        kv_size=16,
        kv_size_swa=16,
        note="SGLang PR 27779: free_swa of part of a page",
    )


@pytest.mark.parametrize("vector", all_vectors(), ids=lambda vector: vector.name)
def test_every_recorded_trace_is_sound(vector: Vector) -> None:
    report = validate_trace(vector.path)
    assert report.problems == ()
    assert report.truncated_line is None
    assert report.events == sum(report.ops.values()) > 0


def test_the_release_stands_in_the_header() -> None:
    for vector in all_vectors()[::40]:
        assert vector.release == vector.release_in_name


def test_the_bench_trace_has_twenty_thousand_events() -> None:
    assert validate_trace(BENCH).events == 20_000


def test_several_row_problems_are_reported_at_once(tmp_path: Path) -> None:
    problems, events = report_lines(
        tmp_path,
        '{"op":"alloc_extend","reqs":["A"],"seq_lens":[4]}',
        '{"op":"free","req":"A","end":5}',
        '{"op":"free","req":"B"}',
        '{"op":"alloc_decode","reqs":["A"]}',
        '{"op":"free","req":"A","end":5}',
    )
    assert events == 5
    assert problems == [
        "2: error: free: end is 5, beyond row 'A', which holds 4 tokens",
        "3: error: free: request 'B' was never allocated (rows at this point: 'A')",
    ]


def test_a_bad_line_ends_the_report_behind_the_problems_before_it(tmp_path: Path) -> None:
    problems, events = report_lines(tmp_path, '{"op":"finish","req":"B"}', '{"op":"clea"}', "x")
    assert events == 1
    assert [problem[:40] for problem in problems] == [
        "1: error: finish: request 'B' was never ",
        "2:7: error: unknown operation 'clea'; di",
    ]


def test_recorded_refusals_and_expected_errors_give_no_slots(tmp_path: Path) -> None:
    problems, _ = report_lines(
        tmp_path,
        '{"op":"alloc","need_size":4,"req":"A","out":null}',
        '{"op":"alloc","need_size":3,"req":"B","expect":{"raises":"AssertionError"}}',
        '{"op":"alloc","need_size":2,"req":"C","out":[[4,6]]}',
        '{"op":"alloc","need_size":2,"req":"D"}',
        '{"op":"alloc_extend_swa_tail","req":"D","seq_len":5,"swa_tail_len":1}',
        '{"op":"free","req":"D","end":5,"expect":{"unmapped":{"req":"C","end":3}}}',
    )
    assert problems == ["6: error: free: end is 3, beyond row 'C', which holds 2 tokens"]


def test_no_events_is_a_problem_in_the_report(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"swasim_trace":1}\n')
    report = validate_trace(path)
    assert report.events == 0
    assert [problem.message for problem in report.problems] == [
        "no events: the trace holds only a header"
    ]


def test_a_cut_trace_is_reported_up_to_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"op":"clear"}\n{"op":"cle')
    report = validate_trace(path)
    assert (report.events, report.truncated_line, report.problems) == (1, 2, ())


def test_a_missing_file_is_no_report(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        validate_trace(tmp_path / "none.jsonl")


def test_row_problems_stop_at_twenty(tmp_path: Path) -> None:
    problems, events = report_lines(tmp_path, *['{"op":"finish","req":"B"}'] * 30)
    assert (len(problems), events) == (20, 30)


def test_a_row_cannot_be_doubled_until_memory_is_full(tmp_path: Path) -> None:
    share = '{"op":"share","req":"A","from":"A"}'
    problems, events = report_lines(
        tmp_path, '{"op":"alloc_extend","reqs":["A"],"seq_lens":[1048576]}', *[share] * 6
    )
    assert events == 7
    assert problems == [
        f"{line}: error: share: row 'A' would hold 33554432 tokens; at most 16777216 are accepted"
        for line in (6, 7)
    ]


def test_sizes_that_no_pool_has_take_no_memory(tmp_path: Path) -> None:
    problems, events = report_lines(
        tmp_path,
        '{"op":"alloc","need_size":1000000000000,"req":"A"}',
        '{"op":"alloc","need_size":9223372036854775807,"req":"A"}',
        '{"op":"alloc_extend","reqs":["A","B"],"seq_lens":'
        "[9223372036854775807,9223372036854775807]}",
    )
    assert (problems, events) == ([], 3)
