"""`swasim explore`: exit codes, what is saved and shown, what is refused."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from swasim.commands.app import run

FILE = "swasim-finds/explore-buggy-stale-mapping-2.jsonl"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_buggy_needs_no_further_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explore", "--allocator", "buggy"]) == 1
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.startswith("error[stale-mapping] SWA page 1 is released,")
    assert f"swasim replay {FILE} --allocator buggy" in captured.out


def test_the_saved_trace_replays_and_is_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explore", "-a", "buggy", "-q"]) == 1
    saved = Path(FILE).read_text()
    assert run(["replay", FILE, "-a", "buggy", "-q", "-f", "concise"]) == 1
    assert run(["replay", FILE, "-a", "fixed", "-q", "-f", "concise"]) == 0
    Path(FILE).write_text("precious\n")
    assert run(["explore", "-a", "buggy", "-q"]) == 1
    assert Path(FILE).read_text() == "precious\n"
    assert Path(FILE.replace("-2.jsonl", "-2-2.jsonl")).read_text() == saved.replace(
        FILE, FILE.replace("-2.jsonl", "-2-2.jsonl")
    )
    capsys.readouterr()


def test_the_same_find_is_saved_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explore", "-a", "buggy", "-q"]) == run(["explore", "-a", "buggy", "-q"]) == 1
    assert [path.name for path in Path("swasim-finds").iterdir()] == [Path(FILE).name]
    capsys.readouterr()


def test_nothing_found_is_exit_0_and_a_statement(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explore", "-a", "ideal", "--depth", "2", "-f", "concise"]) == 0
    assert capsys.readouterr().out == (
        "no error in any sequence of up to 2 events, with 2 requests, 3 full and 3 SWA pages of"
        " 2 tokens, no window, sloppy callers\n"
    )
    assert not Path("swasim-finds").exists()


def test_the_table_says_exactly_what_was_tried(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["explore", "-a", "ideal", "--depth", "2", "--moves", "extend,partial"]
    assert run(arguments) == 0
    out = capsys.readouterr().out
    assert "ended by: depth" in out
    moves = [line.split()[0] for line in out.splitlines()[-2:]]
    assert moves == ["extend", "partial"]


def test_json_and_jsonl_hold_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["explore", "-a", "buggy", "--save", "-", "-f"]
    assert run([*arguments, "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert run([*arguments, "jsonl"]) == 1
    sequence, exploration = map(json.loads, capsys.readouterr().out.splitlines())
    assert sequence["finding"] == document["found"][0]["finding"]
    assert exploration["statement"] == document["statement"]
    assert document["found"][0]["trace"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--callers", "slopy"], "unknown kind of caller 'slopy'; did you mean 'sloppy'?"),
        (["--moves", "extent"], "unknown move 'extent'; did you mean 'extend'?"),
        (["--moves", ","], "--moves is empty"),
        (["--moves", "+nest,extend"], "put + before each of them, or before none"),
        (["--find", "partial-page-free"], "partial-page-free is a warning"),
        (["--find", "redundant-free"], "redundant-free is a note"),
        (["--find", "leaked-page"], "no move of explore claims anything"),
        (["--find", "replay-divergence"], "no move of explore claims anything"),
        (["--pages", "100000000"], "at most 1024 pages, found 100000000"),
        (["--kv-size-swa", "4098"], "at most 1024 pages, found 2049"),
        (["--save", ""], "--save is empty"),
        (["--save", "/dev/null"], "/dev/null is a file, not a folder"),
        (["--find", "dubble-free"], "unknown kind 'dubble-free'; did you mean 'double-free'?"),
        (["--format", "sarif"], "unknown format 'sarif'"),
        (["-a", "sglang"], "cannot be copied"),
        (["-a", "fixed", "--moves", "segments"], "segments needs free_segment"),
        (["--engine", "torch"], "engine core only"),
        (["--requests", "9"], "--requests must be 1 to 7"),
        (["--depth", "0"], "--depth"),
        (["--control", "fxed"], "unknown allocator 'fxed'"),
    ],
)
def test_what_cannot_be_is_exit_2_and_told(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explore", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_an_unwritable_folder_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("taken").write_text("a file\n")
    assert run(["explore", "-a", "buggy", "--save", "taken"]) == 2
    assert "--save taken: cannot be written" in capsys.readouterr().err


def test_settings_come_from_flags_environment_and_the_verb(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWASIM_PAGE_SIZE", "4")
    assert run(["explore", "--pages", "2", "--show-config"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("#") == ["page_size: 4                ", " environment SWASIM_PAGE_SIZE"]
    assert lines[1].split("#") == ["kv_size: 8                  ", " default of explore"]


def test_any_page_size_needs_no_pool_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explore", "-a", "buggy", "--page-size", "4096", "-q", "--save", "-"]) == 1
    assert "3 full and 3 SWA pages of 4096" in " ".join(capsys.readouterr().out.split())


def test_the_commands_of_a_finding_name_the_saved_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explore", "-a", "buggy", "-f", "json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["found"]
    look, shrink = (shlex.split(command) for command in found["finding"]["help"])
    assert look[2] == shrink[2] == FILE
    assert run(look[1:]) == 0
    assert run([*shrink[1:], "-o", "-"]) == 0
    capsys.readouterr()
