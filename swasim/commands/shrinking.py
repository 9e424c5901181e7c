"""What `minimize` writes and says, and where by default."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable

from swasim.commands import output as outputs
from swasim.commands.options import OutputOptions
from swasim.errors import UsageError, unknown_name
from swasim.minimize import Minimized, as_pytest, as_sglang_test, as_trace
from swasim.reporters import minimize as reporter
from swasim.trace.reader import STDIN

Exporter = Callable[[Minimized, str], str]

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".gz", ".zst")


def _pytest(result: Minimized, path: str) -> str:
    if result.finding is None:
        raise UsageError("--export pytest needs a finding to assert on; --test keeps none")
    return as_pytest(result)


def _sglang(result: Minimized, path: str) -> str:
    return as_sglang_test(result)


EXPORTS: dict[str, Exporter] = {"trace": as_trace, "pytest": _pytest, "sglang-test": _sglang}
"""Name of an export to what writes it; the path is where it will lie."""


def exporter(name: str) -> Exporter:
    """The export of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in EXPORTS:
        raise UsageError("--export: " + unknown_name("export", name, EXPORTS))
    return EXPORTS[name]


def default_output(trace: str, export: str) -> str:
    """Where the result goes without --output: into the working directory, by the trace's name."""
    stem = "stdin" if trace == STDIN else os.path.basename(trace)
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        stem = stem.removesuffix(suffix)
    if export == "trace":
        return f"{stem}.min.jsonl"
    return f"test_{re.sub(r'[^0-9A-Za-z]+', '_', stem).strip('_').lower() or 'trace'}.py"


def report(result: Minimized, where: str, format: str, options: OutputOptions) -> None:
    """The report on standard output; one line on standard error where the trace is there."""
    if where != "-":
        look = outputs.look(options, sys.stdout)
        reporter.write(result, sys.stdout, look, where, format)
    elif not options.quiet:
        outputs.notice(reporter.summary(result))
