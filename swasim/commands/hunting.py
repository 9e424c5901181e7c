"""What `fuzz` and `explore` share: options and their configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from swasim.commands.grouping import option
from swasim.commands.options import ConfigOptions, format_option
from swasim.reporters import SEARCH_FORMATS

if TYPE_CHECKING:
    from swasim.config import ResolvedConfig

SEARCH = "Search"
FOUND, INTERRUPTED = 1, 130

DEFAULT_FOLDER = "swasim-finds"

Save = Annotated[
    str,
    option(
        "--save",
        section=SEARCH,
        help=f"folder for the traces of what is found (default {DEFAULT_FOLDER}; '-': none)",
        metavar="DIR",
    ),
]
Collect = Annotated[
    bool,
    option("--collect", section=SEARCH, help="go on after the first find; gather distinct ones"),
]
Budget = Annotated[
    float | None,
    option("--budget", section=SEARCH, help="stop after so long", metavar="SECONDS", min=0.0),
]
Format = Annotated[str, format_option(SEARCH_FORMATS)]


def config_for_search(
    options: ConfigOptions, allocator: str | None, base: Mapping[str, Any], whose: str
) -> ResolvedConfig:
    """Flags, environment and file over the defaults of a verb.

    Args:
        base: the verb's own defaults.
        whose: the verb, for the origin of a value.
    """
    # `--help` reads the options above and must not pay for what a search needs.
    from swasim.commands.sources import locate_config
    from swasim.config import resolve

    flags = options.flags() | ({} if allocator is None else {"allocator": allocator})
    resolved = resolve(flags, os.environ, locate_config(options.config), base)
    origins = {
        key: f"default of {whose}" if origin == "trace header" else origin
        for key, origin in resolved.origins.items()
    }
    return replace(resolved, origins=origins)


def is_given(resolved: ResolvedConfig, key: str) -> bool:
    """Whether somebody chose this value."""
    return not resolved.origins[key].startswith("default")


def check_folder(folder: str) -> None:
    """Raises UsageError for a folder in which no find could be saved; "-" is none."""
    from swasim import finds

    if folder != "-":
        finds.check_folder(folder)
