"""What must survive: the finding, by kind, pool and kind of its cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from swasim.geometry import Pool
from swasim.sanitizer.findings import Finding

ABOUT_THE_TRACE = frozenset({"expectation-failed", "replay-divergence"})
"""Kinds that say what a trace claims, not what the allocator did; looked past where others are."""


@dataclass(frozen=True, slots=True)
class Target:
    """The finding to keep.

    Attributes:
        kind, pool, cause_kind: as of the finding.
        allocated: its page had been allocated at all.
        first: it must be the first error of the trace that follows from no other; False: it may
            come after other errors.
    """

    kind: str
    pool: Pool | None
    cause_kind: str | None
    allocated: bool
    first: bool

    def matches(self, finding: Finding) -> bool:
        """Whether this is that finding."""
        return (
            finding.kind == self.kind
            and finding.pool == self.pool
            and finding.cause_kind == self.cause_kind
            and (finding.allocated is not None) == self.allocated
        )

    def judge(self, findings: Iterable[Finding]) -> Finding | bool:
        """The finding where it is among these; False where it cannot come any more; else True."""
        for finding in findings:
            if self.matches(finding):
                return finding
            if self.first and is_root(finding):
                return False
        return True

    def __str__(self) -> str:
        pool = f", {self.pool} pool" if self.pool else ""
        cause = f", caused by {self.cause_kind}" if self.cause_kind else ""
        return f"{self.kind}{pool}{cause}"


def target_of(finding: Finding, *, first: bool) -> Target:
    """Keep this finding."""
    return Target(
        finding.kind, finding.pool, finding.cause_kind, finding.allocated is not None, first
    )


def is_root(finding: Finding) -> bool:
    """An error that follows from no other and is about the allocator or its caller."""
    return (
        finding.severity == "error"
        and finding.cause is None
        and finding.kind not in ABOUT_THE_TRACE
    )


def is_about_claims(target: Target | None) -> bool:
    """Whether the finding may hang on what the trace says of results."""
    return target is None or target.kind in ABOUT_THE_TRACE
