"""Page and slot arithmetic, and the constants that have a name.

A pool of `n` pages has page ids 1 … n; page 0 is padding and belongs to nobody. Slot `s` lies in
page `s // page_size` at offset `s % page_size`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Pool = Literal["full", "swa"]

PAD_PAGE = 0
"""The page that is never handed out and never released."""

NO_LOC = -1
"""`last_loc` of a request that has no previous token."""

UNMAPPED = 0
"""Mapping entry of a full slot without an SWA peer (upstream calls it a tombstone)."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes of the pair of pools.

    Args:
        page_size: tokens per page, at least 1.
        kv_size: tokens in the full pool, a multiple of `page_size`.
        kv_size_swa: tokens in the SWA pool, a multiple of `page_size`.
    """

    page_size: int
    kv_size: int
    kv_size_swa: int

    @property
    def full_pages(self) -> int:
        """Pages in the full pool; ids 1 … this."""
        return self.kv_size // self.page_size

    @property
    def swa_pages(self) -> int:
        """Pages in the SWA pool; ids 1 … this."""
        return self.kv_size_swa // self.page_size

    def pages(self, pool: Pool) -> int:
        """Pages in the named pool."""
        return self.full_pages if pool == "full" else self.swa_pages

    def size_tokens(self, pool: Pool) -> int:
        """Tokens in the named pool."""
        return self.kv_size if pool == "full" else self.kv_size_swa

    def slot_limit(self, pool: Pool) -> int:
        """First slot beyond the named pool."""
        return (self.pages(pool) + 1) * self.page_size

    def page_of(self, slot: int) -> int:
        """Page that holds `slot`."""
        return slot // self.page_size

    def slots_of(self, page: int) -> range:
        """Slots of `page`, ascending."""
        return range(page * self.page_size, (page + 1) * self.page_size)


def number_runs(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Pages or slots as runs of consecutive ones, first and last of each, order kept."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return tuple(runs)
