"""A long trace is replayed, checked and reported in the memory that a short one takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from swasim.allocator.registry import build
from swasim.config import SimConfig
from swasim.replayer import Replayer
from swasim.trace.events import (
    AllocDecode,
    AllocExtend,
    AnyEvent,
    Clear,
    Entry,
    Free,
    FreeSwa,
    Header,
    compress,
)
from swasim.trace.writer import write_trace

CONFIG = SimConfig(page_size=4, kv_size=256, kv_size_swa=256, allocator="fixed")

REPLAY = """
import resource, sys
from swasim.run import replay
result = replay(sys.argv[1], allocator="fixed", expect_idle=True)
assert not result.findings, result.findings[0]
print(result.summary.events, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
KILOBYTES_OF_A_MEGABYTE = 1024


def one_round() -> list[AnyEvent]:
    """Six requests that are admitted, decode, lose what fell out of the window, and end."""
    replayer = Replayer(CONFIG, build(CONFIG))
    events: list[AnyEvent] = []

    def call(event: AnyEvent) -> list[int]:
        events.append(event)
        step = replayer.step(Entry(len(events), len(events), event))
        assert not step.findings
        return [] if step.effect is None else step.effect.out or []

    rows = [
        call(AllocExtend(prefix_lens=[0], seq_lens=[length], last_loc=[-1]))
        for length in (5, 9, 2, 7, 4, 12)
    ]
    for _ in range(20):
        last_loc = [row[-1] for row in rows]
        out = call(AllocDecode(seq_lens=[len(row) + 1 for row in rows], last_loc=last_loc))
        for row, slot in zip(rows, out, strict=True):
            row.append(slot)
    for row in rows:
        call(FreeSwa(indices=compress(row[:4])))
    for row in rows:
        call(Free(indices=compress(row)))
    call(Clear())  # the free lists are in another order now; the next round names the same slots
    return events


def peak_megabytes(folder: Path, calls: int) -> float:
    """Peak resident size of a process that replays `calls` calls from a compressed file."""
    cycle = one_round()
    path = folder / f"{calls}.jsonl.zst"
    header = Header(swasim_trace=1, page_size=4, kv_size=256, kv_size_swa=256)
    events = (Entry(n + 1, n + 2, cycle[n % len(cycle)]) for n in range(calls))
    write_trace(path, header, events)
    finished = subprocess.run(
        [sys.executable, "-c", REPLAY, str(path)], capture_output=True, text=True, check=True
    )
    events_text, kilobytes = finished.stdout.split()
    assert int(events_text) == calls
    return int(kilobytes) / KILOBYTES_OF_A_MEGABYTE


def whole_rounds(calls: int) -> int:
    """So many calls or a few more, that end with idle pools."""
    length = len(one_round())
    return -(-calls // length) * length


def test_ten_times_the_calls_take_no_more_memory(tmp_path: Path) -> None:
    few = peak_megabytes(tmp_path, whole_rounds(1_000))
    assert peak_megabytes(tmp_path, whole_rounds(10_000)) < few + 8


@pytest.mark.slow
def test_a_million_calls_take_the_memory_of_a_hundred_thousand(tmp_path: Path) -> None:
    few = peak_megabytes(tmp_path, whole_rounds(100_000))
    assert peak_megabytes(tmp_path, whole_rounds(1_000_000)) < few + 64
