"""A finished search for the shortest trace, as text or JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TextIO

from swasim import __version__
from swasim.reporters import SCHEMA, Look
from swasim.reporters.screen import Screen, plain_table
from swasim.reporters.wording import counted, printable

if TYPE_CHECKING:
    from swasim.minimize import Minimized, Progress

LINES_SHOWN = 40


def progress_line(now: Progress) -> str:
    """How far a search is, on one line."""
    replays = f", {counted(now.replays, 'replay')}" if now.replays else ""
    return f"{now.doing}: {now.events} of {counted(now.events_before, 'event')}{replays}"


def write(result: Minimized, out: TextIO, look: Look, written: str, format: str) -> None:
    """Write the report in one of `DIGEST_FORMATS`; `written` is where the trace went."""
    if format == "json":
        json.dump(document(result, written), out, indent=2)
        out.write("\n")
    elif format == "concise":
        out.write(f"{printable(written)}: {summary(result)}\n")
    else:
        _table(result, out, look, written)


def summary(result: Minimized) -> str:
    """One line: what was kept, and how much of the trace."""
    what = str(result.target) if result.target is not None else "interesting to the judge"
    end = "" if not result.stopped else f" (stopped: {result.stopped}, not minimal)"
    return f"{what}: {result.events_before} -> {counted(len(result.events), 'event')}{end}"


def document(result: Minimized, written: str) -> dict[str, object]:
    """Everything that the report says, as plain values."""
    target, config = result.target, result.config
    return {
        "swasim": __version__,
        "schema": SCHEMA,
        "trace": result.trace,
        "written": written,
        "kept": None
        if target is None
        else {"kind": target.kind, "pool": target.pool, "cause_kind": target.cause_kind},
        "by_caller": result.by_caller,
        "allocator": config.allocator,
        "page_size": config.page_size,
        "kv_size": config.kv_size,
        "kv_size_swa": config.kv_size_swa,
        "sliding_window_size": config.sliding_window_size,
        "events_before": result.events_before,
        "events_after": len(result.events),
        "slice": {"name": result.slice_name, "events": result.slice_events},
        "replays": result.replays,
        "passes": [
            {"name": step.name, "taken": step.times, "events": step.events}
            for step in result.helped
        ],
        "seconds": round(result.seconds, 3),
        "replay_seconds": round(result.record_seconds, 3),
        "minimal": not result.stopped,
        "stopped": result.stopped or None,
        "seed": result.seed,
        "events": [json.loads(line) for line in result.lines],
    }


def _table(result: Minimized, out: TextIO, look: Look, written: str) -> None:
    screen = Screen(out, look)
    screen.line((summary(result), "bold"))
    if result.finding is not None:
        screen.labelled("finding", printable(result.finding.headline))
        blame = (
            "the caller: the ideal allocator shows it too"
            if result.by_caller
            else f"the allocator {result.config.allocator}: the ideal one is clean on this trace"
        )
        screen.labelled("to blame", blame)
    if not look.quiet:
        _how(result, screen)
        screen.line()
        shown = result.lines if look.verbose else result.lines[:LINES_SHOWN]
        for line in shown:
            screen.line("  ", line)
        if len(result.lines) > len(shown):
            more = len(result.lines) - len(shown)
            screen.line(f"  ... {more} more lines (--verbose shows them)")
        screen.line()
    screen.labelled("written", printable(written))
    if written.endswith(".jsonl"):
        screen.line("  ", ("go on    ", "dim"), " ", printable(result.command(written)))
    screen.flush()


def _how(result: Minimized, screen: Screen) -> None:
    screen.labelled(
        "slice", f"{result.slice_name}: {counted(result.slice_events, 'event')} at first"
    )
    screen.labelled(
        "effort",
        f"the trace once and {counted(result.replays, 'candidate')}, {result.seconds:.1f} s, "
        f"{result.record_seconds:.1f} s of it for the trace",
    )
    if not result.helped:
        return
    table = plain_table()
    for heading, side in (("pass", "left"), ("taken", "right"), ("events", "right")):
        table.add_column(heading, justify="right" if side == "right" else "left")
    for step in result.helped:
        table.add_row(step.name, str(step.times), f"-{step.events}" if step.events else "")
    screen.line()
    screen.show(table)
