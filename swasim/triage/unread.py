"""Lines that speak of a memory fault in a shape that is not known here.

A server that prints its faults in a new way must not pass for a healthy one. What is known is
looked for first; this looks at what is left, and judges by words alone.
"""

from __future__ import annotations

import re

from swasim.triage.report import Unread

_SPEAKS = re.compile(
    r"\b(?:mem(?:ory)? leak|leaks? detected|double[ -]free|use[ -]after[ -]free)\b"
    r"|\[Mem Check\b"
    r'|File "[^"]*mem_cache/[^"]*allocator[^"]*", line \d+'
    r'|File "[^"]*mem_cache/[^"]*memory_pool[^"]*", line \d+, in (?:alloc|free)',
    re.IGNORECASE,
)
_DENIES = re.compile(r"\bno (?:memory )?leak|leak-check skipped", re.IGNORECASE)
_WORDS = ("eak", "EAK", "ree", "REE", "mem_cache/", "Mem Check")
"""Every such line holds one of these; looked for first, because it is cheap."""

_RECORD_LINES = 64
"""Lines without a prefix that still belong to the record before: a traceback, the pools' sums."""


class UnreadLines:
    """Counts such lines; one whose record says more in a known shape is not counted.

    Args:
        example_length: characters of the first line that are kept.
    """

    def __init__(self, example_length: int) -> None:
        self._example_length = example_length
        self._unread: Unread | None = None
        self._open: Unread | None = None

    def look(self, number: int, line: str) -> None:
        """Take a line that has no known shape."""
        if self._open is not None and number - self._open.last_line > _RECORD_LINES:
            self.close()
        if not any(word in line for word in _WORDS):
            return
        if _SPEAKS.search(line) is None or _DENIES.search(line) is not None:
            return
        example = line.strip()[: self._example_length]
        self._open = _together(self._open, Unread(1, number, number, example))

    def explain(self) -> None:
        """A known shape follows: what the record said before is part of that."""
        self._open = None

    def close(self) -> None:
        """The record ends: what was not explained stays unread."""
        if self._open is not None:
            self._unread = _together(self._unread, self._open)
            self._open = None

    def report(self) -> Unread | None:
        """All of them, after the last line; None where there are none."""
        self.close()
        return self._unread


def _together(before: Unread | None, after: Unread) -> Unread:
    if before is None:
        return after
    lines = before.lines + after.lines
    return Unread(lines, before.first_line, after.last_line, before.example)
