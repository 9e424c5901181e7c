"""Which command finds which fault of the registry; docs/fuzzing.md, docs/exploring.md show it."""

from __future__ import annotations

from typing import NamedTuple


class Hunt(NamedTuple):
    """Options beside `--allocator NAME`, and what they must find."""

    options: str
    kind: str
    length: int = 0


EXPLORE: dict[str, Hunt] = {
    "buggy": Hunt("", "stale-mapping", 2),
    "fault:25805": Hunt(
        "--callers wrong --moves extend,alias,tail,finish --control ideal",
        "stale-mapping",
        5,
    ),
    "fault:26078": Hunt(
        "--callers wrong --moves extend,alias,tail,finish --control ideal",
        "stale-mapping",
        5,
    ),
    "fault:36081": Hunt(
        "--moves extend,partial,group,load_back --depth 6", "mapping-overwritten", 6
    ),
    "fault:36646": Hunt(
        "--callers wrong --moves extend,finish,group,nest --control ideal", "accounting-mismatch", 5
    ),
    "fault:36646-late-lookup": Hunt(
        "--callers wrong --moves extend,finish,group,load_back,revive --control ideal --depth 7",
        "mapping-overwritten",
        7,
    ),
    "fault:38159": Hunt(
        "--callers wrong --moves extend,finish,group,nest --control ideal", "accounting-mismatch", 5
    ),
    "fault:38519": Hunt("", "padding-page", 2),
    "fault:36723": Hunt("--page-size 1", "padding-page", 3),
    "fault:36723-free-full": Hunt("", "orphaned-page", 3),
    "fault:35338": Hunt("", "half-allocation", 3),
    "fault:34399": Hunt("", "page-aliased", 2),
    "fault:35501": Hunt("--callers wrong --moves extend,alias,partial", "stale-mapping", 4),
    "fault:6888": Hunt(
        "--callers wrong --moves extend,finish,split --find double-free", "double-free", 4
    ),
}
"""Every fault of the registry, by the command that finds it as the shortest sequence."""

FUZZ: dict[str, Hunt] = {
    "buggy": Hunt("--callers sloppy", "stale-mapping"),
    "fault:25805": Hunt("--callers wrong --control ideal", "stale-mapping"),
    "fault:26078": Hunt("--callers wrong --control ideal", "stale-mapping"),
    "fault:36081": Hunt("--callers sloppy", "mapping-overwritten"),
    "fault:36646": Hunt("--callers wrong --mistakes nest --control ideal", "accounting-mismatch"),
    "fault:36646-late-lookup": Hunt("--callers wrong --control ideal", "mapping-overwritten"),
    "fault:38159": Hunt("--callers wrong --control ideal", "accounting-mismatch"),
    "fault:38519": Hunt("--callers sloppy", "padding-page"),
    "fault:36723": Hunt("--callers sloppy", "padding-page"),
    "fault:36723-free-full": Hunt("--callers sloppy", "orphaned-page"),
    "fault:35338": Hunt("--callers sloppy", "half-allocation"),
    "fault:34399": Hunt("--callers sloppy", "page-aliased"),
    "fault:35501": Hunt("--callers wrong --mistakes alias_evicted", "stale-mapping"),
    "fault:6888": Hunt("--callers wrong --mistakes split_page", "double-free"),
}
"""Every fault of the registry, by the callers that find it."""

FUZZ_SEEDS = 200
"""Traces within which `fuzz` must find each of them: the default of the command."""
