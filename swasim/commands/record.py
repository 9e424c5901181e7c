"""`swasim record`: run a command, and record the allocators of the SGLang that it starts."""

from __future__ import annotations

from typing import Annotated

import typer

from swasim.commands.grouping import option
from swasim.commands.options import Verbose

RECORDING = "Recording"

Command = Annotated[
    list[str],
    typer.Argument(
        metavar="COMMAND...",
        help="what to run, behind --: swasim record -- python -m sglang.launch_server ...",
        show_default=False,
    ),
]
Output = Annotated[
    str,
    option(
        "--output",
        "-o",
        section=RECORDING,
        help="prefix of the traces: PREFIX.HOST.PID[.tpN].jsonl, one per process"
        " (default swasim-record)",
        metavar="PREFIX",
    ),
]
MaxBytes = Annotated[
    int | None,
    option(
        "--max-bytes",
        section=RECORDING,
        help="stop a process's recording before its file grows beyond this (default 1 GiB)",
        metavar="N",
        min=1,
    ),
]
Ring = Annotated[
    int | None,
    option(
        "--ring",
        section=RECORDING,
        help="keep only the last N calls (at most twice as many) and the state before them",
        metavar="N",
        min=1,
    ),
]
CheckMapping = Annotated[
    str | None,
    option(
        "--check-mapping",
        section=RECORDING,
        help="see writes to the mapping that bypass the allocator: never, write, call"
        " (call waits for the device)",
        metavar="HOW",
    ),
]


def record(
    command: Command,
    output: Output = "swasim-record",
    max_bytes: MaxBytes = None,
    ring: Ring = None,
    check_mapping: CheckMapping = None,
    verbose: Verbose = False,
) -> None:
    """Run a command and record the allocator calls of every SGLang process below it.

    Signals and the exit status are the command's own. Replay what was recorded with
    `swasim replay`.
    """
    import os

    from swasim.commands.output import notice
    from swasim.errors import UsageError
    from swasim.recorder import launch
    from swasim.recorder.plugin import settings

    env = launch.environment(
        os.environ, output, max_bytes=max_bytes, ring=ring, check_mapping=check_mapping
    )
    wanted = settings(env)
    if wanted is None:
        raise UsageError("--output is blank; name a prefix for the traces")
    notice(f"recording to {wanted.prefix}.HOST.PID.jsonl, one file per scheduler process")
    launch.become(command, env)
