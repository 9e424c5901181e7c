"""Each verb takes the output options that it honours, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from swasim.commands.app import app, run

SEARCH_FORMATS = ("table", "concise", "json", "jsonl")
REPORT_FORMATS = ("table", "concise", "json", "jsonl", "github", "sarif")
FILE = {"--output", "--force"}
WORK = {*FILE, "--format", "--quiet", "--verbose", "--no-progress"}

TAKEN = {
    "replay": WORK,
    "compare": WORK,
    "inspect": WORK,
    "minimize": WORK,
    "fuzz": WORK,
    "explore": WORK,
    "triage": WORK - {"--no-progress"},
    "allocators": {*FILE, "--format", "--verbose"},
    "validate": {"--quiet", "--verbose"},
    "explain": {"--verbose"},
    "record": {"--verbose"},
}
"""Verb to its options about output. What `record --output` names is the recording itself."""

FORMATS = {
    "replay": REPORT_FORMATS,
    "compare": REPORT_FORMATS,
    "inspect": ("table", "json"),
    "minimize": ("table", "concise", "json"),
    "fuzz": SEARCH_FORMATS,
    "explore": SEARCH_FORMATS,
    "triage": ("table", "concise", "json"),
    "allocators": ("table", "json"),
}

LEAK = "[swa] total=64, available=32, evictable=16, protected=0, session_held=0, uncached=0\n"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.log").write_text(LEAK)


COMMANDS = {
    "replay": ["replay", "pr27779", "--allocator", "buggy", "--exit-zero"],
    "compare": ["compare", "--buggy", "--fixed"],
    "inspect": ["inspect", "pr27779", "--at", "1"],
    "minimize": ["minimize", "pr27779", "--allocator", "buggy", "--force"],
    "fuzz": ["fuzz", "--allocator", "ideal", "--seeds", "1", "--calls", "20", "--save", "-"],
    "explore": ["explore", "--allocator", "ideal", "--depth", "1", "--save", "-"],
    "triage": ["triage", "server.log", "--exit-zero"],
    "allocators": ["allocators"],
    "validate": ["validate", "config.yaml"],
    "explain": ["explain", "double-free"],
}
"""Verb to a command line that ends with 0."""


def verbs() -> Iterator[tuple[str, Any]]:
    group: Any = typer.main.get_command(app)
    yield from group.commands.items()


def test_every_verb_takes_what_it_honours() -> None:
    taken = {
        name: {
            parameter.opts[0] for parameter in verb.params if parameter.rich_help_panel == "Output"
        }
        for name, verb in verbs()
    }
    assert taken == TAKEN


@pytest.mark.parametrize("verb", sorted(set(TAKEN) - {"record"}))
def test_an_option_that_a_verb_does_not_honour_is_refused(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for flag in sorted(WORK - TAKEN[verb]):
        assert run([*COMMANDS[verb], flag]) == 2, flag
        assert f"No such option: {flag}" in capsys.readouterr().err


@pytest.mark.parametrize("verb", FORMATS)
def test_the_help_names_the_formats_that_there_are(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([verb, "--help"]) == 0
    *others, last = FORMATS[verb][1:]
    listed = ", ".join(["table (default)", *others]) + f" or {last}"
    assert listed in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("verb", FORMATS)
def test_every_format_is_written_or_refused(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = set()
    for name in REPORT_FORMATS:
        code = run([*COMMANDS[verb], "--format", name])
        captured = capsys.readouterr()
        if name in FORMATS[verb]:
            assert code == 0, captured.err
            outputs.add(captured.out)
        else:
            assert code == 2
            assert f"unknown format {name!r}" in captured.err
    assert len(outputs) == len(FORMATS[verb])


@pytest.mark.parametrize("verb", ["replay", "compare", "minimize", "fuzz", "explore", "triage"])
def test_quiet_leaves_something_out(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(COMMANDS[verb]) == 0
    whole = capsys.readouterr().out
    assert run([*COMMANDS[verb], "--quiet"]) == 0
    short = capsys.readouterr().out
    assert 0 < len(short.splitlines()) < len(whole.splitlines())


@pytest.mark.parametrize("verb", ["replay", "compare", "inspect"])
def test_quiet_gives_no_warnings(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    ragged = [*COMMANDS[verb], "--kv-size", "66"]
    assert run(ragged) == 0
    assert "warning: " in capsys.readouterr().err
    assert run([*ragged, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_quiet_validate_says_only_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    Path("config.yaml").write_text("page_size: 4\n")
    assert run([*COMMANDS["validate"], "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_verbose_comparison_gives_every_finding_in_full(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["compare", "--buggy", "--fixed", "--verbose"]) == 0
    verbose = capsys.readouterr().out
    assert run(["replay", "pr27779", "-a", "buggy", "--exit-zero", "--quiet", "--verbose"]) == 0
    blocks = capsys.readouterr().out.split("\n\n")[:-1]
    assert len(blocks) > 1
    assert all(block in verbose for block in blocks)
    assert "(--verbose shows" not in verbose


@pytest.mark.parametrize(
    ("arguments", "limit", "more"),
    [
        (
            ["minimize", "pr27779", "-a", "buggy", "--force"],
            "swasim.reporters.minimize.LINES_SHOWN",
            "more lines (--verbose shows them)",
        ),
        (
            ["fuzz", "-a", "buggy", "--callers", "sloppy", "--save", "-"],
            "swasim.reporters.fuzz.EVENTS_SHOWN",
            "more events (--verbose shows them)",
        ),
    ],
    ids=["minimize", "fuzz"],
)
def test_verbose_shows_every_event_of_what_was_found(
    arguments: list[str],
    limit: str,
    more: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(limit, 1)
    run(arguments)
    short = capsys.readouterr().out
    assert more in short
    assert short.count('"op"') <= 1
    run([*arguments, "--verbose"])
    whole = capsys.readouterr().out
    assert "--verbose" not in whole
    assert whole.count('"op"') > 1


BROKEN = {"validate": "commands.soundness.check_file", "record": "recorder.launch.environment"}


@pytest.mark.parametrize("verb", sorted(TAKEN))
def test_verbose_shows_the_traceback_of_a_defect(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("config.yaml").write_text("page_size: 4\n")
    arguments = COMMANDS.get(verb, ["record", "true"])

    def broken(*given: object, **named: object) -> None:
        raise KeyError("page")

    monkeypatch.setattr(f"swasim.{BROKEN.get(verb, 'commands.output.destination')}", broken)
    assert run(arguments) == 3
    quiet = capsys.readouterr().err
    assert "what the same command prints with --verbose" in quiet
    assert "Traceback" not in quiet
    assert run([arguments[0], "--verbose", *arguments[1:]]) == 3
    assert "Traceback (most recent call last)" in capsys.readouterr().err
