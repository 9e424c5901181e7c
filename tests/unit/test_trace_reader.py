"""Good traces in every wrapping, and traces that were cut off."""

from __future__ import annotations

import contextlib
import gzip
import io
import random
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from swasim.errors import SwasimError, TraceError, UsageError
from swasim.trace import source
from swasim.trace.events import (
    Alloc,
    Clear,
    Entry,
    Expect,
    ExpectOnly,
    Free,
    FreeGroupEnd,
    Header,
    expectation,
)
from swasim.trace.reader import Item, TraceReader, from_events, open_trace
from tests.support.events import event_of

HEADER = b'{"swasim_trace":1,"page_size":4,"source":"sglang 0.5.12"}\n'
ALLOC = b'{"op":"alloc","need_size":8,"out":[[4,12]]}\n'
FREE = b'{"op":"free","indices":[8,77,[100,104]]}\n'
TRACE = HEADER + ALLOC + FREE

EVENTS = [Alloc(need_size=8, out=[(4, 12)]), Free(indices=[8, 77, (100, 104)])]


def write(folder: Path, data: bytes, name: str = "t.jsonl") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def events(reader: TraceReader) -> list[object]:
    return [entry.event for entry in reader]


def zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def gz(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


@pytest.mark.parametrize(
    "data",
    [
        TRACE,
        TRACE.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + TRACE,
        TRACE.rstrip(b"\n"),
        b"\n  \t\n" + TRACE.replace(b"\n", b"\n\n"),
        b"# by hand\n" + TRACE.replace(b"\n", b"\n  # and so on\n"),
        TRACE.replace(b"{", b"  { "),
        TRACE + b"# a comment without an end",
        gz(TRACE),
        gz(HEADER) + gz(ALLOC + FREE),
        gz(TRACE) + b"\0\0\0\0",
        gz(b"\xef\xbb\xbf" + TRACE),
        zst(TRACE),
        zst(HEADER + ALLOC) + zst(FREE),
    ],
    ids=[
        "plain",
        "crlf",
        "bom",
        "no line feed at the end",
        "blank lines",
        "comments",
        "indented",
        "comment at the end",
        "gzip",
        "gzip in two members",
        "gzip with padding",
        "gzip with a bom",
        "zstd",
        "zstd in two frames",
    ],
)
def test_every_wrapping_gives_the_same_header_and_events(tmp_path: Path, data: bytes) -> None:
    # The name says nothing about compression: content decides.
    with open_trace(write(tmp_path, data, "trace")) as trace:
        assert trace.header == Header(swasim_trace=1, page_size=4, source="sglang 0.5.12")
        assert events(trace) == EVENTS
        assert trace.truncated_line is None


def gathered(reader: TraceReader) -> list[Entry]:
    """The entries of a trace that is read by the batch."""
    return [batch.entry(at) for batch in reader.batches() for at in range(len(batch))]


def outcome(read: Callable[[TraceReader], Iterator[Entry]], path: Path) -> list[object]:
    """Entries up to the end, a cut or an error, and which of them it was."""
    found: list[object] = []
    try:
        with open_trace(path) as trace:
            found.extend([trace.header, trace.header_line])
            found.extend(read(trace))
            found.append(trace.truncated_line)
    except TraceError as error:
        found.append(str(error))
    return found


def by_the_batch(reader: TraceReader) -> Iterator[Entry]:
    for batch in reader.batches():
        for at in range(len(batch)):
            yield batch.entry(at)


LATER_LINES = {
    "good": ALLOC,
    "comment": b"# here\n" + ALLOC,
    "blank lines": b"\n \n" + ALLOC,
    "malformed": b'{"op":"alloc","need_size":-1}\n' + ALLOC,
    "run backwards": b'{"op":"free","indices":[[4,2]]}\n' + ALLOC,
    "two objects on a line": ALLOC.rstrip() + ALLOC,
    "an object on two lines": ALLOC.replace(b",", b",\n", 1),
    "object on two lines and two objects on one": ALLOC.replace(b",", b",\n", 1) + FREE[:-1] + FREE,
    "a second header": HEADER + ALLOC,
    "cut off": ALLOC[:20],
    "cut off behind a comment": b"# here\n" + ALLOC[:20],
    "zero bytes": ALLOC[:20] + b"\0" * 40,
    "a wrong event without an end": b'{"op":"free","indices":[[4,2]]}',
    "nested too deeply": b"[" * 10_000 + b"\n",
}


@pytest.mark.parametrize("later", LATER_LINES.values(), ids=LATER_LINES.keys())
@pytest.mark.parametrize("before", [0, 1, 300])
@pytest.mark.parametrize("pack", [bytes, gz], ids=["plain", "gzip"])
def test_batches_hold_the_same_entries_and_fail_at_the_same_line(
    tmp_path: Path, pack: Callable[[bytes], bytes], before: int, later: bytes
) -> None:
    path = write(tmp_path, pack(HEADER + FREE * before + later))
    one_by_one = outcome(iter, path)
    assert outcome(by_the_batch, path) == one_by_one
    assert len([found for found in one_by_one if isinstance(found, Entry)]) >= before


def test_a_plain_trace_comes_in_large_batches(tmp_path: Path) -> None:
    with open_trace(write(tmp_path, HEADER + FREE * 1000)) as trace:
        lengths = [len(batch) for batch in trace.batches()]
    assert sum(lengths) == 1000
    assert len(lengths) == 16


def test_a_free_group_is_not_cut_in_two(tmp_path: Path) -> None:
    begin, end = b'{"op":"free_group_begin"}\n', b'{"op":"free_group_end"}\n'
    data = HEADER + ALLOC * 60 + begin + FREE * 10 + end + ALLOC * 3 + begin + FREE
    with open_trace(write(tmp_path, data)) as trace:
        batches = list(trace.batches())
    assert [(batch.number, batch.line, len(batch)) for batch in batches] == [
        (1, 2, 72),
        (73, 74, 5),
    ]
    assert batches[0].entry(71).event == FreeGroupEnd()


def test_a_free_group_without_an_end_makes_no_batch_of_everything(tmp_path: Path) -> None:
    data = HEADER + b'{"op":"free_group_begin"}\n' + FREE * 1000
    with open_trace(write(tmp_path, data)) as trace:
        assert max(len(batch) for batch in trace.batches()) == 128
    spoiled = HEADER + ALLOC * 60 + b'{"op":"free_group_begin"}\n' + FREE * 10 + b"# here\n" + FREE
    with open_trace(write(tmp_path, spoiled)) as trace:
        assert [entry.line for entry in gathered(trace)] == [*range(2, 73), 74]


def test_what_was_handed_out_one_by_one_is_in_no_batch() -> None:
    trace = from_events([FREE, ALLOC, FREE])
    assert next(iter(trace)).number == 1
    assert [entry.number for entry in gathered(trace)] == [2, 3]
    with pytest.raises(UsageError, match="was read to its end"):
        trace.batches()


def test_a_batch_that_was_begun_goes_on_where_it_was_left(tmp_path: Path) -> None:
    with open_trace(write(tmp_path, HEADER + FREE * 40 + ALLOC)) as trace:
        entries = iter(trace)
        assert [next(entries).number for _ in range(30)][-1] == 30
        (batch,) = trace.batches()
        assert (batch.number, batch.line, len(batch)) == (31, 32, 11)
        assert batch.entry(10) == Entry(41, 42, Alloc(need_size=8, out=[(4, 12)]))


def test_what_an_event_lacks_is_said_when_it_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER + FREE * 40 + b'{"op":"free","indices":[1],"req":2}\n' + FREE)
    with open_trace(path) as trace:
        (batch,) = trace.batches()
        assert [batch.entry(at).number for at in (39, 41)] == [40, 42]
        with pytest.raises(TraceError, match=r"t.jsonl:42:34: error: free: 'req' beside 'indices'"):
            batch.entry(40)


