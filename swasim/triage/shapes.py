"""One log line to what it says: the shapes that servers print, old and new.

A shape is recognised anywhere in a line, so container prefixes, JSON wrapping and quoting in
bug reports do no harm. Nothing here remembers earlier lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from swasim.triage.report import Terms

ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
PREFIX = re.compile(r"\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?((?: +[A-Z]{2,5}\d+)*)\]")
WATCHDOG = re.compile(r"cur_batch\w*\.batch_size\(\)=|[Ww]atchdog timeout")
PAGE_SIZE = re.compile(r"\bpage[_ -]size['\"]?\s*[=:]\s*(\d{1,6})\b")

_CONTEXTS = (
    ("busy", re.compile(r"\[Mem Check \(BUSY\)\]|Mem Leak Detected!")),
    ("idle", re.compile(r"memory leak detected!")),
    ("watchdog", WATCHDOG),
)
_CONTEXT_WORDS = ("Mem ", "leak detected!", "batch_size()=", "atchdog timeout")
_EQUATION_WORDS = ("avail", "capacity(", "total_tokens=")
_NEW = re.compile(r"\[(full|swa|mamba[\w-]{0,16})\] ((?:[a-z_]+=-?\d+(?:, )?){3,8})")
_FREETOKEN = re.compile(r"free\((\d+)\) ?\+ ?tree\((\d+)\) ?(?:!=|==) ?capacity\((\d+)\)")
_JAX = re.compile(
    r"\[dp=(\d+)\] expected=(-?\d+), avail(?:able)?=(-?\d+), evict(?:able)?=(-?\d+)"
    r"(?:, protected=(-?\d+))?"
)
_TOTAL_VERSUS = re.compile(r"total_tokens=(-?\d+) vs self\.max_total_num_tokens=(-?\d+)")
_PAIR = re.compile(r"([A-Za-z_][\w.]*(?:\(\))?)=(-?\d+)")
_SET = re.compile(r"(leaked_\w+_pages)=\{([\d, ]*)")
_USAGE = re.compile(r"(?:Prefill|Decode) batch\b")
_USAGE_FIELD = re.compile(r"(#?[a-z][a-z -]*?): (-?\d+(?:\.\d+)?)(?=[,\s]|$)")

_OLD_KEYS = {
    "full_tokens_per_layer": ("full", "total"),
    "full_available_size": ("full", "available"),
    "full_evictable_size": ("full", "evictable"),
    "full_protected_size": ("full", "protected"),
    "full_protected": ("full", "protected"),
    "session_held_full": ("full", "session_held"),
    "token_to_kv_pool_allocator.size": ("full", "total"),
    "swa_tokens_per_layer": ("swa", "total"),
    "swa_available_size": ("swa", "available"),
    "swa_evictable_size": ("swa", "evictable"),
    "swa_protected_size": ("swa", "protected"),
    "swa_protected": ("swa", "protected"),
    "session_held_swa": ("swa", "session_held"),
    "mamba_available_size": ("mamba", "available"),
    "mamba_evictable_size": ("mamba", "evictable"),
    "mamba_protected_size": ("mamba", "protected"),
    "req_to_token_pool.mamba_pool.size": ("mamba", "total"),
    "max_total_num_tokens": ("kv", "total"),
    "available_size": ("kv", "available"),
    "evictable_size": ("kv", "evictable"),
    "protected_size": ("kv", "protected"),
    "session_held": ("kv", "session_held"),
    "uncached_size": ("kv", "uncached"),
    "total_size": ("req", "total"),
}


@dataclass(frozen=True, slots=True)
class Equation:
    """One pool's terms. `when` is "idle", "busy", "watchdog" or "" ; `leaked` samples page sets."""

    shape: str
    pool: str
    terms: Terms
    when: str
    rank: str | None = None
    leaked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """A prefill or decode line: usages are fractions, None where absent."""

    full_usage: float | None
    swa_usage: float | None
    running: int | None
    queued: int | None


def clean(line: str) -> str:
    """The line without colours, NULs and its end."""
    if "\x1b" in line:
        line = ANSI.sub("", line)
    return line.replace("\x00", "").rstrip("\r\n")


def context_of(text: str) -> str:
    """When the checker ran, by the last header in `text`; "" where there is none."""
    best, where = "", -1
    if not any(word in text for word in _CONTEXT_WORDS):
        return best
    for name, pattern in _CONTEXTS:
        for match in pattern.finditer(text):
            if match.start() > where:
                best, where = name, match.start()
    return best


