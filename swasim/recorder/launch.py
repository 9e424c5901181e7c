"""The environment in which a command records itself, and running it there."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from swasim.errors import UsageError
from swasim.recorder.plugin import PREFIX_VARIABLE, whole_prefix

_INJECT = Path(__file__).parent / "inject"


def environment(
    base: Mapping[str, str],
    prefix: str,
    *,
    max_bytes: int | None = None,
    ring: int | None = None,
    check_mapping: str | None = None,
) -> dict[str, str]:
    """`base` with everything that makes SGLang's processes record themselves.

    Args:
        base: environment to start from.
        prefix: files are `PREFIX.HOST.PID[.tpN…].jsonl`; made absolute, since servers change
            their directory. For a directory, they are in it.
        max_bytes, ring, check_mapping: as for `swasim.record`; None leaves what `base` has.
    """
    result = dict(base)
    result[PREFIX_VARIABLE] = whole_prefix(prefix)
    options = {"MAX_BYTES": max_bytes, "RING": ring, "CHECK_MAPPING": check_mapping}
    for name, value in options.items():
        if value is not None:
            result[f"{PREFIX_VARIABLE}_{name}"] = str(value)
    before = [entry for entry in base.get("PYTHONPATH", "").split(os.pathsep) if entry]
    kept = [entry for entry in before if entry != str(_INJECT)]
    result["PYTHONPATH"] = os.pathsep.join([str(_INJECT), *kept])
    return result


def become(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Replace this process by `command`, so that signals and the exit status are its own.

    Raises:
        UsageError: there is no such command, or it cannot be run.
    """
    program = shutil.which(command[0], path=env.get("PATH"))
    if program is None:
        raise UsageError(f"no command {command[0]!r} on PATH")
    for stream in (sys.stdout, sys.stderr):
        # What cannot be written any more must not keep the command from running.
        with contextlib.suppress(OSError, AttributeError):
            stream.flush()
    try:
        os.execve(program, list(command), dict(env))
    except OSError as error:
        raise UsageError(f"cannot run {program}: {error.strerror}") from None
