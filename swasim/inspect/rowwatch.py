"""One request: what concerned it, written down while a trace is replayed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from swasim.errors import LONGEST_NAME, UsageError, nearest
from swasim.inspect.look import reads_back_to
from swasim.inspect.records import RowEvent, RowView
from swasim.inspect.row import pieces
from swasim.replayer import Replayer, Step
from swasim.sanitizer.findings import Finding, Moment
from swasim.sanitizer.scene import moment_of
from swasim.timeline import detail_of
from swasim.trace import events as ev
from swasim.trace.events import Entry, ReqName
from swasim.trace.rows import Row

NAMES_SHOWN = 12
NAMES_COMPARED = 5000
"""Names in which the nearest one is looked for; more would take seconds."""

START = Moment(0, 0, "start")


class RowWatch:
    """Writes down what happens to one request.

    Args:
        replayer: about to replay; read around every step, never changed.
        req: the request as the user spelt it; names that are numbers match their digits.
    """

    def __init__(self, replayer: Replayer, req: str) -> None:
        self._replayer = replayer
        self._req = req
        self._at = START
        self._seen: dict[str, None] = {}
        self._events: list[RowEvent] = []
        self._findings: list[Finding] = []
        self._before_end: RowView | None = None

    def before(self, entry: Entry) -> None:
        """An event that ends the row is coming: keep the row as it is."""
        event = entry.event
        ends = (isinstance(event, ev.Finish) and str(event.req) == self._req) or isinstance(
            event, ev.Clear
        )
        if ends and self._row() is not None:
            self._before_end = self._view(None)

    def after(self, step: Step) -> None:
        """Take one step in."""
        moment = moment_of(step.entry, step.resolved)
        names = [str(req) for req in _names(step)]
        self._seen.update(dict.fromkeys(names))
        self._at = moment
        ended = isinstance(step.entry.event, ev.Clear) and bool(self._events)
        if self._req in names or (ended and self._row() is None):
            # `finish` and `clear` end the row; one that is named again afterwards begins anew.
            self._findings += step.findings
            self._add(step, moment)
        if self._row() is not None:
            self._before_end = None

    def late(self, findings: Iterable[Finding]) -> None:
        """Findings that came with the end of the trace."""
        events = {number for e in self._events for number in (e.first.event, e.last.event)}
        self._findings += [finding for finding in findings if finding.at.event in events]

    def view(self) -> RowView:
        """The finished record.

        Raises:
            UsageError: the trace has no such request; tells the nearest and some of the others.
        """
        if self._req not in self._seen:
            raise UsageError(self._unknown())
        row = self._row()
        ended = self._events[-1].last if row is None and self._events else None
        if row is None and self._before_end is not None:
            return self._finished(self._before_end, ended)
        return self._finished(self._view(row), ended)

    def _finished(self, view: RowView, ended: Moment | None) -> RowView:
        return replace(
            view,
            ended=ended,
            events=tuple(self._events),
            findings=tuple(sorted(self._findings, key=lambda finding: finding.at.event)),
        )

    def _view(self, row: Row | None) -> RowView:
        row = row or self._row() or Row()
        return RowView(
            req=self._req,
            at=self._at,
            ended=None,
            length=len(row),
            window_tokens=self._replayer.config.sliding_window_size,
            reads_back_to=reads_back_to(self._replayer, len(row)),
            pieces=pieces(self._replayer, row),
            events=(),
            findings=(),
        )

    def _row(self) -> Row | None:
        rows = self._replayer.resolver.rows
        row = rows.get(self._req)
        if row is None and self._req.isdecimal():
            row = rows.get(int(self._req))
        return row

    def _add(self, step: Step, moment: Moment) -> None:
        row = self._row()
        length = 0 if row is None else len(row)
        detail = _detail(step, self._req)
        event = RowEvent(moment, moment, 1, detail, step.result, length)
        last = self._events[-1] if self._events else None
        told = bool(step.findings) or (
            last is not None and any(f.at.event >= last.last.event for f in self._findings)
        )
        decodes = moment.op == "alloc_decode" and step.result == "ok"
        if (
            last is None
            or told
            or not decodes
            or (last.first.op, last.result)
            != (
                moment.op,
                step.result,
            )
        ):
            self._events.append(event)
            return
        start = last.detail.partition(":")[0]
        detail = f"{start}:{length}"
        self._events[-1] = RowEvent(last.first, moment, last.steps + 1, detail, last.result, length)

    def _unknown(self) -> str:
        shown = self._req if len(self._req) <= LONGEST_NAME else self._req[:LONGEST_NAME] + "..."
        names = list(self._seen)
        if not names:
            return (
                f"--req {shown!r}: the trace names no requests, its calls use slots;"
                " look with --page, --slot or --at"
            )
        hint = nearest(shown, names[:NAMES_COMPARED])
        did_you_mean = f"; did you mean {hint!r}?" if hint else ""
        known = ", ".join(names[:NAMES_SHOWN])
        more = f", and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        return f"unknown request {shown!r}{did_you_mean} (known: {known}{more})"


def _names(step: Step) -> list[ReqName]:
    """Requests that an event names, the source of a `share` too."""
    event = step.entry.event
    names = list(step.resolved.reqs)
    if isinstance(event, ev.Share):
        names.append(event.from_)
    if step.skipped and isinstance(event, ev.Finish):
        names.append(event.req)
    return names


def _detail(step: Step, req: str) -> str:
    """What an event was about, as far as this request goes."""
    resolved, event = step.resolved, step.entry.event
    call = resolved.call
    if isinstance(event, ev.Share):
        start, end = resolved.positions or (0, 0)
        if str(event.req) == req:
            return f"takes {event.from_} {start}:{end} over"
        return f"{start}:{end} taken over by {event.req}"
    if call is None or len(resolved.reqs) == 1 or not call.seq_lens:
        text = detail_of(event, resolved)
        return text.removeprefix(f"{req} ")
    item = [str(name) for name in resolved.reqs].index(req)
    start = call.prefix_lens[item] if call.prefix_lens else call.seq_lens[item] - 1
    return f"{start}:{call.seq_lens[item]}"
