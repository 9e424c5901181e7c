"""`swasim minimize`: the shortest trace with the same finding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from swasim.commands.grouping import option
from swasim.commands.options import (
    Allocator,
    ConfigOptions,
    OutputOptions,
    TraceArgument,
    format_option,
)
from swasim.reporters import DIGEST_FORMATS

SEARCH = "Search"
INTERRUPTED_EXIT = 130

Format = Annotated[str, format_option(DIGEST_FORMATS)]


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What is kept, how long it is looked for, and what is written."""

    keep: Annotated[
        str | None,
        option(
            "--keep",
            section=SEARCH,
            help="kind of the finding to keep (default: the first error that follows from no"
            " other)",
            metavar="KIND",
        ),
    ] = None
    test: Annotated[
        str | None,
        option(
            "--test",
            section=SEARCH,
            help="judge by a command instead: it gets the candidate's path as last argument and in"
            " SWASIM_CANDIDATE, exit 0 means interesting",
            metavar="CMD",
        ),
    ] = None
    test_timeout: Annotated[
        float,
        option(
            "--test-timeout",
            section=SEARCH,
            help="a candidate on which --test takes longer is not interesting (default 60)",
            metavar="SECONDS",
            min=0.001,
        ),
    ] = 60.0
    budget: Annotated[
        float | None,
        option(
            "--budget",
            section=SEARCH,
            help="stop after so long, with the best trace so far",
            metavar="SECONDS",
            min=0.0,
        ),
    ] = None
    seed: Annotated[
        int,
        option("--seed", section=SEARCH, help="of the few random choices (default 0)", metavar="N"),
    ] = 0
    expect_idle: Annotated[
        bool,
        option(
            "--expect-idle", section=SEARCH, help="pages that are live at the end are a finding"
        ),
    ] = False
    export: Annotated[
        str,
        option(
            "--export",
            section=SEARCH,
            help="what to write: trace (default), pytest (a test of swasim), sglang-test (a unit"
            " test of SGLang's allocator)",
            metavar="NAME",
        ),
    ] = "trace"


def minimize(
    trace: TraceArgument,
    config: ConfigOptions,
    search: SearchOptions,
    *,
    format: Format = "table",
    output: OutputOptions,
    allocator: Allocator = None,
) -> None:
    """Shrink a trace to the shortest one with the same finding.

    Writes NAME.min.jsonl, or test_NAME.py with --export, into the working directory and prints a
    report. Ctrl-C stops the search and writes the best trace so far.
    """
    from swasim.commands import output as outputs
    from swasim.commands.progress import telling
    from swasim.commands.shrinking import default_output, exporter, report
    from swasim.commands.sources import config_listing, locate_trace, read_files, resolve_config
    from swasim.errors import UsageError
    from swasim.minimize import CommandJudge
    from swasim.minimize import minimize as shrink
    from swasim.reporters.minimize import progress_line
    from swasim.trace.reader import open_trace

    if search.test is not None and search.keep is not None:
        raise UsageError("--keep and --test cannot be given together: --test alone decides")
    write = exporter(search.export)
    judge = None if search.test is None else CommandJudge(search.test, search.test_timeout)
    outputs.standard_output()
    path = locate_trace(trace)
    where = output.output or default_output(path, search.export)
    with open_trace(path) as reader:
        resolved = resolve_config(config, reader, allocator)
        if config.show_config:
            typer.echo(config_listing(resolved, format), nl=False)
            return
        with outputs.destination(
            replace(output, output=where), inputs=read_files(path, config)
        ) as out:
            outputs.warn(resolved.warnings, output)
            with telling(output, progress_line) as progress:
                result = shrink(
                    reader,
                    resolved.config,
                    keep=search.keep,
                    test=judge,
                    seed=search.seed,
                    budget_s=search.budget,
                    expect_idle=search.expect_idle,
                    progress=progress,
                )
            out.write(write(result, where))
    report(result, where, format, output)
    if result.stopped == "interrupted":
        outputs.notice(f"interrupted; the best trace so far is written to {where}")
        raise typer.Exit(INTERRUPTED_EXIT)
