"""Standard streams that are closed, full or gone: the exit code still says what was found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BAD = '{"op":\n{"op":"clear"}\n'

needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.jsonl").write_text(BAD)
    (tmp_path / "server.log").write_text("nothing that is known\n")
    return tmp_path


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """Run `swasim COMMAND` in a shell, with its redirections."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SWASIM_")}
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; '{sys.executable}' -m swasim {command}"],
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


BUGGY = "replay pr27779 --allocator buggy --quiet"
CODES = [
    ("validate bad.jsonl", 2),
    ("triage server.log", 2),
    ("bogus", 2),
    ("", 2),
    ("minimize pr27779 --allocator buggy --output -", 0),
    ("replay pr27779 --allocator buggy --kv-size 18", 1),
    ("inspect pr27779 --at 1 --kv-size 18", 0),
]


@needs_full
@pytest.mark.parametrize(("command", "code"), CODES)
def test_messages_that_cannot_be_written_change_no_exit_code(command: str, code: int) -> None:
    finished = shell(f"{command} 2>/dev/full")
    assert (finished.returncode, finished.stderr) == (code, "")


@pytest.mark.parametrize(("command", "code"), CODES)
def test_closed_standard_error_changes_no_exit_code(command: str, code: int) -> None:
    assert shell(f"{command} 2>&-").returncode == code


def test_messages_whose_reader_went_away_change_no_exit_code() -> None:
    finished = shell("validate bad.jsonl 2>&1 >/dev/null | true; exit ${PIPESTATUS[0]}")
    assert (finished.returncode, finished.stdout, finished.stderr) == (2, "", "")


@needs_full
@pytest.mark.parametrize(
    "command", ["explain", "--help", "--version", BUGGY, "triage server.log", "validate bad.jsonl"]
)
def test_a_full_disk_is_exit_2_also_where_that_cannot_be_said(command: str) -> None:
    assert shell(f"{command} >/dev/full").returncode == 2
    assert shell(f"{command} >/dev/full 2>/dev/full").returncode == 2


@pytest.mark.parametrize(
    "command",
    ["minimize pr27779 --allocator buggy", "replay pr27779", "validate bad.jsonl", "explain"],
)
def test_closed_standard_output_is_told_before_the_work(command: str, folder: Path) -> None:
    before = sorted(os.listdir(folder))
    finished = shell(f"{command} >&-")
    assert finished.returncode == 2
    assert finished.stderr.startswith("swasim: error: standard output is closed")
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_command_is_recorded_whatever_is_closed(redirection: str) -> None:
    finished = shell(f"record -- {sys.executable} -c 'raise SystemExit(5)' {redirection}")
    assert (finished.returncode, "internal error" in finished.stderr) == (5, False)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1"])
def test_standard_output_by_its_name_is_written_in_place(name: str) -> None:
    finished = shell(f"{BUGGY} --output {name} | cat")
    assert (finished.returncode, finished.stderr) == (1, "")
    assert "stale-mapping" in finished.stdout
