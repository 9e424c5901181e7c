"""The options that recur: same name, same meaning and same variable in every command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from swasim.commands.grouping import option
from swasim.errors import UsageError, unknown_name

CONFIGURATION = "Configuration"
CHECKS = "Findings"
TABLE = "Free-space table"
OUTPUT = "Output"

TraceArgument = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        help="trace (.jsonl, .jsonl.gz, .jsonl.zst), a bundled one's name, or - for standard input",
        show_default=False,
    ),
]

Allocator = Annotated[
    str | None,
    option(
        "--allocator",
        "-a",
        section=CONFIGURATION,
        help="allocator to replay on: a name from `swasim allocators`, or package.module:Class",
        metavar="NAME",
        env=False,
    ),
]


@dataclass(frozen=True, slots=True)
class ConfigOptions:
    """What decides the configuration; None where a flag was not given."""

    config: Annotated[
        str | None,
        option("--config", "-c", section=CONFIGURATION, help="YAML file", metavar="FILE"),
    ] = None
    page_size: Annotated[
        int | None,
        option(
            "--page-size", section=CONFIGURATION, help="tokens per page", metavar="N", env=False
        ),
    ] = None
    kv_size: Annotated[
        int | None,
        option(
            "--kv-size",
            section=CONFIGURATION,
            help="tokens in the full pool",
            metavar="N",
            env=False,
        ),
    ] = None
    kv_size_swa: Annotated[
        int | None,
        option(
            "--kv-size-swa",
            section=CONFIGURATION,
            help="tokens in the SWA pool",
            metavar="N",
            env=False,
        ),
    ] = None
    sliding_window_size: Annotated[
        int | None,
        option(
            "--sliding-window-size",
            section=CONFIGURATION,
            help="tokens in the window; 0: none",
            metavar="N",
            env=False,
        ),
    ] = None
    need_sort: Annotated[
        bool | None,
        option(
            "--need-sort/--no-need-sort",
            section=CONFIGURATION,
            help="stage freed pages and merge them in order",
            env=False,
        ),
    ] = None
    device: Annotated[
        str | None,
        option(
            "--device",
            section=CONFIGURATION,
            help="cpu, cuda, cuda:1 or mps",
            metavar="DEVICE",
            env=False,
        ),
    ] = None
    engine: Annotated[
        str | None,
        option(
            "--engine",
            section=CONFIGURATION,
            help="core: plain integers, cpu; torch: the reference, any device",
            metavar="NAME",
            env=False,
        ),
    ] = None
    show_config: Annotated[
        bool,
        option(
            "--show-config",
            section=CONFIGURATION,
            help="print the merged configuration and where each value came from, and stop",
        ),
    ] = False

    def flags(self) -> dict[str, Any]:
        """Configuration key to value, for the flags that were given."""
        keys = (
            "page_size",
            "kv_size",
            "kv_size_swa",
            "sliding_window_size",
            "need_sort",
            "device",
            "engine",
        )
        return {key: getattr(self, key) for key in keys if getattr(self, key) is not None}


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What is looked for, and what makes the command fail."""

    max_findings: Annotated[
        int | None,
        option(
            "--max-findings",
            section=CHECKS,
            help="show at most N findings, and count the rest",
            metavar="N",
            min=1,
        ),
    ] = None
    stop_at_first: Annotated[
        bool,
        option(
            "--stop-at-first",
            section=CHECKS,
            help="stop at the first error; compare: or where they part",
        ),
    ] = False
    expect_idle: Annotated[
        bool,
        option("--expect-idle", section=CHECKS, help="report pages that are live at the end"),
    ] = False
    fail_on: Annotated[
        str | None,
        option(
            "--fail-on",
            section=CHECKS,
            help="exit 1 on these only: kinds or severities, comma-separated (default: error)",
            metavar="KINDS",
        ),
    ] = None
    suppress: Annotated[
        list[str] | None,
        option(
            "--suppress",
            section=CHECKS,
            help="leave these findings out (repeatable): KIND[:POOL][@SITE]",
            metavar="RULE",
        ),
    ] = None
    suppressions: Annotated[
        str | None,
        option("--suppressions", section=CHECKS, help="file of such rules", metavar="FILE"),
    ] = None
    baseline: Annotated[
        str | None,
        option(
            "--baseline",
            section=CHECKS,
            help="leave out what this earlier report (json, jsonl, sarif) holds",
            metavar="FILE",
        ),
    ] = None
    exit_zero: Annotated[
        bool, option("--exit-zero", section=CHECKS, help="exit 0 whatever is found")
    ] = False

    def limits(self) -> dict[str, Any]:
        """Arguments of a replay; what was not given is left to its default."""
        given = {"max_findings": self.max_findings} if self.max_findings is not None else {}
        return {**given, "stop_at_first": self.stop_at_first, "expect_idle": self.expect_idle}


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Which rows of the free-space table are kept."""

    every: Annotated[
        int | None,
        option("--every", section=TABLE, help="keep every Nth event", metavar="N", min=1),
    ] = None
    tail: Annotated[
        int | None,
        option("--tail", section=TABLE, help="keep the last N events", metavar="N", min=0),
    ] = None

    def limits(self) -> dict[str, Any]:
        """Arguments of a replay; what was not given is left to its default."""
        given = {"every": self.every, "tail": self.tail}
        return {key: value for key, value in given.items() if value is not None}


def format_option(names: Sequence[str]) -> Any:
    """`--format` of a verb that writes these; the first one is the default.

    Any other name is refused with UsageError.
    """

    def known(name: str) -> str:
        if name not in names:
            raise UsageError(unknown_name("format", name, names))
        return name

    *others, last = names[1:]
    listed = ", ".join([f"{names[0]} (default)", *others])
    return option(
        "--format",
        "-f",
        section=OUTPUT,
        help=f"{listed} or {last}",
        metavar="NAME",
        callback=known,
    )


Verbose = Annotated[
    bool, option("--verbose", "-v", section=OUTPUT, help="tracebacks of defects of swasim")
]
"""For verbs that shorten nothing. `swasim.commands.app`, which tells of defects, looks for it."""


@dataclass(frozen=True, slots=True)
class FileOptions:
    """Where the output goes."""

    output: Annotated[
        str | None,
        option("--output", "-o", section=OUTPUT, help="write to a new file", metavar="FILE"),
    ] = None
    force: Annotated[
        bool, option("--force", section=OUTPUT, help="let --output replace a file")
    ] = False


@dataclass(frozen=True, slots=True)
class ReportOptions(FileOptions):
    """Where a report goes and how much of it."""

    quiet: Annotated[
        bool,
        option("--quiet", "-q", section=OUTPUT, help="the result only: no tables, no warnings"),
    ] = False
    verbose: Annotated[
        bool,
        option(
            "--verbose",
            "-v",
            section=OUTPUT,
            help="every finding in full, nothing shortened; tracebacks of defects of swasim",
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class OutputOptions(ReportOptions):
    """Likewise, of work that may last so long that a person wants to see how far it is."""

    no_progress: Annotated[
        bool,
        option(
            "--no-progress", section=OUTPUT, help="no progress on standard error; so does --quiet"
        ),
    ] = False
