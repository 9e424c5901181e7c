"""How fast calls are answered and checked, by whom, in one run on one machine.

    make bench, or python -m pytest tests/benchmarks/bench_engines.py -s

Every contender answers the same calls; rounds alternate, so that a machine that slows down slows
all of them; medians of processor time are compared, torch held to one thread. An installed SGLang
is found on PYTHONPATH (`make test-sglang` leaves releases in .venv-sglang), libCacheSim where
`pip install libcachesim` put it.
"""

from __future__ import annotations

import gc
import importlib.util
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import torch

from swasim.allocator import adapter
from swasim.allocator.methods import Methods
from swasim.allocator.registry import build
from swasim.call import Call
from swasim.collect import Collector
from swasim.errors import UsageError
from swasim.replayer import Replayer
from swasim.run import replay
from swasim.trace.events import AnyEvent, Header
from swasim.trace.reader import Batch, from_events
from swasim.trace.resolve import Resolver
from swasim.trace.writer import write_trace
from tests.benchmarks.workloads import Workload, recorded, served, window_steps

ROUNDS = 5
CALLS = 4000
Contender = Callable[[], int]
"""Does its work once; hands back how many calls or lines that were."""


def calls_of(workload: Workload) -> list[Call]:
    resolver = Resolver()
    resolved = [resolver.resolve(entry) for entry in workload.entries]
    return [each.call for each in resolved if each.call is not None]


def bare(workload: Workload, calls: list[Call], engine: str) -> int:
    allocator = build(replace(workload.config, engine=engine))
    for call in calls:
        allocator.perform(call)
    return len(calls)


def batches_of(workload: Workload) -> list[Batch]:
    """Events that are decoded already, as many together as a reader hands out."""
    with from_events([entry.event for entry in workload.entries]) as reader:
        return list(reader.batches())


def checked(workload: Workload, batches: list[Batch], engine: str) -> int:
    """Every call checked, for a consumer that wants findings alone."""
    replayer = Replayer(replace(workload.config, engine=engine))
    for batch in batches:
        at = 0
        while at < len(batch):
            passage = replayer.advance(batch, at, len(batch))
            assert passage.step is None or not passage.step.findings
            at += passage.passed + (passage.step is not None)
    return len(workload.entries)


def stepped(workload: Workload) -> int:
    """The same for a consumer that looks at each step."""
    replayer, collector = Replayer(workload.config), Collector()
    for entry in workload.entries:
        collector.add(replayer.step(entry))
    assert not collector.errors
    return len(workload.entries)


def upstream(workload: Workload, calls: list[Call]) -> int:
    methods = Methods(adapter.build("sglang", workload.config).target)  # type: ignore[attr-defined]
    for call in calls:
        methods.perform(call)
    return len(calls)


def sglang_version(workload: Workload) -> str:
    try:
        return str(adapter.build("sglang", workload.config).version)  # type: ignore[attr-defined]
    except UsageError:
        return ""


def decoded(path: Path) -> int:
    """What a reader cannot do without: the lines of the file, and an event of each."""
    decode = msgspec.json.Decoder(AnyEvent).decode
    with path.open("rb") as file:
        next(file)
        count = 0
        for line in file:
            decode(line)
            count += 1
    return count


def from_file(path: Path, workload: Workload) -> int:
    return replay(path, workload.config).summary.events


def write(workload: Workload, path: Path) -> None:
    config = workload.config
    header = Header(
        swasim_trace=1,
        page_size=config.page_size,
        kv_size=config.kv_size,
        kv_size_swa=config.kv_size_swa,
    )
    write_trace(path, header, workload.entries)


