"""The progress bar: on a terminal only, and not before a second has passed."""

from __future__ import annotations

import io
import sys

import pytest

from swasim.commands import progress
from swasim.commands.options import OutputOptions
from swasim.commands.progress import STRIDE_EVENTS, watching
from swasim.run import replay
from swasim.trace.reader import from_events

EVENTS = [{"op": "mark", "label": "tick"}] * (2 * STRIDE_EVENTS)


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
