"""The format for people: free-space table, findings, one summary line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from rich.table import Table
from rich.text import Text

from swasim.reporters import Look
from swasim.reporters.block import write_findings, write_in_full, write_short
from swasim.reporters.screen import SEVERITY_STYLE, Screen, plain_table
from swasim.reporters.wording import (
    counted,
    findings_total,
    pools_total,
    printable,
    summary_line,
)
from swasim.sanitizer.kinds import KINDS

if TYPE_CHECKING:
    from swasim.collect import Replay
    from swasim.config import SimConfig
    from swasim.lockstep import CompareCell, CompareRow, Comparison, Divergence
    from swasim.timeline import TimelineRow

OP_COLUMNS = 12
"""Operation names are not folded below this: `alloc_extend` is the longest of the usual ones."""

ROOMY_COLUMNS = 70
"""On a narrower screen everything folds."""


def write_replay(replay: Replay, out: TextIO, look: Look) -> None:
    """Write the replay; with `look.quiet` without the free-space table."""
    screen = Screen(out, look)
    if not look.quiet:
        screen.line((printable(replay.trace), "bold"), f" on {replay.allocator}")
        screen.line(_sizes(replay.config), "\n")
        if replay.timeline:
            screen.show(_timeline(replay, screen))
            _write_skipped(replay.timeline_skipped, replay, screen)
            screen.line()
    write_findings(replay, screen, look)
    screen.line((summary_line(replay), _outcome_style(replay)))
    screen.flush()


def write_comparison(comparison: Comparison, out: TextIO, look: Look) -> None:
    """Write the runs side by side, where they part, the verdicts, then their findings."""
    screen = Screen(out, look)
    names = [run.allocator for run in comparison.runs]
    if not look.quiet:
        screen.line((printable(comparison.trace), "bold"), f" on {', '.join(names)}")
        screen.line(_sizes(comparison.runs[0].config), "\n")
        for table in _side_by_side(comparison, names, screen):
            screen.show(table)
            screen.line()
        _write_skipped(comparison.rows_skipped, comparison.runs[0], screen)
        _write_divergence(comparison.first_divergence, names, screen)
    _write_verdicts(comparison, screen)
    for run in comparison.runs:
        if run.findings:
            screen.line()
            screen.line((run.allocator, "bold"), f": {findings_total(run)}")
            if look.verbose:
                write_in_full(run, screen)
            else:
                write_short(run, screen)
    screen.flush()


def _sizes(config: SimConfig) -> str:
    window = config.sliding_window_size
    text = (
        f"page {counted(config.page_size, 'token')}, full {config.kv_size} tokens, "
        f"SWA {config.kv_size_swa} tokens"
    )
    return text if window is None else f"{text}, window {window}"


def _outcome_style(replay: Replay) -> str:
    if replay.summary.errors:
        return "bold red"
    return "yellow" if replay.summary.warnings else "green"


# --- free-space table ----------------------------------------------------------------------------


def _timeline(replay: Replay, screen: Screen) -> Table:
    table = plain_table()
    table.add_column("event", justify="right", no_wrap=True)
    table.add_column("line", justify="right", no_wrap=True)
    table.add_column("op", overflow="fold", min_width=_op_columns(screen))
    table.add_column("what", overflow="fold")
    table.add_column("full", justify="right", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("SWA", justify="right", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("result", overflow="fold")
    before = 0
    for row in replay.timeline:
        number = _event_number(row.event, before)
        table.add_row(number, *_timeline_cells(row, replay.config))
        before = row.event
    return table


def _op_columns(screen: Screen) -> int | None:
    return OP_COLUMNS if screen.row_width >= ROOMY_COLUMNS else None


def _event_number(event: int, before: int) -> str:
    """The number, marked where events between the row before and this one are left out."""
    return str(event) if event == before + 1 else f".. {event}"


def _write_skipped(skipped: int, replay: Replay, screen: Screen) -> None:
    if skipped:
        events = counted(replay.summary.events, "event")
        screen.line(f".. {skipped} of {events} not shown (--every N, --tail N)")


def _timeline_cells(row: TimelineRow, config: SimConfig) -> list[Text | str]:
    return [
        Text(str(row.line), style="dim"),
        row.op,
        printable(row.detail),
        _available(str(row.full_available), config.kv_size),
        _change(row.full_change),
        _available(str(row.swa_available), config.kv_size_swa),
        _change(row.swa_change),
        _result(row.result, row.kinds, when_ok="ok"),
    ]


def _available(tokens: str, size_tokens: int) -> Text:
    return Text(tokens, style="bold red" if int(tokens) > size_tokens else "")


def _change(tokens: int) -> Text:
    return Text(f"{tokens:+}" if tokens else "", style="dim")


def _result(result: str, kinds: Sequence[str], *, when_ok: str = "", separator: str = ", ") -> Text:
    """Refusal or exception, then the kinds found, repeats counted: `refused, double-free x3`."""
    plain = result in ("ok", "")
    if plain and not kinds:
        return Text(when_ok if result else "", style="dim")
    parts = [] if plain else [(result, "yellow")]
    for kind in dict.fromkeys(kinds):
        number = kinds.count(kind)
        style = SEVERITY_STYLE[KINDS[kind].severity] if kind in KINDS else ""
        parts.append((kind if number == 1 else f"{kind} x{number}", style))
    return Text(separator).join([Text(text, style=style) for text, style in parts])


# --- side by side --------------------------------------------------------------------------------


def _side_by_side(comparison: Comparison, names: Sequence[str], screen: Screen) -> list[Table]:
    """One column an allocator.

    Where the screen is too narrow, results move below the numbers, and what still does not fit
    becomes a further table.
    """
    beside = _comparison_table(comparison, names, range(len(names)), screen, stacked=False)
    if screen.fits(beside):
        return [beside]
    for at_once in range(len(names), 0, -1):
        tables = [
            _comparison_table(comparison, names, chunk, screen, stacked=True)
            for chunk in _chunks(len(names), at_once)
        ]
        if all(screen.fits(table) for table in tables):
            break
    return tables


def _chunks(count: int, size: int) -> list[range]:
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def _comparison_table(
    comparison: Comparison,
    names: Sequence[str],
    columns: range,
    screen: Screen,
    *,
    stacked: bool,
) -> Table:
    table = plain_table()
    table.add_column("event", justify="right", no_wrap=True)
    table.add_column("line", justify="right", no_wrap=True)
    table.add_column("op", overflow="fold", min_width=_op_columns(screen))
    table.add_column("what", overflow="fold")
    digits = _digits(comparison.rows)
    head = f"{'full':>{digits}} {'SWA':>{digits}}" + ("" if stacked else " result")
    for column in columns:
        table.add_column(f"{names[column]}\n{head}", overflow="fold")
    before = 0
    for row in comparison.rows:
        sides = [
            _side(row.cells[column], comparison.runs[column].config, digits, stacked=stacked)
            for column in columns
        ]
        number = _event_number(row.event, before)
        table.add_row(*_event_cells(row, number, comparison.first_divergence), *sides)
        before = row.event
    return table


def _digits(rows: Sequence[CompareRow]) -> int:
    """Columns that the widest number of tokens needs, at least those of the word `full`."""
    numbers = [n for row in rows for c in row.cells for n in (c.full_available, c.swa_available)]
    return max([4, *(len(str(number)) for number in numbers)])


def _event_cells(row: CompareRow, number: str, parted: Divergence | None) -> list[Text | str]:
    parts_here = parted is not None and parted.event == row.event
    return [
        Text(f"> {number}", style="bold") if parts_here else number,
        Text(str(row.line), style="dim"),
        row.op,
        printable(row.detail),
    ]


def _side(cell: CompareCell, config: SimConfig, digits: int, *, stacked: bool) -> Text:
    """One allocator's cell: both pools, and the result beside them or on lines of its own."""
    numbers = Text(" ").join(
        [
            _available(f"{cell.full_available:>{digits}}", config.kv_size),
            _available(f"{cell.swa_available:>{digits}}", config.kv_size_swa),
        ]
    )
    result = _result(cell.result, cell.kinds, separator="\n" if stacked else ", ")
    return Text("\n" if stacked else " ").join([numbers, result]) if result else numbers


def _write_divergence(parted: Divergence | None, names: Sequence[str], screen: Screen) -> None:
    if parted is None:
        screen.line("They never part: same slots, same free lists, same mapping at every event.")
    else:
        place = f"event {parted.event} (line {parted.line}) {parted.op}"
        screen.line(("> They part at ", "bold"), (place, "bold"), f", first in {parted.what}:")
        width = max(len(name) for name in names)
        for name, value in zip(names, parted.values, strict=True):
            screen.labelled(name, printable(value), label_width=width)
    screen.line()


def _write_verdicts(comparison: Comparison, screen: Screen) -> None:
    width = max(len(verdict.allocator) for verdict in comparison.verdicts)
    for verdict, run in zip(comparison.verdicts, comparison.runs, strict=True):
        word = "clean " if verdict.clean else "faulty"
        style = "green" if verdict.clean else "bold red"
        text = printable(verdict.text)
        name = verdict.allocator.ljust(width)
        screen.line((name, "bold"), "  ", (word, style), f"  {pools_total(run)}")
        if text and text != word.strip():
            screen.labelled("", text, indent=width, label_width=9)
