"""`swasim triage`: what the memory lines of a server log mean."""

from __future__ import annotations

from typing import Annotated

import typer

from swasim.commands.grouping import option
from swasim.commands.options import CHECKS, CONFIGURATION, ReportOptions, format_option
from swasim.reporters import DIGEST_FORMATS

Log = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help="server log, plain or .gz, or - for standard input",
        show_default=False,
    ),
]
PageSize = Annotated[
    int | None,
    option(
        "--page-size",
        section=CONFIGURATION,
        help="tokens per page (default: read off the log)",
        metavar="N",
        min=1,
    ),
]
ExitZero = Annotated[
    bool, option("--exit-zero", section=CHECKS, help="exit 0 whatever the log shows")
]
Format = Annotated[str, format_option(DIGEST_FORMATS)]


def triage(
    log: Log,
    *,
    page_size: PageSize = None,
    exit_zero: ExitZero = False,
    format: Format = "table",
    output: ReportOptions,
) -> None:
    """Say what the memory lines of a server log mean, and what to record next.

    Exit codes: 0 no memory fault in the lines, 1 a memory fault, 2 nothing usable in the log, or a
    line that speaks of a memory fault in a shape that is not known here.
    """
    from swasim.commands import output as outputs
    from swasim.errors import UsageError
    from swasim.reporters import triage as report_format
    from swasim.triage import triage as read
    from swasim.triage.source import open_log

    with outputs.destination(output, inputs=[log]) as out:
        with open_log(log) as lines:
            report = read(lines, page_size=page_size)
        report_format.write(report, out, outputs.look(output, out), source=log, format=format)
    if report.unread is not None:
        sentence = report_format.unread_sentence(report.unread, log)
        if not report.found_fault and not exit_zero:
            raise UsageError(sentence)
        outputs.warn([sentence], output)
    elif not report.recognised:
        raise UsageError(f"{log}: no line has a memory shape of a server log")
    if report.found_fault and not exit_zero:
        raise typer.Exit(1)
