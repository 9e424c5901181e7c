"""Where output goes: standard output or a new file, messages on standard error."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO, TextIO

from swasim.commands.options import FileOptions, ReportOptions
from swasim.errors import UsageError
from swasim.reporters import Look
from swasim.reporters.wording import printable

WARNINGS_SHOWN = 10
COMPRESSED = (".gz", ".zst")
_SEPARATORS = tuple(filter(None, (os.sep, os.altsep)))


def say(text: str) -> None:
    """Text on standard error. Where that is closed, full or gone, the exit code has to do."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
    except (OSError, ValueError):
        abandon(sys.stderr)


def abandon(stream: TextIO | None) -> None:
    """Point a standard stream at nothing, so that the interpreter's last flush stays silent."""
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def standard_output(hint: str = "") -> TextIO:
    """Where results go.

    Raises:
        UsageError: it is closed; `hint` says what to do about it.
    """
    if sys.stdout is None:
        raise UsageError(f"standard output is closed{hint}")
    return sys.stdout


def notice(message: str) -> None:
    """One line on standard error."""
    say(f"swasim: {message}\n")


def notice_failure(error: Exception) -> None:
    """What went wrong, on one line of standard error; a message that names its file stays whole."""
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else " (standard output?)"
        notice(f"error: {error.strerror or error}{where}")
        return
    message = printable(str(error))
    located = getattr(error, "path", "") and ": error: " in message
    say(f"{message}\n" if located else f"swasim: error: {message}\n")


def warn(messages: Iterable[str], options: ReportOptions) -> None:
    """Warnings on standard error, each once and not too many; none with --quiet."""
    if options.quiet:
        return
    distinct = list(dict.fromkeys(messages))
    for message in distinct[:WARNINGS_SHOWN]:
        notice(f"warning: {printable(message)}")
    if len(distinct) > WARNINGS_SHOWN:
        notice(f"warning: and {len(distinct) - WARNINGS_SHOWN} more like these")


@contextlib.contextmanager
def destination(options: FileOptions, *, inputs: Iterable[str] = ()) -> Iterator[TextIO]:
    """Standard output, or the file of --output, which appears only when all is written.

    Args:
        inputs: files that the command reads; none of them may be the output.

    Raises:
        UsageError: the file exists and --force is missing, is an input, or cannot be written.
    """
    if options.output is None or options.output == "-":
        out = standard_output("; give --output FILE")
        yield out
        out.flush()
        return
    if _is_device(options.output):
        # Not by its real path: /dev/stdout is a link to what no name opens.
        with _opened(options.output, options.output, options) as out:
            yield out
        return
    path = _real_path(options)
    _check_replaceable(path, options, inputs)
    partial = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}.part")
    try:
        with _opened(partial, path, options) as out:
            yield out
        _move(partial, path, options)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def _real_path(options: FileOptions) -> str:
    if not options.output:
        raise UsageError("--output is empty; give a file, or - for standard output")
    if options.output.endswith(_SEPARATORS):
        raise UsageError(f"--output {options.output}: is a directory; give a file")
    suffix = os.path.splitext(options.output)[1]
    if suffix in COMPRESSED:
        raise UsageError(
            f"--output {options.output}: the output is plain text; give a name without {suffix}"
        )
    try:
        return os.path.realpath(options.output)
    except (OSError, ValueError) as error:
        raise _unwritable(error, options) from None


def _unwritable(error: Exception, options: FileOptions, hint: str = "") -> UsageError:
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(f"--output {options.output}: cannot be written: {reason}{hint}")


def _move(partial: str, path: str, options: FileOptions) -> None:
    """Give the finished file its name; without --force never over what came up meanwhile."""
    if options.force:
        os.replace(partial, path)
        return
    try:
        os.link(partial, path)
    except FileExistsError:
        raise UsageError(_exists(options)) from None
    except OSError:
        # A file system without hard links.
        os.replace(partial, path)
        return
    os.unlink(partial)


def _exists(options: FileOptions) -> str:
    return f"--output {options.output}: the file exists; --force replaces it"


def _is_device(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _check_replaceable(path: str, options: FileOptions, inputs: Iterable[str]) -> None:
    shown = options.output
    if os.path.isdir(path):
        raise UsageError(f"--output {shown}: is a directory; give a file")
    if not os.path.exists(path):
        return
    if any(os.path.exists(name) and os.path.samefile(name, path) for name in inputs):
        raise UsageError(f"--output {shown}: is also the input; give another file")
    if not options.force:
        raise UsageError(_exists(options))


@contextlib.contextmanager
def _opened(path: str, final: str, options: FileOptions) -> Iterator[TextIO]:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    except (OSError, ValueError) as error:
        where = os.path.dirname(final)
        hint = "" if os.path.isdir(where) else f" (no folder {where})"
        raise _unwritable(error, options, hint) from None
    out = _NamedOutput(os.fdopen(descriptor, "wb"), options)
    with out:
        yield out


class _NamedOutput(io.TextIOWrapper):
    """A file whose failures name it: a full disk shows itself only at the end."""

    def __init__(self, raw: BinaryIO, options: FileOptions) -> None:
        super().__init__(raw, encoding="utf-8", newline="\n")
        self._options = options

    def write(self, text: str, /) -> int:
        """As `TextIOWrapper.write`; raises UsageError."""
        try:
            return super().write(text)
        except OSError as error:
            raise _unwritable(error, self._options) from None

    def close(self) -> None:
        """As `TextIOWrapper.close`; raises UsageError."""
        try:
            super().close()
        except OSError as error:
            raise _unwritable(error, self._options) from None


def look(options: FileOptions, out: TextIO, *, new_only: bool = False) -> Look:
    """How output to `out` should look: screen width and colour from terminal and environment."""
    on_screen = out is sys.stdout and out.isatty()
    return Look(
        width=_columns(on_screen),
        whole_rows=not on_screen,
        color=_wants_color(out),
        quiet=isinstance(options, ReportOptions) and options.quiet,
        verbose=isinstance(options, ReportOptions) and options.verbose,
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
