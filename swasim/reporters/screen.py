"""Lines and tables for people, through Rich: width, colour, hanging indents.

The one idea: text is laid out as whole lines first and only then written, so that without a
screen no row is ever wrapped or cut. Colour only repeats what a word says.
"""

from __future__ import annotations

import io
import re
import textwrap
from typing import TextIO

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from swasim.reporters import Look

UNBOUNDED = 100_000
"""Columns that no line reaches: stands for "no screen"."""

SEVERITY_STYLE = {"error": "bold red", "warning": "yellow", "note": "cyan"}
PROSE_COLUMNS = 100
"""Paragraphs of longer lines are hard to read."""

_TRAILING = re.compile(r"[ ]+$", re.MULTILINE)


class Screen:
    """Collects what is to be shown and writes it to `out` in one piece.

    Args:
        out: where the text goes, at `flush`.
        look: width and colour.
    """

    def __init__(self, out: TextIO, look: Look) -> None:
        self._out = out
        self._buffer = io.StringIO()
        self.width = look.width or UNBOUNDED
        self.row_width = UNBOUNDED if look.whole_rows else self.width
        self._console = Console(
            file=self._buffer,
            width=UNBOUNDED,
            # Without a height Rich looks at TERM, and takes a dumb terminal to be 80 wide.
            height=1,
            color_system="standard" if look.color else None,
            force_terminal=look.color,
            no_color=not look.color,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def line(self, *parts: str | tuple[str, str] | Text) -> None:
        """One line as it is, never wrapped; a part is text, or text with a style."""
        text = Text.assemble(*parts)
        self._console.print(text, no_wrap=True, overflow="ignore", crop=False)

    def labelled(self, label: str, text: str, *, indent: int = 2, label_width: int = 9) -> None:
        """`label` and prose beside it; further lines hang under the prose."""
        hang = indent + label_width + 1
        width = max(self.width - hang, 20)
        lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
        self.line(" " * indent, (label.ljust(label_width), "dim"), " ", lines[0])
        for line in lines[1:]:
            self.line(" " * hang, line)

    def headline(self, lead: tuple[str, str], tag: tuple[str, str], text: str) -> None:
        """A styled lead, a styled tag and the text behind them; further lines are indented."""
        prefix = f"{lead[0]}{tag[0]}"
        hang = " " * max(len(lead[0]), 2)
        first, *rest = textwrap.wrap(
            f"{'x' * len(prefix)} {text}",
            max(self.width, 20),
            subsequent_indent=hang,
            break_long_words=False,
            break_on_hyphens=False,
        )
        self.line(lead, tag, (first[len(prefix) :], "bold"))
        for line in rest:
            self.line((line, "bold"))

    def prose(self, text: str, *, indent: int = 0) -> None:
        """A paragraph, wrapped at the width and at a readable one."""
        width = max(min(self.width, PROSE_COLUMNS) - indent, 20)
        for line in textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False):
            self.line(" " * indent + line)

    def show(self, renderable: RenderableType) -> None:
        """A table."""
        self._console.print(renderable, crop=False, width=self.row_width)

    def fits(self, table: Table) -> bool:
        """Whether no row of the table must be folded."""
        return self._console.measure(table).maximum <= self.row_width

    def flush(self) -> None:
        """Write everything; lines carry no trailing blanks."""
        self._out.write(_TRAILING.sub("", self._buffer.getvalue()))
        self._buffer = io.StringIO()
        self._console.file = self._buffer


def plain_table() -> Table:
    """A table with a rule under its head and no other lines."""
    return Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
        header_style="bold",
    )
