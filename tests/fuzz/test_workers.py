"""The processes of `--jobs`: deaf to signals from the start, and gone when nobody wants them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from multiprocessing import active_children
from pathlib import Path

import pytest

from swasim.errors import UsageError
from swasim.fuzz.workers import Workers, wanted_no_more

ROOT = Path(__file__).parents[2]


def _until_told() -> bool:
    while not wanted_no_more():
        pass
    return True


def test_leaving_ends_what_is_still_at_work() -> None:
    before = {child.pid for child in active_children()}
    with Workers(1) as workers:
        work = workers.submit(_until_told)
    assert work.result() is True
    assert {child.pid for child in active_children()} - before == set()


def test_a_process_that_was_killed_is_told_in_words() -> None:
    with pytest.raises(UsageError, match="a process of --jobs was killed"), Workers(1) as workers:
        workers.submit(os._exit, 1).result()


def _fuzz(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "swasim", "fuzz", "-a", "ideal", "--save", "-", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def _ends_within(process: subprocess.Popen[str], seconds: float) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=seconds)
    return process.returncode is not None


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _wait_for_children(process: subprocess.Popen[str], count: int) -> list[str]:
    while len(children := _children(process.pid)) < count:
        assert not _ends_within(process, 0.01)
    return children


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")


SIGNAL_WHILE_STARTING = """
import os, signal, sys
from swasim.fuzz.workers import Workers

def leave(*_):
    raise KeyboardInterrupt

number = int(sys.argv[1])
signal.signal(number, leave)
try:
    with Workers(1) as workers:
        start = workers._pool.submit
        def submit(work):
            os.kill(os.getpid(), number)
            print("started", flush=True)
            return start(work)
        workers._pool.submit = submit
        workers.submit(os.getpid)
        print("not interrupted")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_waits_until_a_process_is_started(number: int) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", SIGNAL_WHILE_STARTING, str(int(number))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (finished.stdout, finished.stderr) == ("started\ninterrupted\n", "")


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_while_the_processes_are_loading_gives_no_traceback(
    number: int, code: int
) -> None:
    process = _fuzz("--budget", "600", "--jobs", "2")
    _wait_for_children(process, 2)  # One of them is the tracker of semaphores.
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, "")
    assert "interrupted" in out


@needs_proc
@pytest.mark.slow
def test_ctrl_c_again_and_again_ends_traces_that_would_take_hours() -> None:
    process = _fuzz("--calls", "100000000", "--jobs", "2")
    _wait_for_children(process, 3)
    for _ in range(3):
        os.killpg(process.pid, signal.SIGINT)
        if _ends_within(process, 0.05):
            break
    process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT)


@needs_proc
@pytest.mark.slow
def test_the_processes_do_not_outlive_a_parent_that_was_killed() -> None:
    process = _fuzz("--budget", "600", "--jobs", "2")
    _wait_for_children(process, 3)
    process.kill()
    # The pipes are closed when the last process that holds them is gone.
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
