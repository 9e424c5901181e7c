"""The canonical form, and files that are whole or absent."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from swasim.errors import UsageError
from swasim.trace.events import (
    AnyEvent,
    Clear,
    Entry,
    Free,
    Header,
    Mark,
    canonical,
    compress,
    expand,
)
from swasim.trace.reader import from_events, open_trace
from swasim.trace.writer import TraceWriter, encode_event, encode_header, write_trace
from tests.support.events import event_of
from tests.support.vectors import Vector, all_vectors

HEADER = Header(swasim_trace=1, page_size=4)
EVENTS: list[AnyEvent] = [Mark(label="a"), Free(indices=[4, 5, 9]), Clear()]
BYTES = (
    b'{"swasim_trace":1,"page_size":4}\n'
    b'{"op":"mark","label":"a"}\n{"op":"free","indices":[[4,6],9]}\n{"op":"clear"}\n'
)


def unpack_zstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


@pytest.mark.parametrize(
    ("line", "written"),
    [
        (
            '{"expect":{"idle":true,"full_free":[1,2,3]},"site":"s","t":1.5,"indices":[4],"op":"free"}',
            '{"op":"free","indices":[4],"t":1.5,"site":"s","expect":{"full_free":[[1,4]],"idle":true}}',
        ),
        (
            '{"op":"alloc","out":null,"need_size":4}',
            '{"op":"alloc","need_size":4,"out":null}',
        ),
        (
            '{"op":"alloc_extend","out":[4,5,6,[7,7],[7,9]],"last_loc":[-1],"seq_lens":[5],"reqs":["A"]}',
            '{"op":"alloc_extend","seq_lens":[5],"last_loc":[-1],"reqs":["A"],"out":[[4,9]]}',
        ),
        (
            '{"op":"share","from":"A","req":"B"}',
            '{"op":"share","req":"B","from":"A"}',
        ),
        (
            '{"op":"free_segments","segments":[{"start_pos":0,"indices":[4,5]}]}',
            '{"op":"free_segments","segments":[{"indices":[[4,6]],"start_pos":0}]}',
        ),
        (
            '{"op":"expect","expect":{"mapped":{"req":"A","end":2},"unmapped":[4,5]}}',
            '{"op":"expect","expect":{"unmapped":[[4,6]],"mapped":{"req":"A","end":2}}}',
        ),
        (
            '{"op":"free","indices":[],"expect":{"mapping":[[4,4,2]],"full_available":0}}',
            '{"op":"free","indices":[],"expect":{"full_available":0,"mapping":[[4,4,2]]}}',
        ),
    ],
)
def test_events_are_written_in_one_canonical_form(line: str, written: str) -> None:
    assert encode_event(event_of(line)).decode() == written
    assert encode_event(event_of(written)).decode() == written


def test_the_header_keeps_only_what_it_says() -> None:
    assert encode_header(HEADER) == b'{"swasim_trace":1,"page_size":4}'


@given(st.lists(st.integers(0, 12)))
def test_runs_name_the_same_slots_in_the_same_order(slots: list[int]) -> None:
    shortest = compress(slots)
    assert expand(shortest) == slots
    assert canonical(shortest) == shortest
    assert len(shortest) <= len(slots)


def test_repeated_and_descending_slots_stay_in_order() -> None:
    assert compress([1, 1, 2, 3, 4]) == [1, (1, 5)]
    assert compress([3, 2, 1]) == [3, 2, 1]
    assert canonical([(5, 5), 0, (1, 3), (3, 3), 3]) == [(0, 4)]


@pytest.mark.parametrize("vector", all_vectors(), ids=lambda vector: vector.name)
def test_every_recorded_trace_survives_reading_and_writing(vector: Vector) -> None:
    with open_trace(vector.path) as trace:
        entries = list(trace)
    out = io.BytesIO()
    assert write_trace(out, trace.header, entries) == len(entries)
    again = from_events(out.getvalue().splitlines())
    assert again.header == trace.header
    assert [entry.event for entry in again] == [entry.event for entry in entries]
    original = unpack_zstd(vector.path.read_bytes())
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        json.loads(line) for line in original.splitlines()
    ]


def test_the_suffix_decides_the_compression(tmp_path: Path) -> None:
    unpackers: dict[str, Callable[[bytes], bytes]] = {
        "t.jsonl": bytes,
        "t.jsonl.gz": gzip.decompress,
        "t.jsonl.zst": unpack_zstd,
    }
    for name, unpack in unpackers.items():
        assert write_trace(tmp_path / name, HEADER, EVENTS) == 3
        first = (tmp_path / name).read_bytes()
        assert unpack(first) == BYTES
        write_trace(tmp_path / name, HEADER, EVENTS)
        assert (tmp_path / name).read_bytes() == first
        with open_trace(tmp_path / name) as trace:
            assert len(list(trace)) == 3
            assert trace.truncated_line is None
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "t.jsonl",
        "t.jsonl.gz",
        "t.jsonl.zst",
    ]


def test_a_file_that_is_handed_in_is_written_and_left_open() -> None:
    out = io.BytesIO()
    write_trace(out, HEADER, [Entry(1, 2, event) for event in EVENTS])
    assert out.getvalue() == BYTES


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.jsonl.zst"])
def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("old")
    with pytest.raises(ZeroDivisionError):
        write_trace(path, HEADER, failing())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def failing() -> Iterator[AnyEvent]:
    yield Clear()
    raise ZeroDivisionError


def test_the_file_appears_under_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    writer = TraceWriter(path)
    writer.event(Clear())
    assert not path.exists()
    writer.close()
    writer.close()
    assert path.read_bytes() == b'{"op":"clear"}\n'


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.jsonl.zst"])
def test_a_recording_in_place_is_readable_before_it_is_closed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    writer = TraceWriter(path, atomic=False)
    writer.event(Clear())
    writer.event(Mark(label="b"))
    writer.flush()
    with open_trace(path) as trace:
        assert [entry.event for entry in trace] == [Clear(), Mark(label="b")]
    writer.discard()
    with open_trace(path) as trace:
        assert len(list(trace)) == 2
        assert trace.truncated_line is None


def test_a_link_is_written_through(tmp_path: Path) -> None:
    real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    real.write_text("old")
    link.symlink_to(real)
    write_trace(link, None, [Clear()])
    assert link.is_symlink()
    assert real.read_bytes() == b'{"op":"clear"}\n'


def test_comments_are_written_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with TraceWriter(path) as writer:
        writer.comment("one\n\ntwo")
        writer.header(HEADER)
        writer.event(Clear())
        with pytest.raises(ValueError, match="first object"):
            writer.header(HEADER)
    assert (
        path.read_bytes() == b'# one\n#\n# two\n{"swasim_trace":1,"page_size":4}\n{"op":"clear"}\n'
    )


def test_a_path_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        write_trace(tmp_path / "none" / "t.jsonl", None, EVENTS)
    assert str(caught.value) == (
        f"cannot write trace '{tmp_path}/none/t.jsonl': No such file or directory"
    )
    with pytest.raises(UsageError, match="Is a directory"):
        write_trace(tmp_path, None, EVENTS)


def test_a_full_disk_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="cannot write trace '/dev/full': No space left"):
        write_trace("/dev/full", None, EVENTS)
