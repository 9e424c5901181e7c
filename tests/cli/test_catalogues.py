"""`swasim explain` and `swasim allocators`."""

from __future__ import annotations

import json

import pytest

from swasim.commands.app import run
from swasim.sanitizer.kinds import KINDS


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "FORCE_COLOR", "SWASIM_FORMAT"):
        monkeypatch.delenv(name, raising=False)


def test_explain_lists_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2 : 2 + len(KINDS)]] == list(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_explain_tells_meaning_reason_and_severity(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", kind]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{kind}  ({KINDS[kind].severity})\n")
    assert "Why it matters" in out
    assert max(map(len, out.splitlines())) <= 100


def test_explain_answers_an_unknown_kind_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["explain", "duble-free"]) == 2
    assert "did you mean 'double-free'?" in capsys.readouterr().err


def test_allocators_are_one_line_each_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["allocators"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["allocator", "mirrors", "finding", "link"]
    (buggy,) = [line for line in lines if line.startswith("buggy")]
    assert "stale-mapping" in buggy
    assert buggy.endswith("https://github.com/sgl-project/sglang/pull/27779")


def test_allocators_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["allocators", "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    names = [item["name"] for item in document["allocators"]]
    assert {"fixed", "buggy", "sglang-0.5.12", "sglang-0.5.23"} <= set(names)


def test_allocators_know_two_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["allocators", "-f", "jsn"]) == 2
    assert "did you mean 'json'?" in capsys.readouterr().err
