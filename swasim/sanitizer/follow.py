"""The truth follows a call at which nothing is wrong, just as the checks would have it follow.

This module is compiled where that is possible (`follow.pxd` has its types). What must not be added
here: doubt. Whoever calls this has made sure of everything (`steady.py`).
"""

from __future__ import annotations

from swasim.runs import Ints, RunEffect
from swasim.sanitizer.cells import CELL, FILL, OWNED, OWNERLESS, STANDING
from swasim.sanitizer.findings import Moment
from swasim.sanitizer.shadow import PoolTruth, Truth

NO_SHIFT = -1
"""`page_shift` of a page size that is no power of two."""


def page_shift(page_size: int) -> int:
    """By how many bits a slot is shifted to get its page, which takes a tenth of a division."""
    return NO_SHIFT if page_size & (page_size - 1) else page_size.bit_length() - 1


def page_at(slot: int, page_size: int, shift: int) -> int:
    """The page of a slot that is not negative; `shift` is `page_shift(page_size)`."""
    return slot >> shift if shift >= 0 else slot // page_size


def hand_out(truth: Truth, effect: RunEffect, moment: Moment) -> None:
    """Pages were taken, and the slots handed out got their entries.

    The entries lead to the same offset of an SWA page.
    """
    truth.begin_event()
    take(truth.full, effect.full_taken, moment)
    take(truth.swa, effect.swa_taken, moment)
    full, swa, mapping = truth.full, truth.swa, truth.mapping
    size = mapping.page_size
    shift = page_shift(size)
    for run in range(effect.lengths.count):
        slot, peer, left = effect.slots.at[run], effect.peers.at[run], effect.lengths.at[run]
        if slot + left > mapping.room:
            mapping.reserve(slot + left)
        while left > 0:
            page, swa_page = page_at(slot, size, shift), page_at(peer, size, shift)
            offset = slot - page * size
            count = min(size - offset, left)
            if full.cells[page * CELL + FILL] < offset + count:
                full.cells[page * CELL + FILL] = offset + count
            record = swa.by_id[swa_page]
            if record is not None:
                record.mapped = moment
                record.held = False
            mapping.table[slot] = peer
            if count > 1:
                mapping.map_run(slot, peer, count)
            if (
                swa_page < mapping.page_room
                and mapping.pointers[2 * swa_page] == page
                and mapping.pointers[2 * swa_page + 1] > 0
            ):
                # Nearly always. `point` does this too, and all else.
                mapping.pointers[2 * swa_page + 1] += count
            else:
                mapping.point(swa_page, page, count)
            slot += count
            peer += count
            left -= count


def take_back(truth: Truth, effect: RunEffect, moment: Moment) -> None:
    """Entries were cleared, all of them that led to the SWA pages returned, and pages returned."""
    truth.begin_event()
    mapping = truth.mapping
    for run in range(effect.lengths.count):
        mapping.unmap_run(effect.slots.at[run], effect.lengths.at[run])
    for index in range(effect.swa_returned.count):
        mapping.unpoint_all(effect.swa_returned.at[index])
    put(truth.full, effect.full_returned, moment)
    put(truth.swa, effect.swa_returned, moment)


def take(pool: PoolTruth, pages: Ints, moment: Moment) -> None:
    """Free pages have an owner now."""
    for index in range(pages.count):
        page = pages.at[index]
        record = pool.by_id[page] if page < len(pool.by_id) else None
        if record is None:
            record = pool.meet(page)
        if record.copies > 0:
            record.copies -= 1
        record.live = True
        pool.cells[page * CELL + STANDING] = OWNED
        pool.cells[page * CELL + FILL] = 0
        record.allocated = moment
        record.held = False
    pool.free_pages -= pages.count
    pool.live_pages += pages.count


def put(pool: PoolTruth, pages: Ints, moment: Moment) -> None:
    """Owned pages are free now."""
    for index in range(pages.count):
        page = pages.at[index]
        record = pool.by_id[page]
        if record is not None:
            record.copies += 1
            record.live = False
            pool.cells[page * CELL + STANDING] = OWNERLESS
            record.released = moment
    pool.free_pages += pages.count
    pool.live_pages -= pages.count
