"""An outside judge: a command that says by its exit code whether a trace is interesting."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from swasim.config import SimConfig
from swasim.errors import UsageError
from swasim.finds import header_of
from swasim.trace.events import AnyEvent
from swasim.trace.writer import write_trace

VARIABLE = "SWASIM_CANDIDATE"
"""Environment variable in which the command finds the candidate's path."""


class CommandJudge:
    """Runs a command on every candidate; exit 0 means interesting.

    The command is split as a shell would, and run without one. The path of the candidate is its
    last argument, and stands in `SWASIM_CANDIDATE`. Its output goes nowhere.

    Args:
        command: as the user typed it.
        timeout_s: seconds after which a candidate counts as uninteresting.

    Attributes:
        said: what came of the last run, in words.
    """

    def __init__(self, command: str, timeout_s: float) -> None:
        try:
            self._command = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"--test {command!r}: {error}") from None
        if not self._command:
            raise UsageError("--test is empty; give a command")
        self._timeout_s = timeout_s
        self.said = "was not run"

    def __call__(self, config: SimConfig, events: Sequence[AnyEvent]) -> bool:
        """Whether the command exits with 0.

        Raises:
            UsageError: it cannot be started.
        """
        with tempfile.TemporaryDirectory(prefix="swasim-") as folder:
            path = Path(folder) / "candidate.jsonl"
            write_trace(path, header_of(config), events)
            try:
                code = _exit_code(
                    [*self._command, str(path)],
                    {**os.environ, VARIABLE: str(path)},
                    self._timeout_s,
                )
            except subprocess.TimeoutExpired:
                self.said = f"took longer than {self._timeout_s:g} s"
                return False
            except OSError as error:
                reason = error.strerror or str(error)
                raise UsageError(f"--test: {self._command[0]!r} cannot be run: {reason}") from None
        self.said = f"exited with {code}" if code >= 0 else f"was ended by signal {-code}"
        return code == 0


def _exit_code(command: list[str], environment: dict[str, str], timeout_s: float) -> int:
    """Run a command in a session of its own, so that all that it started can be ended with it.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it took too long.
    """
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(timeout_s)
    except BaseException:
        _end_session(process)
        raise


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """End a command that is at work, with everything that it started."""
    killpg = getattr(os, "killpg", None)
    if killpg is None:
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            killpg(process.pid, signal.SIGKILL)
    process.wait()
