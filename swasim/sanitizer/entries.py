"""The mapping as it was observed: entries, and who points at which SWA page.

Entries stand in one array by full slot, and for each SWA page the full page that points at it with
the number of its entries: nearly always there is one. What fits into neither, a slot that no
table has and an SWA page that several full pages point at, is kept in dicts beside them.

This module is compiled where that is possible (`entries.pxd` has its types). What must not be
added here: judgement.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from swasim.geometry import UNMAPPED, Geometry
from swasim.runs import zeros
from swasim.sanitizer.findings import Finding
from swasim.sanitizer.runs import page_runs, pages_of

SHARED = -1
"""Number of entries to an SWA page that `MappingTruth.shared` has to say more about."""


class MappingTruth:
    """The mapping as observed: every non-zero entry, and who points at which SWA page.

    Args:
        geometry: sizes of the pools. The arrays grow with the slots and pages that are written,
            not beyond what both pools have together.

    Attributes:
        table: SWA slot of each full slot; 0: unmapped. Slots from `room` on are unmapped.
        room, page_room: slots in `table`; SWA pages in `pointers`.
        pointers: two numbers for each SWA page: the full page whose entries point at it, and how
            many they are; 0: none do; `SHARED`: see `shared`.
        shared: SWA page -> {full page: entries of it}, where several full pages point at it, or
            where the pool has no such page.
        beyond: entries of slots that no table has, by slot.
        stale: full slots whose entry outlived the release of its SWA page, with the finding.
    """

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.page_size = geometry.page_size
        self.slot_limit = geometry.slot_limit("full") + geometry.slot_limit("swa") + 1
        self.page_limit = geometry.swa_pages + 1
        self.room = 0
        self.table = zeros(0)
        self.page_room = 0
        self.pointers = zeros(0)
        self.shared: dict[int, dict[int, int]] = {}
        self.beyond: dict[int, int] = {}
        self.stale: dict[int, Finding] = {}

    def clone(self) -> MappingTruth:
        """A mapping that says the same and can change on its own."""
        twin = MappingTruth.__new__(MappingTruth)
        twin.geometry = self.geometry
        twin.page_size = self.page_size
        twin.slot_limit, twin.page_limit = self.slot_limit, self.page_limit
        twin.room, twin.table = self.room, copied(self.table, self.room, self.room)
        twin.page_room = self.page_room
        twin.pointers = copied(self.pointers, 2 * self.page_room, 2 * self.page_room)
        twin.shared = {page: owners.copy() for page, owners in self.shared.items()}
        twin.beyond = self.beyond.copy()
        twin.stale = self.stale.copy()
        return twin

    def __reduce__(self) -> tuple[object, ...]:
        arrays = bytes(self.table), bytes(self.pointers)
        return revived, (self.geometry, *arrays, self.shared, self.beyond, self.stale)

    def entry(self, slot: int) -> int:
        """The SWA slot of a full slot; 0 where it has none."""
        if 0 <= slot < self.room:
            return self.table[slot]
        return self.beyond.get(slot, UNMAPPED) if self.beyond else UNMAPPED

    def read(self, slots: list[int]) -> list[int]:
        """The entries of full slots, in order; 0 for those that have none."""
        if not self._has_room(slots):
            return [self.entry(slot) for slot in slots]
        table = self.table
        return [table[slot] for slot in slots]

    def mapped_slots(self) -> list[int]:
        """Full slots that have an entry, ascending."""
        slots = [slot for slot in range(self.room) if self.table[slot] != UNMAPPED]
        return sorted(slots + list(self.beyond)) if self.beyond else slots

    def is_mapped(self, full_page: int) -> bool:
        """Whether a slot of a full page has an entry."""
        size = self.page_size
        if 0 <= full_page <= self.room // size:
            for slot in range(full_page * size, min(full_page * size + size, self.room)):
                if self.table[slot] != UNMAPPED:
                    return True
        return bool([slot for slot in self.beyond if page_of(slot, size) == full_page])

    def _has_room(self, slots: list[int]) -> bool:
        """Whether each of `slots` stands in the table."""
        return not slots or (min(slots) >= 0 and max(slots) < self.room)

    def reserve(self, slots: int) -> None:
        """Make room for the entries of the first `slots` slots, as far as a table has them."""
        if slots > self.room:
            room = min(max(slots, 2 * self.room, 1024), self.slot_limit)
            self.table = copied(self.table, self.room, room)
            self.room = room

    def reserve_pages(self, pages: int) -> None:
        """Make room for who points at the first `pages` SWA pages, as far as there are any."""
        if pages > self.page_room:
            room = min(max(pages, 2 * self.page_room, 64), self.page_limit)
            self.pointers = copied(self.pointers, 2 * self.page_room, 2 * room)
            self.page_room = room

    def write(self, slot: int, swa_slot: int) -> None:
        """One entry changed to `swa_slot` (0: unmapped)."""
        old, full_page = self.entry(slot), page_of(slot, self.page_size)
        if old != UNMAPPED:
            self.unpoint(page_of(old, self.page_size), full_page, 1)
        if self.stale:
            self.stale.pop(slot, None)
        self.put(slot, swa_slot)
        if swa_slot != UNMAPPED:
            self.point(page_of(swa_slot, self.page_size), full_page, 1)

    def put(self, slot: int, swa_slot: int) -> None:
        """Set an entry, whoever points where."""
        if 0 <= slot < self.slot_limit:
            if slot >= self.room:
                self.reserve(slot + 1)
            self.table[slot] = swa_slot
        elif swa_slot != UNMAPPED:
            self.beyond[slot] = swa_slot
        else:
            self.beyond.pop(slot, None)

    def _put_all(self, slots: list[int], swa_slots: list[int]) -> None:
        """`put` of several."""
        if slots and max(slots) < self.slot_limit:
            self.reserve(max(slots) + 1)
        if not self._has_room(slots):
            for slot, swa_slot in zip(slots, swa_slots, strict=True):
                self.put(slot, swa_slot)
            return
        table = self.table
        for slot, swa_slot in zip(slots, swa_slots, strict=True):
            table[slot] = swa_slot

    def point(self, swa_page: int, full_page: int, entries: int) -> None:
        """So many more entries of a full page point at an SWA page."""
        known = 0 <= swa_page < self.page_limit
        if known:
            if swa_page >= self.page_room:
                self.reserve_pages(swa_page + 1)
            owner, count = self.pointers[2 * swa_page], self.pointers[2 * swa_page + 1]
            if count == 0 or (count > 0 and owner == full_page):
                self.pointers[2 * swa_page] = full_page
                self.pointers[2 * swa_page + 1] = count + entries
                return
            if count > 0:
                self.shared[swa_page] = {owner: count}
                self.pointers[2 * swa_page + 1] = SHARED
        owners = self.shared.setdefault(swa_page, {})
        owners[full_page] = owners.get(full_page, 0) + entries

    def unpoint(self, swa_page: int, full_page: int, entries: int) -> None:
        """So many entries of a full page to an SWA page are gone."""
        known = 0 <= swa_page < self.page_limit
        if known and self.pointers[2 * swa_page + 1] != SHARED:
            self.pointers[2 * swa_page + 1] -= entries
            return
        owners = self.shared[swa_page]
        owners[full_page] -= entries
        if not owners[full_page]:
            del owners[full_page]
        if known and len(owners) == 1:
            del self.shared[swa_page]
            for last in owners:
                self.pointers[2 * swa_page] = last
                self.pointers[2 * swa_page + 1] = owners[last]
        elif not owners:
            del self.shared[swa_page]

    def add(self, slots: list[int], peers: list[int]) -> None:
        """Entries for slots that have none, each named once.

        Args:
            peers: parallel, SWA slots above 0.
        """
        size = self.page_size
        self._put_all(slots, peers)
        for start, end in page_runs(slots, peers, size):
            self.point(peers[start] // size, page_of(slots[start], size), end - start)

    def remove(self, slots: list[int], peers: list[int]) -> None:
        """Forget the entries of slots, each named once.

        Args:
            peers: parallel, the entries as they are.
        """
        size = self.page_size
        self._put_all(slots, [UNMAPPED] * len(slots))
        for start, end in page_runs(slots, peers, size):
            self.unpoint(page_of(peers[start], size), page_of(slots[start], size), end - start)

    def count_mapped(self, start: int, end: int) -> int:
        """Slots in `[start, end)`, none of them negative, that have an entry in the table."""
        mapped = 0
        for slot in range(start, min(end, self.room)):
            mapped += self.table[slot] != UNMAPPED
        return mapped

    def leads(self, slot: int, peer: int, count: int) -> bool:
        """Whether the entries of `count` slots from one on are the SWA slots from `peer` on."""
        if slot < 0 or slot + count > self.room:
            return False
        others = 0
        for at in range(count):
            others += self.table[slot + at] != peer + at
        return others == 0

    def map_run(self, slot: int, peer: int, count: int) -> None:
        """Set the entries of `count` slots, which there is room for; who points where stays."""
        for at in range(count):
            self.table[slot + at] = peer + at

    def unmap_run(self, slot: int, count: int) -> None:
        """Clear the entries of `count` slots, which there is room for; who points where stays."""
        for at in range(slot, slot + count):
            self.table[at] = UNMAPPED

    def unpoint_all(self, swa_page: int) -> None:
        """Every entry to an SWA page of the pool is gone."""
        if self.pointers[2 * swa_page + 1] == SHARED:
            del self.shared[swa_page]
        self.pointers[2 * swa_page + 1] = 0

    def entries_to(self, swa_page: int) -> int:
        """How many entries point at an SWA page."""
        if 0 <= swa_page < self.page_room:
            count = self.pointers[2 * swa_page + 1]
            if count != SHARED:
                return count
        return sum(self.pointing_at(swa_page).values())

    def pointing_at(self, swa_page: int) -> dict[int, int]:
        """Full pages whose entries point at an SWA page: how many of each, first come first."""
        if 0 <= swa_page < self.page_room:
            count = self.pointers[2 * swa_page + 1]
            if count != SHARED:
                return {self.pointers[2 * swa_page]: count} if count else {}
        return self.shared.get(swa_page, {})

    def slots_pointing_at(self, swa_page: int) -> list[int]:
        """Full slots whose entry points into `swa_page`, ascending."""
        size = self.page_size
        found: list[int] = []
        for full_page in sorted(self.pointing_at(swa_page)):
            for offset in range(size):
                slot = full_page * size + offset
                peer = self.entry(slot)
                if peer != UNMAPPED and page_of(peer, size) == swa_page:
                    found.append(slot)
        return found

    def owners(self, swa_page: int) -> set[int]:
        """Full pages that own `swa_page`: those with an entry to it that is not stale."""
        pages = self.pointing_at(swa_page)
        if not pages or not self.stale:
            return set(pages)
        size = self.page_size
        return {
            page_of(slot, size)
            for slot in self.slots_pointing_at(swa_page)
            if slot not in self.stale
        }

    def peers(self, slots: Iterable[int]) -> dict[int, None]:
        """SWA pages that the entries of `slots` point at, stale entries left out, in order."""
        if self.stale:
            slots = [slot for slot in slots if slot not in self.stale]
        peers = [peer for peer in map(self.entry, slots) if peer > UNMAPPED]
        return dict.fromkeys(pages_of(peers, self.page_size))


def revived(
    geometry: Geometry,
    table: bytes,
    pointers: bytes,
    shared: dict[int, dict[int, int]],
    beyond: dict[int, int],
    stale: dict[int, Finding],
) -> MappingTruth:
    """A mapping that was pickled."""
    mapping = MappingTruth(geometry)
    mapping.table, mapping.room = array("q", table), len(table) // 8
    mapping.pointers, mapping.page_room = array("q", pointers), len(pointers) // 16
    mapping.shared, mapping.beyond, mapping.stale = shared, beyond, stale
    return mapping


def page_of(slot: int, page_size: int) -> int:
    """The page of a slot, of a negative one too (C divides towards 0)."""
    return slot // page_size if slot >= 0 else -(-(slot + 1) // page_size) - 1


def copied(values: array[int], count: int, room: int) -> array[int]:
    """The first `count` values in a new array of `room`, zeros behind them."""
    grown = zeros(room)
    larger = memoryview(grown)
    larger[:count] = memoryview(values)[:count]
    larger.release()
    return grown
