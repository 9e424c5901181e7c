"""What shrinking costs: a fault in the middle of 100,000 generated calls, against plain replays.

    make bench, or python -m pytest tests/benchmarks/bench_minimize.py -s

The bar: at most 4 events more than the smallest trace that a person would write, in no more time
than 5 plain checked replays of the whole trace.
"""

from __future__ import annotations

import time

import pytest

from swasim.minimize import minimize
from swasim.run import replay
from tests.support.shrinking import BURIED, workload

CALLS = 100_000


@pytest.mark.parametrize("name", BURIED)
def test_a_buried_fault_costs_less_than_five_replays(name: str) -> None:
    allocator, fault, smallest = BURIED[name]
    config, events = workload(CALLS, allocator, 1, fault)
    started = time.perf_counter()
    replay(events, config)
    plain_s = time.perf_counter() - started
    result = minimize(events, config)
    ratio = result.seconds / plain_s
    print(
        f"\n{name}: {len(events)} -> {len(result.events)} events (by hand {smallest}), slice"
        f" {result.slice_events}, {result.replays} candidates, {result.seconds:.1f} s,"
        f" {ratio:.2f} plain replays of {plain_s:.1f} s"
    )
    assert len(result.events) <= smallest + 4
    assert ratio <= 5
