"""All that a sanitizer knows, as plain values that can be compared."""

from __future__ import annotations

from swasim.sanitizer.sanitizer import Sanitizer
from swasim.sanitizer.shadow import PageTruth, PoolTruth

FIELDS = (
    "live",
    "queued",
    "copies",
    "held",
    "allocated",
    "released",
    "mapped",
    "fault",
)
"""Of a page record."""


def knowledge(sanitizer: Sanitizer) -> dict[str, object]:
    """Everything on which a later finding depends."""
    truth = sanitizer.truth
    mapping = truth.mapping
    entries = {slot: mapping.entry(slot) for slot in mapping.mapped_slots()}
    targets = {peer // mapping.page_size for peer in entries.values()}
    return {
        "full": _pool(truth.full),
        "swa": _pool(truth.swa),
        "entries": entries,
        "pointing": {page: list(mapping.pointing_at(page).items()) for page in sorted(targets)},
        "stale": mapping.stale,
        "group": truth.group,
        "suspected": sanitizer.suspected,
        "available": sanitizer.build.available_tokens,
    }


def _pool(pool: PoolTruth) -> dict[str, object]:
    return {
        "pages": [(page, _page(record), pool.fill_of(page)) for page, record in pool.pages.items()],
        "terms": (pool.free_pages, pool.live_pages, pool.pending_pages),
        "blamed": (pool.excess, pool.shortage),
        "account": (pool.overflown, pool.account_offset_pages),
    }


def _page(record: PageTruth) -> tuple[object, ...]:
    return tuple(getattr(record, name) for name in FIELDS)
