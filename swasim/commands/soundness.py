"""What `validate` says of a file: which kind it is, what it holds, what is wrong with it.

Traces are checked by `swasim.trace.validate`, configurations by `swasim.config`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from swasim.allocator import registry
from swasim.config import KEYS, ResolvedConfig, SimConfig, resolve
from swasim.errors import ConfigError, SwasimError, UsageError
from swasim.reporters.wording import counted
from swasim.run import header_fields
from swasim.trace.events import Header
from swasim.trace.reader import STDIN
from swasim.trace.validate import validate_trace

CONFIG_SUFFIXES = (".yaml", ".yml")
TRACE_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".json", ".gz", ".zst")


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """What was found out about one file.

    Attributes:
        path: as the user named it, "<stdin>" for standard input.
        summary: what it holds, for one line.
        warnings: sentences about what will be rounded, or was cut off.
        problems: what is wrong with it, in the order of the file; empty where it is sound.
    """

    path: str
    summary: str
    warnings: tuple[str, ...] = ()
    problems: tuple[SwasimError, ...] = ()


def check_file(name: str) -> CheckedFile:
    """Check one trace or configuration, told apart by suffix, else by content.

    Raises:
        SwasimError: the file cannot be read, or is no configuration.
    """
    return _check_config(name) if _is_config(name) else _check_trace(name)


def _is_config(name: str) -> bool:
    lowered = name.lower()
    if lowered.endswith(CONFIG_SUFFIXES):
        return True
    # What a pipe gave to a look at its content would be missing from the trace.
    if name == STDIN or lowered.endswith(TRACE_SUFFIXES) or not os.path.isfile(name):
        return False
    try:
        with open(name, "rb") as stream:
            head = stream.read(4096)
    except (OSError, ValueError):
        return False
    lines = (line.split(b"#")[0].strip() for line in head.split(b"\n"))
    first = next((line for line in lines if line), b"")
    return any(first.startswith(key.encode()) for key in KEYS)


def _check_config(name: str) -> CheckedFile:
    resolved = resolve({}, {}, name, None)
    _check_allocator(resolved, name)
    return CheckedFile(name, f"configuration, {_sizes(resolved.config)}", resolved.warnings)


def _check_allocator(resolved: ResolvedConfig, path: str) -> None:
    """Names of code from outside are not looked up: that would run it."""
    name = resolved.config.allocator
    if registry.is_foreign(name):
        return
    try:
        registry.info(name)
    except UsageError as error:
        place = resolved.origins["allocator"].rpartition(":")[2]
        raise ConfigError(str(error), path, int(place) if place.isdigit() else 0) from None


def _sizes(config: SimConfig) -> str:
    return (
        f"page size {config.page_size}, full {config.kv_size} tokens,"
        f" SWA {config.kv_size_swa} tokens"
    )


def _check_trace(name: str) -> CheckedFile:
    report = validate_trace(name)
    problems: list[SwasimError] = list(report.problems)
    warnings: tuple[str, ...] = ()
    sizes = ", no header"
    if report.header is not None:
        try:
            resolved = _from_header(report.header, report.path, report.header_line)
            sizes, warnings = f", {_sizes(resolved.config)}", resolved.warnings
        except ConfigError as error:
            problems.insert(0, error)
    if report.truncated_line is not None:
        warnings += (f"cut off inside line {report.truncated_line}; read up to there",)
    summary = f"trace of {counted(report.events, 'event')}{sizes}"
    return CheckedFile(report.path, summary, warnings, tuple(problems))


def _from_header(header: Header, path: str, line: int) -> ResolvedConfig:
    return resolve({}, {}, None, header_fields(header), header_at=(path, line))
