"""Which rows name which pages, and what a row lost while it was still in use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from swasim.sanitizer.findings import Finding
from swasim.trace.events import ReqName
from swasim.trace.resolve import RowChange


@dataclass(slots=True)
class RowTruth:
    """One row, as far as releases concern it.

    Attributes:
        length: tokens.
        allocated: some of it came from an allocation: a request that decodes. A row made of
            shared slots only is a cache; it has no window of its own.
        dead_len: no position from here on lost its SWA peer (a quick filter, not a proof).
        broken: full pages that were released while the row named them.
        suspect: an SWA release inside the window, until the next step shows that it mattered.
    """

    length: int = 0
    allocated: bool = False
    dead_len: int = 0
    broken: dict[int, None] = field(default_factory=dict)
    suspect: Finding | None = None

    def clone(self) -> RowTruth:
        """A row that says the same and can change on its own."""
        return RowTruth(
            self.length, self.allocated, self.dead_len, self.broken.copy(), self.suspect
        )


class RowIndex:
    """Rows by page and pages by row. Cost: the slots of each change."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self.rows: dict[ReqName, RowTruth] = {}
        self.by_page: dict[int, dict[ReqName, tuple[int, int]]] = {}

    def clone(self) -> RowIndex:
        """An index that says the same and can change on its own."""
        twin = RowIndex(self._page_size)
        twin.rows = {req: row.clone() for req, row in self.rows.items()}
        twin.by_page = {page: names.copy() for page, names in self.by_page.items()}
        return twin

    def naming(self, full_page: int) -> list[tuple[ReqName, int, int]]:
        """Rows that name a page: row, first and last position on it."""
        return [(req, a, b) for req, (a, b) in self.by_page.get(full_page, {}).items()]

    def apply(self, change: RowChange) -> list[int]:
        """Follow one change of a row.

        Returns:
            Full pages that no row names any more because of it.
        """
        row = self.rows.setdefault(change.req, RowTruth())
        unnamed = self._drop(change)
        row.length = change.kept_len
        row.dead_len = min(row.dead_len, change.kept_len)
        self._add(change)
        row.length += len(change.added_slots)
        row.allocated = row.allocated or change.allocated
        if change.forgotten:
            del self.rows[change.req]
        return [page for page in unnamed if page not in self.by_page]

    def _runs(self, slots: list[int], first_pos: int) -> Iterator[tuple[int, int, int]]:
        """Page, first and last position of each stretch of slots on one page."""
        size = self._page_size
        i, limit = 0, len(slots)
        while i < limit:
            page = slots[i] // size
            j = i + 1
            while j < limit and slots[j] // size == page:
                j += 1
            yield page, first_pos + i, first_pos + j - 1
            i = j

    def _drop(self, change: RowChange) -> list[int]:
        unnamed: list[int] = []
        kept_len = change.kept_len
        for page, _, _ in self._runs(change.dropped_slots, kept_len):
            names = self.by_page.get(page)
            if names is None or change.req not in names:
                continue
            first, last = names[change.req]
            if first >= kept_len:
                del names[change.req]
                if not names:
                    del self.by_page[page]
                    unnamed.append(page)
            elif last >= kept_len:
                names[change.req] = (first, kept_len - 1)
        return unnamed

    def _add(self, change: RowChange) -> None:
        for page, first, last in self._runs(change.added_slots, change.kept_len):
            names = self.by_page.setdefault(page, {})
            old = names.get(change.req)
            names[change.req] = (min(old[0], first), max(old[1], last)) if old else (first, last)

    def clear(self) -> None:
        """Forget all rows."""
        self.rows.clear()
        self.by_page.clear()
