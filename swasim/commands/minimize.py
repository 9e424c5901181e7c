"""`swasim minimize`: the shortest trace with the same finding."""

from __future__ import annotations

from typing import Annotated

import typer

from swasim.commands.grouping import option
from swasim.commands.options import Allocator, ConfigOptions, OutputOptions, TraceArgument

SEARCH = "Search"
INTERRUPTED_EXIT = 130

Keep = Annotated[
    str | None,
    option(
        "--keep",
        section=SEARCH,
        help="kind of the finding to keep (default: the first error that follows from no other)",
        metavar="KIND",
    ),
]
Test = Annotated[
    str | None,
    option(
        "--test",
        section=SEARCH,
        help="judge by a command instead: it gets the candidate's path as last argument and in"
        " SWASIM_CANDIDATE, exit 0 means interesting",
        metavar="CMD",
    ),
]
TestTimeout = Annotated[
    float,
    option(
        "--test-timeout",
        section=SEARCH,
        help="a candidate on which --test takes longer is not interesting (default 60)",
        metavar="SECONDS",
        min=0.001,
    ),
]
Budget = Annotated[
    float | None,
    option(
        "--budget",
        section=SEARCH,
        help="stop after so long, with the best trace so far",
        metavar="SECONDS",
        min=0.0,
    ),
]
Seed = Annotated[
    int,
    option("--seed", section=SEARCH, help="of the few random choices (default 0)", metavar="N"),
]
ExpectIdle = Annotated[
    bool,
    option("--expect-idle", section=SEARCH, help="pages that are live at the end are a finding"),
]
Export = Annotated[
    str,
    option(
        "--export",
        section=SEARCH,
        help="what to write: trace (default), pytest (a test of swasim), sglang-test (a unit test"
        " of SGLang's allocator)",
        metavar="NAME",
    ),
]


def minimize(
    trace: TraceArgument,
    config: ConfigOptions,
    output: OutputOptions,
    allocator: Allocator = None,
    keep: Keep = None,
    test: Test = None,
    test_timeout: TestTimeout = 60.0,
    budget: Budget = None,
    seed: Seed = 0,
    expect_idle: ExpectIdle = False,
    export: Export = "trace",
) -> None:
    """Shrink a trace to the shortest one with the same finding.

    Writes NAME.min.jsonl, or test_NAME.py with --export, into the working directory and prints a
    report. Ctrl-C stops the search and writes the best trace so far.
    """
    import sys
    from dataclasses import replace

    from swasim.commands import output as outputs
    from swasim.commands.progress import searching
    from swasim.commands.shrinking import default_output, exporter
    from swasim.commands.sources import config_listing, locate_trace, resolve_config
    from swasim.minimize import CommandJudge
    from swasim.minimize import minimize as shrink
    from swasim.reporters import minimize as report
    from swasim.trace.reader import open_trace

    report.check_format(output.format)
    write = exporter(export)
    judge = None if test is None else CommandJudge(test, test_timeout)
    path = locate_trace(trace)
    target = replace(output, output=output.output or default_output(path, export))
    with open_trace(path) as reader:
        resolved = resolve_config(config, reader, allocator)
        if config.show_config:
            sys.stdout.write(config_listing(resolved))
            return
        with outputs.destination(target, inputs=(path,)) as out:
            outputs.warn(resolved.warnings, output)
            with searching(output) as progress:
                result = shrink(
                    reader,
                    resolved.config,
                    keep=keep,
                    test=judge,
                    seed=seed,
                    budget_s=budget,
                    expect_idle=expect_idle,
                    progress=progress,
                )
            out.write(write(result, str(target.output)))
    where = str(target.output)
    if where == "-":
        if not output.quiet:
            outputs.notice(report.summary(result))
    else:
        report.write(result, sys.stdout, outputs.look(output, sys.stdout), where, output.format)
    if result.stopped == "interrupted":
        outputs.notice(f"interrupted; the best trace so far is written to {where}")
        raise typer.Exit(INTERRUPTED_EXIT)