def test_entries_count_events_and_name_lines_of_the_file(tmp_path: Path) -> None:
    data = b"# one\n" + HEADER + b"\n" + ALLOC + b"# five\r\n" + FREE
    with open_trace(str(write(tmp_path, data))) as trace:
        assert [(entry.number, entry.line) for entry in trace] == [(1, 4), (2, 6)]


def test_a_trace_needs_no_header(tmp_path: Path) -> None:
    with open_trace(write(tmp_path, ALLOC + FREE)) as trace:
        assert trace.header is None
        assert events(trace) == EVENTS


@pytest.mark.parametrize("data", [TRACE, gz(TRACE), zst(TRACE)], ids=["plain", "gzip", "zstd"])
def test_standard_input_is_read_and_stays_open(
    monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(data))
    monkeypatch.setattr("sys.stdin", stdin)
    with open_trace("-") as trace:
        assert trace.path == "<stdin>"
        assert events(trace) == EVENTS
        assert trace.progress() == (len(data), None)
    assert not stdin.closed


def test_a_pipe_that_gives_one_byte_at_a_time_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dripping(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return super().read(1)

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Dripping(gz(b"\xef\xbb\xbf" + TRACE))))
    with open_trace("-") as trace:
        assert events(trace) == EVENTS


def test_progress_counts_the_bytes_of_the_file(tmp_path: Path) -> None:
    packed = zst(TRACE)
    with open_trace(write(tmp_path, packed)) as trace:
        list(trace)
        assert trace.progress() == (len(packed), len(packed))


