from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from swasim.allocator.registry import build
from swasim.allocator.tensor.engine import TensorEngine
from swasim.call import Call, Effect
from swasim.config import SimConfig
from swasim.run import replay
from swasim.trace.events import AnyEvent, Free, FreeSwa
from swasim.trace.reader import open_trace
from tests.support.vectors import BENCH

CALLS = 400
CONFIG = SimConfig(
    page_size=64, kv_size=262144, kv_size_swa=65536, engine="torch", allocator="buggy"
)


class Counting:
    """A torch engine on the CPU that is treated as one on a GPU, and counts how often it is asked.

    Attributes:
        asked: calls that were answered together, each time.
    """

    name = "buggy"
    waits_to_be_read = True

    def __init__(self, config: SimConfig) -> None:
        built = build(config)
        assert isinstance(built, TensorEngine)
        self._engine = built
        self.geometry = built.geometry
        self.state = built.state
        self.asked: list[int] = []

    def perform(self, call: Call) -> Effect:
        return self.perform_all([call])[0]

    def perform_all(self, calls: list[Call]) -> list[Effect]:
        self.asked.append(len(calls))
        return self._engine.perform_all(calls)


@pytest.fixture(scope="module")
def events() -> list[AnyEvent]:
    """A decode run in which a page is freed twice."""
    with open_trace(BENCH) as trace:
        found = [entry.event for entry in islice(trace, CALLS)]
    released = next(event for event in found if isinstance(event, FreeSwa))
    again = Free(indices=released.indices)
    return [*found[: CALLS // 2], again, again, *found[CALLS // 2 :]]


def test_findings_are_those_of_one_call_after_the_other(events: list[AnyEvent]) -> None:
    together = Counting(CONFIG)
    one_by_one = build(CONFIG)
    found = replay(events, CONFIG, allocator=together)
    assert replace(found, config=CONFIG) == replace(
        replay(events, CONFIG, allocator=one_by_one), config=CONFIG
    )
    assert found.findings
    assert together.state() == one_by_one.state()


def test_many_calls_wait_for_one_look(events: list[AnyEvent]) -> None:
    allocator = Counting(CONFIG)
    replay(events, CONFIG, allocator=allocator)
    assert sum(allocator.asked) == len(events)
    assert len(allocator.asked) <= len(events) / 32


def test_call_that_depends_on_a_result_is_not_made_ahead() -> None:
    extend = {"op": "alloc_extend", "reqs": ["A"], "prefix_lens": [0], "seq_lens": [64]}
    decode = {"op": "alloc_decode", "reqs": ["A"]}
    allocator = Counting(CONFIG)
    result = replay([extend, decode, decode], CONFIG, allocator=allocator)
    assert allocator.asked == [1, 1, 1]
    assert not result.findings


def test_allocator_is_not_ahead_where_something_is_expected_of_it() -> None:
    extend = {"op": "alloc_extend", "prefix_lens": [0], "seq_lens": [64], "last_loc": [-1]}
    expecting = {**extend, "expect": {"full_available": 262144 - 128}}
    allocator = Counting(CONFIG)
    result = replay([extend, expecting, extend], CONFIG, allocator=allocator)
    assert allocator.asked == [1, 1, 1]
    assert not result.findings


def test_recorded_results_keep_their_meaning() -> None:
    """What is freed at the end are the slots that this replay returned for the recorded ones."""
    extend = {"op": "alloc_extend", "prefix_lens": [0], "seq_lens": [64], "last_loc": [-1]}
    other = {**extend, "out": [[640, 704]]}
    result = replay(
        [other, {"op": "free", "indices": [[640, 704]]}], CONFIG, allocator=Counting(CONFIG)
    )
    assert [finding.kind for finding in result.findings] == ["replay-divergence"]
    assert result.summary.full_available == CONFIG.kv_size
