"""One finding as a block of lines, in the order in which a reader asks: what, where, who, why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from swasim.geometry import number_runs
from swasim.reporters import Look
from swasim.reporters.runs import runs_text
from swasim.reporters.screen import SEVERITY_STYLE, Screen
from swasim.reporters.strip import page_strip
from swasim.reporters.wording import Family, families, moment_text, pool_name, printable

if TYPE_CHECKING:
    from swasim.collect import Replay
    from swasim.sanitizer.findings import Finding, Surroundings

FOLDED_SHOWN = 5
"""Consequences listed under their cause before the rest is only counted."""


def write_findings(replay: Replay, screen: Screen, look: Look) -> None:
    """Every finding as a block; unless verbose, notes are short and consequences folded."""
    if look.verbose:
        for number, finding in enumerate(replay.findings, 1):
            _write_block(number, finding, replay.trace, screen)
            screen.line()
        return
    for number, family in enumerate(families(replay.findings), 1):
        if family.root.severity == "note":
            _write_headline(f"{number}. ", family.root, screen)
            screen.labelled("at", _where(family.root, replay.trace))
        else:
            _write_block(number, family.root, replay.trace, screen)
        _write_consequences(family, screen)
        screen.line()


def write_in_full(replay: Replay, screen: Screen) -> None:
    """Every finding as a block, consequences as well, each below a blank line."""
    for number, finding in enumerate(replay.findings, 1):
        screen.line()
        _write_block(number, finding, replay.trace, screen)


def write_short(replay: Replay, screen: Screen) -> None:
    """Every finding in two lines: headline and event; consequences under their cause."""
    for family in families(replay.findings):
        _write_headline("", family.root, screen)
        screen.labelled("at", _where(family.root, replay.trace), indent=4)
        _write_consequences(family, screen)


def _write_headline(number: str, finding: Finding, screen: Screen) -> None:
    tag = f"{finding.severity}[{finding.kind}]"
    style = SEVERITY_STYLE[finding.severity]
    screen.headline((number, ""), (tag, style), printable(finding.headline))


def _write_block(number: int, finding: Finding, trace: str, screen: Screen) -> None:
    _write_headline(f"{number}. ", finding, screen)
    for label, text in _facts(finding, trace):
        screen.labelled(label, text)
    if finding.surroundings is not None:
        _write_surroundings(finding, finding.surroundings, screen)
    for note in finding.notes:
        screen.labelled("note", printable(note))
    for number, command in enumerate(finding.help):
        label = "go on" if number == 0 else ""
        # Not wrapped: a command must survive being copied.
        screen.line("  ", (label.ljust(9), "dim"), " ", printable(command))


def _facts(finding: Finding, trace: str) -> Iterator[tuple[str, str]]:
    yield "at", _where(finding, trace)
    if finding.slots:
        yield "slots", _runs(finding.slots)
    provenance = (
        ("allocated", finding.allocated),
        ("mapped", finding.mapped),
        ("released", finding.released),
        ("owner now", finding.owner),
    )
    for label, moment in provenance:
        if moment is not None:
            yield label, moment_text(moment)
    if finding.expected or finding.actual:
        yield "expected", printable(finding.expected)
        yield "actual", printable(finding.actual)
    if finding.cause is not None:
        kind = finding.cause_kind or "an earlier finding"
        event = f" at event {finding.cause_at}" if finding.cause_at is not None else ""
        yield "because", f"{kind}{event}; this one follows from it"


def _where(finding: Finding, trace: str) -> str:
    place = f"{printable(trace)}:{finding.at.line}"
    text = f"{place}, {moment_text(finding.at, with_line=False)}"
    if finding.positions is not None:
        start, end = finding.positions
        text += f", positions {start}:{end}"
    return text


def _runs(slots: tuple[int, ...], most: int = 8) -> str:
    """Slots as runs, `4-7, 9`; the first `most` runs."""
    runs = number_runs(slots)
    return runs_text(runs[:most]) + (f", ... ({len(slots)} slots)" if len(runs) > most else "")


def _write_surroundings(finding: Finding, around: Surroundings, screen: Screen) -> None:
    strip = page_strip(around, finding.page, screen.width - 12)
    for label, cells in strip.lines if around.before or around.after else ():
        name = f"{pool_name(finding.pool)} page".strip() if label == "page" else f"  {label}"
        screen.line("  ", (name.ljust(9), "dim"), " ", cells)
    if around.before or around.after:
        for item in strip.legend:
            screen.labelled("", item)
    screen.labelled("pages", _equation(around))
    screen.labelled("available", _available(around))


def _equation(around: Surroundings) -> str:
    """Both sides: what is counted, and what the pool has."""
    terms = f"free {around.free_pages} + live {around.live_pages}"
    if around.pending_pages:
        terms += f" + pending {around.pending_pages}"
    counted = around.free_pages + around.live_pages + around.pending_pages
    if counted == around.size_pages:
        return f"{terms} = {counted} pages"
    off = counted - around.size_pages
    judgement = f"{off} too many" if off > 0 else f"{-off} missing"
    return f"{terms} = {counted} of {around.size_pages} pages, {judgement}"


def _available(around: Surroundings) -> str:
    over = around.available_tokens - around.size_tokens
    beyond = f", {over} too many" if over > 0 else ""
    return f"{around.available_tokens} of {around.size_tokens} tokens{beyond}"


def _write_consequences(family: Family, screen: Screen) -> None:
    shown = family.consequences[:FOLDED_SHOWN]
    for finding in shown:
        tag = f"{finding.severity}[{finding.kind}]"
        style = SEVERITY_STYLE[finding.severity]
        screen.headline(("  led to    ", "dim"), (tag, style), printable(finding.headline))
        screen.labelled("", moment_text(finding.at))
        if finding.released is not None:
            screen.labelled("", f"released before by {moment_text(finding.released)}")
        around = finding.surroundings
        if around is not None and around.available_tokens > around.size_tokens:
            screen.labelled("", f"available {_available(around)}")
    rest = len(family.consequences) - len(shown)
    if rest:
        screen.labelled("led to", f"{rest} more (--verbose shows each)")