def test_memory_traces_take_dicts_lines_events_and_entries(tmp_path: Path) -> None:
    items: list[Item] = [
        {"swasim_trace": 1, "page_size": 4},
        {"op": "alloc", "need_size": 4, "out": [[4, 8]]},
        '{"op":"clear"}',
        Free(indices=[1]),
        Entry(number=70, line=71, event=Clear()),
    ]
    trace = from_events(items)
    assert trace.header == Header(swasim_trace=1, page_size=4)
    assert [(entry.number, entry.line) for entry in trace] == [(1, 2), (2, 3), (3, 4), (4, 71)]
    assert trace.path == "<events>"
    assert trace.progress() == (0, None)


def test_a_header_record_may_open_a_memory_trace() -> None:
    header = Header(swasim_trace=1, kv_size=16)
    assert from_events([header, Clear()]).header == header


def test_a_second_header_is_refused_wherever_reading_paused_between_the_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BLOCK_BYTES", len(HEADER))
    path = write(tmp_path, HEADER + HEADER)
    for source_of_two in (path, None):
        with pytest.raises(TraceError, match=":2:1: error: a second header"):
            from_events([HEADER, HEADER]) if source_of_two is None else open_trace(source_of_two)


def test_one_event_is_decoded_from_its_json() -> None:
    assert event_of('{"op":"free","indices":[8]}') == Free(indices=[8])


def test_the_fields_of_an_expect_event_stand_beside_op_or_inside_expect() -> None:
    beside = event_of('{"op":"expect","full_available":4,"idle":true}')
    inside = event_of('{"op":"expect","expect":{"full_available":4,"idle":true}}')
    both = event_of('{"op":"expect","full_available":4,"expect":{"idle":true}}')
    wanted = Expect(full_available=4, idle=True)
    assert isinstance(beside, ExpectOnly)
    assert expectation(beside) == expectation(inside) == expectation(both) == wanted


def test_a_large_trace_is_read_in_the_memory_of_a_few_blocks(tmp_path: Path) -> None:
    line = b'{"op":"alloc_decode","seq_lens":[7],"last_loc":[9],"out":[10]}\n'
    path = write(tmp_path, gz(HEADER + line * 200_000), "t.jsonl.gz")
    tracemalloc.start()
    try:
        with open_trace(path) as trace:
            count = sum(1 for _ in trace)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 200_000
    assert peak_bytes < 8 * source.BLOCK_BYTES < len(line) * 200_000


