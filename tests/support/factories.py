"""Finished records, made by hand: what the reporters are shown in tests.

The story is the regression of PR 27779 with page size 4 and two pools of four pages.
"""

from __future__ import annotations

from typing import Any

from swasim.collect import Replay, Summary
from swasim.config import SimConfig
from swasim.lockstep import CompareCell, CompareRow, Comparison, Divergence, Verdict
from swasim.sanitizer.findings import Finding, Moment, PageCell, Surroundings
from swasim.timeline import TimelineRow

TRACE = "traces/pr27779.jsonl"

EXTEND = Moment(1, 2, "alloc_extend", "A")
FIRST_FREE = Moment(2, 3, "free_swa", "A", "swa_radix_cache.evict", 1.25)
SECOND_FREE = Moment(3, 4, "free_swa", "A")


def config(allocator: str = "buggy", **changes: Any) -> SimConfig:
    """Page size 4, four pages in each pool."""
    return SimConfig(page_size=4, kv_size=16, kv_size_swa=16, allocator=allocator, **changes)


def strip(*states: str) -> tuple[PageCell, ...]:
    """Pages 0, 1, ... from signs: `-` padding, `.` free, `2` free twice, else the owner."""
    cells = []
    for page, sign in enumerate(states):
        if sign == "-":
            cells.append(PageCell(page, "padding"))
        elif sign in ".2":
            cells.append(PageCell(page, "free", copies=2 if sign == "2" else 1))
        else:
            cells.append(PageCell(page, "live", owner=sign))
    return tuple(cells)


def stale_mapping() -> Finding:
    """The cause: entries of page 1 outlive the release of SWA page 1."""
    return Finding(
        kind="stale-mapping",
        severity="error",
        headline="3 entries still point at SWA page 1 after its release",
        at=FIRST_FREE,
        pool="swa",
        page=1,
        slots=(5, 6, 7),
        positions=(0, 1),
        allocated=EXTEND,
        mapped=EXTEND,
        released=None,
        surroundings=Surroundings(
            before=strip("-", "A", ".", ".", "."),
            after=strip("-", ".", ".", ".", "."),
            owners=(("A", "event 1 alloc_extend req A"),),
            free_pages=4,
            size_pages=4,
            available_tokens=16,
            size_tokens=16,
        ),
        notes=("free_swa cleared the entry of slot 4 only",),
        fingerprint="aaaa1111",
        help=("swasim inspect traces/pr27779.jsonl --allocator buggy --page swa:1",),
    )


def double_free() -> Finding:
    """The consequence: SWA page 1 enters the free list a second time."""
    return Finding(
        kind="double-free",
        severity="error",
        headline="SWA page 1 is released, but it is free already",
        at=SECOND_FREE,
        pool="swa",
        page=1,
        slots=(5,),
        positions=(1, 2),
        allocated=EXTEND,
        released=FIRST_FREE,
        surroundings=Surroundings(
            before=strip("-", ".", ".", ".", "."),
            after=strip("-", "2", ".", ".", "."),
            free_pages=5,
            size_pages=4,
            available_tokens=20,
            size_tokens=16,
        ),
        cause="aaaa1111",
        cause_at=2,
        cause_kind="stale-mapping",
        fingerprint="bbbb2222",
    )


def partial_free() -> Finding:
    """A warning that stands alone."""
    return Finding(
        kind="partial-page-free",
        severity="warning",
        headline="free_swa names 1 of 4 live tokens of page 1; the whole page goes",
        at=FIRST_FREE,
        pool="swa",
        page=1,
        fingerprint="cccc3333",
    )


def timeline() -> tuple[TimelineRow, ...]:
    """Three events and a gap of nine."""
    return (
        TimelineRow(1, 2, "alloc_extend", "A 0:4", "ok", 12, 12, -4, -4),
        TimelineRow(2, 3, "free_swa", "A 0:1", "ok", 12, 16, 0, 4, ("stale-mapping",)),
        TimelineRow(3, 4, "free_swa", "A 1:2", "ok", 12, 20, 0, 4, ("double-free",)),
        TimelineRow(13, 14, "alloc_decode", "3 reqs", "refused", 12, 20, 0, 0),
    )


def buggy_replay(**changes: Any) -> Replay:
    """Two errors, one a consequence, and a warning."""
    fields: dict[str, Any] = {
        "trace": TRACE,
        "config": config(),
        "allocator": "buggy",
        "findings": (stale_mapping(), partial_free(), double_free()),
        "timeline": timeline(),
        "timeline_skipped": 9,
        "summary": Summary(
            events=13,
            calls=13,
            refused=1,
            full_available=12,
            swa_available=20,
            errors=2,
            warnings=1,
            consequences=1,
        ),
    }
    return Replay(**{**fields, **changes})


def clean_replay(**changes: Any) -> Replay:
    """The same trace on `fixed`: nothing to report."""
    fields: dict[str, Any] = {
        "trace": TRACE,
        "config": config("fixed"),
        "allocator": "fixed",
        "timeline": (
            TimelineRow(1, 2, "alloc_extend", "A 0:4", "ok", 12, 12, -4, -4),
            TimelineRow(2, 3, "free_swa", "A 0:1", "ok", 12, 16, 0, 4),
            TimelineRow(3, 4, "free_swa", "A 1:2", "ok", 12, 16, 0, 0),
        ),
        "summary": Summary(events=3, calls=3, full_available=12, swa_available=16),
    }
    return Replay(**{**fields, **changes})


def comparison() -> Comparison:
    """`buggy` and `fixed` side by side; they part at event 2."""
    buggy = buggy_replay(
        timeline=timeline()[:3],
        timeline_skipped=0,
        findings=(stale_mapping(), double_free()),
        summary=Summary(
            events=3, calls=3, full_available=12, swa_available=20, errors=2, consequences=1
        ),
    )
    free = ("free_swa", "A 0:1"), ("free_swa", "A 1:2")
    return Comparison(
        trace=TRACE,
        runs=(buggy, clean_replay()),
        verdicts=(
            Verdict("buggy", False, True, "known fault, PR 27779: found at event 2"),
            Verdict("fixed", True, False, ""),
        ),
        rows=(
            CompareRow(
                1,
                2,
                "alloc_extend",
                "A 0:4",
                (CompareCell(12, 12, "ok"), CompareCell(12, 12, "ok")),
            ),
            CompareRow(
                2,
                3,
                *free[0],
                (CompareCell(12, 16, "ok", ("stale-mapping",)), CompareCell(12, 16, "ok")),
                parted=True,
            ),
            CompareRow(
                3,
                4,
                *free[1],
                (CompareCell(12, 20, "ok", ("double-free",)), CompareCell(12, 16, "ok")),
            ),
        ),
        first_divergence=Divergence(
            2, 3, "free_swa", "mapping", ("slots 5-7 -> SWA 5-7", "every entry 0")
        ),
    )
