"""What a command reads: the trace and the configuration, from files or from what is bundled."""

from __future__ import annotations

import os
from pathlib import Path

from swasim import bundled
from swasim.collect import Replay
from swasim.commands.options import ConfigOptions
from swasim.config import ResolvedConfig, resolve, show_config
from swasim.run import header_settings
from swasim.trace.reader import STDIN, TraceReader


def locate_trace(name: str) -> str:
    """The path to open: `name` itself, or the bundled trace of that name where no file has it."""
    if name == STDIN or os.path.exists(name) or name not in bundled.list_traces():
        return name
    return shortest(bundled.trace_path(name))


def locate_config(name: str | None) -> str | None:
    """Likewise for a configuration."""
    if name is None or os.path.exists(name) or name not in bundled.list_configs():
        return name
    return shortest(bundled.config_path(name))


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


def config_listing(resolved: ResolvedConfig) -> str:
    """The merged configuration as YAML, each line with the origin as a comment."""
    shown = show_config(resolved)
    pairs = [f"{item.key}: {item.value}" for item in shown]
    width = max(len(pair) for pair in pairs)
    lines = [f"{pair:<{width}}  # {item.origin}" for pair, item in zip(pairs, shown, strict=True)]
    return "\n".join(lines) + "\n"
