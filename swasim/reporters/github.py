"""Workflow commands of GitHub Actions: each finding annotates its line of the trace.

Annotations per step are few, so consequences are folded under their cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from swasim.reporters import Look
from swasim.reporters.wording import (
    Family,
    counted,
    families,
    moment_text,
    printable,
    summary_line,
)

if TYPE_CHECKING:
    from swasim.collect import Replay
    from swasim.lockstep import Comparison

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def write_replay(replay: Replay, out: TextIO, look: Look) -> None:
    """Write one command per finding that follows from no other, then the summary as plain text."""
    _write(replay, out, "")


def write_comparison(comparison: Comparison, out: TextIO, look: Look) -> None:
    """Write the findings of every run, with the allocator in the title."""
    for run in comparison.runs:
        _write(run, out, f" on {run.allocator}")


def _write(replay: Replay, out: TextIO, suffix: str) -> None:
    for family in families(replay.findings):
        out.write(_command(replay.trace, family, suffix) + "\n")
    out.write(f"swasim{suffix}: {summary_line(replay)}\n")


def _command(trace: str, family: Family, suffix: str) -> str:
    finding = family.root
    properties = [("title", f"swasim {finding.kind}{suffix}")]
    if finding.at.line and trace not in ("-", "<events>"):
        properties = [("file", trace), ("line", str(finding.at.line)), *properties]
    fields = ",".join(f"{name}={_property(value)}" for name, value in properties)
    return f"::{_COMMANDS[finding.severity]} {fields}::{_message(_text(family))}"


def _text(family: Family) -> str:
    finding = family.root
    lines = [finding.headline, f"at {moment_text(finding.at)}"]
    for label, moment in (
        ("allocated by", finding.allocated),
        ("mapped by", finding.mapped),
        ("released by", finding.released),
        ("owner now", finding.owner),
    ):
        if moment is not None:
            lines.append(f"{label} {moment_text(moment)}")
    lines.extend(finding.notes)
    if family.consequences:
        many = len(family.consequences)
        lines.append(f"{counted(many, 'finding')} follow{'s' if many == 1 else ''} from it")
    lines.extend(finding.help)
    return "\n".join("\n".join(map(printable, line.splitlines())) for line in lines)


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