def equations(line: str, carried: str) -> Iterator[Equation]:
    """Every pool equation in the line; `carried` is the header that earlier lines left."""
    if not any(word in line for word in _EQUATION_WORDS):
        return
    if "leak-check skipped" in line or "dcp_physical_page_slack_allowed" in line:
        return
    found = False
    for match in _NEW.finditer(line):
        values = {key: int(number) for key, number in _PAIR.findall(match[2])}
        if "total" in values and "available" in values:
            found = True
            when = context_of(line[: match.start()]) or carried
            yield Equation("pool line", match[1], _terms(values), when, None, _leaked(line))
    if found:
        return
    for match in _FREETOKEN.finditer(line):
        found = True
        free, tree, capacity = (int(group) for group in match.groups())
        pool = "full" if "full-slot" in line.lower() else "swa" if "swa" in line.lower() else "kv"
        yield Equation("FreeToken", pool, Terms(capacity, free, tree, 0, 0, 0), "idle")
    for match in _JAX.finditer(line):
        found = True
        total, free, tree = (int(match[i]) for i in (2, 3, 4))
        pool = "swa" if "swa" in line.lower() else "kv"
        held = int(match[5] or 0)
        rank = f"dp={match[1]}"
        yield Equation("sgl-jax", pool, Terms(total, free, tree, held, 0, 0), "idle", rank)
    for match in _TOTAL_VERSUS.finditer(line):
        found = True
        terms = Terms(int(match[2]), int(match[1]), 0, 0, 0, 0)
        yield Equation("busy check total", "kv", terms, "busy")
    if not found:
        yield from _old(line, carried)


def _old(line: str, carried: str) -> Iterator[Equation]:
    pools: dict[str, dict[str, int]] = {}
    for key, number in _PAIR.findall(line):
        name = key.removesuffix("()").removeprefix("self.").removeprefix("tree_cache.")
        place = _OLD_KEYS.get(name)
        if place is not None:
            pools.setdefault(place[0], {})[place[1]] = int(number)
    when = context_of(line) or carried
    if "req" in pools or "req_to_token_pool memory leak" in line:
        rows = pools.get("kv", {}) | pools.get("req", {})
        if "total" in rows and "available" in rows:
            yield Equation("request rows", "req", _terms(rows), when)
        return
    for pool, values in pools.items():
        if "total" in values and "available" in values:
            yield Equation("old pool line", pool, _terms(values), when, None, _leaked(line))


def _terms(values: dict[str, int]) -> Terms:
    return Terms(
        values["total"],
        values["available"],
        values.get("evictable", 0),
        values.get("protected", 0),
        values.get("session_held", 0),
        values.get("uncached", 0),
    )


def _leaked(line: str) -> tuple[str, ...]:
    """`leaked_mamba_pages: 3 (191, 204, 207)` for each set in the line; at most 8 ids each."""
    notes = []
    for name, ids in _SET.findall(line):
        pages = [page for page in ids.replace(" ", "").split(",") if page]
        shown = ", ".join(pages[:8]) + (", …" if len(pages) > 8 else "")
        notes.append(f"{name}: {len(pages)} ({shown})")
    return tuple(notes)


def usage(line: str) -> Usage | None:
    """The numbers of a prefill or decode line, or None."""
    match = _USAGE.search(line)
    if match is None or "usage: " not in line:
        return None
    fields = dict(_USAGE_FIELD.findall(line, match.end()))

    def real(name: str) -> float | None:
        return float(fields[name]) if name in fields else None

    def count(name: str) -> int | None:
        return int(float(fields[name])) if name in fields else None

    full = real("full token usage")
    return Usage(
        full if full is not None else real("token usage"),
        real("swa token usage"),
        count("#running-req"),
        count("#queue-req"),
    )


RECOGNISED = (
    ("pool line", "[swa] total=N, available=N, evictable=N, protected=N, session_held=N, …"),
    ("old pool line", "…memory leak detected! self.max_total_num_tokens=N, available_size=N, …"),
    ("old pool line", "self.swa_tokens_per_layer=N, swa_available_size=N, swa_evictable_size=N, …"),
    ("busy check", "[Mem Check (BUSY)] [full] total=N, available=N, …"),
    ("busy check total", "Mem Leak Detected! total_tokens=N vs self.max_total_num_tokens=N"),
    ("request rows", "req_to_token_pool memory leak detected!available_size=N, total_size=N"),
    ("sgl-jax", "[dp=0] expected=N, avail=N, evict=N, protected=N"),
    ("FreeToken", "free(N) + tree(N) != capacity(N)"),
    ("SWA over-free assert", "assert self.swa_attn_allocator.available_size() <= …size"),
    ("committed KV freed twice", "Committed KV cache already freed (self.kv_committed_len=N)"),
    ("lock underflow", "dec_lock_ref on node with node.swa_lock_ref=0, node.id=N"),
    ("segment overlap", "segment at N shares a page with the one ending at N"),
    ("canary", "kv_canary violation: launch_tag=… fail_reason=… slot_idx=N position=N"),
    ("page invariants", "KV double free: sub-pool N has …, KV page use-after-free: N owner …"),
    ("retraction", "KV cache pool is full. Retract requests. … #new_tokens_gained: N"),
    ("allocation failed", "KV cache is full!, Prefill/Decode out of memory"),
    ("usage", "Prefill batch, … swa token usage: 0.98, … and Decode batch, … #swa token: N"),
)
"""Shape name and what such a line looks like, for people whose log had none of them."""
