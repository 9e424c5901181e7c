"""The page strip around a finding: both moments, one column a page, letters for owners.

    page     0    1    2    3
    before   --  [A]   .    .
    after    --  [.x2] .    .

Read downwards: what became of each page at the event of the finding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from swasim.reporters.wording import printable

if TYPE_CHECKING:
    from swasim.sanitizer.findings import PageCell, Surroundings


@dataclass(frozen=True, slots=True)
class Strip:
    """A strip as text.

    Attributes:
        lines: label and cells; as many groups of three as the width asks for.
        legend: what the signs mean that occur, owners first.
    """

    lines: tuple[tuple[str, str], ...]
    legend: tuple[str, ...]


def page_strip(around: Surroundings, page: int | None, width: int) -> Strip:
    """Lay the pages around `page` out within `width` columns."""
    before = {cell.page: cell for cell in around.before}
    after = {cell.page: cell for cell in around.after}
    pages = sorted(before.keys() | after.keys())
    rows = [
        [str(number) for number in pages],
        [_marked(before.get(number), number == page) for number in pages],
        [_marked(after.get(number), number == page) for number in pages],
    ]
    cell_width = max((len(cell) for row in rows for cell in row), default=1)
    per_line = max(width // (cell_width + 1), 1)
    lines = []
    for start in range(0, len(pages), per_line):
        for label, row in zip(("page", "before", "after"), rows, strict=True):
            cells = row[start : start + per_line]
            lines.append((label, " ".join(cell.center(cell_width) for cell in cells).rstrip()))
    return Strip(tuple(lines), _legend(around, page))


def _marked(cell: PageCell | None, is_the_page: bool) -> str:
    sign = " " if cell is None else _sign(cell)
    return f"[{sign}]" if is_the_page else sign


def _sign(cell: PageCell) -> str:
    if cell.state == "padding":
        return "--" + _copies(cell, beyond=0)
    if cell.state == "free":
        return "." if cell.copies <= 1 else f".x{cell.copies}"
    if cell.state == "lost":
        return "?"
    name = cell.owner or "*"
    return (f"({name})" if cell.state == "pending" else name) + _copies(cell, beyond=0)


def _copies(cell: PageCell, beyond: int) -> str:
    if cell.copies <= beyond:
        return ""
    return "." if cell.copies == 1 else f".x{cell.copies}"


def _legend(around: Surroundings, page: int | None) -> tuple[str, ...]:
    cells = [*around.before, *around.after]
    owned = [cell for cell in cells if cell.state in ("live", "pending")]
    items = [f"{letter} = {printable(meaning)}" for letter, meaning in around.owners]
    signs = (
        (any(not cell.owner for cell in owned), "* live, owner unknown"),
        (any(cell.state == "free" for cell in cells), ". free"),
        (any(cell.copies > 1 for cell in cells), ".x2 twice in the free list"),
        (any(cell.copies for cell in owned), "A. owned and in the free list"),
        (any(cell.state == "pending" for cell in cells), "(A) release pending"),
        (any(cell.state == "lost" for cell in cells), "? neither owned nor free"),
        (any(cell.state == "padding" for cell in cells), "-- padding"),
        (page is not None, "[ ] this page"),
    )
    return (*items, "; ".join(text for occurs, text in signs if occurs))
