"""The step that everything is built from: event, call, effect, findings."""

from __future__ import annotations

from dataclasses import dataclass, field

from swasim.call import Call, Effect
from swasim.config import SimConfig
from swasim.sanitizer.findings import Finding
from swasim.trace.events import Entry


@dataclass(frozen=True, slots=True)
class Step:
    """One event carried out.

    Attributes:
        entry: the event, with its number and line.
        call: the resolved call; None for events that call nothing (share, mark, expect).
        effect: what the call changed; None where there was no call.
        findings: found at this event, or only now about an earlier one (`Finding.at` says which).
        full_available, swa_available: tokens, after the event.
        full_change, swa_change: tokens, against the event before.
    """

    entry: Entry
    call: Call | None
    effect: Effect | None
    findings: tuple[Finding, ...]
    full_available: int
    swa_available: int
    full_change: int
    swa_change: int


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One row of the free-space table; the finished, printable form of a step.

    Attributes:
        detail: the request with its positions, or the slots, short ("B 0:4", "[8, 12)", "3 reqs").
        result: "ok", "refused", or the exception's class name.
        kinds: kinds of the findings at this event.
    """

    event: int
    line: int
    op: str
    detail: str
    result: str
    full_available: int
    swa_available: int
    full_change: int
    swa_change: int
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals of a replay. Availability in tokens, after the last event."""

    events: int = 0
    calls: int = 0
    refused: int = 0
    raised: int = 0
    full_available: int = 0
    swa_available: int = 0
    errors: int = 0
    warnings: int = 0
    notes: int = 0
    consequences: int = 0
    hidden: int = 0
    suppressed: int = 0
    truncated_line: int | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """A finished replay of one trace on one allocator.

    Attributes:
        trace: path as the user named it, or "<events>".
        timeline: rows that were kept, in order; `timeline_skipped` counts those left out.
        warnings: sentences about the input (rounded pool size, cut trace).
    """

    trace: str
    config: SimConfig
    allocator: str
    findings: tuple[Finding, ...] = ()
    timeline: tuple[TimelineRow, ...] = ()
    timeline_skipped: int = 0
    summary: Summary = field(default_factory=Summary)
    warnings: tuple[str, ...] = ()
