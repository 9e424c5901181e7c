"""Whether the modules that can be compiled are: results are the same, but a bug report tells it.

A module that can be compiled has a `.pxd` of its name beside it. Nothing is imported to find out.
"""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def describe(package: Path = PACKAGE) -> str:
    """ "compiled" where a package folder has all its modules compiled for this Python.

    Otherwise "not compiled", or "partly compiled" with the modules that are not: an installation
    that something went wrong with.
    """
    modules = sorted(path.with_suffix("") for path in package.rglob("*.pxd"))
    left_out = [module for module in modules if not _is_compiled(module)]
    if not left_out:
        return "compiled"
    if left_out == modules:
        return "not compiled"
    names = ", ".join(module.relative_to(package).as_posix() for module in left_out)
    return f"partly compiled, without {names}"


def _is_compiled(module: Path) -> bool:
    return any(module.with_name(module.name + suffix).exists() for suffix in EXTENSION_SUFFIXES)
