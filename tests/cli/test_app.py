"""Exit codes and messages of the command line, whatever the verb."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from swasim import __version__, compiled
from swasim.commands.app import app, run
from swasim.config import KEYS
from swasim.errors import InternalError

ROOT = Path(__file__).resolve().parents[2]


def swasim(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`swasim` as a process of its own, in an environment without SWASIM_ variables."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SWASIM_", "COLUMNS"))}
    return subprocess.run(
        [sys.executable, "-m", "swasim", *arguments],
        cwd=ROOT,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-V"]) == 0
    assert capsys.readouterr().out == f"swasim {__version__} ({compiled.describe()})\n"


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    for verb in ("replay", "compare", "validate", "allocators", "explain"):
        assert f"\n  {verb} " in out


def test_help_names_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.endswith(
        "Exit codes: 0 clean, 1 findings, 2 usage, configuration or trace error, 3 a defect of"
        " swasim, 130 interrupted, 141 the reader of the output went away."
    )


def test_help_of_a_verb_is_in_sections(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "-h"]) == 0
    out = capsys.readouterr().out
    headings = [line for line in out.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == [
        "Arguments:",
        "Configuration:",
        "Findings:",
        "Free-space table:",
        "Output:",
        "Other options:",
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["compar"], "Did you mean 'compare'?"),
        (["replay", "--page-siz", "4", "x"], "--page-size"),
        (["replay"], "Missing argument 'TRACE'"),
        (["replay", "x", "--page-size", "many"], "'--page-size'"),
        (["replay", "x", "--every", "0"], "'--every'"),
        (["replay", "x", "y"], "unexpected extra argument"),
    ],
    ids=["verb", "option", "no trace", "no number", "out of range", "too many"],
)
def test_a_wrong_command_line_is_one_line_and_exit_2(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("swasim: error: ")
    assert expected in captured.err


@pytest.mark.parametrize("verb", ["replay", "triage"])
def test_the_help_that_is_named_is_that_of_the_verb(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([verb, "--format"]) == 2
    assert capsys.readouterr().err == (
        f"swasim: error: Option '--format' requires an argument (see `swasim {verb} --help`)\n"
    )


def test_no_arguments_show_the_help_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    assert "Usage: swasim" in capsys.readouterr().err


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make `validate` raise `error`."""

    def broken(name: str) -> None:
        raise error

    monkeypatch.setattr("swasim.commands.soundness.check_file", broken)


@pytest.mark.parametrize("error", [InternalError("lost a page"), KeyError("page")])
def test_a_defect_is_exit_3_says_what_to_report_and_shows_no_traceback(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, error)
    assert run(["validate", "x"]) == 3
    err = capsys.readouterr().err
    assert f"internal error: {type(error).__name__}" in err
    assert f"swasim {__version__}" in err
    assert "please report" in err
    assert "Traceback" not in err


def test_verbose_by_variable_shows_the_traceback_of_a_defect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, KeyError("page"))
    monkeypatch.setenv("SWASIM_VERBOSE", "1")
    assert run(["validate", "x"]) == 3
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_an_interrupt_is_exit_130_without_noise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, KeyboardInterrupt())
    assert run(["validate", "x"]) == 130
    assert capsys.readouterr().err == ""


def test_an_error_of_the_system_is_exit_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, OSError(28, "No space left on device", "/x/report"))
    assert run(["validate", "x"]) == 2
    assert capsys.readouterr().err == "swasim: error: No space left on device: /x/report\n"


def test_a_message_is_one_line_whatever_a_name_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "no\x1b[2J\nsuch"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "\x1b" not in err


