"""Everything after one event, for people: a map of each pool, lists, mapping, group, rows.

    full pool  free 3 + live 1 = 4 pages; 12 of 16 tokens available
          1  A...

One sign a page, ten to a group. Rows of the map that hold one sign only are folded; on a screen
a pool that would still fill more than a page of it is drawn at a smaller scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.text import Text

from swasim.geometry import number_runs
from swasim.inspect.records import CellRun, Owner, PoolView, RowSummary, StateView
from swasim.reporters import Look
from swasim.reporters.runs import run_text, runs_text, write_columns
from swasim.reporters.screen import SEVERITY_STYLE, Screen, plain_table
from swasim.reporters.wording import counted, moment_text, pool_name, printable

GROUP = 10
"""Signs between two gaps of the map."""
LABEL = 11
"""Columns before the map."""
LEGEND_INDENT = 2
MAP_LINES = 16
"""Lines of a map on a screen, before it is drawn at a smaller scale."""
LIST_RUNS = 18
LEGEND_LINES = 16
MAPPING_LINES = 10
ROWS_SHOWN = 20

FOLDED = "  x "
"""Between the sign and the number of a folded stretch of the map."""
MIXED = ":"
SHARED = "#"


def write_state(view: StateView, screen: Screen, look: Look) -> None:
    """Write the moment; on a screen long lists are shortened unless verbose."""
    shorten = not (look.whole_rows or look.verbose)
    _write_head(view, screen)
    signs: set[str] = set()
    for pool in (view.full, view.swa):
        screen.line()
        _write_pool(pool, view.owners, screen, shorten=shorten, signs=signs)
    _write_legend(view, signs, screen, shorten=shorten)
    _write_mapping(view, screen, shorten=shorten)
    _write_group(view, screen, shorten=shorten)
    _write_rows(view.rows, screen, shorten=shorten)


def _write_head(view: StateView, screen: Screen) -> None:
    if view.at.event == 0:
        screen.line(("before the first event", "bold"))
        return
    result = "" if view.result in ("", "ok") else f": {view.result}"
    about = printable(view.detail.removeprefix(f"{view.at.req} "))
    detail = f", {about}" if about else ""
    screen.line(("after ", "bold"), (moment_text(view.at), "bold"), f"{detail}{result}")
    for finding in view.findings:
        tag = f"{finding.severity}[{finding.kind}]"
        late = "" if finding.at.event == view.at.event else f" (event {finding.at.event})"
        style = SEVERITY_STYLE[finding.severity]
        screen.headline(("  ", ""), (tag, style), printable(finding.headline) + late)


# --- pools ---------------------------------------------------------------------------------------


def _write_pool(
    pool: PoolView, owners: Sequence[Owner], screen: Screen, *, shorten: bool, signs: set[str]
) -> None:
    name = f"{pool_name(pool.pool)} pool".ljust(LABEL)
    over = pool.available_tokens - pool.size_tokens
    terms = equation(pool)
    tokens = f"{pool.available_tokens} of {counted(pool.size_tokens, 'token')} available"
    excess = (f", {over} too many" if over > 0 else "", "bold red")
    if LABEL + len(f"{terms}; {tokens}{excess[0]}") <= screen.width:
        screen.line((name, "bold"), f"{terms}; {tokens}", excess)
    else:
        screen.line((name, "bold"), terms)
        screen.line(" " * LABEL, tokens, excess)
    grid = _grid(pool, owners, screen.width, shorten=shorten)
    signs |= grid.signs
    if grid.scale > 1:
        note = f"one sign for {grid.scale} pages (--verbose, or a pipe: one for each)"
        screen.line(" " * LABEL, (note, "dim"))
    for label, cells in grid.lines:
        screen.line((f"{label:>{LABEL - 2}}  ", "dim"), _colored(cells))
    if pool.cells and pool.cells[0].first == 0:
        screen.line(" " * LABEL, ("page 0, padding, is in the free list", "bold red"))
    for label, pages in (("free list", pool.free), ("staged", pool.staged)):
        if not pages and label == "staged":
            continue
        listed = runs_text(number_runs(pages), LIST_RUNS if shorten else None) or "empty"
        text = f"{listed} ({counted(len(pages), 'page')}, in order)" if pages else listed
        screen.labelled(label, text, indent=0, label_width=LABEL - 1)


def equation(pool: PoolView) -> str:
    """The terms and what they add up to: `free 3 + live 1 = 4 pages`."""
    terms = f"free {pool.free_pages} + live {pool.live_pages}"
    if pool.pending_pages:
        terms += f" + pending {pool.pending_pages}"
    if pool.lost_pages > 0:
        terms += f" + lost {pool.lost_pages}"
    if pool.lost_pages < 0:
        counted_pages = pool.size_pages - pool.lost_pages
        return f"{terms} = {counted_pages} of {pool.size_pages} pages, {-pool.lost_pages} too many"
    return f"{terms} = {counted(pool.size_pages, 'page')}"


def _colored(cells: str) -> Text:
    """A line of the map; its words, where it is folded, stay plain."""
    signs, folded, words = cells.partition(FOLDED)
    text = Text()
    for style, run in groupby(signs, _style):
        text.append("".join(run), style=style)
    return text.append(folded + words)


def _style(sign: str) -> str:
    if sign in "?!" or sign.isdigit():
        return "bold red"
    return "dim" if sign == "." else ""


@dataclass(frozen=True, slots=True)
class Grid:
    """The map of a pool as text.

    Attributes:
        lines: page of the first sign (or first and last page of a folded stretch), and signs.
        scale: pages that one sign stands for.
        signs: those that occur.
    """

    lines: tuple[tuple[str, str], ...]
    scale: int
    signs: frozenset[str]


def _grid(pool: PoolView, owners: Sequence[Owner], width: int, *, shorten: bool) -> Grid:
    signs = [(run, _sign(run, owners)) for run in pool.cells if run.first > 0]
    per_line = _per_line(width)
    scale = 1
    shown: Signs = signs
    lines = list(_lines(shown, per_line))
    while shorten and len(lines) > MAP_LINES and scale < pool.size_pages:
        scale *= 2
        shown = _scaled(signs, scale)
        lines = list(_lines(shown, per_line))
    if scale > 1:
        lines = [(_scaled_label(label, scale, pool.size_pages), cells) for label, cells in lines]
    return Grid(tuple(lines), scale, frozenset(sign for _, sign in shown))


def _per_line(width: int) -> int:
    """Pages in a line: a round number, so that they can be counted off."""
    for pages in (100, 50, 30, 20):
        if width < 1000 and LABEL + pages + pages // GROUP - 1 <= width:
            return pages
    return 50 if width >= 1000 else GROUP


Signs = Sequence[tuple[CellRun, str]]


def _sign(run: CellRun, owners: Sequence[Owner]) -> str:
    if run.state == "free":
        return "." if run.copies == 1 else str(min(run.copies, 9))
    if run.state == "lost":
        return "?"
    if run.copies:
        return "!"
    letter = "*" if run.owner is None else owners[run.owner].letter
    if run.state == "pending":
        return letter.lower() if letter.isalpha() else "+"
    return letter


def _lines(signs: Signs, per_line: int) -> Iterator[tuple[str, str]]:
    """Lines of the map; two or more whole lines of one sign become one."""
    cells = ""
    first = 1
    for run, sign in signs:
        count = run.last - run.first + 1
        if cells:
            fill = min(per_line - len(cells), count)
            cells += sign * fill
            count -= fill
            if len(cells) == per_line:
                yield str(first), _grouped(cells)
                first += per_line
                cells = ""
        whole = count // per_line
        if whole > 1:
            last = first + whole * per_line - 1
            yield f"{first}-{last}", f"{sign * 3}{FOLDED}{whole * per_line}"
        elif whole == 1:
            yield str(first), _grouped(sign * per_line)
        first += whole * per_line
        count -= whole * per_line
        cells += sign * count
    if cells:
        yield str(first), _grouped(cells)


def _grouped(cells: str) -> str:
    return " ".join(cells[at : at + GROUP] for at in range(0, len(cells), GROUP))


def _scaled(signs: Signs, scale: int) -> Signs:
    """One sign for `scale` pages: theirs if they agree, else what is wrong, else how mixed."""
    merged: list[tuple[CellRun, str]] = []
    last = signs[-1][0].last if signs else 0
    at = 0
    for cell in range(-(-last // scale)):
        start, end = cell * scale + 1, min((cell + 1) * scale, last)
        inside: set[str] = set()
        while signs[at][0].last < start:
            at += 1
        look = at
        while look < len(signs) and signs[look][0].first <= end:
            inside.add(signs[look][1])
            look += 1
        sign = _summary_sign(inside)
        page = cell + 1
        if merged and merged[-1][1] == sign:
            run = merged[-1][0]
            merged[-1] = (CellRun(run.first, page, run.state, run.owner, run.copies), sign)
        else:
            merged.append((CellRun(page, page, "free", None, 1), sign))
    return merged


def _summary_sign(inside: set[str]) -> str:
    if len(inside) == 1:
        return next(iter(inside))
    wrong = sorted(sign for sign in inside if sign in "?!" or sign.isdigit())
    if wrong:
        return wrong[0]
    return MIXED if "." in inside else SHARED


def _scaled_label(label: str, scale: int, pages: int) -> str:
    first, _, last = label.partition("-")
    start = str((int(first) - 1) * scale + 1)
    return f"{start}-{min(int(last) * scale, pages)}" if last else start


# --- legend, mapping, group, rows ----------------------------------------------------------------


def _write_legend(view: StateView, signs: set[str], screen: Screen, *, shorten: bool) -> None:
    screen.line()
    lettered = [owner for owner in view.owners if owner.letter != "*"]
    items = [f"{owner.letter} {printable(owner.text)} ({_holds(owner)})" for owner in lettered]
    write_columns(
        items,
        screen,
        indent=LEGEND_INDENT,
        most_lines=LEGEND_LINES if shorten else None,
        more="and {} more owners (--verbose)",
    )
    others = [owner for owner in view.owners if owner.letter == "*"]
    if others:
        full = sum(owner.full_pages for owner in others)
        swa = sum(owner.swa_pages for owner in others)
        text = f"* {counted(len(others), 'more owner')} ({full} full, {swa} SWA)"
        screen.line(" " * LEGEND_INDENT, text)
    meanings = (
        (".", ". free"),
        ("23456789", "2 to 9: that often in the free list"),
        ("!", "! owned and in the free list"),
        ("?", "? neither owned nor free"),
        (MIXED, f"{MIXED} some owned, some free"),
        (SHARED, f"{SHARED} several owners"),
    )
    told = [text for some, text in meanings if signs & set(some)]
    if any(sign.islower() for sign in signs):
        told.append("small letter: release pending")
    if "+" in signs:
        told.append("+ release pending, owner without letter")
    if told:
        screen.labelled("", "; ".join(told), indent=0, label_width=LEGEND_INDENT - 1)


def _holds(owner: Owner) -> str:
    parts = [(owner.full_pages, "full"), (owner.swa_pages, "SWA")]
    return ", ".join(f"{count} {pool}" for count, pool in parts if count)


def _write_mapping(view: StateView, screen: Screen, *, shorten: bool) -> None:
    screen.line()
    entries = sum(run.full[1] - run.full[0] + 1 for run in view.mapping)
    noun = "entry" if entries == 1 else "entries"
    text = f"{entries} {noun}: full slots -> SWA slots" if entries else "no entries"
    screen.line(("mapping".ljust(LABEL), "bold"), text)
    items = [
        f"{run_text(run.full)} -> {run_text(run.swa)}" + (" stale" if run.stale else "")
        for run in view.mapping
    ]
    write_columns(
        items,
        screen,
        indent=LABEL,
        most_lines=MAPPING_LINES if shorten else None,
        more="and {} more runs (--verbose)",
    )
    if any(run.stale for run in view.mapping):
        screen.labelled(
            "",
            "stale: the SWA page was released, the entry stayed",
            indent=0,
            label_width=LABEL - 1,
        )


def _write_group(view: StateView, screen: Screen, *, shorten: bool) -> None:
    group = view.group
    if group is None:
        return
    screen.line()
    waiting = "nothing is queued" if not group.pending else f"{len(group.pending)} pages queued"
    screen.line(
        ("free group".ljust(LABEL), "bold"), f"open since {moment_text(group.opened)}; {waiting}"
    )
    items = [
        f"{pool_name(page.pool)} {page.page} by "
        + ", ".join(moment_text(moment, with_line=False) for moment in page.asked)
        for page in group.pending
    ]
    write_columns(
        items,
        screen,
        indent=LABEL,
        most_lines=MAPPING_LINES if shorten else None,
        more="and {} more (--verbose)",
    )


def _write_rows(rows: Sequence[RowSummary], screen: Screen, *, shorten: bool) -> None:
    if not rows:
        return
    screen.line()
    table = plain_table()
    table.add_column("row", overflow="fold")
    for heading in ("tokens", "full pages", "with SWA peer", "released by it"):
        table.add_column(heading, justify="right", no_wrap=True)
    windowed = any(row.reads_back_to is not None for row in rows)
    if windowed:
        table.add_column("window from", justify="right", no_wrap=True)
    shown = rows[:ROWS_SHOWN] if shorten else rows
    for row in shown:
        window = [] if row.reads_back_to is None else [str(row.reads_back_to)]
        table.add_row(
            f"req {printable(row.req)}",
            str(row.length),
            str(row.full_pages),
            str(row.mapped_tokens),
            str(row.unheld_tokens or ""),
            *window,
        )
    screen.show(table)
    if len(shown) < len(rows):
        screen.line((f"and {len(rows) - len(shown)} more rows (--verbose)", "dim"))
