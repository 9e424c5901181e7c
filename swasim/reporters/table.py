"""The format for people: free-space table, findings, one summary line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from rich.table import Table
from rich.text import Text

from swasim.reporters import Look
from swasim.reporters.block import write_findings, write_short
from swasim.reporters.screen import Screen, plain_table
from swasim.reporters.wording import (
    counted,
    findings_total,
    pools_total,
    printable,
    summary_line,
)

if TYPE_CHECKING:
    from swasim.compare import CompareCell, CompareRow, Comparison, Divergence
    from swasim.config import SimConfig
    from swasim.replay import Replay
    from swasim.timeline import TimelineRow


def write_replay(replay: Replay, out: TextIO, look: Look) -> None:
    """Write the replay; with `look.quiet` without the free-space table."""
    screen = Screen(out, look)
    if not look.quiet:
        screen.line((printable(replay.trace), "bold"), f" on {replay.allocator}")
        screen.line(_sizes(replay.config), "\n")
        if replay.timeline:
            screen.show(_timeline(replay))
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
        screen.show(_side_by_side(comparison, names))
        screen.line()
        _write_divergence(comparison.first_divergence, names, screen)
    _write_verdicts(comparison, screen)
    for run in comparison.runs:
        if run.findings:
            screen.line()
            screen.line((run.allocator, "bold"), f": {findings_total(run)}")
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


def _timeline(replay: Replay) -> Table:
    table = plain_table()
    table.add_column("event", justify="right", no_wrap=True)
    table.add_column("line", justify="right", no_wrap=True)
    table.add_column("op", overflow="fold")
    table.add_column("what", overflow="fold")
    table.add_column(f"full\nof {replay.config.kv_size}", justify="right", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column(f"SWA\nof {replay.config.kv_size_swa}", justify="right", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("result", overflow="fold")
    before = 0
    for row in replay.timeline:
        _skip(table, row.event - before - 1)
        table.add_row(*_timeline_cells(row, replay.config))
        before = row.event
    _skip(table, replay.summary.events - before)
    return table


def _skip(table: Table, events: int) -> None:
    if events > 0:
        table.add_row("...", "", Text(f"{events} not shown", style="dim"))


def _timeline_cells(row: TimelineRow, config: SimConfig) -> list[Text | str]:
    return [
        str(row.event),
        Text(str(row.line), style="dim"),
        row.op,
        printable(row.detail),
        _available(row.full_available, config.kv_size),
        _change(row.full_change),
        _available(row.swa_available, config.kv_size_swa),
        _change(row.swa_change),
        _result(row.result, row.kinds, when_ok="ok"),
    ]


def _available(tokens: int, size_tokens: int) -> Text:
    return Text(str(tokens), style="bold red" if tokens > size_tokens else "")


def _change(tokens: int) -> Text:
    return Text(f"{tokens:+}" if tokens else "", style="dim")


def _result(result: str, kinds: Sequence[str], *, when_ok: str = "") -> Text:
    """Refusal or exception, then the kinds found, repeats counted: `refused, double-free x3`."""
    plain = result in ("ok", "")
    if plain and not kinds:
        return Text(when_ok if result else "", style="dim")
    parts = [] if plain else [(result, "yellow")]
    for kind in dict.fromkeys(kinds):
        number = kinds.count(kind)
        parts.append((kind if number == 1 else f"{kind} x{number}", "red"))
    return Text(", ").join([Text(text, style=style) for text, style in parts])


# --- side by side --------------------------------------------------------------------------------


def _side_by_side(comparison: Comparison, names: Sequence[str]) -> Table:
    table = plain_table()
    table.add_column("event", justify="right", no_wrap=True)
    table.add_column("line", justify="right", no_wrap=True)
    table.add_column("op", overflow="fold")
    table.add_column("what", overflow="fold")
    digits = _digits(comparison.rows)
    for name in names:
        head = f"{'full':>{digits}} {'SWA':>{digits}} result"
        table.add_column(f"{name}\n{head}", overflow="fold")
    before = 0
    for row in comparison.rows:
        _skip(table, row.event - before - 1)
        table.add_row(*_row_cells(row, comparison, digits))
        before = row.event
    _skip(table, comparison.runs[0].summary.events - before)
    return table


def _digits(rows: Sequence[CompareRow]) -> int:
    """Columns that the widest number of tokens needs, at least those of the word `full`."""
    numbers = [n for row in rows for c in row.cells for n in (c.full_available, c.swa_available)]
    return max([4, *(len(str(number)) for number in numbers)])


def _row_cells(row: CompareRow, comparison: Comparison, digits: int) -> list[Text | str]:
    parted = comparison.first_divergence
    parts_here = parted is not None and parted.event == row.event
    cells: list[Text | str] = [
        Text(f"> {row.event}", style="bold") if parts_here else str(row.event),
        Text(str(row.line), style="dim"),
        row.op,
        printable(row.detail),
    ]
    sides = zip(row.cells, comparison.runs, strict=True)
    return cells + [_side(cell, run.config, digits) for cell, run in sides]


def _side(cell: CompareCell, config: SimConfig, digits: int) -> Text:
    text = Text()
    text.append(f"{cell.full_available:>{digits}} ", _over(cell.full_available, config.kv_size))
    text.append(f"{cell.swa_available:>{digits}} ", _over(cell.swa_available, config.kv_size_swa))
    return text.append_text(_result(cell.result, cell.kinds))


def _over(tokens: int, size_tokens: int) -> str:
    return "bold red" if tokens > size_tokens else ""


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
        if text:
            screen.labelled("", text, indent=width, label_width=9)