def contenders(workload: Workload, folder: Path) -> dict[str, Contender]:
    calls = calls_of(workload)
    batches = batches_of(workload)
    path = folder / "trace.jsonl"
    write(workload, path)
    found: dict[str, Contender] = {}
    version = sglang_version(workload)
    if version:
        found[f"sglang {version}, bare"] = lambda: upstream(workload, calls)
    found["torch engine, bare"] = lambda: bare(workload, calls, "torch")
    found["torch engine, checked"] = lambda: checked(workload, batches, "torch")
    found["core engine, bare"] = lambda: bare(workload, calls, "core")
    found["core engine, checked"] = lambda: checked(workload, batches, "core")
    found["core engine, step by step"] = lambda: stepped(workload)
    found["file to summary"] = lambda: from_file(path, workload)
    found["decoding the file alone"] = lambda: decoded(path)
    return found


def libcachesim_requests() -> int:
    import libcachesim

    reader = libcachesim.SyntheticReader(
        num_of_req=100_000, obj_size=1, alpha=1.0, dist="zipf", num_objects=10_000, seed=1
    )
    libcachesim.LRU(cache_size=1000).process_trace(reader)
    return 100_000


def medians(work: dict[str, Contender], rounds: int = ROUNDS) -> dict[str, float]:
    """Calls per second of processor time."""
    speeds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, contender in work.items():
            start = time.process_time()
            count = contender()
            speeds[name].append(count / (time.process_time() - start))
    return {name: statistics.median(values) for name, values in speeds.items()}


def show(title: str, speeds: dict[str, float], *against: str) -> None:
    against = tuple(name for name in against if name in speeds)
    heads = "".join(f"{'x ' + name:>27}" for name in against)
    lines = [f"\n{title:26}{'calls/s':>11}{'us/call':>11}{heads}"]
    for name, speed in speeds.items():
        ratios = "".join(f"{speed / speeds[base]:27.2f}" for base in against)
        lines.append(f"  {name:24}{speed:11,.0f}{1e6 / speed:11.2f}{ratios}")
    sys.stdout.write("\n".join(lines) + "\n")


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "decode64": lambda: recorded(20_000),
    "decode, page 64": lambda: served("decode", 64, CALLS),
    "decode, page 1": lambda: served("decode", 1, CALLS),
    "prefill, page 64": lambda: served("prefill", 64, CALLS // 4),
    "prefill, page 1": lambda: served("prefill", 1, CALLS // 8),
    "churn, page 64": lambda: served("churn", 64, CALLS),
    "churn, page 1": lambda: served("churn", 1, CALLS),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_calls_per_second(name: str) -> None:
    torch.set_num_threads(1)
    workload = WORKLOADS[name]()
    with tempfile.TemporaryDirectory() as folder:
        speeds = medians(contenders(workload, Path(folder)))
    upstream_name = next((each for each in speeds if each.startswith("sglang")), "")
    show(name, speeds, upstream_name, "torch engine, checked", "decoding the file alone")
    if not upstream_name:
        sys.stdout.write("  (no SGLang on PYTHONPATH: put a release there to compare with it)\n")


def test_a_trace_replayer_at_large() -> None:
    if importlib.util.find_spec("libcachesim") is None:
        pytest.skip("libcachesim is not installed")
    show("libCacheSim, LRU, zipf", medians({"requests": libcachesim_requests}))


@pytest.mark.parametrize("page_size", [1, 64])
def test_the_size_of_the_pools_does_not_matter(page_size: int) -> None:
    sizes = {f"2^{bits} tokens": window_steps(page_size, 1 << bits, 2000) for bits in (12, 17, 22)}
    work: dict[str, Contender] = {}
    for name, workload in sizes.items():
        work[name] = steps(workload)
    show(f"checked core, page {page_size}", medians(work), "2^12 tokens")


def steps(workload: Workload) -> Contender:
    """The steps alone: to set pools up, and to take them down, costs their size, once."""
    waiting = [Replayer(workload.config) for _ in range(ROUNDS)]
    done: list[Replayer] = []
    gc.collect()

    def run() -> int:
        done.append(waiting.pop())
        for entry in workload.entries:
            done[-1].step(entry)
        return len(workload.entries)

    return run
