"""`swasim triage`: exit codes, streams and formats."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from swasim.commands.app import run

LEAK = (
    "[2026-06-10 09:11:04 TP6 EP6] AssertionError: SWA Pool Mem Leak Detected! [swa] "
    "total=322816, available=2816, evictable=308992, protected=2560, session_held=0, "
    "uncached=8704\n"
)
HEALTHY = "Prefill batch, #new-seq: 1, full token usage: 0.01, swa token usage: 0.01, \n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text(HEALTHY + LEAK)
    return path


def test_a_fault_gives_exit_1_and_the_sum_on_stdout(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["triage", str(log)]) == 1
    captured = capsys.readouterr()
    assert "SWA pool over: counted twice, 256 tokens = 1 page" in captured.out
    assert "= 323072, 256 more than 322816" in " ".join(captured.out.split())
    assert captured.out.rstrip().endswith("1 memory fault; 2 lines read")
    assert captured.err == ""


def test_concise_is_one_line_a_fault(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["triage", str(log), "--format", "concise"]) == 1
    assert capsys.readouterr().out == (
        f"{log}:2: error[stale-mapping,foreign-free,double-free] "
        "SWA pool over: counted twice, 256 tokens = 1 page\n"
    )


def test_json_is_one_document(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["triage", str(log), "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["found_fault"] is True
    assert document["faults"][0]["off"] == 256
    assert document["faults"][0]["series"][0]["terms"]["total"] == 322816
    assert document["page"]["size_tokens"] == 256


def test_page_size_decides_the_pages(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["triage", str(log), "--page-size", "64", "-f", "concise"]) == 1
    assert "256 tokens = 4 pages" in capsys.readouterr().out


def test_a_healthy_log_gives_exit_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "server.log"
    path.write_text(HEALTHY)
    assert run(["triage", str(path)]) == 0
    assert "no memory fault in 1 recognised line; 1 line read" in capsys.readouterr().out


def test_exit_zero_keeps_the_report(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["triage", str(log), "--exit-zero"]) == 0
    assert "1 memory fault" in capsys.readouterr().out


def test_nothing_recognised_lists_the_shapes_and_gives_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.log"
    path.write_bytes(b"hello\n" + bytes(range(256)))
    assert run(["triage", str(path)]) == 2
    captured = capsys.readouterr()
    assert "[swa] total=N, available=N" in captured.out
    assert "no line has a memory shape of a server log" in captured.err


@pytest.mark.parametrize(
    ("head", "tool"),
    [(b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh9", "bzip2"), (b"\xfd7zXZ\x00", "xz")],
)
def test_a_log_that_another_tool_compressed_names_that_tool(
    head: bytes, tool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(head + bytes(100))
    assert run(["triage", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"swasim: error: {path}: is compressed; try `{tool} -dc {path} | swasim triage -`\n"
    )


def test_an_empty_log_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.log"
    path.touch()
    assert run(["triage", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "is empty; a server log is expected" in captured.err


def test_a_missing_log_and_an_unknown_format_give_exit_2(
    tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["triage", str(tmp_path / "no.log")]) == 2
    assert run(["triage", str(log), "--format", "jsn"]) == 2
    assert "did you mean 'json'?" in capsys.readouterr().err


def test_standard_input_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(LEAK.encode())))
    assert run(["triage", "-", "-f", "concise"]) == 1
    assert capsys.readouterr().out.startswith("-:1: error[")


def test_output_never_replaces_the_log(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["triage", str(log), "-o", str(log), "--force"]) == 2
    assert LEAK in log.read_text()


UNREAD = "ValueError: pool memory leak detected! ring: free 3, lent 4, of 8\n"


def unread_log(folder: Path, text: str = HEALTHY + UNREAD) -> str:
    path = folder / "server.log"
    path.write_text(text)
    return str(path)


def test_a_line_that_was_not_understood_gives_exit_2_and_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = unread_log(tmp_path)
    assert run(["triage", path]) == 2
    captured = capsys.readouterr()
    assert UNREAD.strip() in captured.out
    assert captured.out.rstrip().endswith(
        "no memory fault in 1 recognised line, but 1 line that speaks of one was not understood;"
        " 2 lines read"
    )
    assert captured.err == (
        f"swasim: error: {path}:2: speaks of a memory fault, in a shape that is not known here;"
        " read it yourself\n"
    )


def test_a_line_that_was_not_understood_is_in_every_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = unread_log(tmp_path)
    assert run(["triage", path, "-f", "concise"]) == 2
    assert capsys.readouterr().out == f"{path}:2: warning[unread] {UNREAD}"
    assert run(["triage", path, "-f", "json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["found_fault"] is False
    assert document["unread"] == {
        "lines": 1,
        "first_line": 2,
        "last_line": 2,
        "example": UNREAD.strip(),
    }
    assert run(["triage", path, "--quiet"]) == 2
    assert UNREAD.strip() in capsys.readouterr().out


def test_beside_a_fault_what_was_not_understood_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = unread_log(tmp_path, LEAK + UNREAD + UNREAD)
    assert run(["triage", path]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith(f"swasim: warning: {path}:2: speaks of a memory fault")
    assert captured.out.rstrip().endswith(
        "1 memory fault, 2 lines that speak of one were not understood; 3 lines read"
    )


def test_exit_zero_covers_what_was_not_understood(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["triage", unread_log(tmp_path), "--exit-zero"]) == 0
    assert "warning: " in capsys.readouterr().err


def test_a_log_with_nothing_else_is_not_called_foreign(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = unread_log(tmp_path, "hello\n" + UNREAD)
    assert run(["triage", path]) == 2
    captured = capsys.readouterr()
    assert f"{path}:2: speaks of a memory fault" in captured.err
    assert "nothing recognised in 2 lines, but 1 line that speaks" in captured.out
    assert "[swa] total=N, available=N" in captured.out


def test_the_exit_codes_are_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["triage", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "2 nothing usable in the log, or a line that speaks of a memory fault" in out
