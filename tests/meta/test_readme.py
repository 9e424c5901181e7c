"""The README is run: its trace, its commands with their output, its Python."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)
CONSOLE = [text for language, text in BLOCKS if language == "console"]
PYTHON = [text for language, text in BLOCKS if language == "python"]
TRACE = next(text for language, text in BLOCKS if language == "jsonl")


def run(command: str, where: Path) -> str:
    """Standard output of one command of the README, 100 columns wide."""
    arguments = shlex.split(command)
    assert arguments[0] == "swasim"
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=where,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.jsonl").write_text(TRACE, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("block", CONSOLE, ids=lambda block: block.splitlines()[0][2:])
def test_command_prints_what_the_readme_shows(block: str, folder: Path) -> None:
    command, _, shown = block.partition("\n")
    assert command.startswith("$ ")
    printed = run(command[2:], folder if "mine.jsonl" in command else ROOT)
    assert [line.rstrip() for line in printed.splitlines()] == [
        line.rstrip() for line in shown.splitlines()
    ]


@pytest.mark.parametrize("code", PYTHON)
def test_python_of_the_readme_runs(
    code: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    exec(compile(code, str(README), "exec"), {})


def test_every_file_that_the_readme_links_exists() -> None:
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []
