"""A batch of requests that grow together, and what of it is not written to the truth yet."""

from __future__ import annotations

from swasim.sanitizer.lanes import pack


class Batch:
    """Requests that get a slot each at every step.

    Args:
        size: tokens per page.
        lens: tokens of each request.
        slots, peers: last full slot and SWA slot of each.
        written: last full slot and SWA slot of each that the truth knows.

    Attributes:
        packed_lens, packed_slots, packed_peers: see `swasim.sanitizer.lanes`.
        steps: since the batch was put together.
        due: step -> requests whose next slot is the first of a page then, in order.
        full_pages: pages on which the requests grow.
        whole: nobody left it; else `packed_lens` and its like, and `due`, hold no more.
    """

    def __init__(
        self,
        size: int,
        lens: list[int],
        slots: list[int],
        peers: list[int],
        written: list[tuple[int, int]],
    ) -> None:
        self.slots, self.peers = slots, peers
        self.written_slots = [slot for slot, _ in written]
        self.written_peers = [peer for _, peer in written]
        self.packed_lens, self.packed_slots, self.packed_peers = map(pack, (lens, slots, peers))
        self.whole = True
        self.steps = 0
        self.due: dict[int, list[int]] = {}
        for index, slot in enumerate(slots):
            self.due.setdefault(size - slot % size, []).append(index)
        self.full_pages = {slot // size for slot in slots}

    def drop(self, leaving: set[int], size: int) -> None:
        """Forget requests, by their index."""
        staying = [at for at in range(len(self.slots)) if at not in leaving]
        self.slots = [self.slots[at] for at in staying]
        self.peers = [self.peers[at] for at in staying]
        self.written_slots = [self.written_slots[at] for at in staying]
        self.written_peers = [self.written_peers[at] for at in staying]
        self.full_pages = {slot // size for slot in self.slots}
        self.whole = False
