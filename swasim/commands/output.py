"""Where output goes: standard output or a new file, messages on standard error."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

from swasim.commands.options import OutputOptions
from swasim.errors import UsageError
from swasim.reporters import Look
from swasim.reporters.wording import printable

WARNINGS_SHOWN = 10


def notice(message: str) -> None:
    """One line on standard error."""
    if sys.stderr is not None:
        sys.stderr.write(f"swasim: {message}\n")


def notice_failure(error: Exception) -> None:
    """What went wrong, on one line of standard error; a message that names its file stays whole."""
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else " (standard output?)"
        notice(f"error: {error.strerror or error}{where}")
        return
    message = printable(str(error))
    located = getattr(error, "path", "") and ": error: " in message
    if sys.stderr is not None:
        sys.stderr.write(f"{message}\n" if located else f"swasim: error: {message}\n")


def warn(messages: Iterable[str], options: OutputOptions) -> None:
    """Warnings on standard error, each once and not too many; none with --quiet."""
    if options.quiet:
        return
    distinct = list(dict.fromkeys(messages))
    for message in distinct[:WARNINGS_SHOWN]:
        notice(f"warning: {printable(message)}")
    if len(distinct) > WARNINGS_SHOWN:
        notice(f"warning: and {len(distinct) - WARNINGS_SHOWN} more like these")


@contextlib.contextmanager
def destination(options: OutputOptions, *, inputs: Iterable[str] = ()) -> Iterator[TextIO]:
    """Standard output, or the file of --output, which appears only when all is written.

    Args:
        inputs: files that the command reads; none of them may be the output.

    Raises:
        UsageError: the file exists and --force is missing, is an input, or cannot be written.
    """
    if options.output is None or options.output == "-":
        if sys.stdout is None:
            raise UsageError("standard output is closed; give --output FILE")
        yield sys.stdout
        sys.stdout.flush()
        return
    path = os.path.realpath(options.output)
    if _is_device(path):
        with _opened(path, path, options) as out:
            yield out
        return
    _check_replaceable(path, options, inputs)
    partial = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}.part")
    try:
        with _opened(partial, path, options) as out:
            yield out
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def _is_device(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _check_replaceable(path: str, options: OutputOptions, inputs: Iterable[str]) -> None:
    shown = options.output
    if os.path.isdir(path):
        raise UsageError(f"--output {shown}: is a directory; give a file")
    if not os.path.exists(path):
        return
    if any(os.path.exists(name) and os.path.samefile(name, path) for name in inputs):
        raise UsageError(f"--output {shown}: is also the input; give another file")
    if not options.force:
        raise UsageError(f"--output {shown}: the file exists; --force replaces it")


@contextlib.contextmanager
def _opened(path: str, final: str, options: OutputOptions) -> Iterator[TextIO]:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        where = os.path.dirname(final)
        hint = "" if os.path.isdir(where) else f" (no folder {where})"
        raise UsageError(f"--output {options.output}: cannot be written: {reason}{hint}") from None
    with open(descriptor, "w", encoding="utf-8", newline="\n") as out:
        yield out


def look(options: OutputOptions, out: TextIO, *, new_only: bool = False) -> Look:
    """How output to `out` should look: screen width and colour from terminal and environment."""
    on_screen = out is sys.stdout and out.isatty()
    return Look(
        width=_columns(on_screen),
        whole_rows=not on_screen,
        color=_wants_color(out),
        quiet=options.quiet,
        verbose=options.verbose,
        new_only=new_only,
    )


def _columns(on_screen: bool) -> int | None:
    """Columns to wrap at: the terminal's, or what COLUMNS says; None where neither is there."""
    if not on_screen and not os.environ.get("COLUMNS", "").isdecimal():
        return None
    return max(shutil.get_terminal_size().columns, 20)


def _wants_color(out: TextIO) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if out is not sys.stdout:
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return out.isatty() and os.environ.get("TERM") != "dumb"
