"""One event under examination: what the checks of every family look at together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from swasim.call import Call, Effect
from swasim.geometry import Pool
from swasim.sanitizer.findings import Finding, Moment
from swasim.trace.events import Entry, op_of
from swasim.trace.resolve import Resolved

if TYPE_CHECKING:
    from swasim.sanitizer.build import FindingBuilder
    from swasim.sanitizer.shadow import Truth
    from swasim.sanitizer.suspects import Suspects


class Scene:
    """The event, its effect, and the findings so far.

    Attributes:
        moment: the event, as provenance names it.
        call, effect, resolved: as the replay made them.
        truth: changed by the checks as they carry the event over.
        findings: of this event, in order.
    """

    __slots__ = ("build", "call", "effect", "findings", "moment", "resolved", "suspects", "truth")

    def __init__(
        self,
        moment: Moment,
        call: Call,
        effect: Effect,
        resolved: Resolved,
        truth: Truth,
        build: FindingBuilder,
        suspects: Suspects,
    ) -> None:
        self.moment = moment
        self.call = call
        self.effect = effect
        self.resolved = resolved
        self.truth = truth
        self.build = build
        self.suspects = suspects
        self.findings: list[Finding] = []

    def report(
        self,
        kind: str,
        headline: str,
        *,
        pool: Pool | None = None,
        page: int | None = None,
        slots: Iterable[int] = (),
        cause: Finding | None = None,
        at: Moment | None = None,
        released: Moment | None = None,
        owner: Moment | None = None,
        notes: Iterable[str] = (),
        mark_page: bool = True,
    ) -> Finding:
        """Add a finding; its page carries the fault from here on (unless `mark_page` is off)."""
        finding = self.build.build(
            kind,
            headline,
            at or self.moment,
            pool=pool,
            page=page,
            slots=sorted(slots),
            positions=self.resolved.positions,
            cause=cause,
            released=released,
            owner=owner,
            notes=notes,
        )
        self.findings.append(finding)
        if mark_page and pool is not None and page is not None and finding.severity == "error":
            self.truth.pool(pool).touch(page).fault = finding
        return finding

    def first_error(self, *kinds: str) -> Finding | None:
        """The first error of this event, the likely cause of what else is wrong in it.

        Args:
            kinds: only errors of these kinds; all without.
        """
        return next(
            (f for f in self.findings if f.severity == "error" and (not kinds or f.kind in kinds)),
            None,
        )


def short_list(values: Iterable[int], limit: int = 6) -> str:
    """A few values and how many more: "5, 6, 7 (+3 more)"."""
    items = list(values)
    text = ", ".join(str(v) for v in items[:limit])
    return text if len(items) <= limit else f"{text} (+{len(items) - limit} more)"


def moment_of(entry: Entry, resolved: Resolved) -> Moment:
    """The event, as provenance names it."""
    event = entry.event
    reqs = resolved.reqs
    req = str(reqs[0]) if len(reqs) == 1 else ", ".join(str(r) for r in reqs[:8])
    if len(reqs) > 8:
        req += f" (+{len(reqs) - 8} more)"
    return Moment(entry.number, entry.line, op_of(event), req, event.site or "", event.t)
