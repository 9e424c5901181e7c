"""Several allocators in lockstep on one trace, and the first event at which they part."""

from __future__ import annotations

from dataclasses import dataclass

from swasim.replay import Replay


@dataclass(frozen=True, slots=True)
class CompareCell:
    """One allocator's side of a row; tokens, result as in `TimelineRow`."""

    full_available: int
    swa_available: int
    result: str
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompareRow:
    """One event, side by side; `cells` parallel to the allocators."""

    event: int
    line: int
    op: str
    detail: str
    cells: tuple[CompareCell, ...]
    parted: bool = False


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first event at which two allocators part.

    Attributes:
        what: "out", "raises", "full_available", "swa_available", "full_free", "swa_free",
            "mapping": the first of these that differs.
        values: one text per allocator, parallel to the runs.
    """

    event: int
    line: int
    op: str
    what: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One allocator's outcome. `expected_faulty`: the registry lists it as a known fault."""

    allocator: str
    clean: bool
    expected_faulty: bool
    text: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A finished comparison; `runs`, `verdicts` and the cells of each row are parallel."""

    trace: str
    runs: tuple[Replay, ...]
    verdicts: tuple[Verdict, ...]
    rows: tuple[CompareRow, ...] = ()
    rows_skipped: int = 0
    first_divergence: Divergence | None = None
    warnings: tuple[str, ...] = ()
