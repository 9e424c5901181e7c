"""Lines that say something without an equation, and what they mean."""

from __future__ import annotations

import re
from dataclasses import dataclass

from swasim.triage.families import (
    ALIASED,
    DOUBLE,
    FOREIGN,
    HALF,
    LEAKED,
    MISALIGNED,
    ORPHAN,
    OVERFLOW,
    OVERWRITTEN,
    PADDING,
    STALE,
    STARVED,
)
from swasim.triage.issues import issues
from swasim.triage.report import Family, Issue, Severity


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


SIGNAL_WORDS = (
    "_attn_allocator",
    "already freed",
    "dec_lock_ref",
    "shares a page",
    "be nested",
    "kv_canary",
    "KV ",
    "swa.",
    "SWA pool",
    "out of memory",
    "CUDA error",
    "access fault",
)
"""Every line with a signal holds one of these; looked for first, because it is cheap."""

SIGNALS = (
    _signal(
        "SWA over-free assert",
        r"swa_attn_allocator\.available_size\(\) <= self\.swa_attn_allocator\.size",
        "error",
        "swa",
        "the SWA pool has more free tokens than it has tokens",
        "A release pushed an SWA page that was free already. The assert fires after the state "
        "has changed and at the last release of a chain: the fault lies earlier.",
        (OVERFLOW, STALE, DOUBLE, PADDING),
        issues(25805, 27779, 38519),
    ),
    _signal(
        "full over-free assert",
        r"full_attn_allocator\.available_size\(\) <= self\.full_attn_allocator\.size",
        "error",
        "full",
        "the full pool has more free tokens than it has tokens",
        "A release pushed a full page that was free already; the fault lies earlier.",
        (OVERFLOW, DOUBLE),
        issues(6888, 38981),
    ),
    _signal(
        "committed KV freed twice",
        r"Committed KV cache already freed \(self\.kv_committed_len=\d+\)",
        "error",
        "",
        "a request was released twice",
        "The request's committed tokens were released before; the second caller is in this "
        "traceback, the first one is not.",
        (DOUBLE,),
        issues(28702, 13801),
    ),
    _signal(
        "lock underflow",
        r"dec_lock_ref on node with node\.\w+=-?\d+",
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
        r"segment at \d+ shares a page with the one ending at \d+",
        "error",
        "",
        "two pieces of a row that are released together share a page",
        "A row was cut inside a page and both pieces were released; without this assert the "
        "shared page would be returned twice.",
        (MISALIGNED, Family("partial-page-free", "part of a page is named, the whole page goes")),
        issues(38981),
    ),
    _signal(
        "nested free group",
        r"free groups cannot be nested",
        "error",
        "",
        "a free group was opened inside another",
        "The inner begin is refused; releases up to 0.5.19 dropped what was queued in silence.",
        (LEAKED,),
    ),
    _signal(
        "canary",
        r"kv_canary violation: launch_tag=\w+ fail_reason=[\w+]+ "
        r"slot_idx=-?\d+ position=-?\d+",
        "error",
        "",
        "the canary read a slot that somebody else wrote",
        "The slot's stamp names another token or position: two rows use one slot. The canary "
        "shows the slot that was overwritten, not who did it.",
        (ALIASED, Family("use-after-free", "written through a released slot"), OVERWRITTEN),
        issues(33656),
    ),
    _signal(
        "duplicate free pages",
        r"KV double free: sub-pool \d+ has \d+ duplicate pages",
        "error",
        "",
        "pages stand twice in a free list",
        "SGLANG_CHECK_KV_PAGE_INVARIANTS found repeats; sub-pool 0 is full, 1 is SWA.",
        (DOUBLE, FOREIGN),
        issues(27731, 27779),
    ),
    _signal(
        "owned page in free list",
        r"KV page use-after-free: \d+ owner page refs",
        "error",
        "full",
        "rows name pages that are in the free list",
        "A row still uses full pages that were released; the next allocation hands them out.",
        (Family("use-after-free", "a row names released pages"), ALIASED),
        issues(27731),
    ),
    _signal(
        "device invariant",
        r"\bswa\.(?:peer_mapped|peer_released|virtual_live)\b",
        "error",
        "swa",
        "a device-side SWA invariant failed",
        "Reported at the next sync point, so the Python stack is not the culprit's.",
        (PADDING, ORPHAN),
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
        (STARVED, LEAKED),
        issues(29662, 40309),
    ),
    _signal(
        "SWA pool exhausted",
        r"SWA pool exhausted",
        "error",
        "swa",
        "the SWA pool ran out",
        "SWA pages were lost, or the window is not evicted.",
        (ORPHAN, OVERWRITTEN, STARVED),
        issues("FreeToken 204", 33805),
    ),
    _signal(
        "out of memory",
        r"(?:Prefill|Decode) out of memory\. Try to lower",
        "error",
        "",
        "an allocation failed that the scheduler had planned",
        "The scheduler believed that the pages were there. Look at which pool is short.",
        (STARVED, HALF, LEAKED),
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
        r"KV cache pool is full\. Retract requests\.(?:.*#new_tokens_gained: \d+)?",
        "warning",
        "",
        "requests were retracted because a pool was full",
        "Pressure, not a fault by itself. With pages lost earlier it comes sooner and sooner.",
        (STARVED,),
        issues(33805, 28246),
    ),
)
