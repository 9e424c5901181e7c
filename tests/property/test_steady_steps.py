"""What is recognised as a whole must leave the same truth behind as what is checked one by one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from swasim.allocator.registry import build
from swasim.config import SimConfig
from swasim.replayer import Replayer
from swasim.sanitizer import steady
from swasim.sanitizer.findings import Finding
from swasim.sanitizer.sanitizer import Sanitizer
from swasim.trace.events import (
    AllocDecode,
    AllocExtend,
    AnyEvent,
    Entry,
    Free,
    FreeSwa,
    compress,
    op_of,
)
from swasim.trace.reader import open_trace
from tests.support.truth import knowledge
from tests.support.vectors import BENCH

CONFIG = SimConfig(page_size=4, kv_size=400, kv_size_swa=200, allocator="fixed")


class Serving:
    """A scheduler that decodes one batch, names raw slots, and makes a mistake now and then."""

    def __init__(self, seed: int, mistakes: float) -> None:
        self.random = random.Random(seed)
        self.mistakes = mistakes
        self.running: list[list[int]] = []
        self.done: list[list[int]] = []
        self.grown: list[list[int]] = []

    def next_event(self) -> AnyEvent:
        """The next call; `took` must be told what it returned."""
        roll = self.random.random()
        self.grown = []
        if self.random.random() < self.mistakes:
            return self.mistake()
        if len(self.running) < 3 or (roll < 0.06 and len(self.running) < 8):
            self.grown = [[]]
            length = self.random.randint(1, 14)
            return AllocExtend(prefix_lens=[0], seq_lens=[length], last_loc=[-1])
        if roll < 0.12:
            row = self.running.pop(self.random.randrange(len(self.running)))
            self.done.append(row)
            return Free(indices=compress(row))
        if roll < 0.35:
            row = self.random.choice(self.running)
            end = len(row) // 4 * 4
            start = self.random.randrange(0, end, 4) if end else 0
            return FreeSwa(indices=compress(row[start : start + 4]))
        self.grown = list(self.running)
        return AllocDecode(
            seq_lens=[len(row) + 1 for row in self.running],
            last_loc=[row[-1] for row in self.running],
        )

    def mistake(self) -> AnyEvent:
        row = self.random.choice(self.running + self.done + [[5, 6, 7]])
        if self.random.random() < 0.5:
            return FreeSwa(indices=compress(row[-self.random.randint(1, 6) :]))
        return Free(indices=compress(row[: self.random.randint(1, 6)]))

    def took(self, out: list[int] | None) -> None:
        if out is None:
            return
        if len(self.grown) == 1 and not self.grown[0]:
            self.running.append(out)
            return
        for row, slot in zip(self.grown, out, strict=True):
            row.append(slot)


def played(
    seed: int, mistakes: float, length: int
) -> tuple[list[AnyEvent], Replayer, list[Finding]]:
    replayer, serving = Replayer(CONFIG, build(CONFIG)), Serving(seed, mistakes)
    events: list[AnyEvent] = []
    findings: list[Finding] = []
    for number in range(1, length + 1):
        event = serving.next_event()
        events.append(event)
        step = replayer.step(Entry(number, number, event))
        serving.took(None if step.effect is None else step.effect.out)
        findings += step.findings
    return events, replayer, findings


def again(config: SimConfig, events: Iterator[Entry]) -> tuple[Sanitizer, list[Finding]]:
    replayer = Replayer(config)
    findings = [finding for entry in events for finding in replayer.step(entry).findings]
    return replayer.sanitizer, findings


@pytest.fixture
def recognised(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Operations that were recognised as a whole."""
    seen: list[str] = []
    follows: Callable[..., bool] = steady.Steady.follows

    def spy(self: steady.Steady, entry: Entry, *rest: object) -> bool:
        answer = follows(self, entry, *rest)
        if answer:
            seen.append(op_of(entry.event))
        return answer

    monkeypatch.setattr(steady.Steady, "follows", spy)
    return seen


@pytest.mark.parametrize("mistakes", [0.0, 0.02, 0.2])
def test_recognised_steps_leave_the_same_truth_and_the_same_findings(
    mistakes: float, recognised: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(40):
        monkeypatch.setattr(steady, "SMALLEST_BATCH", 1)
        events, replayer, findings = played(seed, mistakes, 120)
        entries = (Entry(n, n, event) for n, event in enumerate(events, 1))
        with monkeypatch.context() as checked:
            checked.setattr(steady.Steady, "follows", lambda *_: False)
            one_by_one, expected = again(CONFIG, entries)
        assert findings == expected, f"seed {seed}"
        assert knowledge(replayer.sanitizer) == knowledge(one_by_one), f"seed {seed}"
    assert recognised.count("alloc_decode") > 100
    assert recognised.count("free_swa") > 20


def test_a_served_trace_is_recognised_almost_as_a_whole(recognised: list[str]) -> None:
    with open_trace(BENCH) as trace:
        header = trace.header
        assert header is not None
        config = SimConfig(page_size=64, kv_size=262144, kv_size_swa=65536, allocator="fixed")
        events = list(islice(trace, 1500))
    assert again(config, iter(events))[1] == []
    decodes = sum(isinstance(entry.event, AllocDecode) for entry in events)
    assert recognised.count("alloc_decode") > 0.95 * decodes


def test_reading_the_truth_between_steps_changes_nothing() -> None:
    config = SimConfig(page_size=64, kv_size=262144, kv_size_swa=65536, allocator="fixed")
    with open_trace(BENCH) as trace:
        events = list(islice(trace, 700))
    untouched, none = again(config, iter(events))
    looked_at = Replayer(config)
    for entry in events:
        assert not looked_at.step(entry).findings
        assert looked_at.sanitizer.truth.group is None
    assert none == []
    assert knowledge(looked_at.sanitizer) == knowledge(untouched)
