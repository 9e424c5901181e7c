"""The progress bar, and the line of a search: on a terminal, from a second on, gone at the end."""

from __future__ import annotations

import io
import sys

import pytest

from swasim.commands import progress
from swasim.commands.app import run
from swasim.commands.options import OutputOptions
from swasim.commands.progress import STRIDE_EVENTS, telling, watching
from swasim.run import replay
from swasim.trace.reader import from_events

EVENTS = [{"op": "mark", "label": "tick"}] * (2 * STRIDE_EVENTS)


CLEAR = "\r\x1b[K"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, *, patience: float) -> str:
    """What a replay of `EVENTS` writes to a terminal on standard error."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", patience)
    monkeypatch.setenv("TERM", "xterm")
    reader = from_events(EVENTS)
    with watching(reader, OutputOptions()) as on_progress:
        replay(reader, on_progress=on_progress)
    return terminal.getvalue()


def test_work_that_lasts_shows_a_bar_with_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "replaying" in shown(monkeypatch, patience=0.0)


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, patience=3600.0) == ""


@pytest.mark.parametrize("options", [OutputOptions(quiet=True), OutputOptions(no_progress=True)])
def test_quiet_and_no_progress_want_none(
    options: OutputOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with watching(from_events(EVENTS), options) as on_progress:
        assert on_progress is None


def test_without_a_terminal_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with watching(from_events(EVENTS), OutputOptions()) as on_progress:
        assert on_progress is None


def opened(monkeypatch: pytest.MonkeyPatch, *, columns: int = 80) -> Terminal:
    """A terminal on standard error; not a fixture, for pytest captures each phase anew."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(progress, "STEP_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    return screen


def test_the_line_is_rewritten_and_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = opened(monkeypatch)
    with telling(OutputOptions(), str) as tell:
        assert tell is not None
        tell(1)
        tell(2)
    assert terminal.getvalue() == f"{CLEAR}1{CLEAR}2{CLEAR}"


def test_the_line_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = opened(monkeypatch, columns=5)
    with telling(OutputOptions(), str) as tell:
        assert tell is not None
        tell(1234567)
    assert terminal.getvalue() == f"{CLEAR}1234{CLEAR}"


def test_a_short_search_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = opened(monkeypatch)
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 3600.0)
    with telling(OutputOptions(), str) as tell:
        assert tell is not None
        tell(1)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("options", [OutputOptions(quiet=True), OutputOptions(no_progress=True)])
def test_who_does_not_want_the_line_does_not_get_it(
    options: OutputOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(monkeypatch)
    with telling(options, str) as tell:
        assert tell is None


def test_a_pipe_and_a_dumb_terminal_see_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    opened(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    with telling(OutputOptions(), str) as tell, watching(from_events(EVENTS), OutputOptions()) as w:
        assert (tell, w) == (None, None)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with telling(OutputOptions(), str) as tell:
        assert tell is None


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (
            ["fuzz", "-a", "ideal", "--seeds", "2", "--calls", "20", "--save", "-"],
            0,
            "2 seeds, 42 calls, ",
        ),
        (
            ["explore", "-a", "ideal", "--depth", "2", "--save", "-"],
            0,
            "depth 1: 0 sequences tried, 1 distinct",
        ),
        (["minimize", "pr27779", "-a", "buggy", "-o", "-"], 0, " of 2 events, 1 replay"),
    ],
    ids=["fuzz", "explore", "minimize"],
)
def test_every_search_tells_how_far_it_is(
    arguments: list[str],
    code: int,
    text: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = opened(monkeypatch)
    assert run(arguments) == code
    assert text in terminal.getvalue()
    assert terminal.getvalue().count(CLEAR) > 1
    capsys.readouterr()


class Vanished(Terminal):
    """A terminal whose window was closed."""

    def write(self, text: str, /) -> int:
        raise OSError(5, "Input/output error")


def test_a_terminal_that_goes_away_ends_no_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(monkeypatch)
    monkeypatch.setattr(sys, "stderr", Vanished())
    assert run(["explore", "-a", "ideal", "--depth", "2", "--save", "-"]) == 0
    with watching(from_events(EVENTS), OutputOptions()) as on_progress:
        replay(from_events(EVENTS), on_progress=on_progress)
    capsys.readouterr()
