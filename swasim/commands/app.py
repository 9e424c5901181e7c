"""The command line: every verb, and the only place where exceptions become exit codes.

    0  clean
    1  findings
    2  usage, configuration or trace error
    3  a defect of swasim
    130  interrupted (`swasim.__main__` makes 143 of SIGTERM and 129 of SIGHUP)
    141  the reader of our output went away

What must not be added here: work. Commands import their engine inside the function, so that
`swasim --help` stays instant.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from swasim import __version__, compiled
from swasim.commands.allocators import allocators
from swasim.commands.compare import compare
from swasim.commands.explain import explain
from swasim.commands.explore import explore
from swasim.commands.fuzz import fuzz
from swasim.commands.grouping import SectionedCommand, expand
from swasim.commands.inspect import inspect
from swasim.commands.minimize import minimize
from swasim.commands.output import abandon, notice, notice_failure, say
from swasim.commands.record import record
from swasim.commands.replay import replay
from swasim.commands.triage import triage
from swasim.commands.validate import validate
from swasim.errors import InternalError, SwasimError

_TORCH_ON_MEMORY = "can't allocate memory"

CLEAN, USAGE, DEFECT, INTERRUPTED, CLOSED_PIPE = 0, 2, 3, 130, 141

EPILOG = (
    "Every option can be set by an environment variable: --page-size by SWASIM_PAGE_SIZE."
    " Exit codes: 0 clean, 1 findings, 2 usage, configuration or trace error, 3 a defect of"
    " swasim, 130 interrupted, 141 the reader of the output went away."
)

app = typer.Typer(
    name="swasim",
    help="The memory debugger for paged full/SWA KV caches: replays an allocation trace and says"
    " at which call truth and allocator part.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Plain help: laying it out with Rich would take longer than everything else together.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (
    replay,
    compare,
    inspect,
    minimize,
    fuzz,
    explore,
    validate,
    allocators,
    explain,
    record,
    triage,
):
    app.command(
        name=verb.__name__,
        cls=SectionedCommand,
        epilog=EPILOG,
        # What stands behind the command that `record` runs is that command's own.
        context_settings={"allow_interspersed_args": verb is not record},
    )(expand(verb))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"swasim {__version__} ({compiled.describe()})")
        raise typer.Exit


@app.callback()
def _global_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            "-V",
            callback=_print_version,
            is_eager=True,
            help="Show the version and whether it is compiled, and exit.",
        ),
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str]) -> int:
    """Run swasim on `arguments`; returns the exit code and never raises."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A trace may name requests in signs that the terminal's encoding lacks.
            with contextlib.suppress(OSError):
                stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        code = CLOSED_PIPE
    except OSError as error:
        notice_failure(error)
        code = USAGE
        abandon(sys.stdout)
    if code == CLOSED_PIPE:
        abandon(sys.stdout)
    return code


def _run(arguments: Sequence[str]) -> int:
    command = typer.main.get_command(app)
    try:
        result = command.main(list(arguments), prog_name="swasim", standalone_mode=False)
    except SystemExit as stop:
        # Typer turns a closed pipe into exit 1, which would read as "findings".
        if isinstance(stop.__context__, BrokenPipeError):
            return CLOSED_PIPE
        return stop.code if isinstance(stop.code, int) else CLEAN
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except (SwasimError, OSError) as error:
        if isinstance(error, InternalError):
            return _report_defect(error, arguments)
        notice_failure(error)
        return error.exit_code if isinstance(error, SwasimError) else USAGE
    except MemoryError:
        return _report_memory()
    except ModuleNotFoundError as error:
        if (error.name or "swasim").split(".")[0] == "swasim":
            return _report_defect(error, arguments)
        notice(f"error: the installation is incomplete: {error}")
        return USAGE
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError" or _TORCH_ON_MEMORY in str(error):
            return _report_memory()
        # Typer carries its own copy of Click or imports it, by version: known by what it offers.
        message_of = getattr(error, "format_message", None)
        if message_of is not None:
            return _report_usage(error, message_of(), arguments)
        return _report_defect(error, arguments)
    return result if isinstance(result, int) else CLEAN


def _report_memory() -> int:
    notice(
        "error: out of memory; smaller pools (--kv-size, --kv-size-swa) or larger pages"
        " (--page-size) need less"
    )
    return USAGE


def _report_usage(error: Exception, message: str, arguments: Sequence[str]) -> int:
    """A command line that Typer refused, in one line and where to read on."""
    message = message.rstrip(".") + _found(error, arguments)
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        say(f"{message}\n")
        return USAGE
    path = context.command_path if context is not None else _command_path(arguments)
    notice(f"error: {message} (see `{path} --help`)")
    return USAGE


def _command_path(arguments: Sequence[str]) -> str:
    """`swasim VERB`, where the arguments begin with one: Typer does not always say."""
    known = {command.name for command in app.registered_commands}
    return f"swasim {arguments[0]}" if arguments and arguments[0] in known else "swasim"


def _found(error: Exception, arguments: Sequence[str]) -> str:
    """The value that Typer's message leaves out, and the variable if it came from one."""
    parameter = getattr(error, "param", None)
    if parameter is None or type(error).__name__ == "MissingParameter":
        return ""
    flags = (*parameter.opts, *parameter.secondary_opts)
    # Of an option that is given twice, the last value counts.
    for at, argument in reversed(list(enumerate(arguments))):
        flag, equals, value = argument.partition("=")
        if flag in flags and equals:
            return f", got {value!r}"
        if argument in flags and at + 1 < len(arguments):
            return f", got {arguments[at + 1]!r}"
    variable = parameter.envvar
    if isinstance(variable, str) and variable in os.environ:
        return f", got {os.environ[variable]!r} from {variable}"
    return ""


def _report_defect(error: Exception, arguments: Sequence[str]) -> int:
    if _is_verbose(arguments):
        say("".join(traceback.format_exception(error)))
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    text = " ".join(str(error).split())[:200]
    version = f"swasim {__version__}, {compiled.describe()}"
    notice(f"internal error: {type(error).__name__}: {text} ({place}, {version})")
    notice(
        "this is a defect of swasim, not of the trace or its allocator; please report the command,"
        " the trace, and what the same command prints with --verbose"
    )
    return DEFECT


def _is_verbose(arguments: Sequence[str]) -> bool:
    own = list(itertools.takewhile(lambda argument: argument != "--", arguments))
    by_flag = any(a == "--verbose" or re.fullmatch(r"-[a-z]*v[a-z]*", a) for a in own)
    return by_flag or os.environ.get("SWASIM_VERBOSE", "") not in ("", "0", "false", "no", "off")
