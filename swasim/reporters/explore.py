"""A finished exploration: what was found, and what exactly was tried."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, TextIO

from swasim import __version__, finds
from swasim.reporters import SCHEMA, Look
from swasim.reporters.jsonfmt import finding_fields
from swasim.reporters.screen import SEVERITY_STYLE, Screen, plain_table
from swasim.reporters.wording import counted, printable
from swasim.trace.writer import encode_event

if TYPE_CHECKING:
    from swasim.explore import Exploration, Progress, Sequence


def progress_line(now: Progress) -> str:
    """How far a search is, on one line."""
    return (
        f"depth {now.depth}: {now.tried:,} sequences tried, {now.distinct:,} distinct situations,"
        f" {now.queue:,} in the queue"
    )


def save_all(result: Exploration, callers: str, folder: str) -> list[str]:
    """Save every sequence into `folder` ("-": none); the paths, parallel to `found`.

    Raises:
        UsageError: it cannot be written.
    """
    if folder == "-":
        return ["" for _ in result.found]
    names = [result.config.allocator, *([result.control] if result.control else [])]
    return [
        finds.save(
            folder,
            f"explore-{result.config.allocator}-{found.finding.kind}-{len(found.events)}",
            result.config,
            found.events,
            [
                f"{found.finding.kind}: {found.finding.headline}.",
                f"Found by `swasim explore --allocator {result.config.allocator}`, as the shortest"
                f" sequence of {callers} callers.",
            ],
            names,
        )
        for found in result.found
    ]


def write(
    result: Exploration, callers: str, paths: list[str], out: TextIO, look: Look, format: str
) -> None:
    """Write the result in one of `SEARCH_FORMATS`."""
    if format == "json":
        json.dump(document(result, callers, paths), out, indent=2)
        out.write("\n")
    elif format == "jsonl":
        _stream(result, callers, paths, out)
    elif format == "concise":
        for found, path in zip(result.found, paths, strict=True):
            finding = found.finding
            place = f"{printable(path)}: " if path else ""
            out.write(f"{place}{finding.severity}[{finding.kind}] {finding.headline}\n")
        out.write(statement(result, callers) + "\n")
    else:
        _table(result, callers, paths, out, look)


def statement(result: Exploration, callers: str) -> str:
    """What is now known, in one sentence."""
    config, bounds = result.config, result.bounds
    what = result.kind or "error"
    who = f" that {result.control} does not show" if result.control else ""
    sizes = (
        f"{counted(bounds.requests, 'request')}, {config.geometry.full_pages} full and"
        f" {config.geometry.swa_pages} SWA pages of {counted(config.page_size, 'token')}"
    )
    window = config.sliding_window_size
    within = (
        f"with {sizes}, {f'a window of {window}' if window else 'no window'}, {callers} callers"
    )
    length = counted(result.depth, "event")
    if result.found:
        first = len(result.found[0].events)
        found = f"{counted(len(result.found), 'distinct error')}, the shortest after"
        text = f"{found} {counted(first, 'event')}{who}, {within}"
        return text if result.exhausted or result.end == "found" else text + _cut(result)
    if result.end == "closed":
        return f"no {what}{who} in any sequence whatever its length, {within}"
    if result.exhausted:
        return f"no {what}{who} in any sequence of up to {length}, {within}"
    return f"no {what}{who} found in sequences of up to {length}, {within}{_cut(result)}"


def _cut(result: Exploration) -> str:
    why = "interrupted" if result.end == "interrupted" else "the budget is spent"
    return f"; {why}: longer ones were tried in part, up to {result.bounds.depth} was asked for"


def document(result: Exploration, callers: str, paths: list[str]) -> dict[str, Any]:
    """Everything that the result says, as plain values."""
    return {
        "swasim": __version__,
        "schema": SCHEMA,
        **_summary(result, callers),
        "found": [_sequence(f, p) for f, p in zip(result.found, paths, strict=True)],
    }


def _summary(result: Exploration, callers: str) -> dict[str, Any]:
    return {
        "allocator": result.config.allocator,
        "control": result.control or None,
        "config": dataclasses.asdict(result.config),
        "callers": callers,
        "depth_asked": result.bounds.depth,
        "requests": result.bounds.requests,
        "find": result.kind or None,
        "moves": [
            {"name": f.name, "summary": f.summary, "tried": result.per_family[f.name]}
            for f in result.families
        ],
        "end": result.end,
        "exhausted": result.exhausted,
        "depth": result.depth,
        "tried": result.tried,
        "distinct": result.distinct,
        "distinct_per_depth": list(result.per_depth),
        "queue": result.queue,
        "pruned": result.pruned,
        "seconds": round(result.seconds, 3),
        "statement": statement(result, callers),
    }


def _sequence(found: Sequence, path: str) -> dict[str, Any]:
    return {
        "length": len(found.events),
        "trace": path or None,
        "moves": list(found.families),
        "events": [json.loads(encode_event(event)) for event in found.events],
        "finding": finding_fields(found.finding)
        | {"help": finds.commands_with(path, found.finding.help)},
    }


def _stream(result: Exploration, callers: str, paths: list[str], out: TextIO) -> None:
    for found, path in zip(result.found, paths, strict=True):
        out.write(json.dumps({"type": "sequence", **_sequence(found, path)}) + "\n")
    head = {"type": "exploration", "swasim": __version__, "schema": SCHEMA}
    out.write(json.dumps({**head, **_summary(result, callers)}) + "\n")


def _table(result: Exploration, callers: str, paths: list[str], out: TextIO, look: Look) -> None:
    screen = Screen(out, look)
    names = [result.config.allocator, *([result.control] if result.control else [])]
    for found, path in zip(result.found, paths, strict=True):
        finding = found.finding
        screen.line(
            (f"{finding.severity}[{finding.kind}]", SEVERITY_STYLE[finding.severity]),
            f" {finding.headline}",
        )
        for number, event in enumerate(found.events, 1):
            screen.line(f"  {number:>2}  {encode_event(event).decode()}")
        if path:
            screen.labelled("saved", printable(path))
            screen.line("  ", ("go on    ", "dim"), " ", printable(finds.command_of(path, names)))
        screen.line()
    screen.prose(f"{result.config.allocator}: {statement(result, callers)}.")
    if not look.quiet:
        _effort(result, screen)
    screen.flush()


def _effort(result: Exploration, screen: Screen) -> None:
    screen.line()
    rate = result.tried / result.seconds if result.seconds else 0
    per_depth = " + ".join(f"{number:,}" for number in result.per_depth)
    screen.labelled("tried", f"{result.tried:,} sequences, {result.seconds:.1f} s, {rate:,.0f}/s")
    screen.labelled("distinct", f"{result.distinct:,} situations by length: {per_depth}")
    screen.labelled("queue", f"{result.queue:,} not gone on from; ended by: {result.end}")
    if result.control:
        screen.labelled("given up", f"{result.pruned:,}: {result.control} shows an error too")
    screen.line()
    table = plain_table()
    table.add_column("move")
    table.add_column("tried", justify="right")
    table.add_column("what")
    for family in result.families:
        table.add_row(family.name, f"{result.per_family[family.name]:,}", family.summary)
    screen.show(table)
