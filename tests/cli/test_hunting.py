"""The line of progress that `fuzz` and `explore` share: on a terminal only, gone at the end."""

from __future__ import annotations

import io
import sys

import pytest

from swasim.commands import hunting
from swasim.commands.app import run
from swasim.commands.hunting import telling
from swasim.commands.options import OutputOptions

CLEAR = "\r\x1b[K"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def opened(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal on standard error; not a fixture, for pytest captures each phase anew."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(hunting, "BAR_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(hunting, "BAR_STEP_SECONDS", 0.0)
    return screen


def test_the_line_is_rewritten_and_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = opened(monkeypatch)
    with telling(OutputOptions()) as tell:
        assert tell is not None
        tell("one")
        tell("two")
    assert terminal.getvalue() == f"{CLEAR}one{CLEAR}two{CLEAR}"


@pytest.mark.parametrize("options", [OutputOptions(quiet=True), OutputOptions(no_progress=True)])
def test_nobody_who_does_not_want_it_sees_it(
    options: OutputOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = opened(monkeypatch)
    with telling(options) as tell:
        assert tell is None
    assert terminal.getvalue() == ""


def test_a_pipe_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with telling(OutputOptions()) as tell:
        assert tell is None
    assert pipe.getvalue() == ""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["fuzz", "-a", "ideal", "--seeds", "2", "--calls", "20"], "2 seeds, 42 calls, "),
        (["explore", "-a", "ideal", "--depth", "2"], "depth 1: 0 sequences tried, 1 distinct"),
    ],
)
def test_both_searches_tell_how_far_they_are(
    arguments: list[str],
    text: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = opened(monkeypatch)
    assert run([*arguments, "--save", "-"]) == 0
    assert text in terminal.getvalue()
    assert terminal.getvalue().endswith(CLEAR)
    capsys.readouterr()
