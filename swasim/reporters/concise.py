"""One line a finding, `path:line: severity[kind] headline`: for editors, grep and CI logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from swasim.reporters import Look
from swasim.reporters.wording import printable

if TYPE_CHECKING:
    from swasim.collect import Replay
    from swasim.lockstep import Comparison


def write_replay(replay: Replay, out: TextIO, look: Look) -> None:
    """Write the findings; nothing at all where there are none."""
    _write(replay, out, "")


def write_comparison(comparison: Comparison, out: TextIO, look: Look) -> None:
    """Write the findings of every run, each with its allocator behind it."""
    for run in comparison.runs:
        _write(run, out, f" ({run.allocator})")


def _write(replay: Replay, out: TextIO, suffix: str) -> None:
    path = printable(replay.trace)
    for finding in replay.findings:
        headline = printable(finding.headline)
        tag = f"{finding.severity}[{finding.kind}]"
        out.write(f"{path}:{finding.at.line}: {tag} {headline}{suffix}\n")
