"""A careful scheduler that names raw slots: what nearly all calls of a long trace are."""

from __future__ import annotations

import random
from dataclasses import dataclass

from swasim.call import Call

RUNNING = 8
"""Requests at most."""


@dataclass(eq=False)
class Request:
    """What one request holds: its slots, from which on they are its own, how many lost a peer."""

    slots: list[int]
    own_from: int = 0
    evicted: int = 0


class Serving:
    """Prompts, chunks, shared prefixes, decodes, evictions and requests that are over.

    Args:
        seed: of every choice.
        page_size: tokens per page.
    """

    def __init__(self, seed: int, page_size: int) -> None:
        self.random = random.Random(seed)
        self.size = page_size
        self.running: list[Request] = []
        self.growing: list[tuple[Request, int]] = []
        self.ahead: list[Call] = []

    def rows(self) -> list[list[int]]:
        """The slots of each request."""
        return [request.slots for request in self.running]

    def next(self) -> Call:
        """The next call; `took` must be told what it returned."""
        self.growing = []
        if self.ahead:
            return self.ahead.pop()
        roll = self.random.random()
        if len(self.running) < 2 or (roll < 0.12 and len(self.running) < RUNNING):
            return self._admit()
        if roll < 0.2:
            return self._finish()
        if roll < 0.4:
            return self._evict() or self._decode()
        if roll < 0.5 and self.size > 1:
            return self._extend(self.random.sample(self.running, 2))
        return self._decode()

    def took(self, out: list[int] | None) -> None:
        """Note what the call returned."""
        at = 0
        for request, count in self.growing:
            request.slots += (out or [])[at : at + count]
            at += count

    def _admit(self) -> Call:
        requests = [Request([]) for _ in range(self.random.randint(1, 2))]
        if self.size == 1:
            return self._alloc(requests[:1], self.random.randint(1, 30))
        donors = [other for other in self.running if other.evicted == 0]
        if donors and self.random.random() < 0.4:
            donor = self.random.choice(donors)
            shared = self.random.randint(0, len(donor.slots) // self.size) * self.size
            requests[0] = Request(donor.slots[:shared], shared, shared)
        self.running += requests
        return self._extend(requests)

    def _alloc(self, requests: list[Request], each: int) -> Call:
        self.running += [request for request in requests if request not in self.running]
        self.growing = [(request, each) for request in requests]
        return Call(op="alloc", need_size=each * len(requests))

    def _extend(self, requests: list[Request]) -> Call:
        self.growing = [(request, self.random.randint(0, 3 * self.size)) for request in requests]
        return Call(
            op="alloc_extend",
            prefix_lens=[len(request.slots) for request in requests],
            seq_lens=[len(request.slots) + count for request, count in self.growing],
            last_loc=[request.slots[-1] if request.slots else -1 for request in requests],
        )

    def _decode(self) -> Call:
        if self.size == 1:
            return self._alloc(self.running, 1)
        self.growing = [(request, 1) for request in self.running]
        return Call(
            op="alloc_decode",
            seq_lens=[len(request.slots) + 1 for request in self.running],
            last_loc=[request.slots[-1] if request.slots else -1 for request in self.running],
        )

    def _evict(self) -> Call | None:
        request = self.random.choice(self.running)
        start = max(request.evicted, -(-request.own_from // self.size) * self.size)
        pages = (len(request.slots) - start) // self.size
        if pages < 1:
            return None
        end = start + self.random.randint(1, pages) * self.size
        request.evicted = end
        return Call(op="free_swa", indices=request.slots[start:end])

    def _finish(self) -> Call:
        request = self.running.pop(self.random.randrange(len(self.running)))
        # With no peers at all `free` has nothing to look up; at page size 1 0.5.23 needs that.
        cut = max(request.evicted, request.own_from)
        gone, rest = request.slots[request.own_from : cut], request.slots[cut:]
        if self.size > 1 and self.random.random() < 0.7:
            gone, rest = [], gone + rest
        calls = [("free_full", gone), ("free", rest)]
        self.ahead = [Call(op=op, indices=slots) for op, slots in calls if slots]
        return self.ahead.pop() if self.ahead else Call(op="free")
