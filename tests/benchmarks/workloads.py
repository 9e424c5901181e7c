"""Work for the benchmarks: raw slots, as a server names them, from a seed.

The calls are made on the fast engine and written down as events, so that every contender answers
the same ones.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import islice

from swasim.allocator.registry import build
from swasim.config import SimConfig
from swasim.replayer import Replayer
from swasim.trace.events import (
    Alloc,
    AllocDecode,
    AllocExtend,
    AnyEvent,
    Entry,
    Free,
    FreeFull,
    FreeSwa,
    compress,
)
from swasim.trace.reader import open_trace
from tests.support.vectors import BENCH

ALLOCATOR = "sglang-0.5.23"


@dataclass(frozen=True)
class Workload:
    """Calls and the pools they are made for."""

    name: str
    config: SimConfig
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Shape:
    """What a server does.

    Attributes:
        running: requests that decode together.
        prompt, answer: tokens, least and most.
        window: tokens that stay on the SWA side.
    """

    running: int
    prompt: tuple[int, int]
    answer: tuple[int, int]
    window: int = 512


SHAPES = {
    "decode": Shape(64, (200, 1200), (400, 2000)),
    "prefill": Shape(8, (2000, 6000), (2, 16)),
    "churn": Shape(16, (1, 400), (1, 60)),
}


@dataclass
class _Request:
    slots: list[int]
    left: int
    evicted: int = 0


class _Server:
    def __init__(self, shape: Shape, config: SimConfig, seed: int) -> None:
        self.shape, self.config, self.random = shape, config, random.Random(seed)
        self.replayer = Replayer(config, build(config))
        self.running: list[_Request] = []
        self.entries: list[Entry] = []

    def call(self, event: AnyEvent) -> list[int]:
        number = len(self.entries) + 1
        entry = Entry(number, number + 1, event)
        self.entries.append(entry)
        step = self.replayer.step(entry)
        assert not step.findings, step.findings[0]
        assert step.result == "ok"
        return [] if step.effect is None else step.effect.out or []

    def admit(self) -> None:
        tokens = self.random.randint(*self.shape.prompt)
        if self.config.page_size == 1:
            slots = self.call(Alloc(need_size=tokens))
        else:
            slots = self.call(AllocExtend(prefix_lens=[0], seq_lens=[tokens], last_loc=[-1]))
        self.running.append(_Request(slots, self.random.randint(*self.shape.answer)))

    def decode(self) -> None:
        if self.config.page_size == 1:
            out = self.call(Alloc(need_size=len(self.running)))
        else:
            out = self.call(
                AllocDecode(
                    seq_lens=[len(request.slots) + 1 for request in self.running],
                    last_loc=[request.slots[-1] for request in self.running],
                )
            )
        for request, slot in zip(self.running, out, strict=True):
            request.slots.append(slot)
            request.left -= 1

    def evict(self, request: _Request) -> None:
        page = self.config.page_size
        end = (len(request.slots) - self.shape.window) // page * page
        if end > request.evicted:
            self.call(FreeSwa(indices=compress(request.slots[request.evicted : end])))
            request.evicted = end

    def finish(self, request: _Request) -> None:
        # free() would look up peers that are gone: at page size 1, 0.5.23 releases page 0 for them.
        if request.evicted:
            self.call(FreeFull(indices=compress(request.slots[: request.evicted])))
        self.call(Free(indices=compress(request.slots[request.evicted :])))

    def run(self, calls: int) -> tuple[Entry, ...]:
        while len(self.entries) < calls:
            while len(self.running) < self.shape.running:
                self.admit()
                self.evict(self.running[-1])
            self.decode()
            for request in self.running:
                self.evict(request)
            for request in [request for request in self.running if request.left <= 0]:
                self.running.remove(request)
                self.finish(request)
        return tuple(self.entries[:calls])


def served(name: str, page_size: int, calls: int, seed: int = 1) -> Workload:
    """One of `SHAPES`, played."""
    shape = SHAPES[name]
    most = shape.running * (shape.prompt[1] + shape.answer[1])
    tokens = -(-most * 5 // 4 // page_size) * page_size
    config = SimConfig(page_size=page_size, kv_size=tokens, kv_size_swa=tokens, allocator=ALLOCATOR)
    return Workload(f"{name}, page {page_size}", config, _Server(shape, config, seed).run(calls))


def recorded(calls: int) -> Workload:
    """The bundled decode-heavy trace of 64 requests, 64-token pages."""
    with open_trace(BENCH) as trace:
        entries = tuple(islice(trace, calls))
    config = SimConfig(page_size=64, kv_size=262144, kv_size_swa=65536, allocator=ALLOCATOR)
    return Workload("decode64", config, entries)


def window_steps(page_size: int, tokens: int, steps: int) -> Workload:
    """A batch of 8 in pools of `tokens`: the same calls, whatever the size of the pools."""
    config = SimConfig(page_size=page_size, kv_size=tokens, kv_size_swa=tokens, allocator=ALLOCATOR)
    server = _Server(Shape(8, (40, 40), (1, 1), window=2 * page_size), config, seed=1)
    for _ in range(8):
        server.admit()
    while len(server.entries) < steps:
        server.decode()
        for request in server.running:
            server.evict(request)
        if len(server.running[0].slots) >= 200:
            server.finish(server.running.pop(0))
            server.admit()
    return Workload(f"pool of {tokens}", config, tuple(server.entries[:steps]))
