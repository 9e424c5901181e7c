"""What recording costs: the same calls on one allocator, bare and recorded, as a ratio.

    python -m tests.benchmarks.bench_record [CALLS] [ROUNDS]

Drives the bundled decode-heavy trace (64 requests, 64-token pages) through the installed SGLang
where there is one, otherwise through swasim's torch engine. Bare and recorded rounds alternate, so
that a machine that slows down slows both; medians are compared. "caller" is the time inside the
allocator's methods, which is what a scheduler waits for; "process" is CPU time of all threads, the
writer's included.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from swasim.allocator import adapter
from swasim.allocator.methods import Methods
from swasim.allocator.profile import RELEASES
from swasim.allocator.tensor.swa import SWATokenToKVPoolAllocator
from swasim.call import Call
from swasim.config import SimConfig
from swasim.errors import UsageError
from swasim.recorder import record
from swasim.trace.events import expand
from swasim.trace.reader import open_trace
from swasim.trace.resolve import Resolver
from tests.support.vectors import BENCH

Make = Callable[[], Any]


def calls_of_bench(most: int) -> tuple[SimConfig, list[Call]]:
    with open_trace(BENCH) as trace:
        header = trace.header
        assert header is not None
        config = SimConfig(
            page_size=header.page_size or 1,
            kv_size=header.kv_size or 0,
            kv_size_swa=header.kv_size_swa or 0,
            need_sort=bool(header.need_sort),
        )
        resolver, calls = Resolver(), []
        for entry in itertools.islice(trace, most):
            resolved = resolver.resolve(entry)
            out = getattr(entry.event, "out", None)
            resolver.commit(entry, resolved, expand(out) if isinstance(out, list) else None)
            if resolved.call is not None:
                calls.append(resolved.call)
    return config, calls


def maker(config: SimConfig) -> tuple[str, Make]:
    try:
        version = adapter.build("sglang", config).version  # type: ignore[attr-defined]
    except UsageError:
        sizes = (config.kv_size, config.kv_size_swa, config.page_size)
        device, profile = torch.device("cpu"), RELEASES["0.5.23"]
        return "swasim torch engine", lambda: SWATokenToKVPoolAllocator(
            *sizes, device, config.need_sort, profile, None
        )
    return f"sglang {version}", lambda: adapter.build("sglang", config).target  # type: ignore[attr-defined]


def timed(pair: Any, calls: list[Call]) -> tuple[float, float]:
    """(wall seconds in the caller, CPU seconds of the process)."""
    methods = Methods(pair)
    cpu, wall = time.process_time(), time.perf_counter()
    for call in calls:
        methods.perform(call)
    return time.perf_counter() - wall, time.process_time() - cpu


def main(most: int, rounds: int) -> None:
    # On a busy machine torch's own threads wait for each other, for longer than a call takes.
    torch.set_num_threads(1)
    config, calls = calls_of_bench(most)
    name, make = maker(config)
    bare: list[tuple[float, float]] = []
    recorded: list[tuple[float, float]] = []
    size_bytes = 0
    timed(make(), calls[: len(calls) // 10])
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            bare.append(timed(make(), calls))
            path = Path(folder) / f"{number}.jsonl"
            pair = make()
            with record(pair, path):
                recorded.append(timed(pair, calls))
            size_bytes = path.stat().st_size
    lines = [f"{name}, {len(calls)} calls, {rounds} rounds, medians"]
    for column, what in enumerate(("caller", "process")):
        plain = statistics.median(pair[column] for pair in bare) / len(calls) * 1e6
        taped = statistics.median(pair[column] for pair in recorded) / len(calls) * 1e6
        lines.append(
            f"  {what:8} bare {plain:6.1f} us/call, recorded {taped:6.1f} us/call, "
            f"ratio {taped / plain:.2f}"
        )
    lines.append(f"  file     {size_bytes / len(calls):.0f} bytes/call")
    sys.stdout.write("\n".join(lines) + "\n")


def test_overhead_of_recording() -> None:
    """For `make bench`."""
    main(2000, 5)


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    main(*(numbers + [4000, 5][len(numbers) :]))
