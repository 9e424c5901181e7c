"""One request for people: its row page by page, then what concerned it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from swasim.inspect.records import RowEvent, RowPiece, RowView
from swasim.reporters import Look
from swasim.reporters.runs import run_text
from swasim.reporters.screen import SEVERITY_STYLE, Screen, plain_table
from swasim.reporters.wording import counted, moment_text, printable

PIECES_SHOWN = 40
EVENTS_SHOWN = 40


def write_row(view: RowView, screen: Screen, look: Look) -> None:
    """Write the row and its events; on a screen the middle of very long ones is left out."""
    shorten = not (look.whole_rows or look.verbose)
    name = f"req {printable(view.req)}"
    if view.ended is None:
        screen.line((name, "bold"), f" {_when(view)}, the last of the trace")
    else:
        screen.line((name, "bold"), f" {_when(view)}, just before it ended")
        screen.labelled("ended", moment_text(view.ended), indent=0)
    screen.prose(_size(view))
    screen.line()
    if view.pieces:
        screen.show(_pieces_table(view, PIECES_SHOWN if shorten else None))
        screen.line()
    screen.line(("what concerned it", "bold"))
    screen.show(_events_table(view, EVENTS_SHOWN if shorten else None))


def _when(view: RowView) -> str:
    return f"after event {view.at.event} (line {view.at.line})"


def _size(view: RowView) -> str:
    pages = len({piece.full_page for piece in view.pieces})
    text = f"{counted(view.length, 'token')} on {counted(pages, 'full page')}"
    if view.window_tokens is None:
        return f"{text}; no sliding_window_size is known"
    return (
        f"{text}; window {view.window_tokens}: the next step reads SWA peers"
        f" from position {view.reads_back_to} on"
    )


def _pieces_table(view: RowView, most: int | None) -> Table:
    table = plain_table()
    table.add_column("positions", justify="right", no_wrap=True)
    for heading in ("full", "slots", "SWA", "slots"):
        table.add_column(heading, justify="right", no_wrap=True)
    windowed = view.reads_back_to is not None
    if windowed:
        table.add_column("window", no_wrap=True)
    table.add_column("given at", justify="right", no_wrap=True)
    table.add_column("state", overflow="fold")
    shown, hidden_after, hidden = _middle_cut(view.pieces, most)
    for at, piece in enumerate(shown):
        if hidden and at == hidden_after:
            blank = [""] * (6 if windowed else 5)
            table.add_row("...", *blank, Text(f"{hidden} pieces not shown (-v)", style="dim"))
        inside = view.reads_back_to is not None and piece.last >= view.reads_back_to
        table.add_row(
            run_text((piece.first, piece.last)),
            str(piece.full_page),
            run_text(piece.full_slots),
            "-" if piece.swa_page is None else str(piece.swa_page),
            "-" if piece.swa_slots is None else run_text(piece.swa_slots),
            *(["inside" if inside else ""] if windowed else []),
            str(piece.given),
            _state(piece, inside=inside),
        )
    return table


def _middle_cut(items: Sequence[RowPiece], most: int | None) -> tuple[Sequence[RowPiece], int, int]:
    """What is shown, the place of the cut, and how many are left out there."""
    if most is None or len(items) <= most:
        return items, 0, 0
    head = most // 4
    tail = most - head
    return (*items[:head], *items[-tail:]), head, len(items) - most


def _state(piece: RowPiece, *, inside: bool) -> Text:
    """Only what is not as usual is coloured."""
    since = "" if piece.since is None else f" by {moment_text(piece.since)}"
    words = {
        "valid": ("valid", ""),
        "pending": (f"release queued{since}", "yellow"),
        "released": (f"released{since}", "" if not piece.held else "bold red"),
        "reused": (f"has a new owner{since}", "" if not piece.held else "bold red"),
        "lost": ("lost: nobody owns it, and it is not free", "bold red"),
    }
    text = Text.assemble(words[piece.page])
    if piece.peer == "unmapped" and piece.page == "valid" and inside:
        text.append(", no SWA peer inside the window", style="bold red")
    elif piece.peer == "stale":
        text.append(", stale entry: the SWA page was released", style="bold red")
    elif piece.peer == "lost":
        text.append(", its SWA page is owned by nobody", style="bold red")
    if not piece.held:
        text.append(", released by this request")
    return text


def _events_table(view: RowView, most: int | None) -> Table:
    table = plain_table()
    table.add_column("event", justify="right", no_wrap=True)
    table.add_column("line", justify="right", no_wrap=True, style="dim")
    table.add_column("op", overflow="fold", min_width=12)
    with_site = any(event.first.site for event in view.events)
    if with_site:
        table.add_column("site", overflow="fold")
    table.add_column("what", overflow="fold")
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("result", overflow="fold")
    rows = list(_event_rows(view, with_site=with_site))
    if most is not None and len(rows) > most:
        head = most // 2
        note = [".."] + [""] * (len(table.columns) - 2) + [f"{len(rows) - most} rows not shown"]
        rows = [*rows[:head], list(note), *rows[-(most - head) :]]
    for row in rows:
        table.add_row(*row)
    return table


def _event_rows(view: RowView, *, with_site: bool) -> Iterator[list[Text | str]]:
    findings = list(view.findings)
    for event in view.events:
        yield [
            run_text((event.first.event, event.last.event)),
            run_text((event.first.line, event.last.line)),
            _op(event),
            *([printable(event.first.site)] if with_site else []),
            printable(event.detail),
            str(event.length),
            event.result,
        ]
        while findings and findings[0].at.event <= event.last.event:
            finding = findings.pop(0)
            tag = f"{finding.severity}[{finding.kind}]"
            yield [
                "",
                "",
                "",
                *([""] if with_site else []),
                Text.assemble((tag, SEVERITY_STYLE[finding.severity]), f" {finding.headline}"),
                "",
                "",
            ]


def _op(event: RowEvent) -> str:
    return event.first.op if event.steps == 1 else f"{event.steps} {event.first.op}"
