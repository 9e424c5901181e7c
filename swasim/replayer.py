"""The step that everything is built from: event, call, effect, findings.

An event of which nothing has to be said is carried over by the fast lane (`swasim.lane`), alone or
with those around it; to whoever looks at its step, it is one like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from swasim.ahead import LookAhead
from swasim.allocator.base import Allocator
from swasim.allocator.core import CorePair
from swasim.allocator.core.swift import Swift
from swasim.allocator.registry import build
from swasim.call import Call, Effect
from swasim.config import SimConfig
from swasim.errors import TraceError, UsageError
from swasim.geometry import Geometry
from swasim.lane import Lane
from swasim.runs import COMPILED
from swasim.sanitizer.expectation import cut, mismatches
from swasim.sanitizer.findings import Finding
from swasim.sanitizer.sanitizer import Sanitizer
from swasim.sanitizer.scene import moment_of
from swasim.timeline import TimelineRow, detail_by_runs
from swasim.trace import events as ev
from swasim.trace.events import AnyEvent, Entry, Expect, compress, op_of
from swasim.trace.reader import Batch
from swasim.trace.resolve import Resolved, Resolver, RowError

USES_LANE = COMPILED
"""Whether replays take the fast lane: uncompiled, it is no faster than the checks."""


class Step(msgspec.Struct, frozen=True, gc=False):
    """One event carried out.

    Attributes:
        entry: the event, with its number and line.
        resolved: its call and the rows that it names.
        effect: what the call changed; None where there was no call.
        findings: found at this event, or only now about an earlier one (`Finding.at` says which).
        full_available, swa_available: tokens, after the event.
        full_change, swa_change: tokens, against the event before.
        skipped: why the event could not be carried out; "" normally.
    """

    entry: Entry
    resolved: Resolved
    effect: Effect | None
    findings: tuple[Finding, ...]
    full_available: int
    swa_available: int
    full_change: int
    swa_change: int
    skipped: str = ""

    @property
    def call(self) -> Call | None:
        """The resolved call; None for events that call nothing (share, mark, expect)."""
        return self.resolved.call

    @property
    def result(self) -> str:
        """One of "ok", "refused", "skipped", the exception's class name, or "" without a call."""
        if self.skipped:
            return "skipped"
        if self.effect is None:
            return ""
        if self.effect.raised:
            return self.effect.raised
        allocation = isinstance(self.entry.event, ev.Allocation)
        return "refused" if allocation and self.effect.out is None else "ok"


class Passage(msgspec.Struct, frozen=True, gc=False):
    """Events carried out in a row.

    Attributes:
        passed: calls that were answered, of which nothing has to be said.
        step: the event behind them, where one of which something may have to be said ended it.
    """

    passed: int
    step: Step | None = None


