"""When two situations are the same: equal keys mean that every further call is judged alike.

A key holds what the allocator holds, what the truth knows, what the rows name and what the
callers remember; it leaves out who did what when. Requests are alike, so their rows stand in the
key sorted and without their names. Pages are not: a release puts its pages back in the order of
their ids, so two pages cannot be exchanged without changing what is handed out next.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from swasim.allocator.core import CorePair
from swasim.explore.ledger import Ledger
from swasim.replayer import Replayer
from swasim.sanitizer.shadow import FreeGroup, PoolTruth, Truth
from swasim.trace.events import ReqName

_encode = msgspec.msgpack.encode

DIGEST_BYTES = 16
"""Of a key that is remembered: among a billion states two collide with a chance of 1 in 10**20."""


def digest(replayers: Sequence[Replayer], ledger: Ledger, names: Sequence[str]) -> bytes:
    """The key of a situation, digested.

    Args:
        replayers: the one under test, and the control, if any.
        names: of the requests; all of them are alike.
    """
    alike = frozenset(names)
    everyone = dict.fromkeys(name for replayer in replayers for name in replayer.resolver.rows)
    rows = [
        (_encode([_row_key(r, name) for r in replayers]), name in ledger.over)
        for name in everyone
        if name in alike
    ]
    rows.sort()
    others = [
        (name, [_row_key(r, name) for r in replayers]) for name in everyone if name not in alike
    ]
    parts = (rows, others, [_replay_key(r) for r in replayers], ledger.key())
    return blake2b(_encode(parts), digest_size=DIGEST_BYTES).digest()


def _replay_key(replayer: Replayer) -> tuple[object, ...]:
    allocator = replayer.allocator
    assert isinstance(allocator, CorePair), allocator
    truth = replayer.sanitizer.truth
    return (
        allocator.key(),
        _truth_key(truth),
        sorted(replayer.sanitizer.suspected),
    )


def _truth_key(truth: Truth) -> tuple[object, ...]:
    return (
        _pool_key(truth.full),
        _pool_key(truth.swa),
        sorted(truth.mapping.stale),
        None if truth.group is None else _group_key(truth.group),
    )


def _pool_key(pool: PoolTruth) -> tuple[object, ...]:
    pages = []
    for page in range(1, pool.size_pages + 1):
        record = pool.pages.get(page)
        if record is None:
            pages.append(1 << 4)
        elif record.live:
            waits = record.queued is not None
            fill = pool.fill_of(page)
            pages.append(1 | waits << 1 | record.held << 2 | record.copies << 4 | fill << 16)
        else:
            pages.append(record.copies << 4)
    odd = pool.pages.keys() - range(1, pool.size_pages + 1)
    strangers = [(page, pool.pages[page].live, pool.pages[page].copies) for page in sorted(odd)]
    return pages, strangers, pool.overflown, pool.account_offset_pages


def _group_key(group: FreeGroup) -> tuple[object, ...]:
    queued = [
        [(page, len(calls)) for page, calls in pages.items()] for pages in group.queued.values()
    ]
    named = [sorted(group.slots), sorted(group.full_slots), sorted(group.peers)]
    return queued, named, sorted(group.doubled), sorted(group.overwritten)


def _row_key(replayer: Replayer, name: ReqName) -> object:
    """One row without its name: slots, whether each is held, and whether it is still its own."""
    row = replayer.resolver.rows.get(name)
    if row is None:
        return None
    truth, size = replayer.sanitizer.truth, replayer.config.page_size
    pages = truth.full.pages
    own = bytearray()
    for slot, birth in zip(row.slots, row.births, strict=True):
        record = pages.get(slot // size)
        allocated = record.allocated if record is not None else None
        own.append(allocated is None or allocated.event <= birth)
    known = replayer.sanitizer.row_index.rows.get(name)
    seen = None
    if known is not None:
        seen = (
            known.length,
            known.allocated,
            known.dead_len,
            sorted(known.broken),
            known.suspect.positions if known.suspect is not None else None,
        )
    return row.slots, bytes(row.held), bytes(own), seen
