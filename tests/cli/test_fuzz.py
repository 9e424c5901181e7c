"""`swasim fuzz`: exit codes, resuming, saving, interrupts, and what is refused."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from swasim.commands import fuzz as command
from swasim.commands.app import run
from swasim.fuzz import campaign, find
from swasim.fuzz.play import Play

FILE = "swasim-finds/fuzz-buggy-stale-mapping-0.jsonl"
BUGGY = ["fuzz", "-a", "buggy", "--callers", "sloppy"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_find_is_exit_1_and_comes_with_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(BUGGY) == 1
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.startswith("error[stale-mapping] SWA page 1 is released,")
    assert f"swasim replay {FILE} --allocator buggy" in captured.out
    assert "swasim fuzz --allocator buggy --callers sloppy --calls 500 --seed 0 --seeds 1" in (
        captured.out
    )


def test_the_command_of_a_find_finds_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["fuzz", "-a", "fault:6888", "--callers", "wrong", "--mistakes", "split_page"]
    arguments += ["--page-size", "4", "--need-sort", "--save", "-", "-f", "json"]
    assert run(arguments) == 1
    (find,) = json.loads(capsys.readouterr().out)["finds"]
    words = find["again"].split()
    assert words[0] == "swasim"
    assert run([*words[1:], "--save", "-", "-f", "json"]) == 1
    (again,) = json.loads(capsys.readouterr().out)["finds"]
    assert again == find


def test_the_saved_trace_shows_the_fault_and_only_on_the_buggy_allocator(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([*BUGGY, "-q"]) == 1
    assert run(["replay", FILE, "-a", "buggy", "-q", "-f", "concise"]) == 1
    assert run(["replay", FILE, "-a", "fixed", "-q", "-f", "concise"]) == 0
    capsys.readouterr()


def test_a_file_that_lies_there_is_never_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    Path("swasim-finds").mkdir()
    Path(FILE).write_text("precious\n")
    assert run([*BUGGY, "-q"]) == 1
    assert run([*BUGGY, "-q"]) == 1
    assert Path(FILE).read_text() == "precious\n"
    names = sorted(path.name for path in Path("swasim-finds").iterdir())
    assert names == ["fuzz-buggy-stale-mapping-0-2.jsonl", "fuzz-buggy-stale-mapping-0.jsonl"]
    capsys.readouterr()


def test_nothing_found_is_exit_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fuzz", "-a", "ideal", "--seeds", "3", "--calls", "50", "-f", "concise"]) == 0
    assert capsys.readouterr().out == ("0 finds in seeds 0 to 2, 150 calls of careful callers\n")
    assert not Path("swasim-finds").exists()


def test_a_campaign_is_gone_on_with(capsys: pytest.CaptureFixture[str]) -> None:
    whole = [*BUGGY, "--collect", "--seeds", "12", "--save", "-", "-f", "json"]
    assert run(whole) == 1
    at_once = json.loads(capsys.readouterr().out)
    halves = [*BUGGY, "--collect", "--save", "-", "-f", "json", "--state", "state.json"]
    assert run([*halves, "--seeds", "5"]) == 1
    first = json.loads(capsys.readouterr().out)
    assert run([*halves, "--seeds", "12"]) == 1
    second = json.loads(capsys.readouterr().out)
    assert first["finds"] + second["finds"] == at_once["finds"]
    assert (second["seeds"], second["calls"]) == (12, at_once["calls"])
    assert [known["seed"] for known in second["earlier_finds"]] == [
        find["seed"] for find in first["finds"]
    ]
    assert run([*halves, "--seeds", "12"]) == 1
    assert json.loads(capsys.readouterr().out)["seeds"] == 12


def test_an_interrupt_is_exit_130_and_keeps_what_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = campaign.play_seed

    def until_seed_3(
        settings: campaign.Settings, contract: object, seed: int, is_over: object
    ) -> object:
        if seed == 3:
            raise KeyboardInterrupt
        return honest(settings, contract, seed)  # type: ignore[arg-type]

    monkeypatch.setattr(campaign, "play_seed", until_seed_3)
    arguments = ["fuzz", "-a", "ideal", "--calls", "40", "--state", "state.json", "-q"]
    assert run(arguments) == 130
    assert "seeds 0 to 2, " in capsys.readouterr().out
    assert json.loads(Path("state.json").read_text())["seeds"] == 3
    monkeypatch.setattr(campaign, "play_seed", honest)
    assert run([*arguments, "--seeds", "5"]) == 0
    assert json.loads(Path("state.json").read_text())["seeds"] == 5


@pytest.mark.parametrize("collect", [[], ["--collect"]])
def test_an_interrupt_while_a_find_is_shortened_ends_the_search_and_keeps_the_find(
    collect: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(find, "minimize", interrupted)
    assert run([*BUGGY, *collect, "--state", "state.json", "-f", "json"]) == 130
    (found,) = json.loads(capsys.readouterr().out)["finds"]
    assert not found["minimal"]
    assert json.loads(Path("state.json").read_text())["seeds"] == 1
    assert run(["replay", found["trace"], "-a", "buggy", "-q"]) == 1
    capsys.readouterr()


def test_an_interrupt_while_a_known_find_is_shortened_ends_the_search(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shortened: list[Play] = []

    def all_alike(failed: Play, against: str, seconds: float) -> find.Find:
        shortened.append(failed)
        alike = find.find_of(failed, against, seconds)
        return replace(alike, fingerprint="alike", interrupted=len(shortened) == 2)

    monkeypatch.setattr(campaign, "find_of", all_alike)
    assert run([*BUGGY, "--collect", "-f", "json"]) == 130
    document = json.loads(capsys.readouterr().out)
    assert (len(document["finds"]), document["end"]) == (1, "interrupted")
    assert len(shortened) == 2


def test_a_budget_ends_a_trace_that_would_take_longer(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["fuzz", "-a", "ideal", "--calls", "100000000", "--budget", "0", "-f", "json"]
    assert run(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["end"], document["seeds"]) == ("budget", 0)


@pytest.mark.slow
def test_ctrl_c_ends_all_processes_with_one_line() -> None:
    arguments = ["-a", "ideal", "--budget", "600", "--jobs", "2", "--state", "state.json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "swasim", "fuzz", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(command.__file__).parents[2])},
    )
    try:
        while process.poll() is None and not Path("state.json").exists():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.05)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, err) == (130, "")
    assert "interrupted" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--callers", "slopy"], "unknown kind of caller 'slopy'; did you mean 'sloppy'?"),
        (["--mistakes", "nest"], "careful callers make none; add --callers wrong"),
        (["--callers", "wrong", "--mistakes", "nets"], "unknown mistake 'nets'"),
        (["--against", "fxed"], "unknown allocator 'fxed'; did you mean 'fixed'?"),
        (["--control", "fxed"], "unknown allocator 'fxed'; did you mean 'fixed'?"),
        (["-a", "no.such:Thing"], "importing no.such gave ModuleNotFoundError"),
        (["--kv-size", "64"], "needs --page-size"),
        (["--page-size", "4", "-a", "sglang-0.5.5"], "page size 1 only"),
        (["--sliding-window-size", "0"], "a workload needs a window"),
        (["--format", "sarif"], "unknown format 'sarif'"),
        (["--seeds", "0"], "--seeds"),
        (["--jobs", "0"], "--jobs"),
        (["--state", "no/such/folder.json", "--seeds", "1"], "there is no folder no/such"),
        (["--state", ""], "--state is empty"),
        (["--save", ""], "--save is empty"),
        (["--save", "/dev/null/finds"], "/dev/null is a file, not a folder"),
    ],
)
def test_what_cannot_be_is_exit_2_and_told(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fuzz", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "change",
    [
        {"seeds": -1},
        {"seed": "0"},
        {"calls": 1.5},
        {"seeds": True},
        {"finds": [{}]},
        {"finds": [{"seed": 0, "kind": 1, "headline": "", "fingerprint": "", "trace": ""}]},
        {"finds": 3},
        {"settings": {"allocator": "buggy"}},
        {"settings": []},
        {"swasim_fuzz": None},
    ],
)
def test_a_state_that_is_none_is_told_from_one(
    change: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*BUGGY, "--state", "state.json", "--seeds", "1"]
    assert run(arguments) == 1
    whole = json.loads(Path("state.json").read_text())
    spoilt = json.dumps(whole | change)
    Path("state.json").write_text(spoilt)
    capsys.readouterr()
    assert run(arguments) == 2
    assert capsys.readouterr().err.startswith("swasim: error: --state state.json: ")
    assert Path("state.json").read_text() == spoilt


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", "[" * 100_000])
def test_a_file_that_is_no_state_is_refused_in_words(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("state.json").write_text(text)
    assert run(["fuzz", "--state", "state.json"]) == 2
    assert capsys.readouterr().err == (
        "swasim: error: --state state.json: the file is no state of `swasim fuzz`; give another"
        " file\n"
    )


@pytest.mark.parametrize("page_size", ["3", "4096"])
def test_any_page_size_needs_no_pool_size(
    page_size: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fuzz", "--page-size", page_size, "--seeds", "1", "--calls", "20"]) == 0
    assert capsys.readouterr().err == ""


def test_the_configuration_says_what_is_left_to_chance(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fuzz", "--page-size", "4", "--show-config"]) == 0
    lines = {
        line.split(":")[0]: line.split("# ")[1]
        for line in capsys.readouterr().out.split("\n")
        if line
    }
    assert lines["page_size"] == "flag"
    assert lines["kv_size"] == lines["sliding_window_size"] == "not used: random, by the seed"


def test_the_commands_of_a_finding_name_the_saved_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*BUGGY, "-f", "json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["finds"]
    look, shrink = (shlex.split(command) for command in found["finding"]["help"])
    assert look[2] == shrink[2] == FILE
    assert run(look[1:]) == 0
    assert run([*shrink[1:], "-o", "-"]) == 0
    assert run([*BUGGY, "-f", "json", "--save", "-"]) == 1
    assert '"help": []' in capsys.readouterr().out
