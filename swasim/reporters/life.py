"""The life of a page or slot for people: one row an event, findings where they happened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from swasim.inspect.records import Act, LifeEvent, PageLife, PageNow, Span
from swasim.reporters.runs import run_text, runs_text
from swasim.reporters.screen import SEVERITY_STYLE, Screen, plain_table
from swasim.reporters.wording import counted, pool_name, printable
from swasim.sanitizer.findings import Finding, Moment

SPANS_SHOWN = 3
RUNS_SHOWN = 6
WIDE_COLUMNS = 120
"""From here on site and time have columns of their own."""
SIDE_COLUMNS = 18
"""Columns for the operation and for the state, on a narrower screen."""
IMPLIED_BY = {"joined": "taken", "left": "released"}
"""What rows do with a page goes without saying where the page itself comes or goes."""


def write_life(life: PageLife, page_size: int, screen: Screen) -> None:
    """Write what happened to a page or slot, in order, and how it is at the end."""
    screen.line((_title(life, page_size), "bold"))
    if life.events or life.findings:
        wide = screen.row_width >= WIDE_COLUMNS
        table = _table(life, wide=wide)
        for row in _rows(life, page_size, wide=wide):
            table.add_row(*row)
        screen.show(table)
    else:
        screen.line("no event of the trace touches it")
    number = f"after event {life.last.event}" if life.last.event else "before the first event"
    end = f"{number}: {now_text(life, life.end, page_size)}"
    totals = f" ({_totals(life)})" if life.events else ""
    screen.labelled("at the end", end + totals, indent=0, label_width=10)


def _title(life: PageLife, page_size: int) -> str:
    pool = pool_name(life.pool)
    if life.slot is not None:
        return f"{pool} slot {life.slot}: offset {life.slot % page_size} of {pool} page {life.page}"
    slots = runs_text([life.slots])
    noun = "slot" if page_size == 1 else "slots"
    padding = ", padding" if life.page == 0 else ""
    return f"{pool} page {life.page} of {life.pages}: {noun} {slots}{padding}"


def _totals(life: PageLife) -> str:
    times = {1: "once", 2: "twice"}.get(life.times_taken, f"{life.times_taken} times")
    taken = "never taken" if not life.times_taken else f"taken {times}"
    return taken + (f", {counted(len(life.findings), 'finding')}" if life.findings else "")


def _table(life: PageLife, *, wide: bool) -> Table:
    table = plain_table()
    table.add_column("event", justify="right", no_wrap=True)
    table.add_column("line", justify="right", no_wrap=True, style="dim")
    narrow = None if wide else SIDE_COLUMNS
    table.add_column("op", overflow="fold", max_width=narrow)
    moments = [event.first for event in life.events]
    if wide and any(moment.t is not None for moment in moments):
        table.add_column("t", justify="right", no_wrap=True)
    if wide and any(moment.site for moment in moments):
        table.add_column("site", overflow="fold")
    table.add_column("what happened", overflow="fold")
    table.add_column("then", overflow="fold", max_width=narrow)
    return table


def _rows(life: PageLife, page_size: int, *, wide: bool) -> Iterator[list[Text | str]]:
    """Events and findings, merged in order."""
    moments = [event.first for event in life.events]
    extra = [
        *([_time] if wide and any(moment.t is not None for moment in moments) else []),
        *([_site] if wide and any(moment.site for moment in moments) else []),
    ]
    findings = list(life.findings)
    taken = 0
    for at, event in enumerate(life.events):
        yield [
            run_text((event.first.event, event.last.event)),
            run_text((event.first.line, event.last.line)),
            _op(event),
            *[column(event.first) for column in extra],
            "; ".join(_acts(life, event.acts, page_size, taken))
            + ("" if wide else _place(event.first)),
            now_text(life, event.after, page_size),
        ]
        taken += sum(act.times for act in event.acts if act.what == "taken")
        following = life.events[at + 1].first.event if at + 1 < len(life.events) else None
        while findings and (following is None or findings[0].at.event < following):
            yield _finding_row(findings.pop(0), event.last.event, len(extra))
    for finding in findings:
        yield _finding_row(finding, 0, len(extra))


def _finding_row(finding: Finding, event_above: int, extra: int) -> list[Text | str]:
    """A finding below its event; with the number where the event itself is not a row."""
    elsewhere = finding.at.event != event_above
    tag = Text(f"{finding.severity}[{finding.kind}]", style=SEVERITY_STYLE[finding.severity])
    return [
        str(finding.at.event) if elsewhere else "",
        str(finding.at.line) if elsewhere else "",
        finding.at.op if elsewhere else "",
        *[""] * extra,
        Text.assemble(tag, f" {printable(finding.headline)}"),
        "",
    ]


def _time(moment: Moment) -> str:
    return "" if moment.t is None else f"{moment.t:.3f}"


def _site(moment: Moment) -> str:
    return printable(moment.site)


def _place(moment: Moment) -> str:
    """Site and time, where there is no room for columns of their own."""
    time = "" if moment.t is None else f"t {moment.t:.3f} s"
    place = ", ".join(part for part in (_site(moment), time) if part)
    return f" ({place})" if place else ""


def _op(event: LifeEvent) -> str:
    text = ", ".join(event.ops)
    if event.steps > 1:
        text = f"{event.steps} {text}"
    elif event.first.req and ", " not in event.first.req:
        text += f" req {printable(event.first.req)}"
    return text


def _acts(life: PageLife, acts: Sequence[Act], page_size: int, taken: int) -> Iterator[str]:
    by_what = {act.what: act for act in acts}
    for act in acts:
        mapped = by_what.get("mapped")
        if act.what == "filled" and mapped is not None and mapped.slots == act.slots:
            yield f"{_slots(act)} handed out, mapped to {_others(life, mapped, page_size)}"
        elif (
            act.what == "mapped" and "filled" in by_what and by_what["filled"].slots == act.slots
        ) or IMPLIED_BY.get(act.what) in by_what:
            continue
        elif act.what == "taken":
            yield ("taken again" if taken else "taken") + _times(act)
        else:
            yield _act(life, act, page_size)


def _act(life: PageLife, act: Act, page_size: int) -> str:
    swa = life.pool == "swa"
    if act.what == "filled":
        return f"{_slots(act)} handed out"
    if act.what == "mapped":
        others = _others(life, act, page_size)
        return f"{others} mapped to {_slots(act)}" if swa else f"{_slots(act)} mapped to {others}"
    if act.what == "unmapped":
        others = _others(life, act, page_size)
        return f"{others} unmapped from it" if swa else f"{_slots(act)} unmapped from {others}"
    if act.what in ("joined", "left"):
        reqs = ", ".join(printable(req) for req in act.reqs)
        return f"named by req {reqs}" if act.what == "joined" else f"no longer named by req {reqs}"
    if act.what == "peer-released":
        return f"its peer, SWA page {runs_text(act.others)}, is released"
    if act.what == "named":
        times = f" {act.times} times" if act.times > 1 else ""
        return f"{_slots(act)} named{times}, without effect"
    if act.what == "queued":
        return "release queued in the free group" + _times(act)
    words = {
        "released": "released",
        "lost": "lost: nobody owns it, and it is not free",
        "cleared": "all pages become free",
    }
    return words[act.what] + _times(act)


def _times(act: Act) -> str:
    return "" if act.times == 1 else f" {act.times} times at once"


def _slots(act: Act) -> str:
    one = len(act.slots) == 1 and act.slots[0][0] == act.slots[0][1]
    return f"{'slot' if one else 'slots'} {runs_text(act.slots, RUNS_SHOWN)}"


def _others(life: PageLife, act: Act, page_size: int) -> str:
    """Slots of the other pool, with their page where they have one page only."""
    pool = "full" if life.pool == "swa" else "SWA"
    pages = {slot // page_size for run in act.others for slot in run}
    page = f" (page {pages.pop()})" if len(pages) == 1 and page_size > 1 else ""
    return f"{pool} {runs_text(act.others, RUNS_SHOWN)}{page}"


def now_text(life: PageLife, now: PageNow, page_size: int) -> str:
    """A page at one moment, in a few words."""
    return ", ".join([_state_text(now), *_details(life, now, page_size)])


def _state_text(now: PageNow) -> str:
    if now.state == "free":
        return "free" if now.copies == 1 else f"free, {now.copies} times in the free list"
    if now.state == "padding":
        return "padding" + (", in the free list" if now.copies else "")
    if now.state == "lost":
        return "lost"
    text = "live" if now.state == "live" else "release pending"
    return text + (", in the free list too" if now.copies else "")


def _details(life: PageLife, now: PageNow, page_size: int) -> Iterator[str]:
    owned = now.state in ("live", "pending")
    if owned and life.slot is None and page_size > 1 and now.filled < page_size:
        yield f"{now.filled} of {page_size} slots"
    valid = [span for span in now.rows if span.valid]
    others = [span for span in now.rows if not span.valid]
    if valid:
        yield f"req {_spans(valid)}"
    if others and life.pool == "full":
        yield f"named still by req {_spans(others)}"
    sound = [str(peer.page) for peer in now.peers if peer.entries > peer.stale]
    stale = [(peer.page, peer.stale) for peer in now.peers if peer.stale]
    if life.pool == "full":
        if sound:
            yield f"peer SWA {', '.join(sound)}"
        elif owned:
            yield "no peer"
    elif sound:
        yield f"peer of full {', '.join(sound)}"
    for page, entries in stale:
        side = "to SWA" if life.pool == "full" else "from full"
        noun = "entry" if entries == 1 else "entries"
        yield f"{entries} stale {noun} {side} {page}"


def _spans(spans: Sequence[Span]) -> str:
    shown = [
        f"{printable(span.req)} {runs_text([(span.first, span.last)])}"
        for span in spans[:SPANS_SHOWN]
    ]
    more = len(spans) - len(shown)
    return ", ".join(shown) + (f" (+{more} more)" if more else "")
