"""Phrases that several formats share, as plain strings without colour or layout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from swasim.wording import counted as counted

if TYPE_CHECKING:
    from swasim.collect import Replay
    from swasim.sanitizer.findings import Finding, Moment


def printable(text: str) -> str:
    """`text` on one line: control characters of a trace must not reach a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def moment_text(moment: Moment, *, with_line: bool = True) -> str:
    """One event as provenance names it: number, line, operation, request, site, time."""
    if moment.event == 0:
        return "the initial state"
    line = f" (line {moment.line})" if with_line else ""
    text = f"event {moment.event}{line} {moment.op}"
    if moment.req:
        text += f" req {printable(moment.req)}"
    if moment.site:
        text += f", {printable(moment.site)}"
    if moment.t is not None:
        text += f", t {moment.t:.3f} s"
    return text


def pool_name(pool: str | None) -> str:
    """The pool as prose writes it."""
    return "SWA" if pool == "swa" else str(pool or "")


@dataclass(frozen=True, slots=True)
class Family:
    """A finding with the later ones that follow from it, directly or through another."""

    root: Finding
    consequences: tuple[Finding, ...]


def families(findings: Iterable[Finding]) -> list[Family]:
    """Fold consequences under their cause; one whose cause is not among them stands alone."""
    roots: list[tuple[Finding, list[Finding]]] = []
    family_of: dict[tuple[str, int], list[Finding]] = {}
    for finding in findings:
        home = None
        if finding.cause is not None and finding.cause_at is not None:
            home = family_of.get((finding.cause, finding.cause_at))
        if home is None:
            home = []
            roots.append((finding, home))
        else:
            home.append(finding)
        family_of.setdefault((finding.fingerprint, finding.at.event), home)
    return [Family(root, tuple(rest)) for root, rest in roots]


def findings_total(replay: Replay) -> str:
    """`3 findings: 2 errors (1 a consequence), 1 warning`, or `no findings`."""
    summary = replay.summary
    total = summary.errors + summary.warnings + summary.notes
    if total == 0:
        text = "no findings"
    else:
        numbers = (
            (summary.errors, "error"),
            (summary.warnings, "warning"),
            (summary.notes, "note"),
        )
        parts = [
            counted(number, noun) + _of_them_consequences(replay, noun)
            for number, noun in numbers
            if number
        ]
        text = f"{counted(total, 'finding')}: {', '.join(parts)}"
    if summary.hidden:
        text += f"; {summary.hidden} of them not shown (--max-findings)"
    if summary.suppressed:
        text += f"; {summary.suppressed} suppressed"
    outcomes = (
        (summary.refused, "refused"),
        (summary.raised, "raised"),
        (summary.skipped, "skipped"),
    )
    told = [f"{number} {outcome}" for number, outcome in outcomes if number]
    if told:
        text += f"; {', '.join(told)} of {counted(summary.events, 'event')}"
    return text


def _of_them_consequences(replay: Replay, severity: str) -> str:
    followers = [f for f in replay.findings if f.cause is not None and f.severity == severity]
    if not followers:
        return ""
    return " (1 a consequence)" if len(followers) == 1 else f" ({len(followers)} consequences)"


def pools_total(replay: Replay) -> str:
    """Available against size of both pools: `full 12/16 tokens, SWA 20/16 tokens`."""
    summary, config = replay.summary, replay.config
    return (
        f"full {summary.full_available}/{config.kv_size} tokens, "
        f"SWA {summary.swa_available}/{config.kv_size_swa} tokens"
    )


def summary_line(replay: Replay) -> str:
    """The one line that ends a report."""
    return f"{findings_total(replay)}; {pools_total(replay)}"
