"""Steps that cannot be wrong: recognised as a whole, written to the truth later.

Nearly all calls of a long trace are the next token of a batch that got its previous token just
before, and the release of a page that fell out of the window. What the checks would find out
about each request follows from the step before, as long as nobody touched the pages in between;
so such a step is compared with the one before as a whole. Whatever is not exactly as foreseen
goes to the checks.

What must not be added here: findings. Nothing is judged here.
"""

from __future__ import annotations

from swasim.call import Call, Effect
from swasim.sanitizer.batch import Batch
from swasim.sanitizer.findings import Moment
from swasim.sanitizer.lanes import lane, ones, pack
from swasim.sanitizer.runs import count_by_page, pages_of
from swasim.sanitizer.scene import moment_of
from swasim.sanitizer.shadow import PoolTruth, Truth
from swasim.sanitizer.suspects import Suspects
from swasim.trace.events import Entry
from swasim.trace.resolve import Resolved

SMALLEST_BATCH = 4
"""Below this many requests the checks are as fast."""

LARGEST = 1 << 62

_NEIGHBOURS = frozenset({"alloc_extend", "free", "free_swa", "free_full", "free_segment"})
"""Calls that touch the pages they name, take or return, and no others."""


class Steady:
    """Recognises the steps of one trace.

    Args:
        truth: brought up to date by `settle`.
        suspects: read only; while anything is suspected, nothing is foreseen.
    """

    def __init__(self, truth: Truth, suspects: Suspects) -> None:
        self._truth = truth
        self._suspects = suspects
        self._size = truth.geometry.page_size
        self._batch: Batch | None = None
        self._last_step: tuple[Entry, Resolved] | None = None

    def follows(self, entry: Entry, resolved: Resolved, call: Call, effect: Effect) -> bool:
        """Whether the event is exactly as foreseen; then it is carried over, and nothing is wrong.

        To be asked only while no row names any page.
        """
        if effect.raised or not self._is_quiet():
            return False
        if call.op == "alloc_decode":
            return self._is_next_token(entry, resolved, call, effect)
        if call.op == "free_swa":
            return self._is_page_release(entry, resolved, call, effect)
        return False

    def _is_quiet(self) -> bool:
        truth = self._truth
        return not (self._size == 1 or truth.group or truth.mapping.stale or len(self._suspects))

    def _is_next_token(self, entry: Entry, resolved: Resolved, call: Call, effect: Effect) -> bool:
        out, truth = effect.out, self._truth
        if out is None or effect.full_returned or effect.swa_returned:
            return False
        if effect.mapped_slots != out or not len(out) == len(call.last_loc) == len(call.seq_lens):
            return False
        batch = self._batch
        if batch is None or not batch.whole or call.last_loc != batch.slots:
            batch = self._regroup(call)
            if batch is None:
                return False
        crossing = batch.due.get(batch.steps + 1, [])
        full_taken, swa_taken = effect.full_taken, effect.swa_taken
        if not len(crossing) == len(full_taken) == len(swa_taken):
            return False
        one = ones(len(out))
        seq_lens = batch.packed_lens + one
        slots, peers = batch.packed_slots + one, batch.packed_peers + one
        if crossing:
            if not truth.full.is_fresh(full_taken) or not truth.swa.is_fresh(swa_taken):
                return False
            size = self._size
            if not all(self._is_unmapped(page * size, (page + 1) * size) for page in full_taken):
                return False
            for at, index in enumerate(crossing):
                slots += lane(index, full_taken[at] * size - batch.slots[index] - 1)
                peers += lane(index, swa_taken[at] * size - batch.peers[index] - 1)
        if pack(call.seq_lens) != seq_lens or pack(out) != slots or pack(effect.mapped_to) != peers:
            return False
        if not self._agree(effect, -len(crossing), -len(crossing)):
            return False
        if crossing:
            self._turn_pages(moment_of(entry, resolved), batch, crossing, effect)
        batch.slots, batch.peers = out, effect.mapped_to
        batch.packed_lens, batch.packed_slots, batch.packed_peers = seq_lens, slots, peers
        batch.steps += 1
        self._last_step = entry, resolved
        return True

    def _turn_pages(
        self, moment: Moment, batch: Batch, crossing: list[int], effect: Effect
    ) -> None:
        """The next slot of some requests is the first of a page: their old pages are done."""
        truth, size = self._truth, self._size
        truth.begin_event()
        written = self._last_moment()
        full_pages = batch.full_pages
        for index, page, swa_page in zip(
            crossing, effect.full_taken, effect.swa_taken, strict=True
        ):
            self._write(batch, index, written)
            full_pages.remove(batch.slots[index] // size)
            full_pages.add(page)
            truth.full.take(page, moment).fill = 1
            truth.swa.take(swa_page, moment).mapped = moment
            slot, peer = page * size, swa_page * size
            batch.written_slots[index], batch.written_peers[index] = slot, peer
            truth.mapping.add([slot], [peer])
        batch.due[batch.steps + 1 + size] = batch.due.pop(batch.steps + 1)

    def _is_page_release(
        self, entry: Entry, resolved: Resolved, call: Call, effect: Effect
    ) -> bool:
        """The peers of one whole page, which nobody else's entries point at, and nothing else."""
        slots, size, truth = call.indices, self._size, self._truth
        mapping, batch = truth.mapping, self._batch
        if len(slots) != size or effect.mapped_slots != slots or len(effect.swa_returned) != 1:
            return False
        if effect.full_returned or effect.full_taken or effect.swa_taken or any(effect.mapped_to):
            return False
        first, swa_page = slots[0], effect.swa_returned[0]
        page = first // size
        if batch is not None and page in batch.full_pages:
            return False
        record = truth.swa.pages.get(swa_page)
        if record is None or not record.live or mapping.pointing_at(swa_page) != {page: size}:
            return False
        if first % size or slots != list(range(first, first + size)):
            return False
        if not self._agree(effect, 0, 1):
            return False
        truth.begin_event()
        mapping.remove(slots, effect.mapped_from)
        truth.swa.put(swa_page, moment_of(entry, resolved))
        return True

    def _agree(self, effect: Effect, full_change: int, swa_change: int) -> bool:
        """Whether the allocator's accounts are as they must be, after that change in pages."""
        truth, size = self._truth, self._size
        return _agrees(truth.full, effect.full_available, full_change, size) and _agrees(
            truth.swa, effect.swa_available, swa_change, size
        )

    def _regroup(self, call: Call) -> Batch | None:
        """The requests of a decode as a batch, before its step; None where they are not sound.

        Requests that were in the batch before bring along what the truth does not know yet.
        """
        last_loc, size = call.last_loc, self._size
        offsets = [slot % size for slot in last_loc]
        if len(offsets) < SMALLEST_BATCH or max(call.seq_lens) >= LARGEST:
            return None
        if offsets != [(seq_len - 2) % size for seq_len in call.seq_lens]:
            return None
        self._leave(self._batch, set(last_loc))
        old, self._batch = self._batch, None
        known = {} if old is None else {slot: at for at, slot in enumerate(old.slots)}
        mapping = self._truth.mapping
        peers: list[int] = []
        written: list[tuple[int, int]] = []
        for slot in last_loc:
            at = known.get(slot)
            if old is not None and at is not None:
                peers.append(old.peers[at])
                written.append((old.written_slots[at], old.written_peers[at]))
            else:
                peer = mapping.entry(slot) or -1
                if not self._is_unmapped(slot + 1, slot - slot % size + size):
                    peer = -1
                peers.append(peer)
                written.append((slot, peer))
        batch = Batch(size, [n - 1 for n in call.seq_lens], last_loc, peers, written)
        sound = offsets == [peer % size for peer in peers]
        if sound and self._owns(self._truth.full, last_loc) and self._owns(self._truth.swa, peers):
            self._batch = batch
            return batch
        self._write_all(batch)
        return None

    def _is_unmapped(self, start: int, end: int) -> bool:
        """Whether no slot in `[start, end)` has an entry yet."""
        return not any(self._truth.mapping.read(list(range(start, end))))

    def _owns(self, pool: PoolTruth, slots: list[int]) -> bool:
        """Whether each slot lies on a live page of the pool, and no two on the same."""
        pages = set(pages_of(slots, self._size))
        if len(pages) != len(slots) or min(pages) < 1 or max(pages) > pool.size_pages:
            return False
        records = pool.pages
        return all(
            (record := records.get(page)) is not None and record.live and record.queued is None
            for page in pages
        )

    def make_way(self, call: Call, effect: Effect) -> None:
        """Another call is looked at: the truth must be right about all that it touches."""
        batch = self._batch
        if batch is None:
            return
        if call.op not in _NEIGHBOURS or call.pool or effect.raised or not self._is_quiet():
            self.settle()
            return
        size = self._size
        pages = {*count_by_page(call.indices, size), *pages_of(call.last_loc, size)}
        pages.update(count_by_page(effect.mapped_slots, size))
        pages.update(effect.full_taken, effect.full_returned)
        swa_pages = {*effect.swa_taken, *effect.swa_returned}
        if any(effect.mapped_to):
            swa_pages.update(count_by_page(effect.mapped_to, size))
        if not pages.isdisjoint(batch.full_pages) or not swa_pages.isdisjoint(
            pages_of(batch.peers, size)
        ):
            near = {
                slot
                for slot, peer in zip(batch.slots, batch.peers, strict=True)
                if slot // size in pages or peer // size in swa_pages
            }
            self._leave(batch, set(batch.slots) - near)

    def _leave(self, batch: Batch | None, staying: set[int]) -> None:
        """Write what the truth does not know of requests that do not stay, and drop them."""
        if batch is None:
            return
        leaving = [at for at, slot in enumerate(batch.slots) if slot not in staying]
        moment = self._last_moment()
        for index in leaving:
            self._write(batch, index, moment)
        if leaving:
            batch.drop(set(leaving), self._size)

    def settle(self) -> None:
        """Write everything to the truth; the next step is not foreseen."""
        batch, self._batch = self._batch, None
        if batch is not None:
            self._write_all(batch)

    def _write_all(self, batch: Batch) -> None:
        moment = self._last_moment()
        for index in range(len(batch.slots)):
            self._write(batch, index, moment)

    def _last_moment(self) -> Moment | None:
        return None if self._last_step is None else moment_of(*self._last_step)

    def _write(self, batch: Batch, index: int, moment: Moment | None) -> None:
        """Write the slots of one request that the truth does not know yet."""
        slot, written = batch.slots[index], batch.written_slots[index]
        if slot == written or moment is None:
            return
        truth, size = self._truth, self._size
        peer, written_peer = batch.peers[index], batch.written_peers[index]
        page, swa_page = slot // size, peer // size
        truth.mapping.add(
            list(range(written + 1, slot + 1)), list(range(written_peer + 1, peer + 1))
        )
        record = truth.full.pages[page]
        record.fill = max(record.fill, slot % size + 1)
        truth.swa.pages[swa_page].mapped = moment


def _agrees(pool: PoolTruth, available: int, change_pages: int, size: int) -> bool:
    counted = pool.free_pages + pool.account_offset_pages + change_pages
    return available == counted * size <= pool.size_pages * size and not pool.overflown
