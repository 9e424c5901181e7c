"""The page size behind a log's numbers: stated by the log, or read off what divides them all."""

from __future__ import annotations

from math import gcd

from swasim.triage.report import Confidence, PageGuess, Terms

_KEPT = 64
_LARGEST_SEEN = 1024


class PageSizes:
    """Gathers what bears on the page size. Memory is bounded whatever the log's length."""

    def __init__(self, given: int | None) -> None:
        self._given = given
        self._stated: dict[int, int] = {}
        self._common = 0
        self._aligned = 0
        self._distinct: set[int] = set()

    def state(self, size_tokens: int) -> None:
        """Note a page size that the log itself gives (the launch arguments, for example)."""
        if size_tokens > 0 and (size_tokens in self._stated or len(self._stated) < _KEPT):
            self._stated[size_tokens] = self._stated.get(size_tokens, 0) + 1

    def add(self, terms: Terms) -> None:
        """Note a token pool's equation. Totals and free counts are whole pages always."""
        numbers = (
            terms.total,
            terms.available,
            terms.evictable,
            terms.protected,
            terms.session_held,
            terms.uncached,
        )
        for number in numbers:
            self._common = gcd(self._common, number)
            if number and len(self._distinct) < _KEPT:
                self._distinct.add(abs(number))
        self._aligned = gcd(self._aligned, terms.total, terms.available)

    @property
    def caution(self) -> str:
        """A sentence where the log states more than one page size, else ""."""
        if len(self._stated) < 2:
            return ""
        sizes = ", ".join(str(size) for size in sorted(self._stated))
        return f"the log states several page sizes ({sizes}): it may hold several servers"

    def guess(self) -> PageGuess:
        """The page size, with where it comes from."""
        if self._given is not None:
            return PageGuess(self._given, "given", "given with --page-size")
        if self._stated:
            size = max(self._stated, key=lambda page: (self._stated[page], page))
            return PageGuess(size, "stated", f"the log says page_size {size}")
        count = len(self._distinct)
        if count < 2:
            return PageGuess(None, "unknown", "no pool numbers to read it from; give --page-size")
        if self._aligned == 1:
            return PageGuess(1, "high", "pool size and free tokens have no common factor")
        return self._from_divisor(count)

    def _from_divisor(self, count: int) -> PageGuess:
        size = self._common & -self._common
        if self._common == 1:
            size = self._aligned & -self._aligned
            reason = f"pool size and free tokens are multiples of {size}, the other terms are not"
        else:
            reason = f"{count} different numbers, all multiples of {size}"
        if size > _LARGEST_SEEN:
            reason = f"all numbers are multiples of {size}, too few to tell; give --page-size"
            return PageGuess(None, "unknown", reason)
        if size == 1:
            return PageGuess(1, "low", "the numbers have no even common factor")
        confidence: Confidence = "high" if count >= 8 else "fair" if count >= 4 else "low"
        if self._common == 1:
            confidence = "low"
        return PageGuess(size, confidence, reason)