class Replayer:
    """Carries events out on one allocator and holds them against the truth. Never prints.

    Args:
        config: sizes of the pools, window.
        allocator: under test; built from `config` when not given.
        trace_path: as the user named the trace.
    """

    def __init__(
        self, config: SimConfig, allocator: Allocator | None = None, trace_path: str = "<events>"
    ) -> None:
        self.config = config
        self.allocator = allocator if allocator is not None else build(config)
        self.resolver = Resolver(trace_path)
        self.sanitizer = Sanitizer(config, self.resolver.rows, trace_path)
        self._geometry: Geometry = config.geometry
        self.available = (config.kv_size, config.kv_size_swa)
        self._diverged = False
        self._lane: Lane | None = None
        self._in_lane: Allocator | None = None
        self._ahead = LookAhead()

    def clone(self) -> Replayer:
        """A replay in the same state that goes on by itself.

        Raises:
            UsageError: the allocator cannot be copied (only the core engine's can).
        """
        if not isinstance(self.allocator, CorePair):
            raise UsageError(f"{self.allocator.name} cannot be copied: engine core only")
        twin = object.__new__(Replayer)
        twin.__dict__.update(self.__dict__)
        twin.allocator = self.allocator.clone()
        twin.resolver = self.resolver.clone()
        twin.sanitizer = self.sanitizer.clone(twin.resolver.rows)
        twin._lane = twin._in_lane = None
        twin._ahead = LookAhead()
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lane": None, "_in_lane": None}

    def _open_lane(self, event: AnyEvent) -> Lane | None:
        """The fast lane, while there is one; `event` is the next.

        It knows the core engine and no rows, and reads recorded slots as they stand.
        """
        if self._diverged or not USES_LANE or self.sanitizer.row_index.by_page:
            return None
        allocator = self.allocator
        if self._lane is None or self._in_lane is not allocator:
            if type(allocator) is not CorePair or _names_row(event):
                return None
            self._lane = Lane(Swift(allocator), self.sanitizer.steady, self.config.page_size)
            self._in_lane = allocator
        self._lane.full_available, self._lane.swa_available = self.available
        return self._lane

    def advance(self, batch: Batch, start: int, wanted: int) -> Passage:
        """Carry out events of a batch from index `start` on, at the most up to index `wanted`.

        Raises:
            TraceError: as `step`, or an event is malformed; events before it are carried out.
        """
        lane = self._open_lane(batch.events[start])
        if lane is None:
            if not self._diverged:
                self._ahead.fill(self.allocator, self.resolver, batch, start)
            return Passage(0, self._step(batch.entry(start)))
        stop = min(wanted + 1, len(batch))
        at = lane.run(batch.events, batch.number, batch.line, start, stop, wanted)
        self._leave(lane, at - start)
        return Passage(at - start, self._step(batch.entry(at)) if at < stop else None)

    def last_row(self, event: int, line: int, op: str) -> TimelineRow:
        """The row of the last event, where `advance` passed it.

        Args:
            event, line, op: of the event.
        """
        lane = self._lane
        assert lane is not None, "nothing was passed yet"
        full, swa = self.available
        return TimelineRow(
            event=event,
            line=line,
            op=op,
            detail=detail_by_runs(lane.last_call()),
            result="ok",
            full_available=full,
            swa_available=swa,
            full_change=full - lane.full_before,
            swa_change=swa - lane.swa_before,
        )

    def step(self, entry: Entry) -> Step:
        """Carry out one event.

        Raises:
            TraceError: the event names a row or positions that do not exist.
        """
        lane = self._open_lane(entry.event)
        if lane is not None and lane.run([entry.event], entry.number, entry.line, 0, 1, 0):
            self._leave(lane, 1)
            return self._passed(lane, entry)
        return self._step(entry)

    def _leave(self, lane: Lane, carried: int) -> None:
        """Take over what is known after the last event that the lane has carried over."""
        if carried:
            self.available = (lane.full_available, lane.swa_available)

    def _passed(self, lane: Lane, entry: Entry) -> Step:
        """The step of that event."""
        full, swa = self.available
        return Step(
            entry,
            self.resolver.resolve(entry),
            lane.last_effect(),
            (),
            full,
            swa,
            full - lane.full_before,
            swa - lane.swa_before,
        )

    def _step(self, entry: Entry) -> Step:
        """Carry out one event, and look at it with every check."""
        try:
            resolved = self.resolver.resolve(entry)
        except RowError as error:
            if error.refused_event is None:
                raise
            return self._skip(entry, str(error.message))
        effect = None if resolved.call is None else self._perform(entry, resolved.call)
        before = self.available
        if effect is not None:
            self.available = (effect.full_available, effect.swa_available)
        changes = self.resolver.commit(entry, resolved, effect.out if effect else None)
        findings = self.sanitizer.observe(entry, resolved, effect, changes)
        if self.resolver.diverged and not self._diverged:
            self._diverged = True
            findings.append(self._divergence(entry, resolved, effect))
        expect = ev.expectation(entry.event)
        if expect is not None:
            findings += self._check_expectation(entry, resolved, effect, expect, findings)
        elif effect is not None and _is_failure(effect) and not has_error(findings):
            findings.append(self._unexpected_exception(entry, resolved, effect))
        full, swa = self.available
        return Step(
            entry,
            resolved,
            effect,
            tuple(findings),
            full,
            swa,
            full - before[0],
            swa - before[1],
        )

    def _perform(self, entry: Entry, call: Call) -> Effect:
        if self._lane is not None and (left := self._lane.take_left()) is not None:
            return left
        if (answered := self._ahead.take()) is not None:
            return answered
        try:
            return self.allocator.perform(call)
        except UsageError as error:
            raise TraceError(str(error), self.resolver.path, entry.line) from error

    def _skip(self, entry: Entry, reason: str) -> Step:
        full, swa = self.available
        return Step(entry, Resolved(None), None, (), full, swa, 0, 0, skipped=reason)

    def finish(self, *, truncated: bool = False, idle: bool = False) -> list[Finding]:
        """The trace is over; `idle`: every page must be free now.

        Returns:
            Findings about earlier events that nothing can explain any more.
        """
        if truncated:
            return []
        return self.sanitizer.declare_idle() if idle else self.sanitizer.finish()

    def _divergence(self, entry: Entry, resolved: Resolved, effect: Effect | None) -> Finding:
        recorded = getattr(entry.event, "out", None)
        returned = None if effect is None or effect.out is None else compress(effect.out)
        return self.sanitizer.build.build(
            "replay-divergence",
            f"{op_of(entry.event)} returned other slots than the recording",
            moment_of(entry, resolved),
            expected=cut(recorded),
            actual=cut(returned),
            notes=("from here on recorded slots are translated to those of this replay",),
        )

    def _unexpected_exception(self, entry: Entry, resolved: Resolved, effect: Effect) -> Finding:
        """A call failed, nothing that was found explains it, and the trace does not expect it."""
        return self.sanitizer.build.build(
            "expectation-failed",
            f"{op_of(entry.event)} raised {effect.raised}, which the trace does not expect",
            moment_of(entry, resolved),
            expected="raises: no exception",
            actual=f"raises: {effect.raised}",
            notes=(effect.raised_text,) if effect.raised_text else (),
        )

    def _check_expectation(
        self,
        entry: Entry,
        resolved: Resolved,
        effect: Effect | None,
        expect: Expect,
        earlier: list[Finding],
    ) -> list[Finding]:
        found: list[Finding] = []
        failed = mismatches(
            expect,
            effect,
            self.available,
            self.allocator.state,
            self.resolver.slots_of,
            self._geometry,
        )
        if failed:
            first, *others = failed
            cause = next((f for f in earlier if f.severity == "error"), None)
            found.append(
                self.sanitizer.build.build(
                    "expectation-failed",
                    f"{first.name} is {first.actual}, expected {first.expected}",
                    moment_of(entry, resolved),
                    cause=cause,
                    expected=f"{first.name}: {first.expected}",
                    actual=f"{first.name}: {first.actual}",
                    notes=tuple(
                        f"{other.name}: expected {other.expected}, is {other.actual}"
                        for other in others
                    ),
                )
            )
        if expect.idle is True:
            found += self.sanitizer.declare_idle()
        return found


def _names_row(event: AnyEvent) -> bool:
    """Whether an event names a request: with it come rows, and a lane would be of no use."""
    reqs: object = getattr(event, "reqs", None)
    req: object = getattr(event, "req", None)
    return reqs is not None or req is not None


def has_error(findings: Iterable[Finding]) -> bool:
    """Whether one of them is an error."""
    return any(finding.severity == "error" for finding in findings)


def _is_failure(effect: Effect) -> bool:
    """Whether a call failed by itself. An assertion that fired before anything changed is a
    refusal: the allocator said no to its caller."""
    changed = (
        effect.full_taken
        or effect.full_returned
        or effect.swa_taken
        or effect.swa_returned
        or effect.mapped_slots
    )
    return effect.raised is not None and (effect.raised != "AssertionError" or bool(changed))
