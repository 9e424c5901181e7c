"""The two catalogues for people: kinds of findings, and allocators."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from rich.text import Text

from swasim import __version__
from swasim.reporters import SCHEMA, Look
from swasim.reporters.screen import SEVERITY_STYLE, Screen, plain_table

if TYPE_CHECKING:
    from swasim.allocator.registry import AllocatorInfo
    from swasim.sanitizer.kinds import KindInfo


def write_kinds(kinds: Iterable[KindInfo], out: TextIO, look: Look) -> None:
    """Every kind with its severity and meaning."""
    screen = Screen(out, look)
    table = plain_table()
    table.add_column("kind", no_wrap=True)
    table.add_column("severity", no_wrap=True)
    table.add_column("the truth says")
    for kind in kinds:
        table.add_row(
            kind.name, Text(kind.severity, style=SEVERITY_STYLE[kind.severity]), kind.meaning
        )
    screen.show(table)
    screen.line("\nswasim explain KIND tells more of one.")
    screen.flush()


def write_kind(kind: KindInfo, trace: str, trace_text: str, out: TextIO, look: Look) -> None:
    """One kind in full; `trace_text` is its smallest trace, or empty."""
    screen = Screen(out, look)
    screen.line((kind.name, "bold"), "  (", (kind.severity, SEVERITY_STYLE[kind.severity]), ")\n")
    screen.prose(kind.meaning)
    for heading, text in (("Why it matters", kind.why), ("Looks like", kind.looks_like)):
        if text:
            screen.line("\n", (heading, "bold"))
            screen.prose(text, indent=2)
    if trace_text:
        screen.line("\n", ("Smallest trace", "bold"), f"  (swasim replay {trace})")
        for line in trace_text.splitlines():
            screen.line("  " + line)
    if kind.examples:
        screen.line("\n", ("Seen in public", "bold"))
        width = max(len(title) for title, _ in kind.examples)
        for title, link in kind.examples:
            screen.line(f"  {title:<{width}}  {link}")
    screen.flush()


def write_allocators(infos: Sequence[AllocatorInfo], out: TextIO, look: Look) -> None:
    """The registry as a table; where it does not fit, the link stands on a line of its own."""
    screen = Screen(out, look)
    rows = [(_names(info), info.mirrors, info.finding or "", info.link or "") for info in infos]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    if sum(widths) + 2 * len(widths) <= screen.row_width:
        table = plain_table()
        for heading in ("allocator", "mirrors", "finding", "link"):
            table.add_column(heading, no_wrap=True)
        for row in rows:
            table.add_row(*row)
        screen.show(table)
    else:
        for name, mirrors, finding, link in rows:
            screen.line((name, "bold"))
            for label, text in (("mirrors", mirrors), ("finding", finding), ("link", link)):
                if text:
                    screen.labelled(label, text)
    screen.flush()


def _names(info: AllocatorInfo) -> str:
    return ", ".join([info.name, *info.aliases])


def write_allocators_json(infos: Sequence[AllocatorInfo], out: TextIO, look: Look) -> None:
    """The registry as one document."""
    listed = [dataclasses.asdict(info) for info in infos]
    json.dump({"swasim": __version__, "schema": SCHEMA, "allocators": listed}, out, indent=2)
    out.write("\n")


ALLOCATOR_FORMATS = {"table": write_allocators, "json": write_allocators_json}
