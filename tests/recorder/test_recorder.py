"""A recording says what was called, and replays to the same answers and the same state."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

import swasim
from swasim.allocator.tensor.swa import SWATokenToKVPoolAllocator
from swasim.errors import UsageError
from swasim.recorder import MappingCheck, record, tensors
from swasim.trace.events import (
    Alloc,
    AllocDecode,
    AllocExtend,
    Free,
    FreeSegment,
    FreeSegments,
    FreeSwa,
    Mark,
    SetFullToSwaMapping,
    op_of,
)
from swasim.trace.reader import open_trace
from tests.support.recording import drive, engine, events_of, extend, live, replayed, state_of
from tests.support.tiny_allocator import TinyAllocator
from tests.support.vectors import Vector, golden_vectors

WORK = [
    vector
    for vector in golden_vectors()
    if vector.release_in_name in ("0.5.12", "0.5.18", "0.5.23")
    and ("__p1__" in vector.name or "__p4__" in vector.name)
]


def sizes(name: str, path: Path) -> dict[str, Any]:
    with open_trace(path) as trace:
        header = trace.header
    assert header is not None
    return {
        "release": name.split("__")[0],
        "page_size": header.page_size,
        "kv_size": header.kv_size,
        "kv_size_swa": header.kv_size_swa,
        "need_sort": bool(header.need_sort),
    }


@pytest.mark.parametrize("vector", WORK, ids=lambda vector: vector.name)
def test_recorded_vector_replays_without_divergence_to_the_same_state(
    vector: Vector, tmp_path: Path
) -> None:
    pair = live(**sizes(vector.name, vector.path))
    with record(pair, tmp_path / "a.jsonl"):
        drive(pair, vector.path)
    again = engine(pair)
    assert replayed(tmp_path / "a.jsonl", again) == []
    assert again.state() == state_of(pair)


@pytest.mark.parametrize("vector", WORK[::4], ids=lambda vector: vector.name)
def test_recording_that_begins_in_the_middle_first_rebuilds_the_state(
    vector: Vector, tmp_path: Path
) -> None:
    pair = live(**sizes(vector.name, vector.path))
    drive(pair, vector.path, last=20)
    pair.free_group_end()
    with record(pair, tmp_path / "a.jsonl"):
        drive(pair, vector.path, first=21)
    again = engine(pair)
    assert replayed(tmp_path / "a.jsonl", again) == []
    assert again.state() == state_of(pair)


@pytest.mark.parametrize("vector", WORK[::4], ids=lambda vector: vector.name)
def test_ring_holds_the_last_calls_behind_the_state_that_they_began_with(
    vector: Vector, tmp_path: Path
) -> None:
    pair = live(**sizes(vector.name, vector.path))
    with record(pair, tmp_path / "a.jsonl", ring=7):
        drive(pair, vector.path)
    again = engine(pair)
    assert replayed(tmp_path / "a.jsonl", again) == []
    assert again.state() == state_of(pair)


def test_events_carry_arguments_results_time_and_the_caller(tmp_path: Path) -> None:
    pair = live()
    with record(pair, tmp_path / "a.jsonl", note="by hand"):
        slots = extend(pair, 6)
        pair.alloc_decode(torch.tensor([7]), torch.tensor([7]), slots[-1:])
        pair.free_swa(slots[:4])
    with open_trace(tmp_path / "a.jsonl") as trace:
        header = trace.header
        grown, decoded, freed = (entry.event for entry in trace)
    assert header is not None
    assert (header.page_size, header.kv_size, header.kv_size_swa) == (4, 32, 32)
    assert (header.need_sort, header.note) == (False, "by hand")
    assert isinstance(grown, AllocExtend)
    assert (grown.prefix_lens, grown.seq_lens, grown.last_loc) == ([0], [6], [-1])
    assert grown.out == [(4, 10)]
    assert grown.site is not None
    assert grown.site.startswith("tests.support.recording.extend:")
    assert isinstance(decoded, AllocDecode)
    assert (decoded.seq_lens, decoded.last_loc, decoded.out) == ([7], [9], [10])
    assert decoded.site is not None
    assert ".test_events_carry_arguments_results_time_and_the_caller:" in decoded.site
    assert isinstance(freed, FreeSwa)
    assert freed.indices == [(4, 8)]
    times = [event.t for event in (grown, decoded, freed) if event.t is not None]
    assert len(times) == 3
    assert times[0] < times[1] < times[2]


class Watched(torch.Tensor):
    """A tensor that notes in which threads its values, or those of its copies, are read."""

    readers: ClassVar[set[str]] = set()

    def tolist(self) -> list[int]:
        self.readers.add(threading.current_thread().name)
        return self.as_subclass(torch.Tensor).tolist()

    def item(self) -> int | float:
        self.readers.add(threading.current_thread().name)
        return self.as_subclass(torch.Tensor).item()


def test_indices_are_read_by_the_writer_and_not_while_the_server_waits(tmp_path: Path) -> None:
    pair = TinyAllocator(8, 8, 1, "cpu")
    Watched.readers.clear()
    with record(pair, tmp_path / "a.jsonl") as recording:
        pair.full_attn_allocator.free(torch.tensor([3]).as_subclass(Watched))
        assert Watched.readers <= {"swasim-record"}
        recording.flush()
        assert Watched.readers != set()


@pytest.mark.device
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_keeping_a_tensor_on_a_gpu_does_not_synchronise() -> None:
    slots = torch.arange(4, 300, device="cuda")
    tensors.wait(tensors.marker("cuda"))
    torch.cuda.set_sync_debug_mode("error")
    try:
        kept = tensors.keep(slots)
        slots.zero_()
        mark = tensors.marker("cuda")
    finally:
        torch.cuda.set_sync_debug_mode("default")
    tensors.wait(mark)
    assert tensors.index_list(kept) == [(4, 300)]


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        ([7], [7]),
        (list(range(8, 200)), [(8, 200)]),
        ([*range(8, 120), 3, *range(64, 128)], [(8, 120), (3, 4), (64, 128)]),
        (list(range(200, 0, -1)), list(range(200, 0, -1))),
    ],
    ids=["one", "run", "runs", "backwards"],
)
def test_long_index_tensors_become_runs(slots: list[int], expected: list[Any]) -> None:
    assert tensors.index_list(torch.tensor(slots)) == expected


def test_refused_allocation_is_recorded_as_null(tmp_path: Path) -> None:
    pair = live(kv_size=8, kv_size_swa=8)
    with record(pair, tmp_path / "a.jsonl"):
        zero, length = torch.tensor([0]), torch.tensor([12])
        assert pair.alloc_extend(zero, zero, length, length, torch.tensor([-1]), 12) is None
    assert b'"out":null' in (tmp_path / "a.jsonl").read_bytes()


def test_exception_is_recorded_and_raised_again(tmp_path: Path) -> None:
    pair = live()
    with record(pair, tmp_path / "a.jsonl") as recording:
        with pytest.raises(AssertionError):
            pair.alloc(4)
        extend(pair, 4)
        assert recording.stopped is None
    refused, grown = events_of(tmp_path / "a.jsonl")
    assert refused.expect is not None
    assert refused.expect.raises == "AssertionError"
    assert op_of(grown) == "alloc_extend"


def test_index_tensor_changed_after_the_call_is_recorded_as_it_was(tmp_path: Path) -> None:
    pair = live()
    with record(pair, tmp_path / "a.jsonl"):
        slots = extend(pair, 8)
        named = slots.clone()
        pair.free(named)
        named.fill_(31)
        slots.fill_(31)
    grown, freed = events_of(tmp_path / "a.jsonl")
    assert isinstance(grown, AllocExtend)
    assert grown.out == [(4, 12)]
    assert isinstance(freed, Free)
    assert freed.indices == [(4, 12)]


def test_calls_that_the_allocator_makes_on_itself_are_not_recorded(tmp_path: Path) -> None:
    pair = live()
    with record(pair, tmp_path / "a.jsonl"):
        pair.free_segments([(extend(pair, 8), 0)])
    assert [op_of(event) for event in events_of(tmp_path / "a.jsonl")] == [
        "alloc_extend",
        "free_segments",
    ]


def test_segments_given_by_a_generator_reach_the_allocator_and_the_trace(tmp_path: Path) -> None:
    pair = live()
    with record(pair, tmp_path / "a.jsonl"):
        slots = extend(pair, 8)
        pair.free_segments(piece for piece in [(slots[:4], 0), (slots[4:], 4)])
    assert pair.full_available_size() == 32
    event = events_of(tmp_path / "a.jsonl")[1]
    assert isinstance(event, FreeSegments)
    assert [(piece.indices, piece.start_pos) for piece in event.segments] == [
        ([(4, 8)], 0),
        ([(8, 12)], 4),
    ]


def test_calls_on_one_pool_name_it(tmp_path: Path) -> None:
    pair = live()
    with record(pair, tmp_path / "a.jsonl"):
        slots = pair.swa_attn_allocator.alloc(8)
        assert slots is not None
        pair.swa_attn_allocator.free(slots[:4])
        pair.swa_attn_allocator.free_page_ids(torch.tensor([2]))
    taken, freed, pages = events_of(tmp_path / "a.jsonl")
    assert isinstance(taken, Alloc)
    assert (taken.pool, taken.need_size, taken.out) == ("swa", 8, [(4, 12)])
    assert isinstance(freed, Free)
    assert (freed.pool, freed.indices) == ("swa", [(4, 8)])
    assert isinstance(pages, FreeSegment)
    assert (pages.pool, pages.indices, pages.start_pos) == ("swa", [(8, 12)], 0)
    assert replayed(tmp_path / "a.jsonl", engine(pair)) == []


def test_call_that_the_format_cannot_say_is_followed_by_the_state(tmp_path: Path) -> None:
    pair = live()
    with record(pair, tmp_path / "a.jsonl"):
        slots = extend(pair, 8)
        pair.full_attn_allocator.clear()
        pair.free_swa(slots)
    marks = [event for event in events_of(tmp_path / "a.jsonl") if isinstance(event, Mark)]
    assert [mark.label for mark in marks] == ["clear on the full pool: state written anew"]
    again = engine(pair)
    assert replayed(tmp_path / "a.jsonl", again) == []
    assert again.state() == state_of(pair)


@pytest.mark.parametrize("check", ["write", "call"])
def test_direct_write_to_the_mapping_is_recorded(check: MappingCheck, tmp_path: Path) -> None:
    pair = TinyAllocator(8, 8, 1, "cpu")
    plain = pair.full_to_swa_index_mapping
    with record(pair, tmp_path / "a.jsonl", check_mapping=check):
        slots = pair.alloc(3)
        assert slots is not None
        pair.full_to_swa_index_mapping[slots[:2]] = 0
        pair.free(slots[2:])
    assert plain.tolist() == [0] * 9 + [-1]
    events = events_of(tmp_path / "a.jsonl")
    write = events[1]
    assert isinstance(write, SetFullToSwaMapping)
    assert (write.full, write.swa) == ([(1, 3)], [0, 0])
    assert write.site is not None
    assert write.site.startswith("direct tensor write")
    assert check == "call" or ".test_direct_write_to_the_mapping_is_recorded:" in write.site
    assert len(events) == 3


def test_detach_puts_the_object_back_as_it_was(tmp_path: Path) -> None:
    pair = TinyAllocator(8, 8, 1, "cpu")
    before = [dict(vars(item)) for item in (pair, pair.full_attn_allocator)]
    recording = record(pair, tmp_path / "a.jsonl", check_mapping="write")
    assert "alloc" in vars(pair)
    recording.detach()
    recording.detach()
    assert [set(vars(item)) for item in (pair, pair.full_attn_allocator)] == [
        set(names) for names in before
    ]
    assert pair.full_to_swa_index_mapping is before[0]["full_to_swa_index_mapping"]
    pair.alloc(2)
    assert recording.calls == 0
    assert recording.stopped == "detached"


def test_flush_shows_every_call_made_so_far(tmp_path: Path) -> None:
    pair = live()
    with record(pair, tmp_path / "a.jsonl") as recording:
        extend(pair, 4)
        recording.flush()
        assert len(events_of(tmp_path / "a.jsonl")) == 1


def test_defect_of_the_recorder_does_not_reach_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = TinyAllocator(8, 8, 1, "cpu")
    recording = record(pair, tmp_path / "a.jsonl")
    monkeypatch.setattr(recording._sites, "caller", lambda depth: 1 / 0)
    with caplog.at_level(logging.WARNING, "swasim.recorder"):
        assert list(pair.alloc(1) or ()) == [1]
        assert list(pair.alloc(1) or ()) == [2]
    assert recording.stopped is not None
    assert "ZeroDivisionError" in recording.stopped
    assert len(caplog.records) == 1


def test_package_can_be_called(tmp_path: Path) -> None:
    pair = TinyAllocator(8, 8, 1, "cpu")
    with swasim.record(pair, tmp_path / "a.jsonl") as recording:
        pair.alloc(1)
    assert recording.calls == 1


def _open_group(pair: SWATokenToKVPoolAllocator) -> SWATokenToKVPoolAllocator:
    pair.free_group_begin()
    return pair


@pytest.mark.parametrize(
    ("allocator", "options", "message"),
    [
        (object(), {}, "object is no pair of full and SWA pools"),
        (_open_group(live()), {}, "has a free group open"),
        (live(), {"ring": 0}, "ring is 0; accepted is a whole number from 1 on"),
        (live(), {"ring": True}, "ring is True; accepted is"),
        (live(), {"max_bytes": 0}, "max_bytes is 0; accepted is a whole number from 1 on"),
        (live(), {"max_bytes": "9"}, "max_bytes is '9'; accepted is"),
        (live(), {"max_bytes": 99}, r"max_bytes is 99; the header alone takes 1\d\d$"),
        (live(), {"max_bytes": 99, "ring": 9}, r"max_bytes is 99; the header alone takes 1\d\d$"),
        (live(), {"check_mapping": "always"}, "check_mapping is 'always'; accepted are never, w"),
        (live(), {"check_mapping": "write"}, "computes its mapping attribute"),
    ],
    ids=[
        "no pair",
        "open group",
        "ring",
        "ring of another type",
        "max_bytes",
        "max_bytes of another type",
        "no room for the header",
        "no room for the header of a ring",
        "check_mapping",
        "computed mapping",
    ],
)
def test_what_cannot_be_recorded_is_refused(
    allocator: object, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        record(allocator, tmp_path / "a.jsonl", **options)
    assert not (tmp_path / "a.jsonl").exists()


def test_path_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(UsageError, match=r"cannot write 'a\\x00.jsonl': embedded null byte"):
        record(live(), "a\0.jsonl")


def test_second_recording_of_one_object_is_refused(tmp_path: Path) -> None:
    pair = live()
    with (
        record(pair, tmp_path / "a.jsonl"),
        pytest.raises(UsageError, match="is being recorded already"),
    ):
        record(pair, tmp_path / "b.jsonl")


def test_existing_file_and_compressed_suffix_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("mine")
    with pytest.raises(UsageError, match=r"a\.jsonl exists"):
        record(live(), tmp_path / "a.jsonl")
    with pytest.raises(UsageError, match="without compression"):
        record(live(), tmp_path / "a.jsonl.gz")
    assert (tmp_path / "a.jsonl").read_text() == "mine"
    record(live(), tmp_path / "a.jsonl", force=True).detach()
    assert (tmp_path / "a.jsonl").read_text().startswith('{"swasim_trace":1,')
