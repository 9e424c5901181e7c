"""`swasim compare`: as typed, from anywhere; and which findings make it fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swasim.commands.app import run


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)


def test_buggy_against_fixed_runs_as_typed_and_exits_0(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["compare", "--buggy", "--fixed"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "> They part at event 2 " in captured.out
    verdicts = [line.split()[:2] for line in captured.out.splitlines() if "tokens, SWA" in line]
    assert verdicts[1:] == [["buggy", "faulty"], ["fixed", "clean"]]


def test_the_regression_shows_in_the_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "--buggy", "--fixed", "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    cells = [row["cells"] for row in document["rows"]]
    assert [[cell["swa_available"] for cell in row] for row in cells] == [
        [12, 12],
        [16, 16],
        [20, 16],
    ]
    assert document["first_divergence"]["event"] == 2
    buggy, fixed = document["runs"]
    kinds = [f["kind"] for f in buggy["findings"] if f["severity"] == "error"]
    assert kinds[:2] == ["stale-mapping", "double-free"]
    assert [f for f in fixed["findings"] if f["severity"] == "error"] == []


def test_an_error_of_an_allocator_that_should_be_clean_is_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twice = tmp_path / "twice.jsonl"
    twice.write_text(
        '{"swasim_trace":1,"page_size":4,"kv_size":16}\n'
        '{"op":"alloc_extend","reqs":["A"],"seq_lens":[4]}\n'
        '{"op":"free","req":"A"}\n{"op":"free","req":"A"}\n'
    )
    assert run(["compare", str(twice), "--buggy", "--fixed"]) == 1
    assert run(["compare", str(twice), "--buggy", "--fixed", "--exit-zero"]) == 0


@pytest.mark.parametrize("arguments", [[], ["--buggy"], ["-a", "fixed", "--fixed"]])
def test_fewer_than_two_allocators_are_answered_with_what_to_give(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "swasim compare --buggy --fixed" in err


def test_an_unknown_allocator_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["compare", "--fixed", "-a", "idael"]) == 2
    assert "did you mean 'ideal'?" in capsys.readouterr().err


def test_the_same_allocators_never_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "--fixed", "-a", "sglang-0.5.16"]) == 0
    assert "They never part" in capsys.readouterr().out


def test_allocators_can_be_set_by_the_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWASIM_ALLOCATOR", "fixed ideal")
    assert run(["compare", "-q"]) == 0
    assert capsys.readouterr().out.startswith("fixed  clean")


def test_the_default_trace_is_the_bundled_one_whatever_lies_in_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pr27779").write_text('{"op":"clear"}\n')
    assert run(["compare", "--buggy", "--fixed"]) == 0
    assert "> They part at event 2 " in capsys.readouterr().out
    assert run(["compare", "--buggy", "--fixed", "pr27779"]) == 0
    assert "They never part" in capsys.readouterr().out


def test_a_folder_of_a_bundled_name_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pr27779").mkdir()
    assert run(["replay", "pr27779"]) == 0


def test_each_run_of_the_document_is_that_of_a_replay(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "--buggy", "--fixed", "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert run(["replay", "pr27779", "-a", "buggy", "-f", "json"]) == 1
    assert document["runs"][0] == json.loads(capsys.readouterr().out)


def test_a_verdict_tells_of_calls_that_raised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text(
        '{"swasim_trace":1,"page_size":4}\n{"op":"alloc","need_size":4,"req":"A"}\n'
        '{"op":"finish","req":"A"}\n'
    )
    assert run(["compare", "--buggy", "--fixed", str(trace)]) == 2
    captured = capsys.readouterr()
    assert "clean, 1 of 2 events raised, 1 of 2 events skipped" in captured.out
    assert captured.err.splitlines() == [
        f"swasim: warning: {trace}:2: alloc raised AssertionError: alloc() is for page size 1",
        f"swasim: warning: {trace}:3: skipped: finish: request 'A' was never allocated (rows at"
        " this point: none); the allocation for it at event 1 was refused",
        f"swasim: error: {trace}: nothing was judged, fixed raised at every call; is page_size 4"
        " the one that the trace was made for?",
    ]


def test_show_config_names_every_allocator(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "--buggy", "--fixed", "--show-config"]) == 0
    assert capsys.readouterr().out.endswith("\n# compared: buggy, fixed\n")
