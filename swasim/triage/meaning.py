"""What a sign and a shape mean: tables from numbers to families of faults and public issues.

Kinds are the finding kinds of `swasim explain`. The first rule that fits is taken, so the
special ones stand first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from swasim.triage.families import (
    ALIASED,
    DOUBLE,
    FOREIGN,
    HALF,
    LEAKED,
    MISALIGNED,
    ORPHAN,
    OVERWRITTEN,
    PADDING,
    REMAP,
    STALE,
    WINDOW,
)
from swasim.triage.issues import issues
from swasim.triage.report import Family, Issue, Sign

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


RULES = (
    Rule(
        "swa",
        "over",
        ("balanced", "unknown"),
        True,
        "Exactly one SWA page is counted twice: it is in the free list and held as well. "
        "That is a release at page granularity through an entry that should have been cleared.",
        (STALE, FOREIGN, DOUBLE),
        issues(27779, 27789, 27586, 25805),
    ),
    Rule(
        "swa",
        "over",
        ("balanced", "unknown"),
        False,
        "SWA tokens are counted twice while the full pool balances: freed and still held by the "
        "tree or a row.",
        (STALE, FOREIGN, WINDOW, PADDING),
        issues(25805, 27789, 22470, 29350, 38519),
    ),
    Rule(
        "swa",
        "under",
        ("balanced", "unknown"),
        False,
        "SWA tokens are missing while the full pool balances: they are neither free nor held by "
        "anybody. Their entry was overwritten or cleared without releasing the page.",
        (ORPHAN, OVERWRITTEN, REMAP),
        issues(36081, 36646, 36723),
    ),
    Rule(
        "swa",
        "under",
        ("over",),
        False,
        "The full pool counts tokens twice and the SWA pool misses some: a full page went to two "
        "owners, and the second one's allocation overwrote the entry of the first.",
        (DOUBLE, ALIASED, OVERWRITTEN),
        issues("FreeToken 204", 27731),
    ),
    Rule(
        "full",
        "over",
        ("under",),
        False,
        "Full pages are in the free list and held as well, and SWA pages got lost with them.",
        (DOUBLE, ALIASED, OVERWRITTEN),
        issues("FreeToken 204", 27731),
    ),
    Rule(
        "full",
        "over",
        ("over",),
        False,
        "Both pools count tokens twice: the same piece of a row was released on two paths, or "
        "the tree still counts what was released.",
        (DOUBLE, FOREIGN, MISALIGNED),
        issues(34823, 34870, 31486, 38981),
    ),
    Rule(
        "swa",
        "over",
        ("over",),
        False,
        "Counted twice here as in the full pool; read the two together.",
        (DOUBLE, FOREIGN, WINDOW),
        issues(34823, 34870, 31486, 22470),
    ),
    Rule(
        "full",
        "under",
        ("under",),
        False,
        "Both pools miss tokens: a request, a draft tail or a tree node was dropped without "
        "its release.",
        (LEAKED, MISALIGNED),
        issues(7130, 26972, 19518, 37100),
    ),
    Rule(
        "swa",
        "under",
        ("under",),
        False,
        "Missing here as in the full pool; read the two together.",
        (LEAKED, ORPHAN),
        issues(7130, 26972, 37100),
    ),
    Rule(
        "full",
        "under",
        (),
        False,
        "Full tokens are missing and the SWA pool does not miss any: pages were taken by a call "
        "that failed on the SWA side, or only the SWA half was released.",
        (HALF, LEAKED, ORPHAN),
        issues(35338, 26972, 37100),
    ),
    Rule(
        "full",
        "over",
        (),
        False,
        "Full tokens are counted twice: released while the tree or a row still holds them.",
        (DOUBLE, FOREIGN, ALIASED),
        issues(6888, 27731, 38981),
    ),
    Rule(
        "swa",
        "over",
        (),
        False,
        "SWA tokens are counted twice while full tokens are missing: two faults, or a mapping "
        "that sends releases to the wrong pages.",
        (STALE, FOREIGN, HALF),
        issues(27779, 25805, 35338),
    ),
    Rule(
        "kv",
        "over",
        (),
        False,
        "Tokens are counted twice: released while the tree or a request still holds them.",
        (DOUBLE, FOREIGN, ALIASED),
        issues(6888, 38981, 27731),
    ),
    Rule(
        "kv",
        "under",
        (),
        False,
        "Tokens are missing: allocated, and neither the tree nor a request holds them.",
        (LEAKED, MISALIGNED),
        issues(7130, 11970, 26972, 19518),
    ),
    Rule(
        "swa",
        "under",
        (),
        False,
        "SWA tokens are missing: neither free nor held by anybody.",
        (ORPHAN, OVERWRITTEN, LEAKED),
        issues(36081, 36646),
    ),
    Rule(
        "mamba",
        "over",
        (),
        False,
        "State slots are counted twice. swasim does not model the mamba pool; the same call "
        "sites usually release KV pages as well.",
        (DOUBLE,),
        issues(12994),
    ),
    Rule(
        "mamba",
        "under",
        (),
        False,
        "State slots are missing. swasim does not model the mamba pool; look at the paths on "
        "which admission fails after the slot was taken.",
        (LEAKED,),
        issues(16067, 26941),
    ),
    Rule(
        "req",
        "under",
        (),
        False,
        "Rows of the request table were not returned: a request ended on a path that skips its "
        "release. Its KV pages usually leak with it.",
        (LEAKED,),
        issues(37100, 7130),
    ),
    Rule(
        "req",
        "over",
        (),
        False,
        "Rows of the request table were returned twice: a request was released twice.",
        (DOUBLE,),
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
