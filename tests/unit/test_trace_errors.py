"""What a bad trace is answered with: the line, the column, the field, and what is accepted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from swasim.errors import TraceError, UsageError
from swasim.trace.events import OPS, Free
from swasim.trace.reader import from_events, open_trace

GOOD = '{"op":"clear"}\n'

BAD_LINES = {
    # name: (line, column, how the message starts)
    "unknown op": ('{"op":"aloc"}', 7, "unknown operation 'aloc'; did you mean 'alloc'? (known: "),
    "op is no string": ('{"op":3}', 7, "op must be a string, got 3"),
    "no op": ('{"need_size":3}', 1, "missing field 'op', which names the operation (known: "),
    "misspelt op": ('{"opp":"free"}', 1, "missing field 'op', which names the operation (unknown"),
    "empty object": ("{}", 1, "missing field 'op', which names the operation (an empty object)"),
    "unknown field": (
        '{"op":"free","indicies":[1]}',
        14,
        "free: unknown field 'indicies'; did you mean 'indices'? "
        "(known: indices, req, start, end, pool, t, site, expect)",
    ),
    "unknown field in expect": (
        '{"op":"clear","expect":{"swa_fre":[1]}}',
        25,
        "clear: unknown field in expect 'swa_fre'; did you mean 'swa_free'? (known: ",
    ),
    "unknown field in a row range": (
        '{"op":"clear","expect":{"mapped":{"reqs":1}}}',
        35,
        "clear: unknown field in expect.mapped 'reqs'; did you mean 'req'? "
        "(known: req, start, end)",
    ),
    "missing field": (
        '{"op":"alloc","out":null}',
        1,
        "alloc: missing field 'need_size' (known: need_size, req, pool, out, t, site, expect)",
    ),
    "missing field of a segment": (
        '{"op":"free_segments","segments":[{"indices":[1],"start_pos":0},{"indices":[2]}]}',
        65,
        "free_segments: missing field 'start_pos' in segments[1] (known: indices, start_pos)",
    ),
    "wrong type": (
        '{"op":"alloc","need_size":"four"}',
        27,
        'alloc: need_size must be an integer, got "four"',
    ),
    "true is no integer": (
        '{"op":"alloc","need_size":true}',
        27,
        "alloc: need_size must be an integer, got true",
    ),
    "wrong type inside a list": (
        '{"op":"alloc_extend", "seq_lens":[4, "x"],"prefix_lens":[0,0]}',
        38,
        'alloc_extend: seq_lens[1] must be an integer, got "x"',
    ),
    "no index list": ('{"op":"free","indices":8}', 24, "free: indices must be a list, got 8"),
    "run of three": (
        '{"op":"free","indices":[1,[2,3,4]]}',
        27,
        "free: indices[1] must be a run [start, end), got [2, 3, 4]",
    ),
    "mapping run of two": (
        '{"op":"clear","expect":{"mapping":[[1,2]]}}',
        36,
        "clear: expect.mapping[0] must be [full_slot, swa_slot, length], got [1, 2]",
    ),
    "negative mapping run": (
        '{"op":"clear","expect":{"mapping":[[1,2,-3]]}}',
        36,
        "clear: expect.mapping[0] is [1, 2, -3]; accepted is",
    ),
    "unknown pool": (
        '{"op":"alloc","need_size":4,"pool":"ful"}',
        36,
        "alloc: unknown pool 'ful'; did you mean 'full'? (known: full, swa)",
    ),
    "negative length": (
        '{"op":"alloc","need_size":-4}',
        27,
        "alloc: need_size must be an integer, not negative, got -4",
    ),
    "negative length in a list": (
        '{"op":"alloc_extend","seq_lens":[4,-1],"reqs":["A","B"]}',
        36,
        "alloc_extend: seq_lens[1] must be an integer, not negative, got -1",
    ),
    "decode to nothing": (
        '{"op":"alloc_decode","seq_lens":[0],"last_loc":[-1]}',
        34,
        "alloc_decode: seq_lens[0] must be an integer, at least 1, got 0",
    ),
    "extend that shrinks": (
        '{"op":"alloc_extend","prefix_lens":[8],"seq_lens":[5],"last_loc":[9]}',
        52,
        "alloc_extend: seq_lens[0] is 5, less than prefix_lens[0] = 8 tokens",
    ),
    "tail extend that shrinks": (
        '{"op":"alloc_extend_swa_tail","prefix_len":8,"seq_len":5,"swa_tail_len":0,"last_loc":9}',
        56,
        "alloc_extend_swa_tail: seq_len is 5, less than prefix_len = 8 tokens",
    ),
    "extend of nobody": (
        '{"op":"alloc_extend","seq_lens":[4]}',
        1,
        "alloc_extend: missing field 'prefix_lens' (or 'reqs'",
    ),
    "extend from nowhere": (
        '{"op":"alloc_extend","seq_lens":[4],"prefix_lens":[2]}',
        1,
        "alloc_extend: missing field 'last_loc' (or 'reqs'): prefix_lens[0] is 2 tokens",
    ),
    "tail extend of nobody": (
        '{"op":"alloc_extend_swa_tail","seq_len":4,"swa_tail_len":0}',
        1,
        "alloc_extend_swa_tail: missing field 'prefix_len' (or 'req'",
    ),
    "tail extend from nowhere": (
        '{"op":"alloc_extend_swa_tail","prefix_len":1,"seq_len":4,"swa_tail_len":0}',
        1,
        "alloc_extend_swa_tail: missing field 'last_loc' (or 'req')",
    ),
    "decode of nobody": (
        '{"op":"alloc_decode","seq_lens":[4]}',
        1,
        "alloc_decode: missing field 'last_loc' (or 'reqs'",
    ),
    "batch lists of different length": (
        '{"op":"alloc_decode","seq_lens":[4,5],"last_loc":[3]}',
        50,
        "alloc_decode: last_loc has 1 items and seq_lens has 2; one per request",
    ),
    "a request twice in a batch": (
        '{"op":"alloc_decode","reqs":["A","B","A"]}',
        38,
        "alloc_decode: reqs[2] is 'A' a second time; a batch names each row once",
    ),
    "run backwards": (
        '{"op":"free","indices":[1,[4,2]]}',
        27,
        "free: indices[1] is the run [4, 2], which ends before it starts",
    ),
    "run backwards in out": (
        '{"op":"alloc","need_size":4,"out":[[4,2]]}',
        36,
        "alloc: out[0] is the run [4, 2], which ends before it starts",
    ),
    "slot beyond 64 bits": (
        '{"op":"free","indices":[9223372036854775808]}',
        25,
        "free: indices[0] is 9223372036854775808, which does not fit in a 64-bit integer",
    ),
    "length beyond 64 bits": (
        '{"op":"alloc","need_size":99999999999999999999}',
        27,
        "alloc: need_size must be an integer that fits in 64 bits, got 99999999999999999999",
    ),
    "more slots than any pool": (
        '{"op":"free","indices":[[0,9000000000]]}',
        24,
        "free: indices names 9000000000 slots; at most 67108864 are accepted",
    ),
    "no target": ('{"op":"free"}', 1, "free: missing target: either 'indices', or 'req' with"),
    "two targets": (
        '{"op":"free_swa","indices":[1],"req":"A"}',
        38,
        "free_swa: 'req' beside 'indices': the target is either",
    ),
    "a range of raw slots": (
        '{"op":"free_segment","indices":[1],"start":0}',
        44,
        "free_segment: 'start' beside 'indices'",
    ),
    "range backwards": (
        '{"op":"free","req":"A","start":4,"end":2}',
        32,
        "free: start is 4, beyond end = 2; positions are half-open",
    ),
    "range backwards in expect": (
        '{"op":"clear","expect":{"mapped":{"req":"A","start":4,"end":2}}}',
        53,
        "clear: expect.mapped.start is 4, beyond expect.mapped.end = 2",
    ),
    "range backwards in share": (
        '{"op":"share","req":"B","from":"A","start":4,"end":2}',
        44,
        "share: start is 4, beyond end = 2",
    ),
    "row of swa slots": (
        '{"op":"alloc","need_size":4,"pool":"swa","req":"A"}',
        48,
        "alloc: 'req' with pool \"swa\": a row holds full slots; name SWA slots by 'indices'",
    ),
    "mapping of unequal lists": (
        '{"op":"set_full_to_swa_mapping","full":[4],"swa":[[1,3]]}',
        50,
        "set_full_to_swa_mapping: full names 1 slots and swa names 2; they are paired one by one",
    ),
    "expect of nothing": ('{"op":"expect"}', 1, "expect: nothing is expected; accepted: full_av"),
    "expect twice": (
        '{"op":"expect","idle":true,"expect":{"idle":true}}',
        23,
        "expect: 'idle' stands both beside 'op' and inside 'expect'",
    ),
    "array": ("[1]", 1, "expected one JSON object per line, got [1]"),
    "syntax": (
        '{"op": free}',
        8,
        "not JSON: expecting value; a trace holds one JSON object per line",
    ),
    "two objects on a line": (GOOD.strip() * 2, 15, "not JSON: extra data"),
    "not a number": (
        '{"op":"clear","t":NaN}',
        19,
        "NaN is no JSON number; accepted are plain decimal numbers",
    ),
    "infinite": ('{"op":"clear","site":"NaN","t":-Infinity}', 32, "-Infinity is no JSON number"),
    "a float out of range": (
        '{"op":"clear","t":1e999}',
        19,
        "the number 1e999 is out of range; accepted is what fits in 64 bits",
    ),
    "an int of 5000 digits": (
        '{"op":"free","indices":[' + "9" * 5000 + "]}",
        25,
        "the number " + "9" * 59 + "… is out of range",
    ),
    "half a surrogate pair": (
        '{"op":"mark","label":"\\\\ud800 \\ud83c\\udf89 \\ud800"}',
        22,
        "\\ud800 is half of a surrogate pair; text must be valid Unicode",
    ),
    "op given twice": (
        '{"op":"alloc","need_size":4,"op":"clear"}',
        1,
        "clear: 'op' is given more than once",
    ),
    "no digest": (
        '{"op":"expect","full_free_sha256":"zz"}',
        35,
        "expect: full_free_sha256 must be 64 hexadecimal digits in lower case, got 'zz'",
    ),
    "half an object": (
        '{"op":"free",',
        14,
        "the line ends inside a JSON object; a trace holds one whole object per line",
    ),
    "nested too deeply": ("[" * 100_000, 1, "not an event: the JSON is nested too deeply"),
    "header behind events": (
        '{"swasim_trace":1}',
        1,
        "a second header, or a header behind an event; only the first object may be one",
    ),
}


def error_of(folder: Path, data: bytes) -> TraceError:
    path = folder / "t.jsonl"
    path.write_bytes(data)
    with pytest.raises(TraceError) as caught, open_trace(path) as trace:
        list(trace)
    assert caught.value.path == str(path)
    return caught.value


@pytest.mark.parametrize(("line", "column", "message"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_is_named_with_column_field_value_and_what_is_accepted(
    tmp_path: Path, line: str, column: int, message: str
) -> None:
    error = error_of(tmp_path, f"{GOOD}{line}\n{GOOD}".encode())
    assert (error.line, error.column) == (2, column)
    assert error.message[: len(message)] == message


def test_columns_count_bytes(tmp_path: Path) -> None:
    error = error_of(tmp_path, '{"op":"clear","site":"é","tt":1}\n'.encode())
    assert error.column == len('{"op":"clear","site":"é",'.encode()) + 1


def test_a_long_value_is_shown_shortened(tmp_path: Path) -> None:
    error = error_of(tmp_path, b'{"op":"clear","t":"' + b"x" * 500 + b'"}\n')
    assert error.message == 'clear: t must be a number, got "' + "x" * 58 + "…"


def test_a_line_that_is_no_utf8_is_named_with_the_byte(tmp_path: Path) -> None:
    error = error_of(tmp_path, GOOD.encode() + b'{"op":"mark","label":"\xff"}\n')
    assert (error.line, error.column, error.message) == (2, 23, "the line is not UTF-8")


def test_an_encoded_surrogate_is_no_utf8(tmp_path: Path) -> None:
    error = error_of(tmp_path, b'{"op":"mark","label":"\xed\xa0\x80"}\n')
    assert (error.column, error.message) == (23, "the line is not UTF-8")


@pytest.mark.parametrize(
    ("data", "place", "message"),
    [
        (b"\x80\x81\x82", (1, 1), "the line is not UTF-8"),
        (b"[1,\n2]", (1, 4), "the line ends inside a JSON object"),
        (b'{"op":"clear"}\r{"op":"clear"}\r', (1, 16), "not JSON: extra data"),
        (b'{"op":"mark","label":"\\ud800"}', (1, 22), "\\ud800 is half of a surrogate pair"),
        (b'{"op":"clear","t":1e999}', (1, 19), "the number 1e999 is out of range"),
    ],
    ids=["binary", "a list over lines", "old Mac line ends", "surrogate", "out of range"],
)
def test_what_no_cut_leaves_is_an_error_even_without_a_line_end(
    tmp_path: Path, data: bytes, place: tuple[int, int], message: str
) -> None:
    error = error_of(tmp_path, data)
    assert (error.line, error.column) == place
    assert error.message.startswith(message)


@pytest.mark.parametrize("tail", [b'{"op":"mark","label":"\xc3', b'{"op":"cl\0\0', b"\0\0\0\0"])
def test_half_a_sign_and_the_zero_bytes_of_a_crash_are_a_cut(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(GOOD.encode() + tail)
    with open_trace(path) as trace:
        assert len(list(trace)) == 1
        assert trace.truncated_line == 2


def test_closed_standard_input_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UsageError, match="standard input is closed"):
        open_trace("-")


def test_every_operation_is_listed_for_an_unknown_one(tmp_path: Path) -> None:
    message = error_of(tmp_path, b'{"op":"xyzzy"}\n').message
    assert message == f"unknown operation 'xyzzy' (known: {', '.join(OPS)})"
    assert len(OPS) == 23


def test_a_bad_line_after_good_ones_leaves_the_good_ones_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(GOOD + GOOD + '{"op":"nope"}\n')
    with open_trace(path) as trace:
        entries = iter(trace)
        assert [next(entries).number, next(entries).number] == [1, 2]


@pytest.mark.parametrize(
    ("header", "column", "message"),
    [
        (
            '{"swasim_trace":1,"pagesize":4}',
            19,
            "header: unknown field 'pagesize'; did you mean 'p",
        ),
        (
            '{"swasim_trace":1,"page_size":0}',
            31,
            "header: page_size must be an integer, at least 1",
        ),
        ('{"swasim_trace":1,"kv_size":-1}', 29, "header: kv_size must be an integer, not negative"),
        ('{"swasim_trace":"1"}', 17, 'header: swasim_trace must be an integer, got "1"'),
        ('{"swasim_trace":1,"need_sort":1}', 31, "header: need_sort must be true or false, got 1"),
        ('{"swasim_trace":1,}', 19, "not JSON: "),
        (
            '{"swasim_trace":2,"source":"sglang 0.9","new":1}',
            0,
            "written by sglang 0.9; swasim_trace is 2, and this swasim reads version 1; a newer",
        ),
        ('{"swasim_trace":0}', 0, "swasim_trace is 0, and this swasim reads version 1; the first"),
    ],
)
def test_a_bad_header_is_named_on_its_own_line(
    tmp_path: Path, header: str, column: int, message: str
) -> None:
    error = error_of(tmp_path, f"# hand-made\n{header}\n{GOOD}".encode())
    assert (error.line, error.column) == (2, column)
    assert error.message[: len(message)] == message


def test_a_second_header_is_an_error(tmp_path: Path) -> None:
    error = error_of(tmp_path, b'{"swasim_trace":1}\n{"swasim_trace":1}\n' + GOOD.encode())
    assert error.line == 2
    assert error.message.startswith("a second header")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no events: the trace is empty"),
        (b"\n\n# nothing\n", "no events: the trace holds only blank lines and comments"),
        (b'{"swasim_trace":1}\n', "no events: the trace holds only a header"),
        (b'{"swasim_trace":1}\n{"op":"cl', "no events: the trace is cut off inside line 2"),
        (b'{"swasim_tr', "no events: the trace is cut off inside line 1"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "binary file, not a trace; a trace is UTF-8 JSON Lines"),
        (b"\xff\xfe{\0", "the text is UTF-16; a trace is UTF-8 JSON Lines"),
    ],
    ids=["empty", "comments", "header only", "cut event", "cut header", "binary", "utf-16"],
)
def test_a_file_that_holds_no_trace_is_refused_on_opening(
    tmp_path: Path, data: bytes, message: str
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(data)
    with pytest.raises(TraceError) as caught:
        open_trace(path)
    assert caught.value.message.startswith(message)
    assert str(caught.value).startswith(f"{path}: error: ")


def test_a_missing_file_and_a_directory_are_usage_errors(tmp_path: Path) -> None:
    missing = tmp_path / "none.jsonl"
    with pytest.raises(UsageError) as caught:
        open_trace(missing)
    assert str(caught.value) == f"cannot read trace '{missing}': No such file or directory"
    with pytest.raises(UsageError) as caught:
        open_trace(tmp_path)
    assert str(caught.value).startswith(f"cannot read trace '{tmp_path}': it is a directory")
    with pytest.raises(UsageError, match="cannot read trace"):
        open_trace("a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(GOOD)
    path.chmod(0)
    with pytest.raises(UsageError, match="Permission denied"):
        open_trace(path)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"op": "free", "indices": [[4, 2]]}, "<events>:1:25: error: free: indices[0] is the run"),
        (Free(), "<events>:1:1: error: free: missing target"),
        (Free(indices=[(4, 2)]), "<events>:1:25: error: free: indices[0] is the run [4, 2]"),
        ({"op": "mark", "label": object()}, "<events>:1: error: the item is no event: "),
        (3, "<events>:1:1: error: expected one JSON object per line, got 3"),
        (b"\0", "<events>:1:1: error: not JSON"),
    ],
)
def test_memory_traces_are_checked_like_files(item: Any, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        list(from_events([item]))
    assert str(caught.value).startswith(message)


def test_every_op_refuses_an_unknown_field(tmp_path: Path) -> None:
    for op in OPS:
        error = error_of(tmp_path, json.dumps({"op": op, "zzz": 1}).encode() + b"\n")
        assert error.message.startswith((f"{op}: unknown field 'zzz' (known: ", f"{op}: missing"))
