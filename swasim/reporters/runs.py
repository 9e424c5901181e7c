"""Lists that may be long: runs, columns, and what is left out on a screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from swasim.reporters.screen import Screen

if TYPE_CHECKING:
    from swasim.inspect.records import Run

COLUMN_GAP = 2
COLUMNS_WITHOUT_SCREEN = 80
"""Width at which columns are packed where there is no screen."""


def run_text(run: Run) -> str:
    """`4-7`, or `4`."""
    return str(run[0]) if run[0] == run[1] else f"{run[0]}-{run[1]}"


def runs_text(runs: Sequence[Run], most: int | None = None) -> str:
    """`4-7, 9`; of more than `most` runs the middle is left out and counted."""
    if most is None or len(runs) <= most:
        return ", ".join(run_text(run) for run in runs)
    head, tail = runs[: most - most // 3], runs[-(most // 3) :]
    hidden = runs[len(head) : len(runs) - len(tail)]
    members = sum(last - first + 1 for first, last in hidden)
    return (
        f"{', '.join(run_text(run) for run in head)}, ... {members} more ...,"
        f" {', '.join(run_text(run) for run in tail)}"
    )


def write_columns(
    items: Sequence[str], screen: Screen, *, indent: int, most_lines: int | None, more: str
) -> None:
    """Items in as many columns as fit, read downwards; beyond `most_lines` they are counted.

    Args:
        more: what the ones that are left out are called, with a `{}` for their number.
    """
    if not items:
        return
    width = min(screen.width, COLUMNS_WITHOUT_SCREEN) if screen.width > 1000 else screen.width
    longest = max(len(item) for item in items)
    columns = max(1, (width - indent + COLUMN_GAP) // (longest + COLUMN_GAP))
    lines = -(-len(items) // columns)
    shown = items
    if most_lines is not None and lines > most_lines:
        lines = most_lines
        shown = items[: lines * columns]
    for line in range(lines):
        cells = [item.ljust(longest + COLUMN_GAP) for item in shown[line::lines]]
        screen.line(" " * indent, "".join(cells).rstrip())
    if len(shown) < len(items):
        screen.line(" " * indent, (more.format(len(items) - len(shown)), "dim"))
