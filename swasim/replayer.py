"""The step that everything is built from: event, call, effect, findings."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from swasim.allocator.base import Allocator
from swasim.allocator.core import CorePair
from swasim.allocator.registry import build
from swasim.call import Call, Effect
from swasim.config import SimConfig
from swasim.errors import TraceError, UsageError
from swasim.geometry import Geometry
from swasim.sanitizer.expectation import cut, mismatches
from swasim.sanitizer.findings import Finding
from swasim.sanitizer.sanitizer import Sanitizer
from swasim.sanitizer.scene import moment_of
from swasim.trace import events as ev
from swasim.trace.events import Entry, Expect, compress, op_of
from swasim.trace.reader import Batch
from swasim.trace.resolve import Resolved, Resolver, RowError


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
        passed: events before the step: calls that were answered, of which nothing is to be said.
        step: the event behind them; None where the batch ended.
    """

    passed: int
    step: Step | None


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
        return twin

    def advance(self, batch: Batch, start: int, wanted: int) -> Passage:
        """Carry out events of a batch from index `start` on.

        Goes on to the first event of which something has to be said, at the latest to the one at
        index `wanted`; that one is handed back as a step. With `wanted` equal to `start` this is
        `step`.

        Raises:
            TraceError: as `step`, or an event is malformed; events before it are carried out.
        """
        return Passage(0, self.step(batch.entry(start)))

    def step(self, entry: Entry) -> Step:
        """Carry out one event.

        Raises:
            TraceError: the event names a row or positions that do not exist.
        """
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
