"""The two catalogues for people: kinds of findings, and allocators."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from rich.table import Table
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
        allocator = "" if kind.allocator == "fixed" else f" --allocator {kind.allocator}"
        screen.line("\n", ("Smallest trace", "bold"), f"  (swasim replay {trace}{allocator})")
        for line in trace_text.splitlines():
            screen.line("  " + line)
    if kind.examples:
        screen.line("\n", ("Seen in public", "bold"))
        width = max(len(title) for title, _ in kind.examples)
        for title, link in kind.examples:
            screen.line(f"  {title:<{width}}  {link}")
    screen.flush()


def write_allocators(infos: Sequence[AllocatorInfo], out: TextIO, look: Look) -> None:
    """The registry, one row each; where the links do not fit they are listed below."""
    screen = Screen(out, look)
    table = _allocator_table(infos, with_link=True)
    if screen.fits(table):
        screen.show(table)
    else:
        screen.show(_allocator_table(infos, with_link=False))
        screen.line()
        for info in infos:
            if info.link:
                screen.line(f"{info.name}  {info.link}")
    screen.flush()


def _allocator_table(infos: Sequence[AllocatorInfo], *, with_link: bool) -> Table:
    table = plain_table()
    table.add_column("allocator", no_wrap=True)
    table.add_column("mirrors")
    table.add_column("finding", no_wrap=True)
    if with_link:
        table.add_column("link", no_wrap=True)
    for info in infos:
        cells = [_names(info), info.mirrors, info.finding or "-"]
        table.add_row(*cells, *([info.link or "-"] if with_link else []))
    return table


def _names(info: AllocatorInfo) -> str:
    """The name, and other names that are not just its end."""
    others = [alias for alias in info.aliases if not info.name.endswith(alias)]
    return ", ".join([info.name, *others])


def write_allocators_json(infos: Sequence[AllocatorInfo], out: TextIO, look: Look) -> None:
    """The registry as one document."""
    listed = [dataclasses.asdict(info) for info in infos]
    json.dump({"swasim": __version__, "schema": SCHEMA, "allocators": listed}, out, indent=2)
    out.write("\n")


ALLOCATOR_WRITERS = {"table": write_allocators, "json": write_allocators_json}
