"""What a recording survives: being killed, forks, full disks, its own bounds."""

from __future__ import annotations

import errno
import logging
import os
import random
import signal
import subprocess
import sys
import time
from io import FileIO
from pathlib import Path

import pytest

from swasim.allocator.tensor.swa import SWATokenToKVPoolAllocator
from swasim.errors import TraceError, UsageError
from swasim.recorder import record
from swasim.recorder.sink import TraceFile
from swasim.trace.events import AllocExtend
from swasim.trace.reader import open_trace
from tests.support.recording import engine, events_of, extend, live, replayed, state_of

ROOT = Path(__file__).parents[2]


def serve(path: Path, calls: int, *ring: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.recorder.server", str(path), str(calls), *ring]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def kill_after(process: subprocess.Popen[bytes], seconds: float) -> None:
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def readable_calls(path: Path) -> int:
    """Calls that can be read, and that replay as they were recorded."""
    try:
        events = events_of(path)
    except TraceError as error:
        if "no events" in str(error):
            return 0
        raise
    assert replayed(path, engine(live(kv_size=256, kv_size_swa=256))) == []
    return len(events)


def kill_many(path: Path, times: int, ring: tuple[str, ...] = ()) -> list[int]:
    counts = []
    rng = random.Random(20)
    for number in range(times):
        target = path / f"{number}.jsonl"
        kill_after(
            serve(target, 10_000_000, *ring),
            rng.uniform(0.3, 0.6) if number == 0 else rng.uniform(0.0, 1.5),
        )
        counts.append(readable_calls(target))
    return counts


def test_killed_server_leaves_a_readable_recording(tmp_path: Path) -> None:
    assert kill_many(tmp_path, 1) > [0]


@pytest.mark.slow
def test_server_killed_50_times_leaves_50_readable_recordings(tmp_path: Path) -> None:
    counts = kill_many(tmp_path, 50)
    assert len(counts) == 50
    assert max(counts) > 1000


@pytest.mark.slow
def test_server_killed_while_its_ring_turns_leaves_a_whole_ring(tmp_path: Path) -> None:
    counts = kill_many(tmp_path, 10, ("100",))
    assert max(counts) >= 100


def test_process_that_ends_by_itself_loses_nothing(tmp_path: Path) -> None:
    process = serve(tmp_path / "a.jsonl", 300)
    process.communicate()
    assert process.returncode == 0
    assert len(events_of(tmp_path / "a.jsonl")) == 300


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_child_is_not_recorded_and_the_parent_goes_on(tmp_path: Path) -> None:
    pair = live()
    recording = record(pair, tmp_path / "a.jsonl")
    slots = extend(pair, 8)
    child = os.fork()
    if child == 0:
        still = vars(pair).get("free")
        extend(pair, 4)
        recording.flush()
        os._exit(0 if still is None and recording.stopped is not None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    pair.free(slots)
    recording.detach()
    assert len(events_of(tmp_path / "a.jsonl")) == 2
    again = engine(pair)
    assert replayed(tmp_path / "a.jsonl", again) == []
    assert again.state() == state_of(pair)


class FullDisk:
    """Takes `room_bytes` and then nothing."""

    def __init__(self, file: FileIO, room_bytes: int) -> None:
        self.file = file
        self.room_bytes = room_bytes

    def write(self, data: bytes) -> int:
        taken = bytes(data[: self.room_bytes])
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room_bytes -= len(taken)
        return self.file.write(taken)

    def truncate(self, size_bytes: int) -> None:
        self.file.truncate(size_bytes)

    def close(self) -> None:
        self.file.close()


def test_full_disk_ends_the_recording_with_one_line_and_the_server_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(self: TraceFile, path: str, *, force: bool) -> None:
        real_init(self, path, force=force)
        vars(self).update(_file=FullDisk(self._file, 500))

    real_init = TraceFile.__init__
    monkeypatch.setattr(TraceFile, "__init__", small)
    pair = live(kv_size=256, kv_size_swa=256)
    with caplog.at_level(logging.WARNING, "swasim.recorder"):
        recording = record(pair, tmp_path / "a.jsonl")
        for _ in range(20):
            extend(pair, 8)
            recording.flush()
    assert "No space left on device" in (recording.stopped or "")
    assert [entry.levelname for entry in caplog.records] == ["WARNING"]
    assert "alloc_extend" not in vars(pair)
    assert pair.full_available_size() == 96
    data = (tmp_path / "a.jsonl").read_bytes()
    assert data.endswith(b"}\n")
    assert len(data) <= 500
    with open_trace(tmp_path / "a.jsonl") as trace:
        assert len(list(trace)) == data.count(b"\n") - 1
        assert trace.truncated_line is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_disk_that_is_full_from_the_start_is_refused() -> None:
    with pytest.raises(UsageError, match="No space left on device"):
        record(live(), "/dev/full", force=True)


def test_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file or directory"):
        record(live(), tmp_path / "none" / "a.jsonl")


def test_recording_ends_before_it_grows_beyond_max_bytes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair = live(kv_size=256, kv_size_swa=256)
    with caplog.at_level(logging.WARNING, "swasim.recorder"):
        recording = record(pair, tmp_path / "a.jsonl", max_bytes=1000)
        for _ in range(20):
            extend(pair, 8)
        recording.flush()
    assert (recording.stopped or "").endswith("has reached max_bytes 1000")
    assert len(caplog.records) == 1
    assert 800 < (tmp_path / "a.jsonl").stat().st_size <= 1000
    assert all(isinstance(event, AllocExtend) for event in events_of(tmp_path / "a.jsonl"))


def test_ring_keeps_at_least_the_last_calls_and_at_most_twice_as_many(tmp_path: Path) -> None:
    pair = live(kv_size=256, kv_size_swa=256)
    with record(pair, tmp_path / "a.jsonl", ring=10) as recording:
        for number in range(57):
            pair.free(extend(pair, 4 + number % 5))
            recording.flush()
            assert (tmp_path / "a.jsonl").exists()
    calls = [event for event in events_of(tmp_path / "a.jsonl") if event.site != "snapshot"]
    assert recording.calls == 114
    assert 10 <= len(calls) <= 20
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_ring_under_max_bytes_turns_earlier_and_goes_on(tmp_path: Path) -> None:
    pair = live(kv_size=256, kv_size_swa=256)
    with record(pair, tmp_path / "a.jsonl", ring=100_000, max_bytes=9000) as recording:
        for number in range(100):
            pair.free(extend(pair, 4 + number % 5))
            recording.flush()
            files = [path.stat().st_size for path in tmp_path.iterdir()]
            assert sum(files) <= 9000
        assert recording.stopped is None
    again = engine(pair)
    assert replayed(tmp_path / "a.jsonl", again) == []
    assert again.state() == state_of(pair)


def test_resized_pools_are_recorded_into_another_file(tmp_path: Path) -> None:
    pair = live()
    vars(pair).update(resize=lambda tokens: _resize(pair, tokens))
    with record(pair, tmp_path / "a.jsonl"):
        extend(pair, 4)
        vars(pair)["resize"](16)
        extend(pair, 8)
    with open_trace(tmp_path / "a.2.jsonl") as trace:
        header = trace.header
        assert len(list(trace)) == 1
    assert header is not None
    assert (header.kv_size, header.kv_size_swa) == (16, 16)
    assert len(events_of(tmp_path / "a.jsonl")) == 1


def _resize(pair: SWATokenToKVPoolAllocator, tokens: int) -> None:
    for pool in (pair.full_attn_allocator, pair.swa_attn_allocator):
        pool.size, pool.num_pages = tokens, tokens // pair.page_size
    pair.clear()


def test_ring_whose_state_has_no_room_twice_ends_before_it_grows_beyond_max_bytes(
    tmp_path: Path,
) -> None:
    pair = live(kv_size=256, kv_size_swa=256)
    held = [extend(pair, 4) for _ in range(30)]
    for slots in held[::2]:
        pair.free(slots)
    most_bytes = 0
    with record(pair, tmp_path / "a.jsonl", ring=100_000, max_bytes=7000) as recording:
        for _ in range(60):
            pair.free(extend(pair, 8))
            recording.flush()
            most_bytes = max(most_bytes, sum(path.stat().st_size for path in tmp_path.iterdir()))
    assert "too small for a ring of this allocator" in (recording.stopped or "")
    assert most_bytes <= 7000
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]
    assert replayed(tmp_path / "a.jsonl", engine(pair)) == []
