"""The exception tree, with the exit code that each branch means to a shell.

    SwasimError                 exit
      UsageError                  2   bad flag, unknown name, unreadable or unwritable path
      ConfigError                 2   a configuration value that cannot be
      TraceError                  2   a malformed or impossible event
      InternalError               3   a defect of swasim itself

Only `swasim.commands.app` turns these into exit codes. Nothing here prints.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SwasimError(Exception):
    """Base of every error that swasim raises on purpose."""

    exit_code = 2


class UsageError(SwasimError):
    """The command was asked for something that it cannot do."""


class ConfigError(SwasimError):
    """A configuration value that cannot be; names where it came from.

    Args:
        message: what is wrong, with the key, the value and what is accepted.
        path: the file, as the user named it; "" where the value came from none.
        line, column: 1-based place in the file; 0 where it is not known.
    """

    def __init__(self, message: str, path: str = "", line: int = 0, column: int = 0) -> None:
        self.message = message
        self.path = path
        self.line = line
        self.column = column
        super().__init__(_located(message, path, line, column) if path else message)


class TraceError(SwasimError):
    """An event that is malformed or impossible.

    Args:
        message: what is wrong, with the field, the value and what is accepted.
        path: the trace, as the user named it.
        line: 1-based line in the file; 0 where the whole file is meant.
        column: 1-based byte column; 0 where it is not known.
    """

    def __init__(self, message: str, path: str = "<trace>", line: int = 0, column: int = 0) -> None:
        self.message = message
        self.path = path
        self.line = line
        self.column = column
        super().__init__(_located(message, path, line, column))


class InternalError(SwasimError):
    """A defect of swasim; the message says what to report."""

    exit_code = 3


def _located(message: str, path: str, line: int, column: int) -> str:
    place = path
    if line:
        place += f":{line}"
        if column:
            place += f":{column}"
    return f"{place}: error: {message}"


LONGEST_NAME = 80
"""Characters of an unknown name that are repeated to the user."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is closest to `name`, or None when nothing is near."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def unknown_name(what: str, name: str, known: Iterable[str], listed: str = "") -> str:
    """One sentence for an unknown name: the nearest known one first, then all of them.

    Args:
        what: kind of thing that is named.
        name: as the user wrote it.
        known: every name that there is.
        listed: what to say in place of all names, where they are too many for a sentence.
    """
    names = list(known)
    # A name from a file may be megabytes long; neither the search nor a screen should meet it.
    name = name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "..."
    hint = nearest(name, names)
    did_you_mean = f"; did you mean {hint!r}?" if hint else ""
    return f"unknown {what} {name!r}{did_you_mean} (known: {listed or ', '.join(names)})"
