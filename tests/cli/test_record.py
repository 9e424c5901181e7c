"""`swasim record`: the command is run as it is, in an environment that records."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from swasim.commands.app import run
from tests.recorder import fake_sglang
from tests.support.recording import events_of

ROOT = Path(__file__).parents[2]


def swasim(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "swasim", "record", *arguments]
    environment = {"PYTHONPATH": f"{folder}:{ROOT}", "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_command_runs_and_its_allocator_is_recorded(tmp_path: Path) -> None:
    fake_sglang.write(tmp_path)
    code = "from sglang.srt.scheduler import run_scheduler_process as run; run(tp_rank=0)"
    done = swasim("-o", "rec", "--ring", "50", "--", sys.executable, "-c", code, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(
        f"swasim: recording to {tmp_path}/rec.HOST.PID.jsonl, one file per"
    )
    [path] = tmp_path.glob("rec.*.jsonl")
    assert len(events_of(path)) == 2


def test_exit_status_and_output_are_those_of_the_command(tmp_path: Path) -> None:
    code = "import sys; print('said'); sys.exit(5)"
    done = swasim("--", sys.executable, "-c", code, folder=tmp_path)
    assert (done.returncode, done.stdout) == (5, "said\n")
    assert list(tmp_path.glob("swasim-record*")) == []


def test_options_behind_the_command_are_its_own(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv[1:])"
    done = swasim(sys.executable, "-c", code, "-v", "--output", "x", "--", "y", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "['-v', '--output', 'x', '--', 'y']\n")


def test_unknown_command_and_impossible_value_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["record", "--", "no-such-command-here"]) == 2
    assert "no command 'no-such-command-here' on PATH" in capsys.readouterr().err
    assert run(["record", "--check-mapping", "often", "--", "true"]) == 2
    assert "SWASIM_RECORD_CHECK_MAPPING is 'often'" in capsys.readouterr().err
