"""Settings that every test shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "dev", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "ci",
    max_examples=100,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say it where the tests ran on compiled modules that are not those of the sources."""
    try:
        from hatch_build import MODULES, Compilation
    except ImportError:  # an environment in which nothing is built, on a device perhaps
        return
    outdated = Compilation(Path(__file__).resolve().parents[1], MODULES).outdated()
    if outdated:
        terminalreporter.write_line(
            f"These results are not those of the sources: {', '.join(outdated)} changed after being"
            " compiled. `make compile`, or `make clean-compiled` to run them as they stand.",
            yellow=True,
        )


@pytest.fixture(autouse=True)
def plain_console(monkeypatch: pytest.MonkeyPatch) -> None:
    """A console of fixed width without colour, and no setting from the developer's own shell."""
    for name in list(os.environ):
        if name.startswith("SWASIM_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
