"""`swasim validate`, and bad input as every command reports it."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
from pathlib import Path

import pytest

from swasim.commands.app import run

HEADER = '{"swasim_trace":1,"page_size":4,"kv_size":16,"kv_size_swa":16}\n'
EXTEND = '{"op":"alloc_extend","reqs":["A"],"seq_lens":[4]}\n'


def written(tmp_path: Path, content: str | bytes, name: str = "t.jsonl") -> str:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def test_a_sound_trace_is_one_line_on_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, HEADER + EXTEND)
    assert run(["validate", path]) == 0
    captured = capsys.readouterr()
    assert captured.out == (
        f"{path}: ok, trace of 1 event, page size 4, full 16 tokens, SWA 16 tokens\n"
    )
    assert captured.err == ""


def test_configurations_are_told_by_suffix_and_by_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "# sizes\npage_size: 4\nkv_size: 16\n"
    for name in ("a.yaml", "b.yml", "c"):
        assert run(["validate", written(tmp_path, text, name)]) == 0
    assert capsys.readouterr().out.count(": ok, configuration, page size 4") == 3


def test_every_file_is_looked_at_and_one_bad_one_is_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = written(tmp_path, EXTEND, "good.jsonl")
    bad = written(tmp_path, '{"op":"alloc_extendd"}\n', "bad.jsonl")
    assert run(["validate", bad, good]) == 2
    captured = capsys.readouterr()
    assert captured.out.startswith(f"{good}: ok")
    assert captured.err.startswith(f"{bad}:1")
    assert "alloc_extend" in captured.err


def test_standard_input_is_a_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(EXTEND.encode())))
    assert run(["validate", "-"]) == 0
    assert capsys.readouterr().out.startswith("<stdin>: ok, trace of 1 event, no header")


def test_quiet_says_only_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "-q", written(tmp_path, EXTEND)]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_cut_trace_is_sound_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, EXTEND + '{"op":"fre')
    assert run(["validate", path]) == 0
    captured = capsys.readouterr()
    assert captured.err == (f"swasim: warning: {path}: cut off inside line 2; read up to there\n")


def test_crlf_and_bom_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = b"\xef\xbb\xbf" + (HEADER + EXTEND).replace("\n", "\r\n").encode()
    assert run(["validate", written(tmp_path, content)]) == 0
    assert run(["validate", written(tmp_path, gzip.compress(content), "t.jsonl.gz")]) == 0


BAD: dict[str, tuple[str | bytes, str, str]] = {
    "unknown op": ('{"op":"alloc_extendd","reqs":["A"],"seq_lens":[4]}\n', ":1", "alloc_extend"),
    "unknown field": ('{"op":"clear","fast":true}\n', ":1", "fast"),
    "wrong type": ('{"op":"alloc","need_size":"4"}\n', ":1", "need_size"),
    "missing field": ('{"op":"alloc"}\n', ":1", "need_size"),
    "negative length": ('{"op":"alloc","need_size":-4}\n', ":1", "need_size"),
    "never allocated": ('{"op":"free","req":"B"}\n', ":1", "'B' was never allocated"),
    "beyond the row": (
        HEADER + EXTEND + '{"op":"free_swa","req":"A","start":0,"end":9}\n',
        ":3",
        "holds 4 tokens",
    ),
    "expectation beyond the row": (
        HEADER + EXTEND + '{"op":"expect","unmapped":{"req":"A","end":9}}\n',
        ":3",
        "holds 4 tokens",
    ),
    "page size 0": ('{"swasim_trace":1,"page_size":0}\n' + EXTEND, ":1", "page_size"),
    "pool smaller than a page": (
        '{"swasim_trace":1,"page_size":64,"kv_size":16}\n' + EXTEND,
        ":1",
        "less than one page of 64",
    ),
    "no events": (HEADER, "", "no events"),
    "empty": ("", "", "no events"),
    "binary": (bytes(range(256)), "", "binary"),
    "two headers": (HEADER + HEADER + EXTEND, ":2", "header"),
    "future version": ('{"swasim_trace":2,"source":"swasim 9"}\n' + EXTEND, ":1", "swasim 9"),
    "not JSON": (EXTEND + "free everything\n" + EXTEND, ":2", ""),
    "huge line": (b'{"op":"' + b"x" * (50 << 20) + b'"}\n' + EXTEND.encode(), ":1", ""),
}


@pytest.mark.parametrize("verb", ["validate", "replay"])
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_with_its_place_and_exit_2(
    case: str, verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, place, expected = BAD[case]
    path = written(tmp_path, content)
    assert run([verb, path]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert len(captured.err) < 2000
    assert expected in captured.err
    if place.startswith(":"):
        assert captured.err.startswith(path + place)
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("verb", ["validate", "replay"])
def test_a_directory_and_a_missing_file_are_said(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([verb, str(tmp_path)]) == 2
    assert "directory" in capsys.readouterr().err
    assert run([verb, str(tmp_path / "none.jsonl")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_misspelt_key_is_named_with_line_column_and_the_nearest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "page_size: 4\nkv_sise: 16\n", "c.yaml")
    assert run(["validate", path]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"{path}:2:1: error: unknown key 'kv_sise'; did you mean 'kv_size'?")


def test_a_refused_recording_does_not_grow_its_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = json.dumps({"op": "alloc_extend", "reqs": ["B"], "seq_lens": [99], "out": None})
    free = '{"op":"free","req":"B","start":0,"end":4}\n'
    assert run(["validate", written(tmp_path, f"{EXTEND}{refused}\n{free}")]) == 2
    assert "refused" in capsys.readouterr().err


def test_every_wrong_row_of_a_trace_is_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, EXTEND + '{"op":"finish","req":"B"}\n{"op":"finish","req":"C"}\n')
    assert run(["validate", path]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [line.split(" error: ")[0] for line in captured.err.splitlines()] == [
        f"{path}:2:",
        f"{path}:3:",
    ]


def test_a_pipe_is_read_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(HEADER + EXTEND,))
    writer.start()
    assert run(["validate", str(pipe)]) == 0
    writer.join()
    assert "ok, trace of 1 event" in capsys.readouterr().out


def test_an_unknown_allocator_in_a_configuration_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "page_size: 4\nallocator: fixd\n", "c.yaml")
    assert run(["validate", path]) == 2
    assert capsys.readouterr().err.startswith(
        f"{path}:2: error: unknown allocator 'fixd'; did you mean 'fixed'?"
    )
    assert run(["validate", written(tmp_path, "allocator: my.own:Class\n", "d.yaml")]) == 0


def test_closed_standard_streams_are_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert run(["validate", "-"]) == 2
    assert "standard input is closed" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdout", None)
    assert run(["validate", "t.jsonl"]) == 2
    assert "standard output is closed" in capsys.readouterr().err
