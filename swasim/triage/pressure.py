"""What prefill and decode lines say about a pool that fills for no good reason."""

from __future__ import annotations

from dataclasses import dataclass

from swasim.triage.issues import issues
from swasim.triage.report import Family, Fault, Issue, Severity
from swasim.triage.shapes import Usage

_FULL_UP = 0.95
_HALF = 0.5
_STUCK_LINES = 3
_OVER_ONE = 1.0


@dataclass(slots=True)
class _Watch:
    severity: Severity
    headline: str
    says: str
    pool: str
    families: tuple[Family, ...]
    issues: tuple[Issue, ...]
    least: int = 1
    lines: int = 0
    first_line: int = 0
    last_line: int = 0
    rank: str = ""
    example: str = ""


class Pressure:
    """Counts usage lines that look wrong. Keeps a fixed number of numbers."""

    def __init__(self) -> None:
        self._impossible = _Watch(
            "error",
            "a token usage is negative or above 1",
            "A usage below 0 means that more is free or evictable than the pool has: pages were "
            "counted twice. Above 1 means that more is held than exists.",
            "",
            (
                Family("accounting-overflow", "more free than there is"),
                Family("double-free", "pages returned twice"),
                Family("window-violation", "evicted tokens counted as evictable"),
            ),
            issues(22470, 34823),
        )
        self._stuck = _Watch(
            "warning",
            "nothing runs, requests wait, and the SWA pool is nearly full",
            "Requests wait while none runs: what holds the SWA pool is not being released. "
            "Evicting the window only after admission, or SWA pages lost earlier, both do this.",
            "swa",
            (
                Family("false-exhaustion", "refused although pages could be had"),
                Family("leaked-page", "pages that nobody will release"),
            ),
            issues(36458, 29662),
            least=_STUCK_LINES,
        )
        self._window = _Watch(
            "warning",
            "the SWA pool is nearly full while the full pool is less than half full",
            "With a window the SWA side needs only the last tokens of each request. If its "
            "tokens grow with the output, the window is not evicted.",
            "swa",
            (
                Family("false-exhaustion", "the window's tokens are not given back"),
                Family("orphaned-page", "SWA pages lost earlier"),
            ),
            issues(33805, 36458),
            least=_STUCK_LINES,
        )

    def add(self, usage: Usage, line: int, rank: str, text: str) -> None:
        """Take one usage line."""
        full, swa = usage.full_usage, usage.swa_usage
        if any(value is not None and not 0 <= value <= _OVER_ONE for value in (full, swa)):
            _note(self._impossible, line, rank, text)
        if swa is None or swa < _FULL_UP:
            return
        if usage.running == 0 and usage.queued:
            _note(self._stuck, line, rank, text)
        elif full is not None and full < _HALF:
            _note(self._window, line, rank, text)

    def faults(self) -> list[Fault]:
        """The watches that saw enough lines."""
        watches = (self._impossible, self._stuck, self._window)
        return [_fault(watch) for watch in watches if watch.lines >= watch.least]


def _note(watch: _Watch, line: int, rank: str, text: str) -> None:
    if not watch.lines:
        watch.first_line, watch.rank, watch.example = line, rank, text
    watch.lines += 1
    watch.last_line = line


def _fault(watch: _Watch) -> Fault:
    return Fault(
        shape="usage",
        severity=watch.severity,
        headline=watch.headline,
        meaning=watch.says,
        pool=watch.pool,
        sign=None,
        off=None,
        off_pages=None,
        lines=watch.lines,
        first_line=watch.first_line,
        last_line=watch.last_line,
        ranks=(watch.rank,) if watch.rank else (),
        series=(),
        growth="",
        example=watch.example,
        families=watch.families,
        issues=watch.issues,
    )
