"""What must answer at once does not load torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from swasim import bundled

ROOT = Path(__file__).resolve().parents[2]

PROBE = """
import runpy, sys
sys.argv = ["swasim", *sys.argv[1:]]
code = 0
try:
    runpy.run_module("swasim", run_name="__main__")
except SystemExit as exit:
    code = exit.code or 0
print("torch" in sys.modules, code, file=sys.stderr)
"""


def run(code: str, *arguments: str) -> str:
    """The last line of standard error."""
    finished = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return finished.stderr.strip().splitlines()[-1]


def test_importing_swasim_does_not_load_torch() -> None:
    code = "import sys, swasim; print('torch' in sys.modules, file=sys.stderr)"
    assert run(code) == "False"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("allocators",),
        ("explain",),
        ("explain", "double-free"),
        ("validate", str(bundled.config_path("pr27779"))),
        ("validate", "traces/pr27779.jsonl"),
        ("replay", "traces/pr27779.jsonl", "--allocator", "fixed"),
        ("compare", "--buggy", "--fixed"),
        ("inspect", "traces/pr27779.jsonl", "--at", "2"),
    ],
    ids=" ".join,
)
def test_a_command_that_needs_no_torch_does_not_load_it(arguments: tuple[str, ...]) -> None:
    assert run(PROBE, *arguments) == "False 0"


def test_help_loads_nothing_that_a_replay_needs() -> None:
    heavy = ("yaml", "msgspec", "zstandard", "swasim.replayer", "swasim.config")
    probe = PROBE.replace('"torch" in sys.modules', f"[m for m in {heavy} if m in sys.modules]")
    assert run(probe, "--help") == "[] 0"
