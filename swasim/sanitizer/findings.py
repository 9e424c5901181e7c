"""The record of one finding: everything that every output format shows.

Findings are finished values. Reporters read them; nobody computes on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from swasim.geometry import Pool

Severity = Literal["error", "warning", "note"]


class Moment(msgspec.Struct, frozen=True, gc=False):
    """One event, as provenance names it. Each event makes one, so it must be cheap to make.

    Attributes:
        event: 1-based event number; 0 is the initial state.
        line: 1-based line of the trace.
        op: operation name.
        req: request that the event named, as text; "" where it named none.
        site: where the call came from, free text; "" where the trace has none.
        t: seconds since the trace began, or None.
    """

    event: int
    line: int
    op: str
    req: str = ""
    site: str = ""
    t: float | None = None


@dataclass(frozen=True, slots=True)
class PageCell:
    """One page of a strip.

    Attributes:
        state: free, live, pending (its release waits for the end of a free group), lost (neither
            owned nor in the free list), or padding.
        owner: the owner's letter; "" unless live or pending.
        copies: how often the page stands in the free list.
    """

    page: int
    state: Literal["free", "live", "pending", "lost", "padding"]
    owner: str = ""
    copies: int = 0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The pool around a finding.

    Attributes:
        before, after: the neighbourhood of the page, before and after the event.
        owners: legend, owner letter to what it stands for ("A" -> "event 3 alloc_extend req B").
        free_pages: entries in the free list (staged included, repeats counted).
        live_pages, pending_pages, lost_pages, size_pages: the terms of the equation
            free + live + pending = size; lost is what is missing from it.
        available_tokens, size_tokens: by the allocator's account.
    """

    before: tuple[PageCell, ...] = ()
    after: tuple[PageCell, ...] = ()
    owners: tuple[tuple[str, str], ...] = ()
    free_pages: int = 0
    live_pages: int = 0
    pending_pages: int = 0
    lost_pages: int = 0
    size_pages: int = 0
    available_tokens: int = 0
    size_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """One place where the truth and the allocator part.

    Attributes:
        kind: stable name from the catalogue.
        severity: error, warning or note.
        headline: at most 80 characters, stands alone.
        at: the event.
        pool: "full", "swa", or None where neither is meant.
        page: page id, or None.
        slots: slots that are concerned.
        positions: row positions `[start, end)` that the event named, or None.
        allocated, mapped, released: last allocation, mapping write and release of the page
            before this event, where known.
        owner: who holds the page now, where that is another than the event's request.
        surroundings: the pool around the page, or None.
        cause: fingerprint of the earlier finding that this one follows from, or None.
        cause_at: event of that finding, or None.
        cause_kind: kind of that finding, or None.
        expected, actual: both sides, where two values are compared.
        notes: further sentences.
        fingerprint: stable across runs; does not depend on event numbers or page ids.
        help: commands that can be pasted to go on.
    """

    kind: str
    severity: Severity
    headline: str
    at: Moment
    pool: Pool | None = None
    page: int | None = None
    slots: tuple[int, ...] = ()
    positions: tuple[int, int] | None = None
    allocated: Moment | None = None
    mapped: Moment | None = None
    released: Moment | None = None
    owner: Moment | None = None
    surroundings: Surroundings | None = None
    cause: str | None = None
    cause_at: int | None = None
    cause_kind: str | None = None
    expected: str = ""
    actual: str = ""
    notes: tuple[str, ...] = ()
    fingerprint: str = ""
    help: tuple[str, ...] = ()
