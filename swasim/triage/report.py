"""The records of a triage: what a log's lines add up to. Finished values, nothing computes here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Sign = Literal["over", "under"]
Severity = Literal["error", "warning", "note"]
Confidence = Literal["given", "stated", "high", "fair", "low", "unknown"]


@dataclass(frozen=True, slots=True)
class PageGuess:
    """The page size that the numbers are read with.

    Attributes:
        size_tokens: tokens per page; None where the log does not show it.
        confidence: "given" on the command line, "stated" by the log, or how well the numbers
            support it.
        reason: one sentence.
    """

    size_tokens: int | None
    confidence: Confidence
    reason: str


@dataclass(frozen=True, slots=True)
class Terms:
    """One pool's equation as a line gave it, in tokens (slots for mamba, rows for req)."""

    total: int
    available: int
    evictable: int
    protected: int
    session_held: int
    uncached: int

    @property
    def accounted(self) -> int:
        """Sum of the five terms; equals `total` where every page has exactly one owner."""
        return self.available + self.evictable + self.protected + self.session_held + self.uncached

    @property
    def off(self) -> int:
        """Accounted less total: above 0 counted twice, below 0 missing."""
        return self.accounted - self.total


@dataclass(frozen=True, slots=True)
class RankSeries:
    """The lines of one rank that do not balance, for one pool.

    Attributes:
        rank: "TP6 EP6" as the log writes it; "" where lines carry none.
        lines: lines that do not balance.
        first_line, last_line: 1-based.
        first_off, last_off: accounted less total at those lines.
        balanced_before: lines that balanced before the first that does not.
        last_balanced_line: the last of those, or None.
        terms: of the last line.
        when: "idle", "busy" or "watchdog" for the last line; "" where the log does not say.
    """

    rank: str
    lines: int
    first_line: int
    last_line: int
    first_off: int
    last_off: int
    balanced_before: int
    last_balanced_line: int | None
    terms: Terms
    when: str


@dataclass(frozen=True, slots=True)
class Family:
    """A family of faults that gives these numbers; `kind` is a finding kind of swasim."""

    kind: str
    why: str


@dataclass(frozen=True, slots=True)
class Issue:
    """A public fault with the same look."""

    ref: str
    url: str
    gist: str


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that the log shows.

    Attributes:
        shape: name of the line shape.
        severity: error for a memory fault, warning for pressure, note for context.
        headline: stands alone, at most 80 characters where numbers allow.
        meaning: what the numbers say, sentences.
        pool: "full", "swa", "kv" (one pool), "mamba…", "req", or "" where no pool is named.
        sign: "over", "under", or None where the line is no equation.
        off: accounted less total at the last line, in the pool's unit; None likewise.
        off_pages: the same in whole pages; None where the page size is unknown or does not divide.
        lines, first_line, last_line: how often, and where (1-based).
        ranks: per rank, in the order of their names.
        growth: one sentence about the change across lines; "" where there is one line a rank.
        example: the first such line, cut to 300 characters.
        families: likeliest first.
        issues: public faults that look alike.
    """

    shape: str
    severity: Severity
    headline: str
    meaning: str
    pool: str
    sign: Sign | None
    off: int | None
    off_pages: int | None
    lines: int
    first_line: int
    last_line: int
    ranks: tuple[str, ...]
    series: tuple[RankSeries, ...]
    growth: str
    example: str
    families: tuple[Family, ...]
    issues: tuple[Issue, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """Something to run next, and what it answers."""

    command: str
    why: str


@dataclass(frozen=True, slots=True)
class Unread:
    """Lines that speak of a memory fault in a shape that is not known here.

    Attributes:
        lines, first_line, last_line: how many, and where (1-based).
        example: the first of them, cut to 300 characters.
    """

    lines: int
    first_line: int
    last_line: int
    example: str


@dataclass(frozen=True, slots=True)
class TriageReport:
    """What the log shows.

    Attributes:
        lines: lines read.
        shapes: recognised shapes with their counts, most frequent first.
        pool_totals: pool name to size as the log gives it, last value.
        page: page size that pages are counted in.
        faults: worst first.
        next: what to record.
        cautions: sentences about what limits the reading (cut lines, mixed page sizes, …).
        unread: lines that speak of a memory fault and were not understood; None: there are none.
    """

    lines: int
    shapes: tuple[tuple[str, int], ...]
    pool_totals: tuple[tuple[str, int], ...]
    page: PageGuess
    faults: tuple[Fault, ...]
    next: tuple[Step, ...]
    cautions: tuple[str, ...] = ()
    unread: Unread | None = None

    @property
    def recognised(self) -> int:
        """Lines that have a known shape."""
        return sum(count for _, count in self.shapes)

    @property
    def found_fault(self) -> bool:
        """Whether any line shows a memory fault."""
        return any(fault.severity == "error" for fault in self.faults)
