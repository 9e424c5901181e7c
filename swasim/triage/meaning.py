"""What a sign and a shape mean: tables from numbers to families of faults and public issues.

Kinds are the finding kinds of `swasim explain`. The first rule that fits is taken, so the
special ones stand first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from swasim.triage.issues import issues
from swasim.triage.report import Family, Issue, Severity, Sign

Other = Literal["over", "under", "balanced", "unknown"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table. `others` are the states of the other pool that it fits; empty fits all.

    Args:
        one_page_only: True: only where the amount is exactly one page, larger than a token.
    """

    pool: str
    sign: Sign
    others: tuple[Other, ...]
    one_page_only: bool
    says: str
    families: tuple[Family, ...]
    issues: tuple[Issue, ...]


_STALE = Family("stale-mapping", "a release left entries that still name the SWA page")
_FOREIGN = Family("foreign-free", "the page was released under its new owner")
_DOUBLE = Family("double-free", "the same page was returned twice")
_ORPHAN = Family("orphaned-page", "no entry and no row reaches the page any more")
_OVERWRITTEN = Family("mapping-overwritten", "an entry of a live SWA page was replaced")
_REMAP = Family("remap-in-free-group", "an entry was rewritten while its release was queued")
_LEAKED = Family("leaked-page", "a release path did not run, or released too few tokens")
_HALF = Family("half-allocation", "a refused call kept what the full pool had given")
_ALIASED = Family("page-aliased", "one page has two owners, each of them counted")
_PADDING = Family("padding-page", "page 0 entered the free list")
_WINDOW = Family("window-violation", "tokens evicted from the window are still held as live")
_OVERFLOW = Family("accounting-overflow", "more pages are free than the pool has")
_MISALIGNED = Family("misaligned", "lengths in tokens and pages do not meet at a page boundary")
_STARVED = Family("false-exhaustion", "an allocation is refused although pages could be had")

RULES = (
    Rule(
        "swa",
        "over",
        ("balanced", "unknown"),
        True,
        "Exactly one SWA page is counted twice: it is in the free list and held as well. "
        "That is a release at page granularity through an entry that should have been cleared.",
        (_STALE, _FOREIGN, _DOUBLE),
        issues(27779, 27789, 27586, 25805),
    ),
    Rule(
        "swa",
        "over",
        ("balanced", "unknown"),
        False,
        "SWA tokens are counted twice while the full pool balances: freed and still held by the "
        "tree or a row.",
        (_STALE, _FOREIGN, _WINDOW, _PADDING),
        issues(25805, 27789, 22470, 29350, 38519),
    ),
    Rule(
        "swa",
        "under",
        ("balanced", "unknown"),
        False,
        "SWA tokens are missing while the full pool balances: they are neither free nor held by "
        "anybody. Their entry was overwritten or cleared without releasing the page.",
        (_ORPHAN, _OVERWRITTEN, _REMAP),
        issues(36081, 36646, 36723),
    ),
    Rule(
        "swa",
        "under",
        ("over",),
        False,
        "The full pool counts tokens twice and the SWA pool misses some: a full page went to two "
        "owners, and the second one's allocation overwrote the entry of the first.",
        (_DOUBLE, _ALIASED, _OVERWRITTEN),
        issues("FreeToken 204", 27731),
    ),
    Rule(
        "full",
        "over",
        ("under",),
        False,
        "Full pages are in the free list and held as well, and SWA pages got lost with them.",
        (_DOUBLE, _ALIASED, _OVERWRITTEN),
        issues("FreeToken 204", 27731),
    ),
    Rule(
        "full",
        "over",
        ("over",),
        False,
        "Both pools count tokens twice: the same piece of a row was released on two paths, or "
        "the tree still counts what was released.",
        (_DOUBLE, _FOREIGN, _MISALIGNED),
        issues(34823, 34870, 31486, 38981),
    ),
    Rule(
        "swa",
        "over",
        ("over",),
        False,
        "Counted twice here as in the full pool; read the two together.",
        (_DOUBLE, _FOREIGN, _WINDOW),
        issues(34823, 34870, 31486, 22470),
    ),
    Rule(
        "full",
        "under",
        ("under",),
        False,
        "Both pools miss tokens: a request, a draft tail or a tree node was dropped without "
        "its release.",
        (_LEAKED, _MISALIGNED),
        issues(7130, 26972, 19518, 37100),
    ),
    Rule(
        "swa",
        "under",
        ("under",),
        False,
        "Missing here as in the full pool; read the two together.",
        (_LEAKED, _ORPHAN),
        issues(7130, 26972, 37100),
    ),
    Rule(
        "full",
        "under",
        (),
        False,
        "Full tokens are missing and the SWA pool does not miss any: pages were taken by a call "
        "that failed on the SWA side, or only the SWA half was released.",
        (_HALF, _LEAKED, _ORPHAN),
        issues(35338, 26972, 37100),
    ),
    Rule(
        "full",
        "over",
        (),
        False,
        "Full tokens are counted twice: released while the tree or a row still holds them.",
        (_DOUBLE, _FOREIGN, _ALIASED),
        issues(6888, 27731, 38981),
    ),
    Rule(
        "swa",
        "over",
        (),
        False,
        "SWA tokens are counted twice while full tokens are missing: two faults, or a mapping "
        "that sends releases to the wrong pages.",
        (_STALE, _FOREIGN, _HALF),
        issues(27779, 25805, 35338),
    ),
    Rule(
        "kv",
        "over",
        (),
        False,
        "Tokens are counted twice: released while the tree or a request still holds them.",
        (_DOUBLE, _FOREIGN, _ALIASED),
        issues(6888, 38981, 27731),
    ),
    Rule(
        "kv",
        "under",
        (),
        False,
        "Tokens are missing: allocated, and neither the tree nor a request holds them.",
        (_LEAKED, _MISALIGNED),
        issues(7130, 11970, 26972, 19518),
    ),
    Rule(
        "swa",
        "under",
        (),
        False,
        "SWA tokens are missing: neither free nor held by anybody.",
        (_ORPHAN, _OVERWRITTEN, _LEAKED),
        issues(36081, 36646),
    ),
    Rule(
        "mamba",
        "over",
        (),
        False,
        "State slots are counted twice. swasim does not model the mamba pool; the same call "
        "sites usually release KV pages as well.",
        (_DOUBLE,),
        issues(12994),
    ),
    Rule(
        "mamba",
        "under",
        (),
        False,
        "State slots are missing. swasim does not model the mamba pool; look at the paths on "
        "which admission fails after the slot was taken.",
        (_LEAKED,),
        issues(16067, 26941),
    ),
    Rule(
        "req",
        "under",
        (),
        False,
        "Rows of the request table were not returned: a request ended on a path that skips its "
        "release. Its KV pages usually leak with it.",
        (_LEAKED,),
        issues(37100, 7130),
    ),
    Rule(
        "req",
        "over",
        (),
        False,
        "Rows of the request table were returned twice: a request was released twice.",
        (_DOUBLE,),
        issues(28702, 13801),
    ),
)