def test_a_single_line_of_fifty_megabytes_is_one_event(tmp_path: Path) -> None:
    slots = b",".join([b"1234567"] * 6_500_000)
    path = write(tmp_path, b'{"op":"free","indices":[' + slots + b"]}\n")
    assert path.stat().st_size > 50_000_000
    with open_trace(path) as trace:
        (entry,) = trace
    assert isinstance(entry.event, Free)
    assert entry.event.indices is not None
    assert len(entry.event.indices) == 6_500_000


def test_a_line_over_the_limit_is_refused_by_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MAX_LINE_BYTES", 3 << 20)
    path = write(tmp_path, TRACE + b" " * (4 << 20) + b"\n")
    with open_trace(path) as trace, pytest.raises(TraceError) as error:
        list(trace)
    assert str(error.value) == (
        f"{path}:4: error: the line is longer than 3 MiB, the most that is accepted"
    )


def cuts(data: bytes) -> Iterator[bytes]:
    return (data[:length] for length in range(len(data)))


def test_a_trace_cut_at_any_byte_is_read_up_to_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    first_event_ends = len(HEADER + ALLOC) - 1
    for data in cuts(TRACE):
        path.write_bytes(data)
        if len(data) < first_event_ends:
            with pytest.raises(TraceError, match="no events"):
                open_trace(path)
            continue
        with open_trace(path) as trace:
            found = events(trace)
            whole = len(data) >= len(TRACE) - 1
            inside = first_event_ends + 1 < len(data) < len(TRACE) - 1
            assert found == (EVENTS if whole else EVENTS[:1])
            assert trace.truncated_line == (3 if inside else None)


@pytest.mark.parametrize("pack", [gz, zst], ids=["gzip", "zstd"])
def test_a_compressed_trace_cut_at_any_byte_is_read_up_to_the_cut(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "t.jsonl"
    for data in cuts(pack(TRACE)):
        path.write_bytes(data)
        try:
            with open_trace(path) as trace:
                found = events(trace)
                assert trace.truncated_line in (3, 4)
        except TraceError:
            continue
        assert found == EVENTS[: len(found)]


def test_a_gzip_cut_in_its_body_keeps_the_events_before_the_cut(tmp_path: Path) -> None:
    noise = random.Random(3)
    body = HEADER + b"".join(
        b'{"op":"free","indices":[%d]}\n' % noise.randrange(10**9) for _ in range(5000)
    )
    packed = gz(body)
    with open_trace(write(tmp_path, packed[: len(packed) // 2])) as trace:
        found = events(trace)
        assert 1000 < len(found) < 4999
        assert trace.truncated_line == len(found) + 2


def test_damaged_compression_is_an_error(tmp_path: Path) -> None:
    packed = bytearray(gz(TRACE))
    packed[-6] ^= 0xFF
    path = write(tmp_path, bytes(packed))
    with pytest.raises(TraceError, match="the gzip data is damaged"), open_trace(path) as trace:
        list(trace)
    packed = bytearray(zst(TRACE))
    packed[6] ^= 0xFF
    path = write(tmp_path, bytes(packed))
    with pytest.raises(TraceError, match="the zstd data is damaged"), open_trace(path) as trace:
        list(trace)


@pytest.mark.parametrize(
    "garbage", [b"{", b"\xff", b'"op"', b"}", b"]", b"null", b"0", b"\0", b"\n"]
)
def test_a_byte_out_of_place_is_never_worse_than_a_trace_error(
    tmp_path: Path, garbage: bytes
) -> None:
    path = tmp_path / "t.jsonl"
    for at in range(len(TRACE)):
        path.write_bytes(TRACE[:at] + garbage + TRACE[at + 1 :])
        with contextlib.suppress(SwasimError), open_trace(path) as trace:
            list(trace)


def test_a_zstd_frame_without_content_may_come_first(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.zst"
    skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
    path.write_bytes(skippable + zstandard.compress(b'{"op":"clear"}\n'))
    with open_trace(path) as trace:
        assert len(list(trace)) == 1


def test_a_header_knows_its_line() -> None:
    trace = from_events(["# sizes", '{"swasim_trace":1}', '{"op":"clear"}'])
    assert trace.header_line == 2
    assert from_events(['{"op":"clear"}']).header_line == 0
