"""Phrases that every room writes alike.

What must not be added here: anything that knows a page, a finding or a format.
"""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: "1 page", "2 pages", "2 entries"."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"