def rule_for(pool: str, sign: Sign, other: Other, one_page: bool) -> Rule:
    """The first rule that fits; every pool and sign has one."""
    name = "mamba" if pool.startswith("mamba") else pool
    for rule in RULES:
        if rule.pool != name or rule.sign != sign or (rule.one_page_only and not one_page):
            continue
        if not rule.others or other in rule.others:
            return rule
    raise LookupError(f"no rule for pool {pool!r}, sign {sign!r}")


@dataclass(frozen=True, slots=True)
class Signal:
    """A line that says something without an equation."""

    shape: str
    pattern: re.Pattern[str]
    severity: Severity
    pool: str
    headline: str
    says: str
    families: tuple[Family, ...]
    issues: tuple[Issue, ...]


def _signal(
    shape: str,
    pattern: str,
    severity: Severity,
    pool: str,
    headline: str,
    says: str,
    families: tuple[Family, ...] = (),
    public: tuple[Issue, ...] = (),
) -> Signal:
    return Signal(shape, re.compile(pattern), severity, pool, headline, says, families, public)


SIGNALS = (
    _signal(
        "SWA over-free assert",
        r"swa_attn_allocator\.available_size\(\) <= self\.swa_attn_allocator\.size",
        "error",
        "swa",
        "the SWA pool has more free tokens than it has tokens",
        "A release pushed an SWA page that was free already. The assert fires after the state "
        "has changed and at the last release of a chain: the fault lies earlier.",
        (_OVERFLOW, _STALE, _DOUBLE, _PADDING),
        issues(25805, 27779, 38519),
    ),
    _signal(
        "full over-free assert",
        r"full_attn_allocator\.available_size\(\) <= self\.full_attn_allocator\.size",
        "error",
        "full",
        "the full pool has more free tokens than it has tokens",
        "A release pushed a full page that was free already; the fault lies earlier.",
        (_OVERFLOW, _DOUBLE),
        issues(6888, 38981),
    ),
    _signal(
        "committed KV freed twice",
        r"Committed KV cache already freed \(self\.kv_committed_len=(?P<tokens>\d+)\)",
        "error",
        "",
        "a request was released twice",
        "The request's committed tokens were released before; the second caller is in this "
        "traceback, the first one is not.",
        (_DOUBLE,),
        issues(28702, 13801),
    ),
    _signal(
        "lock underflow",
        r"dec_lock_ref on node with node\.\w+=(?P<value>-?\d+)",
        "error",
        "",
        "a lock of a prefix-cache node was released once too often",
        "The cache's locks are out of balance, the allocator's pages are not (yet): a page that "
        "loses its lock may be evicted under a reader, which shows as a use after free.",
        (Family("use-after-free", "a page evicted under its reader"),),
        issues(24153, 24972, 36848),
    ),
    _signal(
        "segment overlap",
        r"segment at (?P<start>\d+) shares a page with the one ending at (?P<end>\d+)",
        "error",
        "",
        "two pieces of a row that are released together share a page",
        "A row was cut inside a page and both pieces were released; without this assert the "
        "shared page would be returned twice.",
        (_MISALIGNED, Family("partial-page-free", "part of a page is named, the whole page goes")),
        issues(38981),
    ),
    _signal(
        "nested free group",
        r"free groups cannot be nested",
        "error",
        "",
        "a free group was opened inside another",
        "The inner begin is refused; releases up to 0.5.19 dropped what was queued in silence.",
        (_LEAKED,),
    ),
    _signal(
        "canary",
        r"kv_canary violation: launch_tag=(?P<tag>\w+) fail_reason=(?P<reason>[\w+]+) "
        r"slot_idx=(?P<slot>-?\d+) position=(?P<position>-?\d+)",
        "error",
        "",
        "the canary read a slot that somebody else wrote",
        "The slot's stamp names another token or position: two rows use one slot. The canary "
        "shows the slot that was overwritten, not who did it.",
        (_ALIASED, Family("use-after-free", "written through a released slot"), _OVERWRITTEN),
        issues(33656),
    ),
    _signal(
        "duplicate free pages",
        r"KV double free: sub-pool (?P<pool>\d+) has (?P<pages>\d+) duplicate pages",
        "error",
        "",
        "pages stand twice in a free list",
        "SGLANG_CHECK_KV_PAGE_INVARIANTS found repeats; sub-pool 0 is full, 1 is SWA.",
        (_DOUBLE, _FOREIGN),
        issues(27731, 27779),
    ),
    _signal(
        "owned page in free list",
        r"KV page use-after-free: (?P<refs>\d+) owner page refs",
        "error",
        "full",
        "rows name pages that are in the free list",
        "A row still uses full pages that were released; the next allocation hands them out.",
        (Family("use-after-free", "a row names released pages"), _ALIASED),
        issues(27731),
    ),
    _signal(
        "device invariant",
        r"\bswa\.(?P<name>peer_mapped|peer_released|virtual_live)\b",
        "error",
        "swa",
        "a device-side SWA invariant failed",
        "Reported at the next sync point, so the Python stack is not the culprit's.",
        (_PADDING, _ORPHAN),
        issues(36723, 38519),
    ),
    _signal(
        "allocation failed after admission",
        r"KV cache is full!",
        "error",
        "",
        "an admitted request found no pages",
        "Admission counted pages that could not be had: evictable pages of the other pool, or "
        "pages that were lost before. Compare the SWA terms of the line with what was required.",
        (_STARVED, _LEAKED),
        issues(29662, 40309),
    ),
    _signal(
        "SWA pool exhausted",
        r"SWA pool exhausted",
        "error",
        "swa",
        "the SWA pool ran out",
        "SWA pages were lost, or the window is not evicted.",
        (_ORPHAN, _OVERWRITTEN, _STARVED),
        issues("FreeToken 204", 33805),
    ),
    _signal(
        "out of memory",
        r"(?P<phase>Prefill|Decode) out of memory\. Try to lower",
        "error",
        "",
        "an allocation failed that the scheduler had planned",
        "The scheduler believed that the pages were there. Look at which pool is short.",
        (_STARVED, _HALF, _LEAKED),
        issues(35338, 29662),
    ),
    _signal(
        "illegal memory access",
        r"CUDA error: an illegal memory access|CUDA error: device-side assert triggered"
        r"|Memory access fault by GPU",
        "error",
        "",
        "a kernel used an index that it must not use",
        "Reported at the next sync point. An entry that is out of range or names a released "
        "page is one family of causes; sizes that differ between pools are another.",
        (
            Family("index-out-of-range", "a slot outside the pool"),
            Family("use-after-free", "a slot of a released page"),
        ),
        issues(17630, 26966, 9123),
    ),
    _signal(
        "retraction",
        r"KV cache pool is full\. Retract requests\.(?:.*#new_tokens_gained: (?P<tokens>\d+))?",
        "warning",
        "",
        "requests were retracted because a pool was full",
        "Pressure, not a fault by itself. With pages lost earlier it comes sooner and sooner.",
        (_STARVED,),
        issues(33805, 28246),
    ),
)
