"""The mapping as it was observed: entries, and who points at which SWA page.

Entries come and go by whole runs, so whole runs are written; single ones where a call does
something else. What must not be added here: judgement.
"""

from __future__ import annotations

from collections.abc import Iterable

from swasim.geometry import UNMAPPED
from swasim.sanitizer.findings import Finding
from swasim.sanitizer.runs import page_runs, pages_of


class MappingTruth:
    """The mapping as observed: every non-zero entry, and who points at which SWA page.

    Attributes:
        entries: full slot -> SWA slot.
        pointing: SWA page -> {full page: entries of it that point there}.
        stale: full slots whose entry outlived the release of its SWA page, with the finding.
    """

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.entries: dict[int, int] = {}
        self.pointing: dict[int, dict[int, int]] = {}
        self.stale: dict[int, Finding] = {}

    def clone(self) -> MappingTruth:
        """A mapping that says the same and can change on its own."""
        twin = MappingTruth(self.page_size)
        twin.entries = self.entries.copy()
        twin.pointing = {page: owners.copy() for page, owners in self.pointing.items()}
        twin.stale = self.stale.copy()
        return twin

    def write(self, slot: int, swa_slot: int) -> None:
        """One entry changed to `swa_slot` (0: unmapped)."""
        size = self.page_size
        old = self.entries.pop(slot, UNMAPPED)
        if old:
            pages = self.pointing[old // size]
            full_page = slot // size
            left = pages[full_page] - 1
            if left:
                pages[full_page] = left
            else:
                del pages[full_page]
                if not pages:
                    del self.pointing[old // size]
        if self.stale:
            self.stale.pop(slot, None)
        if swa_slot != UNMAPPED:
            self.entries[slot] = swa_slot
            pages = self.pointing.setdefault(swa_slot // size, {})
            full_page = slot // size
            pages[full_page] = pages.get(full_page, 0) + 1

    def add(self, slots: list[int], peers: list[int]) -> None:
        """Entries for slots that have none, each named once.

        Args:
            peers: parallel, SWA slots above 0.
        """
        size, pointing = self.page_size, self.pointing
        self.entries.update(zip(slots, peers, strict=True))
        if size == 1:
            for slot, peer in zip(slots, peers, strict=True):
                pages = pointing.get(peer)
                if pages is None:
                    pointing[peer] = {slot: 1}
                else:
                    pages[slot] = 1
            return
        for start, end in page_runs(slots, peers, size):
            full_page, swa_page = slots[start] // size, peers[start] // size
            pages = pointing.get(swa_page)
            if pages is None:
                pointing[swa_page] = {full_page: end - start}
            else:
                pages[full_page] = pages.get(full_page, 0) + end - start

    def add_first(self, slot: int, peer: int) -> None:
        """The entry of a slot whose page has none."""
        self.entries[slot] = peer
        self.pointing.setdefault(peer // self.page_size, {})[slot // self.page_size] = 1

    def remove(self, slots: list[int], peers: list[int]) -> None:
        """Forget the entries of slots, each named once.

        Args:
            peers: parallel, the entries as they are.
        """
        size, pointing, entries = self.page_size, self.pointing, self.entries
        for slot in slots:
            del entries[slot]
        for start, end in page_runs(slots, peers, size):
            full_page, swa_page = slots[start] // size, peers[start] // size
            pages = pointing[swa_page]
            left = pages[full_page] - (end - start)
            if left:
                pages[full_page] = left
            else:
                del pages[full_page]
                if not pages:
                    del pointing[swa_page]

    def remove_page(self, full_page: int, swa_page: int) -> None:
        """Forget all entries of a page, of which each points at `swa_page` and no others do."""
        entries = self.entries
        for slot in range(full_page * self.page_size, (full_page + 1) * self.page_size):
            del entries[slot]
        del self.pointing[swa_page]

    def slots_pointing_at(self, swa_page: int) -> list[int]:
        """Full slots whose entry points into `swa_page`, ascending."""
        size = self.page_size
        entries = self.entries
        return [
            slot
            for full_page in sorted(self.pointing.get(swa_page, ()))
            for slot in range(full_page * size, (full_page + 1) * size)
            if slot in entries and entries[slot] // size == swa_page
        ]

    def owners(self, swa_page: int) -> set[int]:
        """Full pages that own `swa_page`: those with an entry to it that is not stale."""
        pages = self.pointing.get(swa_page)
        if not pages:
            return set()
        if not self.stale:
            return set(pages)
        size = self.page_size
        return {s // size for s in self.slots_pointing_at(swa_page) if s not in self.stale}

    def peers(self, slots: Iterable[int]) -> dict[int, None]:
        """SWA pages that the entries of `slots` point at, stale entries left out, in order."""
        if self.stale:
            slots = [slot for slot in slots if slot not in self.stale]
        peers = list(filter(None, map(self.entries.get, slots)))
        if peers and min(peers) < 0:
            peers = [peer for peer in peers if peer >= 0]
        return dict.fromkeys(pages_of(peers, self.page_size))
