"""A triage report as text: for people (`table`), one line a fault (`concise`), or JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, TextIO

from swasim import __version__
from swasim.reporters import Look
from swasim.reporters.screen import SEVERITY_STYLE, Screen
from swasim.reporters.wording import counted, printable
from swasim.triage import RECOGNISED, Fault, RankSeries, TriageReport, Unread

SCHEMA = 1
_RANKS_SHOWN = 4
_NAMES_SHOWN = 8


def write(report: TriageReport, out: TextIO, look: Look, *, source: str, format: str) -> None:
    """Write the report in one of `DIGEST_FORMATS`; `source` is the log as the user named it."""
    if format == "json":
        json.dump(document(report, source), out, indent=2)
        out.write("\n")
    elif format == "concise":
        _concise(report, out, source)
    else:
        _table(report, out, look, source)


def document(report: TriageReport, source: str) -> dict[str, Any]:
    """Everything that the report says, as plain values."""
    return {
        "swasim": __version__,
        "schema": SCHEMA,
        "log": source,
        "found_fault": report.found_fault,
        **dataclasses.asdict(report),
        "shapes": dict(report.shapes),
        "pool_totals": dict(report.pool_totals),
    }


def verdict(report: TriageReport) -> str:
    """The one line that a reader in a hurry needs."""
    text = _judgement(report)
    if report.unread is None:
        return text
    joint = ", " if report.found_fault else ", but "
    number = report.unread.lines
    speaking = "that speaks of one was" if number == 1 else "that speak of one were"
    return f"{text}{joint}{counted(number, 'line')} {speaking} not understood"


def unread_sentence(unread: Unread, source: str) -> str:
    """Where the first line is that was not understood, and what to do."""
    return (
        f"{source}:{unread.first_line}: speaks of a memory fault, in a shape that is not known"
        " here; read it yourself"
    )


def _judgement(report: TriageReport) -> str:
    if not report.recognised:
        return f"nothing recognised in {counted(report.lines, 'line')}"
    errors = sum(fault.severity == "error" for fault in report.faults)
    others = len(report.faults) - errors
    if errors:
        text = counted(errors, "memory fault")
        return text + (f", {counted(others, 'sign')} of pressure" if others else "")
    if others:
        return f"no memory fault, {counted(others, 'sign')} of pressure"
    return f"no memory fault in {counted(report.recognised, 'recognised line')}"


def _concise(report: TriageReport, out: TextIO, source: str) -> None:
    for fault in report.faults:
        kinds = ",".join(family.kind for family in fault.families)
        tag = f"{fault.severity}[{kinds}]"
        out.write(f"{printable(source)}:{fault.first_line}: {tag} {fault.headline}\n")
    if report.unread is not None:
        place = f"{printable(source)}:{report.unread.first_line}"
        out.write(f"{place}: warning[unread] {printable(report.unread.example)}\n")


def _table(report: TriageReport, out: TextIO, look: Look, source: str) -> None:
    screen = Screen(out, look)
    if not look.quiet:
        _write_head(report, screen, source)
    if not report.recognised:
        _write_recognised(screen)
    for number, fault in enumerate(report.faults, 1):
        _write_fault(number, fault, screen, look, source)
    if report.unread is not None:
        _write_unread(report.unread, screen, source)
    if report.next and not look.quiet:
        screen.line(("record next", "bold"))
        for step in report.next:
            screen.line("  ", (step.command, "cyan"))
            screen.prose(step.why, indent=6)
        screen.line()
    screen.line((f"{verdict(report)}; {counted(report.lines, 'line')} read", "bold"))
    screen.flush()


def _write_head(report: TriageReport, screen: Screen, source: str) -> None:
    screen.labelled("log", printable(source), indent=0)
    seen = ", ".join(f"{name} {count}" for name, count in report.shapes) or "none"
    screen.labelled("shapes", seen, indent=0)
    if report.pool_totals:
        totals = ", ".join(f"{pool} {total}" for pool, total in report.pool_totals)
        screen.labelled("pools", totals, indent=0)
        page = report.page
        size = "unknown" if page.size_tokens is None else f"{page.size_tokens} tokens"
        confidence = f" ({page.confidence} confidence)" if page.confidence in _JUDGED else ""
        screen.labelled("page size", f"{size}{confidence}: {page.reason}", indent=0)
    for caution in report.cautions:
        screen.labelled("caution", caution, indent=0)
    screen.line()


_JUDGED = ("high", "fair", "low")


def _write_recognised(screen: Screen) -> None:
    screen.line("no line has a shape that is known here. These are:")
    for name, example in RECOGNISED:
        screen.line("  ", (name.ljust(26), "dim"), example)
    screen.line()


def _write_fault(number: int, fault: Fault, screen: Screen, look: Look, source: str) -> None:
    style = SEVERITY_STYLE[fault.severity]
    screen.line(f"{number}. ", (fault.severity, style), " ", (fault.headline, "bold"))
    screen.labelled("at", _place(fault, source))
    if fault.ranks:
        names = ", ".join(fault.ranks[:_NAMES_SHOWN])
        more = len(fault.ranks) - _NAMES_SHOWN
        screen.labelled("ranks", names + (f" and {more} more" if more > 0 else ""))
    if not look.quiet:
        shown = fault.series if look.verbose else fault.series[:_RANKS_SHOWN]
        for series in shown:
            screen.labelled("sum", _sum(series))
        hidden = len(fault.series) - len(shown)
        if hidden:
            screen.labelled("", f"and {hidden} more ranks (--verbose shows them)")
        if not fault.series:
            screen.labelled("line", printable(fault.example))
    screen.labelled("means", fault.meaning)
    if fault.growth:
        screen.labelled("change", fault.growth)
    for family in fault.families:
        screen.labelled("family", f"{family.kind}: {family.why}")
    if not look.quiet:
        for issue in fault.issues:
            screen.labelled("like", f"{issue.ref}: {issue.gist}")
            screen.line(" " * 12, issue.url)
    screen.line()


def _write_unread(unread: Unread, screen: Screen, source: str) -> None:
    lead = ("not understood", SEVERITY_STYLE["warning"])
    screen.line(lead, ": a memory fault in a shape that is not known here")
    screen.labelled("at", _place(unread, source))
    screen.labelled("line", printable(unread.example))
    screen.line()


def _place(shown: Fault | Unread, source: str) -> str:
    text = f"{printable(source)}:{shown.first_line}"
    if shown.lines > 1:
        text += f", {counted(shown.lines, 'line')} up to {shown.last_line}"
    return text


def _sum(series: RankSeries) -> str:
    terms = series.terms
    names = ("available", "evictable", "protected", "session_held", "uncached")
    parts = [f"{name} {getattr(terms, name)}" for name in names if getattr(terms, name)]
    off = terms.off
    side = "more" if off > 0 else "less"
    text = f"{' + '.join(parts) or '0'} = {terms.accounted}, {abs(off)} {side} than {terms.total}"
    place = f" (line {series.last_line}"
    place += f", {series.rank}" if series.rank else ""
    place += f", {series.when}" if series.when else ""
    text += place + ")"
    if series.last_balanced_line is not None:
        text += f"; it balanced up to line {series.last_balanced_line}"
    return text
