"""The families of faults that several lines point at, each with its reason in a few words."""

from __future__ import annotations

from swasim.triage.report import Family

STALE = Family("stale-mapping", "a release left entries that still name the SWA page")
FOREIGN = Family("foreign-free", "the page was released under its new owner")
DOUBLE = Family("double-free", "the same page was returned twice")
ORPHAN = Family("orphaned-page", "no entry and no row reaches the page any more")
OVERWRITTEN = Family("mapping-overwritten", "an entry of a live SWA page was replaced")
REMAP = Family("remap-in-free-group", "an entry was rewritten while its release was queued")
LEAKED = Family("leaked-page", "a release path did not run, or released too few tokens")
HALF = Family("half-allocation", "a refused call kept what the full pool had given")
ALIASED = Family("page-aliased", "one page has two owners, each of them counted")
PADDING = Family("padding-page", "page 0 entered the free list")
WINDOW = Family("window-violation", "tokens evicted from the window are still held as live")
OVERFLOW = Family("accounting-overflow", "more pages are free than the pool has")
MISALIGNED = Family("misaligned", "lengths in tokens and pages do not meet at a page boundary")
STARVED = Family("false-exhaustion", "an allocation is refused although pages could be had")
