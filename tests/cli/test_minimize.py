"""`swasim minimize`: what it writes, what it says, what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from swasim.commands.app import run
from swasim.minimize import engine
from swasim.minimize.passes import Pass
from swasim.minimize.search import Search

ROOT = Path(__file__).resolve().parents[2]

SHORTEST = [
    '{"swasim_trace":1,"page_size":2,"kv_size":2,"kv_size_swa":2}',
    '{"op":"alloc_extend","seq_lens":[2],"reqs":["A"]}',
    '{"op":"free_swa","req":"A","end":1}',
]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)


def lines_of(path: str) -> list[str]:
    """Lines of a trace that are no comments."""
    return [line for line in Path(path).read_text().splitlines() if line[:1] == "{"]


def test_shortest_trace_lies_in_the_working_directory_with_what_it_shows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["minimize", "pr27779", "-a", "buggy"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.startswith("stale-mapping, swa pool: 2 -> 2 events\n")
    text = Path("pr27779.min.jsonl").read_text()
    assert "# Event 2: stale-mapping: SWA page 1 is released" in text
    assert "#   swasim replay pr27779.min.jsonl --allocator buggy\n" in text
    assert lines_of("pr27779.min.jsonl") == SHORTEST


def test_what_it_writes_replays_to_the_same_finding(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["minimize", "pr27779", "-a", "buggy", "-q"]) == 0
    capsys.readouterr()
    assert run(["replay", "pr27779.min.jsonl", "-a", "buggy", "-f", "concise"]) == 1
    assert "error[stale-mapping]" in capsys.readouterr().out


def test_an_existing_file_is_kept_unless_forced(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pr27779.min.jsonl").write_text("mine\n")
    assert run(["minimize", "pr27779", "-a", "buggy"]) == 2
    assert "the file exists; --force replaces it" in capsys.readouterr().err
    assert Path("pr27779.min.jsonl").read_text() == "mine\n"
    assert run(["minimize", "pr27779", "-a", "buggy", "--force"]) == 0
    assert lines_of("pr27779.min.jsonl") == SHORTEST


def test_standard_output_holds_the_trace_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["minimize", "pr27779", "-a", "buggy", "-o", "-"]) == 0
    captured = capsys.readouterr()
    assert [line for line in captured.out.splitlines() if line[:1] == "{"] == SHORTEST
    assert captured.err == "swasim: stale-mapping, swa pool: 2 -> 2 events\n"


def test_json_report_says_what_was_kept_and_at_which_effort(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["minimize", "pr27779", "-a", "buggy", "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kept"] == {"kind": "stale-mapping", "pool": "swa", "cause_kind": None}
    assert (document["events_before"], document["events_after"]) == (2, 2)
    assert document["minimal"] is True
    assert document["by_caller"] is False
    assert [step["name"] for step in document["passes"]][:2] == ["fit pools", "cut lengths"]
    assert document["events"] == [json.loads(line) for line in SHORTEST]


def test_nothing_is_written_where_there_is_no_finding(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["minimize", "pr27779", "-a", "fixed"]) == 2
    assert "nothing to minimize: no finding of severity error" in capsys.readouterr().err
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["--keep", "double-fre"], "did you mean 'double-free'"),
        (["--export", "py"], "unknown export 'py'"),
        (["--format", "sarif"], "unknown format 'sarif'"),
        (["--test", ""], "--test is empty"),
        (["--test", "true", "--keep", "double-free"], "cannot be given together"),
        (["--test", f"{sys.executable} -c 'import os; os.abort()'"], "it was ended by signal 6"),
        (["--test", "'unclosed"], "No closing quotation"),
        (["--test", "no-such-command-anywhere"], "cannot be run"),
        (["--test", f"{sys.executable} -c 'exit(3)'"], "it exited with 3"),
    ],
)
def test_what_cannot_be_is_answered_and_leaves_no_file(
    arguments: list[str], answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["minimize", "pr27779", "-a", "buggy", *arguments]) == 2
    assert answer in capsys.readouterr().err
    assert list(Path.cwd().iterdir()) == []


JUDGE = """
import os, sys
path = sys.argv[-1]
assert path == os.environ["SWASIM_CANDIDATE"]
sys.exit("free_swa" not in open(path).read())
"""


def test_a_command_judges_by_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    Path("judge.py").write_text(JUDGE)
    code = run(["minimize", "pr27779", "--test", f"{sys.executable} judge.py", "-o", "out.jsonl"])
    assert code == 0
    assert capsys.readouterr().out.startswith("interesting to the judge: 3 -> 2 events\n")
    assert lines_of("out.jsonl")[1:] == [
        '{"op":"alloc","need_size":1,"req":"A"}',
        '{"op":"free_swa","req":"A"}',
    ]


def test_a_judge_that_hangs_is_not_interested(capsys: pytest.CaptureFixture[str]) -> None:
    hang = f"{sys.executable} -c 'import time; time.sleep(60)'"
    assert run(["minimize", "pr27779", "--test", hang, "--test-timeout", "0.05"]) == 2
    assert "it took longer than 0.05 s" in capsys.readouterr().err


NEST = """
import subprocess, sys
subprocess.run([sys.executable, "child.py"])
"""
CHILD = """
import fcntl, pathlib, time
with open("lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    pathlib.Path("begun").touch()
    time.sleep(20)
    pathlib.Path("outlived").touch()
"""


def test_what_a_judge_started_ends_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fcntl = pytest.importorskip("fcntl")
    Path("nest.py").write_text(NEST)
    Path("child.py").write_text(CHILD)
    patient = subprocess.Popen.wait

    def wait(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if timeout is None:
            return patient(process)
        while not Path("begun").exists():
            assert process.poll() is None
        raise subprocess.TimeoutExpired("nest.py", timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", wait)
    assert run(["minimize", "pr27779", "--test", f"{sys.executable} nest.py"]) == 2
    assert "it took longer than 60 s" in capsys.readouterr().err
    with open("lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
    assert not Path("outlived").exists()


def test_ctrl_c_writes_the_best_trace_so_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(search: Search) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "ROUND", (Pass("x", "y", interrupt),))
    assert run(["minimize", "pr27779", "-a", "buggy"]) == 130
    assert "interrupted; the best trace so far is written to pr27779.min.jsonl" in (
        capsys.readouterr().err
    )
    assert len(lines_of("pr27779.min.jsonl")) == 3


def test_a_spent_budget_is_said_and_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["minimize", "pr27779", "-a", "buggy", "--budget", "0"]) == 0
    assert "(stopped: budget, not minimal)" in capsys.readouterr().out


def test_the_trace_may_come_from_a_pipe() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "swasim", "minimize", "-", "-a", "buggy", "-q"],
        input=(ROOT / "traces" / "pr27779.jsonl").read_bytes(),
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert lines_of("stdin.min.jsonl") == SHORTEST


def test_exported_pytest_runs_and_passes() -> None:
    assert run(["minimize", "pr27779", "-a", "buggy", "--export", "pytest", "-q"]) == 0
    assert Path("test_pr27779.py").exists()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_pr27779.py"],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_exported_pytest_fails_where_the_finding_is_gone() -> None:
    assert run(["minimize", "pr27779", "-a", "buggy", "--export", "pytest", "-q"]) == 0
    path = Path("test_pr27779.py")
    path.write_text(path.read_text().replace('allocator="buggy"', 'allocator="fixed"'))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_pr27779.py"],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1


def test_exported_sglang_test_asserts_what_a_correct_allocator_gives() -> None:
    assert run(["minimize", "pr27779", "-a", "buggy", "--export", "sglang-test", "-q"]) == 0
    text = Path("test_pr27779.py").read_text()
    compile(text, "test_pr27779.py", "exec")
    body = text.partition("    def test_stale_mapping(self):\n")[2]
    calls = body.partition("        out = ")[2]
    assert "        out = " + calls.partition("\n\n\nif __name__")[0] == (
        "        out = extend(allocator, [0], [2], [-1])\n"
        "        self.assertIsNotNone(out)\n"
        "        row_a = out[0:2]\n"
        "        self.assertEqual(available(), (0, 0))\n"
        "        self.assertEqual(mapped(row_a), [1, 1])\n"
        "\n"
        "        allocator.free_swa(row_a[0:1])\n"
        "        self.assertEqual(available(), (0, 2))\n"
        "        self.assertEqual(mapped(row_a), [0, 0])"
    )


def test_a_mistake_of_the_caller_makes_no_test_of_the_allocator(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["minimize", "kinds/double-free", "--export", "sglang-test"]
    assert run(arguments) == 2
    assert "the double-free is the caller's fault" in capsys.readouterr().err
    assert list(Path.cwd().iterdir()) == []
