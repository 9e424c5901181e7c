"""What a command reads: the trace and the configuration, from files or from what is bundled."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from swasim import __version__, bundled
from swasim.collect import Replay
from swasim.commands.options import CheckOptions, ConfigOptions
from swasim.config import ResolvedConfig, resolve, show_config
from swasim.reporters import SCHEMA
from swasim.reporters.wording import printable
from swasim.run import header_settings
from swasim.trace.reader import STDIN, TraceReader

REGRESSION_TRACE = "pr27779"


def locate_trace(name: str) -> str:
    """The path to open: `name` itself, or the bundled trace of that name where no file has it."""
    if name == STDIN or _is_file(name) or name not in bundled.list_traces():
        return name
    return shortest(bundled.trace_path(name))


def locate_config(name: str | None) -> str | None:
    """Likewise for a configuration."""
    if name is None or _is_file(name) or name not in bundled.list_configs():
        return name
    return shortest(bundled.config_path(name))


def _is_file(name: str) -> bool:
    return os.path.exists(name) and not os.path.isdir(name)


def default_trace() -> str:
    """The bundled regression, even where a file or folder of its name lies about."""
    return shortest(bundled.trace_path(REGRESSION_TRACE))


def read_files(trace: str, config: ConfigOptions, checks: CheckOptions | None = None) -> list[str]:
    """Every file that the command reads; none of them may be its output."""
    names = [trace, locate_config(config.config)]
    if checks is not None:
        names += [checks.suppressions, checks.baseline]
    return [name for name in names if name]


def shortest(path: Path) -> str:
    """`path` from the working directory where it lies below it, else absolute."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def resolve_config(
    options: ConfigOptions, reader: TraceReader, allocator: str | None = None
) -> ResolvedConfig:
    """The merged configuration for the trace that `reader` has open."""
    flags = options.flags() | ({} if allocator is None else {"allocator": allocator})
    return resolve(
        flags,
        os.environ,
        locate_config(options.config),
        header_settings(reader),
        header_at=(reader.path, reader.header_line),
    )


def cut_off(replay: Replay) -> list[str]:
    """The sentence about a trace that ends inside a line, if it does."""
    line = replay.summary.truncated_line
    return [] if line is None else [f"{replay.trace}: cut off inside line {line}; read up to there"]


def config_listing(
    resolved: ResolvedConfig, format: str = "table", compared: Sequence[str] = ()
) -> str:
    """The merged configuration as YAML, each line with the origin as a comment; or as JSON.

    Args:
        format: "json" and "jsonl" give one document, every other format YAML.
        compared: the allocators of a comparison; the configuration knows the first one only.
    """
    if format in ("json", "jsonl"):
        return _config_document(resolved, compared)
    shown = show_config(resolved)
    pairs = [f"{item.key}: {item.value}" for item in shown]
    width = max(len(pair) for pair in pairs)
    lines = [f"{pair:<{width}}  # {item.origin}" for pair, item in zip(pairs, shown, strict=True)]
    if compared:
        lines.append(f"# compared: {', '.join(compared)}")
    return _lines(lines)


def _lines(lines: Sequence[str]) -> str:
    """Lines as text; control characters of a name must not reach a terminal."""
    return "".join(f"{printable(line)}\n" for line in lines)


def _config_document(resolved: ResolvedConfig, compared: Sequence[str]) -> str:
    document: dict[str, Any] = {
        "swasim": __version__,
        "schema": SCHEMA,
        "config": dataclasses.asdict(resolved.config),
        "origins": resolved.origins,
        "warnings": list(resolved.warnings),
    }
    if compared:
        document["allocators"] = list(compared)
    return json.dumps(document) + "\n"
