"""What a built wheel and a source distribution carry, and that the wheel works by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from hatch_build import CC, MODULES, SUFFIX
from swasim import __version__, bundled

ROOT = Path(__file__).resolve().parents[2]
CARRIED = ("swasim", "traces", "configs")

needs_compiler = pytest.mark.skipif(
    shutil.which(CC) is None, reason=f"there is no C compiler ({CC})"
)


def build(source: Path, target: str, folder: Path, **environment: str) -> tuple[Path, str]:
    """What was built, and what was said meanwhile."""
    finished = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)],
        cwd=source,
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    (built,) = folder.iterdir()
    return built, finished.stderr


def use(installed: Path, code: str) -> list[str]:
    """Lines that `code` prints where `installed` is all there is of swasim."""
    finished = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": str(installed)},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return finished.stdout.splitlines()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))[0]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what wheels are built from, in which nothing was built yet."""
    copy = tmp_path / "checkout"
    for name in CARRIED:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy2(path, copy)
    return copy


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
    names, path = use(
        tmp_path,
        "from swasim import bundled\n"
        "print(*bundled.list_traces(), *bundled.list_configs())\n"
        "print(bundled.trace_path('pr27779'))\n",
    )
    assert names.split() == [*bundled.list_traces(), *bundled.list_configs()]
    assert path == str(tmp_path / "swasim" / "_bundled" / "traces" / "pr27779.jsonl")


@needs_compiler
def test_the_wheel_carries_the_compiled_modules_for_one_platform(
    wheel: Path, tmp_path: Path
) -> None:
    archive = zipfile.ZipFile(wheel)
    compiled = {module.removesuffix(".py") + SUFFIX for module in MODULES}
    assert {name for name in archive.namelist() if name.endswith(".so")} == compiled
    assert {module.removesuffix("py") + "pxd" for module in MODULES} <= set(archive.namelist())
    python, abi, platform = wheel.stem.split("-")[2:]
    assert python == abi == "cp{}{}".format(*sys.version_info)
    assert platform == sysconfig.get_platform().replace("-", "_").replace(".", "_")
    metadata = archive.read(f"swasim-{__version__}.dist-info/WHEEL").decode()
    assert "Root-Is-Purelib: false" in metadata

    archive.extractall(tmp_path)
    assert use(tmp_path, "import swasim.runs; print(swasim.runs.__file__)") == [
        str(tmp_path / "swasim" / f"runs{SUFFIX}")
    ]


def test_where_nothing_can_be_compiled_the_wheel_is_for_every_platform_and_works(
    checkout: Path, tmp_path: Path
) -> None:
    wheel, told = build(checkout, "wheel", tmp_path / "dist", CC="/bin/false")
    assert [line for line in told.splitlines() if "not compiled" in line] == [
        "swasim is not compiled and will be many times slower: /bin/false ends with exit status 1"
    ]
    assert wheel.name == f"swasim-{__version__}-py3-none-any.whl"
    archive = zipfile.ZipFile(wheel)
    assert [name for name in archive.namelist() if name.endswith((".so", ".c"))] == []
    archive.extractall(tmp_path / "installed")
    assert use(
        tmp_path / "installed",
        "import swasim\nfrom swasim import bundled\n"
        "result = swasim.replay(bundled.trace_path('pr27779'), allocator='fixed')\n"
        "print(*(finding.kind for finding in result.findings))\n",
    ) == ["partial-page-free redundant-free"]


def test_the_source_distribution_carries_what_compiling_needs_and_nothing_compiled(
    checkout: Path, tmp_path: Path
) -> None:
    archive, _ = build(checkout, "sdist", tmp_path / "dist")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    types = {module.removesuffix("py") + "pxd" for module in MODULES}
    assert {*MODULES, *types, "hatch_build.py", "pyproject.toml", "swasim/py.typed"} <= names
    assert [name for name in names if name.endswith((".so", ".c"))] == []
