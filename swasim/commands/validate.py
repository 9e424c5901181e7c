"""`swasim validate`: are these files sound traces and configurations?"""

from __future__ import annotations

from typing import Annotated

import typer

from swasim.commands.grouping import option
from swasim.commands.options import OUTPUT, Verbose

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...", help="traces and YAML configurations; - is a trace", show_default=False
    ),
]
Quiet = Annotated[bool, option("--quiet", "-q", section=OUTPUT, help="only say what is wrong")]


def validate(files: Files, quiet: Quiet = False, *, verbose: Verbose = False) -> None:
    """Check traces and configurations without running them.

    Every file is looked at; what is wrong gets one line each, with the place and what is accepted,
    and makes the exit code 2.
    """
    from swasim.commands.output import notice, notice_failure, standard_output
    from swasim.commands.soundness import check_file
    from swasim.errors import ConfigError, TraceError, UsageError
    from swasim.reporters.wording import printable

    out = standard_output()
    bad = 0
    for name in files:
        try:
            report = check_file(name)
        except (ConfigError, TraceError, UsageError) as error:
            bad += 1
            notice_failure(error)
            continue
        for warning in report.warnings:
            notice(f"warning: {printable(f'{report.path}: {warning}')}")
        for problem in report.problems:
            notice_failure(problem)
        bad += bool(report.problems)
        if not quiet and not report.problems:
            out.write(f"{printable(report.path)}: ok, {report.summary}\n")
    if bad:
        raise typer.Exit(2)
