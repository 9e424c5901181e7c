"""Findings that the next events may still explain away.

A full page may be released a call before its SWA peer is; a mapping entry may be cleared by a
caller who keeps the SWA slot and releases it directly; a token may be evicted early by a request
that is about to end. None of that is a fault. So what looks wrong is held here, complete, with
the event at which it began, and becomes a finding when it can no longer be explained: the page is
reused, a decode reads the token, the pools are declared idle or cleared, or the trace ends.
"""

from __future__ import annotations

from dataclasses import replace

from swasim.geometry import Pool
from swasim.sanitizer.findings import Finding

PageKey = tuple[Pool, int]


class Suspects:
    """Suspected findings by the page that they are about, in order of suspicion.

    Attributes:
        by_page: they; to be read only. The same dict for as long as this lives.
    """

    def __init__(self) -> None:
        self.by_page: dict[PageKey, Finding] = {}

    def clone(self) -> Suspects:
        """The same suspicions, to be dismissed or confirmed on their own."""
        twin = Suspects()
        twin.by_page = self.by_page.copy()
        return twin

    def pages(self) -> list[tuple[Pool, int, str]]:
        """Pool, page and kind of each suspicion, in order."""
        return [(pool, page, f.kind) for (pool, page), f in self.by_page.items()]

    def __len__(self) -> int:
        return len(self.by_page)

    def add(self, pool: Pool, page: int, finding: Finding) -> None:
        """Hold a finding about a page; an earlier suspicion of the same page stands."""
        self.by_page.setdefault((pool, page), finding)

    def get(self, pool: Pool, page: int) -> Finding | None:
        """What the page is suspected of, if anything."""
        return self.by_page.get((pool, page)) if self.by_page else None

    def of_pool(self, pool: Pool) -> list[Finding]:
        """What the pages of one pool are suspected of, in order."""
        return [f for (name, _), f in self.by_page.items() if name == pool]

    def dismiss(self, pool: Pool, page: int) -> None:
        """The page was released or can be reached again: nothing was wrong."""
        if self.by_page:
            self.by_page.pop((pool, page), None)

    def confirm(self, pool: Pool, page: int) -> Finding | None:
        """The suspicion was right; hands the finding over, once."""
        return self.by_page.pop((pool, page), None) if self.by_page else None

    def confirm_all(self) -> list[Finding]:
        """Nothing can explain them any more; hands all of them over, in order."""
        found = list(self.by_page.values())
        self.by_page.clear()
        return fold(found)


def fold(findings: list[Finding]) -> list[Finding]:
    """Of several of one kind at one event, the further ones follow from the first."""
    first: dict[tuple[str, int], Finding] = {}
    folded: list[Finding] = []
    for finding in findings:
        root = first.setdefault((finding.kind, finding.at.event), finding)
        if root is not finding and finding.cause is None:
            finding = replace(
                finding, cause=root.fingerprint, cause_at=root.at.event, cause_kind=root.kind
            )
        folded.append(finding)
    return folded
