"""What a built wheel carries, and that it works without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from swasim import __version__, bundled

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_carries_every_bundled_trace_and_config(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    traces = {f"traces/{p.relative_to(ROOT / 'traces')}" for p in (ROOT / "traces").rglob("*.*")}
    configs = {f"configs/{path.name}" for path in (ROOT / "configs").iterdir()}
    assert {f"swasim/_bundled/{name}" for name in traces | configs} <= names
    assert f"swasim-{__version__}.dist-info/licenses/LICENSE" in names
    assert not [name for name in names if name.startswith(("tests/", "docs/", "traces/"))]


def test_the_wheel_finds_its_bundled_files_without_the_checkout(
    wheel: Path, tmp_path: Path
) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = (
        "from swasim import bundled\n"
        "print(*bundled.list_traces(), *bundled.list_configs())\n"
        "print(bundled.trace_path('pr27779'))\n"
    )
    finished = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    names, path = finished.stdout.splitlines()
    assert names.split() == [*bundled.list_traces(), *bundled.list_configs()]
    assert path == str(tmp_path / "swasim" / "_bundled" / "traces" / "pr27779.jsonl")