@pytest.mark.parametrize(
    "arguments",
    [["explain"], ["replay", "--help"], ["compare", "--buggy", "--fixed", "-f", "json"]],
)
def test_a_closed_pipe_is_exit_141_without_noise(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    finished = subprocess.run(
        [sys.executable, "-m", "swasim", *arguments],
        cwd=ROOT,
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert (finished.returncode, finished.stderr) == (141, b"")


def test_closed_standard_output_is_said() -> None:
    finished = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m swasim explain >&-"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 2
    assert finished.stderr == ("swasim: error: standard output is closed; give --output FILE\n")


def test_python_m_is_the_command() -> None:
    finished = swasim("--version")
    told = f"swasim {__version__} ({compiled.describe()})\n"
    assert (finished.returncode, finished.stdout) == (0, told)


def test_a_terminal_that_cannot_show_a_sign_gets_an_escape(tmp_path: Path) -> None:
    name = tmp_path / "größe.yaml"
    name.write_text("page_size: 4\n", encoding="utf-8")
    finished = swasim("validate", str(name), PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert finished.returncode == 0
    assert "gr\\xf6\\xdfe.yaml: ok" in finished.stdout


def test_every_option_of_every_verb_has_a_variable() -> None:
    group: Any = typer.main.get_command(app)
    read_by_config = {*KEYS, "help"}
    without = [
        (verb, parameter.name)
        for verb, command in group.commands.items()
        for parameter in command.params
        if parameter.param_type_name == "option"
        and parameter.name not in read_by_config
        and not parameter.envvar
    ]
    assert without == []


@pytest.mark.parametrize(
    ("arguments", "variables", "expected"),
    [
        (["replay", "x", "--every", "0"], {}, ", got '0' (see"),
        (["replay", "x", "--every=z"], {}, ", got 'z' (see"),
        (["replay", "x", "--every", "5", "--every", "0"], {}, ", got '0' (see"),
        (["replay", "x"], {"SWASIM_TAIL": "-1"}, ", got '-1' from SWASIM_TAIL (see"),
        (["validate", "x"], {"SWASIM_QUIET": "maybe"}, ", got 'maybe' from SWASIM_QUIET (see"),
    ],
    ids=["flag", "equals", "last of two", "variable", "boolean variable"],
)
def test_a_refused_value_is_shown(
    arguments: list[str],
    variables: dict[str, str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert run(arguments) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 8 bytes")]
)
def test_too_little_memory_is_no_defect(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, error)
    assert run(["validate", "x"]) == 2
    assert capsys.readouterr().err.startswith("swasim: error: out of memory; smaller pools")


def interrupted(number: int, *arguments: str, program: str = "") -> tuple[int, str]:
    """Exit code and standard error of a command that waits for its input and is signalled.

    Args:
        program: Python run before the command, in its process.
    """
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"{program}\nimport sys\nfrom swasim.__main__ import main\n"
            f"sys.argv = {['swasim', *arguments]!r}\nmain()",
        ],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    child.send_signal(number)
    _, err = child.communicate(timeout=60)
    return child.returncode, err.decode()


SIGNAL_WHEN_LOADING = """
import builtins, time
def load(name, *rest, plain=builtins.__import__):
    if name == "typer":
        print("loading", flush=True)
        time.sleep(30)
    return plain(name, *rest)
builtins.__import__ = load
"""

SIGNAL_WHEN_REPLAYING = """
import swasim.replayer as replayer
def advance(self, *batch, plain=replayer.Replayer.advance):
    print("replaying", flush=True)
    return plain(self, *batch)
replayer.Replayer.advance = advance
"""


def test_ctrl_c_while_the_command_line_is_loaded_leaves_no_traceback() -> None:
    assert interrupted(signal.SIGINT, "--version", program=SIGNAL_WHEN_LOADING) == (130, "")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_the_work_and_leaves_no_file(number: int, code: int, tmp_path: Path) -> None:
    report = tmp_path / "report"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    os.write(writer, b'{"op":"clear"}\n')
    arguments = ["replay", str(pipe), "-o", str(report)]
    assert interrupted(number, *arguments, program=SIGNAL_WHEN_REPLAYING) == (code, "")
    os.close(writer)
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.parametrize(
    ("missing", "arguments"), [("typer", ["--help"]), ("msgspec", ["replay", "pr27779"])]
)
def test_a_missing_dependency_is_one_line(missing: str, arguments: list[str]) -> None:
    hide = f"import sys; sys.modules[{missing!r}] = None"
    finished = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{hide}; from swasim.__main__ import main; main()",
            *arguments,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 2
    assert finished.stderr.startswith("swasim: error: the installation is incomplete: ")
    assert finished.stderr.count("\n") == 1
