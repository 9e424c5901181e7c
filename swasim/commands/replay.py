"""`swasim replay`: one trace on one allocator."""

from __future__ import annotations

from typing import Annotated

import typer

from swasim.commands.options import (
    Allocator,
    CheckOptions,
    ConfigOptions,
    OutputOptions,
    TableOptions,
    TraceArgument,
    format_option,
)
from swasim.reporters import FORMATS

Format = Annotated[str, format_option(tuple(FORMATS))]


def replay(
    trace: TraceArgument,
    config: ConfigOptions,
    checks: CheckOptions,
    rows: TableOptions,
    *,
    format: Format = "table",
    output: OutputOptions,
    allocator: Allocator = None,
) -> None:
    """Replay a trace on one allocator.

    Prints the free-space table, the findings and a summary; exits 1 when there are errors.
    """
    from swasim.commands import outcome
    from swasim.commands import output as outputs
    from swasim.commands.acceptance import Acceptance
    from swasim.commands.progress import watching
    from swasim.commands.sources import (
        config_listing,
        cut_off,
        locate_trace,
        read_files,
        resolve_config,
    )
    from swasim.reporters import reporter
    from swasim.run import replay as run
    from swasim.trace.reader import open_trace

    write = reporter(format).write_replay
    outcome.failing_words(checks)
    acceptance = Acceptance(checks)
    path = locate_trace(trace)
    with open_trace(path) as reader:
        resolved = resolve_config(config, reader, allocator)
        with outputs.destination(output, inputs=read_files(path, config, checks)) as out:
            if config.show_config:
                out.write(config_listing(resolved, format))
                return
            with watching(reader, output) as on_progress:
                result = run(
                    reader,
                    resolved.config,
                    **checks.limits(),
                    **rows.limits(),
                    keep=acceptance.keeps,
                    on_progress=on_progress,
                )
            outputs.warn(
                [*resolved.warnings, *result.warnings, *acceptance.warnings, *cut_off(result)],
                output,
            )
            write(result, out, outputs.look(output, out, new_only=bool(checks.baseline)))
    raise typer.Exit(outcome.exit_code([result], checks))
