"""A long trace is replayed, checked and reported in the memory that a short one takes."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from swasim.allocator.registry import build
from swasim.call import Call
from swasim.config import SimConfig
from swasim.trace.events import (
    AllocDecode,
    AllocExtend,
    AnyEvent,
    Entry,
    Free,
    FreeSwa,
    Header,
    compress,
)
from swasim.trace.writer import write_trace

PAGE = 4
WINDOW = 16
CONFIG = SimConfig(page_size=PAGE, kv_size=1600, kv_size_swa=800, allocator="fixed")

REPLAY = """
import resource, sys
from swasim.run import replay
result = replay(sys.argv[1], allocator="fixed")
assert not result.findings, result.findings[0]
print(result.summary.events, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
KILOBYTES_OF_A_MEGABYTE = 1024


def served() -> Iterator[AnyEvent]:
    """Eight requests that decode together, lose what falls out of the window, end and are followed
    by others, without an end; pages come back in ever new orders."""
    allocator, chance = build(CONFIG), random.Random(1)
    rows: list[list[int]] = []
    windows: list[int] = []
    ends: list[int] = []
    while True:
        while len(rows) < 8:
            length = chance.randint(1, 20)
            call = Call(op="alloc_extend", prefix_lens=[0], seq_lens=[length], last_loc=[-1])
            rows.append(allocator.perform(call).out or [])
            windows.append(0)
            ends.append(length + chance.randint(5, 80))
            yield AllocExtend(prefix_lens=[0], seq_lens=[length], last_loc=[-1])
        seq_lens, last_loc = [len(row) + 1 for row in rows], [row[-1] for row in rows]
        call = Call(op="alloc_decode", seq_lens=seq_lens, last_loc=last_loc)
        for row, slot in zip(rows, allocator.perform(call).out or [], strict=True):
            row.append(slot)
        yield AllocDecode(seq_lens=seq_lens, last_loc=last_loc)
        for at in reversed(range(len(rows))):
            row, start = rows[at], windows[at]
            if len(row) - start >= WINDOW + PAGE:
                allocator.perform(Call(op="free_swa", indices=row[start : start + PAGE]))
                yield FreeSwa(indices=compress(row[start : start + PAGE]))
                windows[at] += PAGE
            if len(row) >= ends[at]:
                allocator.perform(Call(op="free", indices=row))
                yield Free(indices=compress(row))
                del rows[at], windows[at], ends[at]


def peak_megabytes(folder: Path, calls: int) -> float:
    """Peak resident size of a process that replays `calls` calls from a compressed file."""
    path = folder / f"{calls}.jsonl.zst"
    header = Header(swasim_trace=1, page_size=PAGE, kv_size=1600, kv_size_swa=800)
    events = enumerate(islice(served(), calls), start=1)
    write_trace(path, header, (Entry(number, number + 1, event) for number, event in events))
    finished = subprocess.run(
        [sys.executable, "-c", REPLAY, str(path)], capture_output=True, text=True, check=True
    )
    events_text, kilobytes = finished.stdout.split()
    assert int(events_text) == calls
    return int(kilobytes) / KILOBYTES_OF_A_MEGABYTE


def test_ten_times_the_calls_take_no_more_memory(tmp_path: Path) -> None:
    few = peak_megabytes(tmp_path, 1_000)
    assert peak_megabytes(tmp_path, 10_000) < few + 8


@pytest.mark.slow
def test_a_million_calls_take_the_memory_of_a_hundred_thousand(tmp_path: Path) -> None:
    few = peak_megabytes(tmp_path, 100_000)
    assert peak_megabytes(tmp_path, 1_000_000) < few + 64
