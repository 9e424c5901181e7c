"""What is known of a page in plain numbers, side by side: one look at memory finds all of it.

A pool keeps them in one array, `CELL` of them for each page.
"""

from __future__ import annotations

CELL = 4
"""Numbers for each page."""

STANDING, FILL, MARK, NOTE = range(CELL)
"""Which they are: OWNERLESS, OWNED or QUEUED; slots that were handed out, counted from the first;
the last call that noted something about the page, and what. The last two mean nothing at the next
call (`steady.py`)."""

OWNERLESS, OWNED, QUEUED = range(3)
"""Nobody owns the page; somebody does; somebody does, and its release waits for a group to end."""
