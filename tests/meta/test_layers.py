"""Walks the imports: a room may import lower rooms and itself, and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "swasim"

RANKS = {
    "errors": 0,
    "compiled": 0,
    "geometry": 0,
    "wording": 0,
    "call": 1,
    "runs": 2,
    "config": 2,
    "bundled": 2,
    "trace": 2,
    "finds": 3,
    "plain": 3,
    "allocator": 3,
    "sanitizer": 3,
    "triage": 3,
    "timeline": 4,
    "lane": 4,
    "ahead": 4,
    "replayer": 5,
    "collect": 6,
    "run": 7,
    "lockstep": 8,
    "inspect": 8,
    "recorder": 8,
    "minimize": 8,
    "explore": 9,
    "fuzz": 9,
    "reporters": 10,
    "commands": 11,
    "pytest_plugin": 11,
    "__main__": 12,
}
"""Room to rank. A new room needs a line here: say where it stands."""

ONLY_IN = {
    "torch": {"allocator", "recorder"},
    "sglang": {"allocator", "recorder"},
    "typer": {"commands"},
    "click": {"commands"},
    "rich": {"reporters", "commands"},
    "yaml": {"config"},
}
"""Outside package to the rooms that may import it."""

LATE_IMPORTS = {"__main__", "commands", "allocator", "recorder", "pytest_plugin"}
"""Rooms that may import inside a function, so that torch is loaded only when it is needed; and the
entry point, which takes charge of Ctrl-C before anything is loaded."""

PRIVATE = ("/wo" + "rk/", "/tmp/" + "sgl", "/ro" + "ot/", "/ho" + "me/")
TEXT_SUFFIXES = {".py", ".md", ".toml", ".yaml", ".yml", ".txt", ".cfg", ".sh", ".jsonl", ""}
SOURCES = ("swasim", "tests", "docs", "configs", "traces", ".ci")


class Import(NamedTuple):
    where: str
    room: str
    target: str
    in_function: bool


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports() -> Iterator[Import]:
    for path in sorted(PACKAGE.rglob("*.py")):
        room = room_of(path)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        late = {
            id(node)
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in ast.walk(function)
        }
        for node in ast.walk(tree):
            where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            for target in targets_of(node):
                yield Import(where, room, target, id(node) in late)


def targets_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    if node.level:
        return ["."]
    if node.module == "swasim":
        # `from swasim import bundled` names a room; `from swasim import __version__` does not.
        return [f"swasim.{alias.name}" for alias in node.names if alias.name in RANKS]
    return [node.module or ""]


ALL = list(imports())


def test_every_room_has_a_rank() -> None:
    rooms = {room_of(path) for path in PACKAGE.rglob("*.py")} - {"__init__"}
    assert rooms - set(RANKS) == set()


def test_no_room_imports_upwards_or_sideways() -> None:
    wrong = []
    for found in ALL:
        parts = found.target.split(".")
        if parts[0] != "swasim" or found.room == "__init__" or len(parts) == 1:
            continue
        target = parts[1]
        if target != found.room and RANKS[target] >= RANKS[found.room]:
            wrong.append(f"{found.where}: {found.room} imports {found.target}")
    assert wrong == []


def test_imports_are_absolute() -> None:
    assert [found.where for found in ALL if found.target == "."] == []


@pytest.mark.parametrize("outside", ONLY_IN)
def test_an_outside_package_stays_in_its_rooms(outside: str) -> None:
    wrong = [
        found.where
        for found in ALL
        if found.target.split(".")[0] == outside and found.room not in ONLY_IN[outside]
    ]
    assert wrong == []


def test_imports_stand_at_the_top_except_where_torch_is_loaded_late() -> None:
    assert [
        found.where for found in ALL if found.in_function and found.room not in LATE_IMPORTS
    ] == []


def test_truth_and_allocator_are_independent_witnesses() -> None:
    wrong = [
        found.where
        for found in ALL
        if {found.room, found.target.split(".")[1:2][0] if "." in found.target else ""}
        == {"allocator", "sanitizer"}
    ]
    assert wrong == []


def test_no_path_of_one_persons_machine_is_written_down() -> None:
    wrong = []
    files = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in SOURCES:
        files += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    for path in files:
        if path.suffix not in TEXT_SUFFIXES or "__pycache__" in path.parts:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        wrong += [f"{path.relative_to(ROOT)}: {piece}" for piece in PRIVATE if piece in text]
    assert wrong == []
