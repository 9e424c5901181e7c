"""`swasim compare`: several allocators in lockstep on one trace."""

from __future__ import annotations

from typing import Annotated

import typer

from swasim.commands.grouping import option
from swasim.commands.options import (
    CONFIGURATION,
    CheckOptions,
    ConfigOptions,
    OutputOptions,
    TableOptions,
    format_option,
)
from swasim.reporters import FORMATS

Format = Annotated[str, format_option(tuple(FORMATS))]

Allocators = Annotated[
    list[str] | None,
    option(
        "--allocator",
        "-a",
        section=CONFIGURATION,
        help="an allocator to compare (repeatable): a name from `swasim allocators`, or"
        " package.module:Class",
        metavar="NAME",
    ),
]
Buggy = Annotated[
    bool,
    option("--buggy", section=CONFIGURATION, help="add the allocator from before SGLang PR 27779"),
]
Fixed = Annotated[
    bool,
    option("--fixed", section=CONFIGURATION, help="add the allocator from after SGLang PR 27779"),
]
Trace = Annotated[
    str | None,
    typer.Argument(
        metavar="[TRACE]",
        help="trace, a bundled one's name, or - (default: the bundled regression of PR 27779)",
        show_default=False,
    ),
]


def compare(
    config: ConfigOptions,
    checks: CheckOptions,
    rows: TableOptions,
    *,
    format: Format = "table",
    output: OutputOptions,
    trace: Trace = None,
    buggy: Buggy = False,
    fixed: Fixed = False,
    allocator: Allocators = None,
) -> None:
    """Replay a trace on several allocators in lockstep.

    Prints them side by side, the event at which they part, and a verdict for each. Exits 0 when
    every allocator that is not a known-buggy variant is clean.
    """
    from swasim.commands import outcome
    from swasim.commands import output as outputs
    from swasim.commands.acceptance import Acceptance
    from swasim.commands.progress import watching
    from swasim.commands.sources import (
        config_listing,
        cut_off,
        default_trace,
        locate_trace,
        read_files,
        resolve_config,
    )
    from swasim.lockstep import compare as run
    from swasim.reporters import reporter
    from swasim.trace.reader import open_trace

    names = chosen(buggy, fixed, allocator or [])
    write = reporter(format).write_comparison
    outcome.failing_words(checks)
    acceptance = Acceptance(checks)
    path = default_trace() if trace is None else locate_trace(trace)
    with open_trace(path) as reader:
        resolved = resolve_config(config, reader, names[0])
        with outputs.destination(output, inputs=read_files(path, config, checks)) as out:
            if config.show_config:
                out.write(config_listing(resolved, format, names))
                return
            with watching(reader, output) as on_progress:
                result = run(
                    reader,
                    resolved.config,
                    allocators=names,
                    **checks.limits(),
                    **rows.limits(),
                    keep=acceptance.keeps,
                    on_progress=on_progress,
                )
            cut = cut_off(result.runs[0])
            warnings = [*resolved.warnings, *result.warnings, *acceptance.warnings, *cut]
            outputs.warn(warnings, output)
            write(result, out, outputs.look(output, out, new_only=bool(checks.baseline)))
    raise typer.Exit(outcome.exit_code(outcome.judged(result), checks))


def chosen(buggy: bool, fixed: bool, named: list[str]) -> tuple[str, ...]:
    """The allocators to compare, in order, each once.

    Raises:
        UsageError: fewer than two.
    """
    from swasim.errors import UsageError

    pair = [name for name, wanted in (("buggy", buggy), ("fixed", fixed)) if wanted]
    names = tuple(dict.fromkeys([*pair, *named]))
    if len(names) < 2:
        given = f"only {names[0]!r} is given" if names else "none is given"
        raise UsageError(
            f"compare needs two allocators or more and {given}: try `swasim compare --buggy"
            " --fixed`, or add --allocator NAME (repeatable; `swasim allocators` lists them)"
        )
    return names
