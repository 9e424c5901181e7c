"""Find and load the SWA allocator class of the SGLang that Python would import.

The class moved twice (mem_cache/allocator.py, mem_cache/swa_memory_pool.py, mem_cache/allocator/
swa.py), so the file is found by its text. A plain import is tried first; where a dependency is
missing, the same files are loaded with stand-ins (see `swasim.allocator.standins`).
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from swasim.allocator import cpu_kernels
from swasim.allocator.standins import Absences, standing_in
from swasim.errors import UsageError

CLASS = "SWATokenToKVPoolAllocator"

_REAL = (
    "sglang.srt.mem_cache",
    "sglang.srt.utils",
    "sglang.srt.environ",
    "sglang.srt.platforms",
    "sglang.srt.plugins",
    "sglang.kernels",
)
"""What an allocator is made of. Everything else of SGLang is left out when a dependency is
missing; using it is an error, so that nothing is silently different."""

_NEEDED = ("sglang.srt.utils", "sglang.srt.utils.common")


@dataclass(frozen=True)
class Loaded:
    """A class that was loaded from SGLang.

    Attributes:
        value: the class, unmodified.
        module: dotted name of the module that holds it.
        version: release of the SGLang it came from, or "" where that is not known.
        absences: what had to be left out; None after a plain import.
    """

    value: Any
    module: str
    version: str
    absences: Absences | None


def load(module: str | None = None, name: str = CLASS) -> Loaded:
    """The class `name` of the importable SGLang.

    Args:
        module: dotted module that holds it; None to look for it under `sglang.srt.mem_cache`.

    Raises:
        UsageError: SGLang is not importable, has no such class, or lacks a dependency that
            cannot be stood in for; the message says what to install.
    """
    return _load(module, name)


@cache
def _load(module: str | None, name: str) -> Loaded:
    root = package_folder()
    module = module or find_module(root, name)
    first: BaseException | None = None
    if "sglang" not in sys.modules:
        _forget(set())  # what an import that failed before left behind
    before = set(sys.modules)
    try:
        return _loaded(importlib.import_module(module), name, root, None)
    except (Exception, SystemExit) as error:
        first = error
        _forget(before)
    try:
        with standing_in("sglang", _REAL, (*_NEEDED, module), cpu_kernels.CONSTANTS) as absences:
            found = importlib.import_module(module)
        return _loaded(found, name, root, absences)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        _forget(before)
        raise UsageError(_cannot_load(module, first, error)) from error


def _loaded(module: Any, name: str, root: Path, absences: Absences | None) -> Loaded:
    value = getattr(module, name, None)
    if not callable(value):
        raise UsageError(f"{module.__name__} has no {name}")
    return Loaded(value, module.__name__, release(root), absences)


def _forget(before: set[str]) -> None:
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "sglang":
            del sys.modules[name]


def _cannot_load(module: str, first: BaseException, second: BaseException) -> str:
    missing = next(
        (e.name for e in (second, first) if isinstance(e, ModuleNotFoundError) and e.name), None
    )
    cure = "install sglang with its dependencies"
    if missing and missing.partition(".")[0] == "sglang":
        cure = f"the {release_text()} that Python imports has no {missing}"
    elif isinstance(second, SyntaxError):
        cure = "correct that file"
    elif missing:
        cure = f"pip install {missing.partition('.')[0]}"
    return (
        f"cannot load {module}: {type(second).__name__}: {_one_line(second)} "
        f"(a plain import gave {type(first).__name__}: {_one_line(first)}); {cure}"
    )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def package_folder() -> Path:
    """Folder of the `sglang` package that Python would import; nothing is imported.

    Raises:
        UsageError: there is none.
    """
    loaded = sys.modules.get("sglang")
    spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec("sglang")
    where = list(spec.submodule_search_locations or ()) if spec is not None else []
    for folder in where:
        if (Path(folder) / "srt" / "mem_cache").is_dir():
            return Path(folder)
    seen = f" ({where[0]} is no SGLang package: it has no srt/mem_cache)" if where else ""
    raise UsageError(
        f"no SGLang to import{seen}: pip install --no-deps sglang, or point at a work tree with "
        "PYTHONPATH=~/sglang/python"
    )


def release_text() -> str:
    """The SGLang that Python would import, by its release or its folder."""
    root = package_folder()
    return f"SGLang {release(root) or f'in {root}'}"


def find_module(root: Path, name: str = CLASS) -> str:
    """Dotted name of the module under `srt/mem_cache` that defines the class `name`.

    Raises:
        UsageError: no file defines it.
    """
    pattern = re.compile(rf"^class {re.escape(name)}\b", re.MULTILINE)
    for path in sorted((root / "srt" / "mem_cache").rglob("*.py")):
        if pattern.search(path.read_text(encoding="utf-8", errors="replace")):
            parts = path.relative_to(root.parent).with_suffix("").parts
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    raise UsageError(
        f"no class {name} under {root / 'srt' / 'mem_cache'}; if it was renamed there, name it: "
        "--allocator sglang.srt.mem_cache.MODULE:CLASS"
    )


def release(root: Path) -> str:
    """Release of the SGLang in `root`: from its metadata beside it, or its version file."""
    for info in root.parent.glob("sglang-*.dist-info"):
        return info.name.removeprefix("sglang-").removesuffix(".dist-info")
    for version_file in (root / "_version.py", root / "version.py"):
        if version_file.is_file():
            found = re.search(r"""version\w*\s*=\s*["']([^"']+)["']""", version_file.read_text())
            if found:
                return found.group(1)
    return ""
