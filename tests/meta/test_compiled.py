"""The compiled modules are those of the sources at hand, and say what the sources say."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from hatch_build import CC, MODULES, Compilation, compiled_name
from swasim import compiled
from tests.support.vectors import BENCH, golden_vectors, recorded_radix

ROOT = Path(__file__).resolve().parents[2]
COMPILATION = Compilation(ROOT, MODULES)
IS_COMPILED = any(path.exists() for path in COMPILATION.in_place())

needs_compiled = pytest.mark.skipif(not IS_COMPILED, reason="nothing is compiled (`make compile`)")

NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "build", "dist", "*.so", "*.pyd"
)

RUN = """
import json, sys
from swasim.commands.app import run
print(json.dumps([run(arguments) for arguments in json.load(sys.stdin)]))
"""


class Answer(NamedTuple):
    """What one command wrote, and its exit code."""

    command: str
    code: int
    output: bytes


@pytest.fixture(scope="module")
def uncompiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout in which nothing is compiled."""
    copy = tmp_path_factory.mktemp("uncompiled") / "checkout"
    return shutil.copytree(ROOT, copy, ignore=NOT_COPIED)


def environment(root: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}


def test_every_module_with_types_of_c_is_compiled_and_every_other_is_not() -> None:
    found = {path.relative_to(ROOT).as_posix() for path in (ROOT / "swasim").rglob("*.pxd")}
    assert found == {module.removesuffix("py") + "pxd" for module in MODULES}
    assert [module for module in MODULES if not (ROOT / module).is_file()] == []


@needs_compiled
def test_no_compiled_module_is_older_than_its_sources() -> None:
    outdated = COMPILATION.stale(COMPILATION.in_place())
    left_over = [path.relative_to(ROOT).as_posix() for path in COMPILATION.strays()]
    assert (outdated, left_over) == ([], []), (
        "what runs is not what stands in the .py files: run `make compile`, or"
        " `make clean-compiled` to run them as they stand"
    )


@needs_compiled
def test_the_compiled_modules_are_what_is_imported() -> None:
    names = [module.removesuffix(".py").replace("/", ".") for module in MODULES]
    assert [import_module(name).__file__ for name in names] == [
        str(path) for path in COMPILATION.in_place()
    ]
    assert compiled.describe() == "compiled"


def test_tests_that_ran_on_an_outdated_module_say_so(uncompiled: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    outdated = uncompiled / compiled_name(MODULES[0])
    outdated.touch()
    os.utime(outdated, (0, 0))
    told = []
    for _ in range(2):
        finished = subprocess.run(
            [*command, "tests/unit/test_geometry.py"],
            cwd=uncompiled,
            env=environment(uncompiled),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        told.append(f"{MODULES[0]} changed after being compiled" in finished.stdout)
        outdated.unlink(missing_ok=True)
    assert told == [True, False]


@pytest.mark.skipif(
    not os.environ.get("CI") or shutil.which(CC) is None, reason="in CI, where there is a compiler"
)
def test_ci_tests_the_compiled_modules() -> None:
    assert compiled.describe() == "compiled"


@pytest.mark.parametrize(
    ("present", "told"),
    [
        (("lane.so", "truth/book.so"), "compiled"),
        ((), "not compiled"),
        (("lane.so",), "partly compiled, without truth/book"),
        (("lane.cpython-27.so", "truth/book.so"), "partly compiled, without lane"),
    ],
)
def test_what_is_said_of_an_installation(
    present: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    (tmp_path / "truth").mkdir()
    for name in ("lane.pxd", "lane.py", "plain.py", "truth/book.pxd", "truth/book.py", *present):
        (tmp_path / name).touch()
    assert compiled.describe(tmp_path) == told


def version(root: Path) -> str:
    command = [sys.executable, "-P", "-m", "swasim", "--version"]
    return subprocess.check_output(command, env=environment(root), text=True, timeout=60)


def answers(root: Path, commands: list[list[str]], folder: Path) -> Iterator[Answer]:
    """What the swasim under `root` answers, in one process for all commands."""
    folder.mkdir()
    files = [folder / f"{number}.json" for number in range(len(commands))]
    asked = [
        [*command, "--format", "json", "--output", str(file)]
        for command, file in zip(commands, files, strict=True)
    ]
    finished = subprocess.run(
        [sys.executable, "-P", "-c", RUN],
        input=json.dumps(asked),
        cwd=folder,
        env=environment(root),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    codes = json.loads(finished.stdout)
    for command, code, file in zip(commands, codes, files, strict=True):
        yield Answer(" ".join(command), code, file.read_bytes())


def first_lines(count: int, folder: Path) -> Path:
    """The first lines of the benchmark's trace."""
    part = folder / "decode64.jsonl"
    with gzip.open(BENCH, "rt", encoding="utf-8") as whole:
        part.write_text("".join(itertools.islice(whole, count)), encoding="utf-8")
    return part


def replays(decode64: Path) -> list[list[str]]:
    """A few traces of each sort, with every event in the table; and a state in full."""
    golden = [str(vector.path) for vector in golden_vectors()[::25]]
    radix = [str(vector.path) for vector in recorded_radix()[::10]]
    faults = [str(path) for path in sorted((ROOT / "traces/faults").glob("*.jsonl"))]
    kinds = [str(path) for path in sorted((ROOT / "traces/kinds").glob("*.jsonl"))]
    pr27779 = str(ROOT / "traces/pr27779.jsonl")
    commands = [[path] for path in [*golden, *radix, *kinds, str(decode64)]]
    commands += [[path, "--allocator", f"fault:{Path(path).stem}"] for path in faults]
    commands += [[pr27779, "--allocator", name] for name in ("buggy", "fixed", "ideal")]
    return [
        *(["replay", "--tail", "100000", *command] for command in commands),
        ["inspect", pr27779, "--allocator", "buggy", "--at", "3"],
        ["inspect", str(decode64), "--at", "900"],
    ]


@needs_compiled
def test_uncompiled_modules_give_the_same_answers_byte_by_byte(
    uncompiled: Path, tmp_path: Path
) -> None:
    assert "(compiled)" in version(ROOT)
    assert "(not compiled)" in version(uncompiled)
    commands = replays(first_lines(2500, tmp_path))
    here = list(answers(ROOT, commands, tmp_path / "here"))
    there = list(answers(uncompiled, commands, tmp_path / "there"))
    assert {answer.code for answer in here} == {0, 1}
    for mine, other in zip(here, there, strict=True):
        assert mine == other, mine.command


@needs_compiled
@pytest.mark.slow
def test_the_whole_benchmark_ends_alike_on_either_engine(uncompiled: Path, tmp_path: Path) -> None:
    commands = [["replay", str(BENCH), "--engine", engine] for engine in ("core", "torch")]
    here = list(answers(ROOT, commands, tmp_path / "here"))
    assert here == list(answers(uncompiled, commands, tmp_path / "there"))
    assert [answer.code for answer in here] == [0, 0]


@needs_compiled
@pytest.mark.slow
def test_uncompiled_modules_pass_the_tests(uncompiled: Path) -> None:
    tests = ("tests/unit", "tests/property", "tests/golden")
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *tests],
        cwd=uncompiled,
        env=environment(uncompiled),
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout[-4000:]
