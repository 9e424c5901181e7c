"""Finished records to text, one module per format, chosen by name.

A format is a module with two functions, `write_replay` and `write_comparison`; adding one is one
file and one line in `FORMATS`. Nothing here calls an engine or reads the environment.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO, cast

from swasim.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from swasim.collect import Replay
    from swasim.lockstep import Comparison

SCHEMA = 1
"""Version of the JSON documents; raised when a field changes its meaning."""

FORMATS = {
    "table": "swasim.reporters.table",
    "concise": "swasim.reporters.concise",
    "json": "swasim.reporters.jsonfmt",
    "jsonl": "swasim.reporters.jsonl",
    "github": "swasim.reporters.github",
    "sarif": "swasim.reporters.sarif",
}
"""Format name to the module that writes it. Modules are imported when they are asked for."""

SEARCH_FORMATS = ("table", "concise", "json", "jsonl")
"""Of what `fuzz` and `explore` end with."""

DIGEST_FORMATS = ("table", "concise", "json")
"""Of what `minimize` and `triage` end with."""

VIEW_FORMATS = ("table", "json")
"""Of what `inspect` and `allocators` show."""


@dataclass(frozen=True, slots=True)
class Look:
    """How the output should look; only formats for people care.

    Attributes:
        width: columns to wrap at; None: lines are never wrapped.
        whole_rows: a row of a table is one whole line, however long; for pipes and files.
        color: colours may be used.
        quiet: findings and the summary only.
        verbose: every finding in full, consequences included.
        new_only: the findings of a baseline were taken out, so that those left are new.
    """

    width: int | None = None
    whole_rows: bool = True
    color: bool = False
    quiet: bool = False
    verbose: bool = False
    new_only: bool = False


class Reporter(Protocol):
    """What a format module offers."""

    def write_replay(self, replay: Replay, out: TextIO, look: Look) -> None:
        """Write a finished replay to `out`."""

    def write_comparison(self, comparison: Comparison, out: TextIO, look: Look) -> None:
        """Write a finished comparison to `out`."""


def reporter(name: str) -> Reporter:
    """The format called `name`.

    Raises:
        UsageError: there is none of that name; the known ones and the nearest are in the message.
    """
    if name not in FORMATS:
        raise UsageError(unknown_name("format", name, FORMATS))
    return cast(Reporter, importlib.import_module(FORMATS[name]))
