"""How modules are compiled, on a project of two: what is made anew, and what happens without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hatch_build import CC, SUFFIX

ROOT = Path(__file__).resolve().parents[2]

SOURCES = {
    "toy/__init__.py": "",
    "toy/page.py": "class Page:\n    def __init__(self) -> None:\n        self.tokens = 4\n",
    "toy/page.pxd": "cdef class Page:\n    cdef public long tokens\n",
    "toy/pool.py": (
        "from toy.page import Page\n\n\ndef tokens_of(page: Page) -> int:\n    return page.tokens\n"
    ),
    "toy/pool.pxd": "from toy.page cimport Page\ncpdef long tokens_of(Page page)\n",
    "toy/alone.py": "def one() -> int:\n    return 1\n",
    "toy/alone.pxd": "cpdef int one()\n",
}
MODULES = ("toy/page.py", "toy/pool.py", "toy/alone.py")

COMPILE = """
import sys
from pathlib import Path
import hatch_build
hatch_build.MODULES = tuple(sys.argv[1:])
try:
    1 / 0
except ZeroDivisionError:  # pip calls a build while it handles an exception of its own
    sys.exit(hatch_build.main(Path.cwd()))
"""
USE = """
from toy import alone, page, pool
print(pool.tokens_of(page.Page()), alone.one())
print(*(module.__file__.split(".")[-1] for module in (page, pool, alone)))
"""
WITHOUT_CYTHON = "import sys; sys.modules['Cython'] = None; sys.modules['Cython.Build'] = None\n"

needs_compiler = pytest.mark.skipif(
    shutil.which(CC) is None, reason=f"there is no C compiler ({CC})"
)


def python(folder: Path, code: str, *arguments: str, **environment: str) -> tuple[int, str, str]:
    finished = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return finished.returncode, finished.stdout, finished.stderr


def compiles(folder: Path, *modules: str, **environment: str) -> list[str]:
    """What is compiled; nothing may be said of it besides."""
    code, output, errors = python(folder, COMPILE, *(modules or MODULES), **environment)
    assert (code, errors) == (0, "")
    return [line.removeprefix("compiling ") for line in output.splitlines()]


def runs(folder: Path) -> list[str]:
    """The kinds of files from which the modules were loaded."""
    code, output, errors = python(folder, USE)
    assert (code, errors) == (0, "")
    values, kinds = output.splitlines()
    assert values == "4 1"
    return kinds.split()


def files(folder: Path) -> set[str]:
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return {name for name in found if not name.startswith("build/") and "__pycache__" not in name}


def write(folder: Path) -> Path:
    for name, text in SOURCES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write(tmp_path_factory.mktemp("compiled"))
    assert compiles(folder) == list(MODULES)
    return folder


@pytest.fixture
def project(compiled: Path, tmp_path: Path) -> Path:
    """A project whose modules are compiled and up to date."""
    return shutil.copytree(compiled, tmp_path / "project")


def edit(path: Path, text: str = "# edited\n") -> None:
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


@needs_compiler
def test_modules_are_compiled_beside_their_sources_and_nothing_else_is_left(project: Path) -> None:
    assert files(project) == {*SOURCES, *(f"{name[:-3]}{SUFFIX}" for name in MODULES)}
    assert runs(project) == ["so", "so", "so"]


@needs_compiler
def test_a_compiled_module_carries_no_debugging_information(project: Path) -> None:
    assert b".debug_info" not in (project / f"toy/page{SUFFIX}").read_bytes()


@needs_compiler
@pytest.mark.parametrize(
    ("edited", "expected"),
    [
        (None, []),
        ("toy/__init__.py", []),
        ("toy/pool.py", ["toy/pool.py"]),
        ("toy/pool.pxd", ["toy/pool.py"]),
        ("toy/page.pxd", ["toy/page.py", "toy/pool.py"]),
    ],
)
def test_only_what_an_edit_concerns_is_compiled_again(
    project: Path, edited: str | None, expected: list[str]
) -> None:
    if edited:
        edit(project / edited)
    assert compiles(project) == expected
    assert compiles(project) == []
    assert runs(project) == ["so", "so", "so"]


@needs_compiler
def test_an_edit_takes_effect(project: Path) -> None:
    page = project / "toy/page.py"
    page.write_text(SOURCES["toy/page.py"].replace("4", "8"), encoding="utf-8")
    compiles(project)
    assert python(project, USE)[1].startswith("8 1")


@needs_compiler
def test_an_edit_while_the_compiler_runs_is_not_lost(project: Path, tmp_path: Path) -> None:
    slow = tmp_path / "cc"
    slow.write_text(f'#!/bin/sh\necho "# edited" >> toy/alone.py\nexec {CC} "$@"\n')
    slow.chmod(0o755)
    edit(project / "toy/alone.py")
    assert compiles(project, CC=str(slow)) == ["toy/alone.py"]
    assert compiles(project) == ["toy/alone.py"]
    assert compiles(project) == []


@needs_compiler
@pytest.mark.parametrize("deleted", ["toy/page" + SUFFIX, "build"])
def test_what_was_deleted_is_made_again(project: Path, deleted: str) -> None:
    path = project / deleted
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    compiles(project)
    assert runs(project) == ["so", "so", "so"]


@needs_compiler
def test_a_module_that_is_taken_off_the_list_runs_from_its_source_again(project: Path) -> None:
    assert compiles(project, "toy/page.py", "toy/pool.py") == []
    assert runs(project) == ["so", "so", "py"]


LACKING = {
    "a failing compiler": ({"CC": "/bin/false"}, "/bin/false ends with exit status 1"),
    "no compiler": ({"PATH": "", "CC": "gcc"}, "there is no C compiler (gcc)"),
    "no headers": ({"CFLAGS": "-nostdinc"}, "fatal error"),
}


@pytest.mark.parametrize("lacking", LACKING)
def test_without_a_working_compiler_everything_runs_and_one_line_says_so(
    lacking: str, tmp_path: Path
) -> None:
    environment, reason = LACKING[lacking]
    write(tmp_path)
    code, output, errors = python(tmp_path, COMPILE, *MODULES, **environment)
    assert (code, output) == (0, "")
    (line,) = errors.splitlines()
    assert line.startswith("warning: swasim is not compiled and will be many times slower: ")
    assert reason in line
    assert files(tmp_path) == set(SOURCES)
    assert runs(tmp_path) == ["py", "py", "py"]


def test_without_cython_everything_runs_and_one_line_says_so(tmp_path: Path) -> None:
    write(tmp_path)
    code, output, errors = python(tmp_path, WITHOUT_CYTHON + COMPILE, *MODULES)
    assert (code, output) == (0, "")
    (line,) = errors.splitlines()
    assert line.endswith("slower: Cython is not installed")
    assert runs(tmp_path) == ["py", "py", "py"]


@needs_compiler
def test_where_nothing_can_be_compiled_any_more_no_outdated_module_is_left(project: Path) -> None:
    edit(project / "toy/alone.py")
    code, _, errors = python(project, COMPILE, *MODULES, CC="/bin/false")
    assert (code, len(errors.splitlines())) == (0, 1)
    assert runs(project) == ["py", "py", "py"]


@needs_compiler
def test_where_nothing_has_changed_no_compiler_is_asked_for(project: Path) -> None:
    assert compiles(project, CC="/bin/false") == []
    assert runs(project) == ["so", "so", "so"]


@needs_compiler
@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("toy/alone.pxd", "cpdef int two(nonsense)\n", "toy/alone.pxd:2:"),
        ("toy/alone.py", "def broken(:\n", "toy/alone.py:3:"),
    ],
)
def test_a_module_that_cannot_be_compiled_is_an_error_that_names_the_line(
    project: Path, file: str, text: str, told: str
) -> None:
    edit(project / file, text)
    code, _, errors = python(project, COMPILE, *MODULES)
    assert code == 1
    assert told in errors
    assert errors.splitlines()[-1].startswith("error: cannot compile: ")
    assert "Traceback" not in errors
