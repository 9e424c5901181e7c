"""The traces and configurations that travel with swasim: in a checkout and in an installed wheel.

A wheel carries them in `swasim/_bundled/`; a checkout has them beside the package. Names may be
given with or without their suffix, and with folders: `pr27779`, `kinds/double-free.jsonl`.
"""

from __future__ import annotations

from pathlib import Path

from swasim.errors import UsageError, unknown_name

TRACE_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")
CONFIG_SUFFIXES = (".yaml",)

_PACKAGE = Path(__file__).resolve().parent


def trace_path(name: str) -> Path:
    """Path of a bundled trace.

    Raises:
        UsageError: no such trace; names the nearest and all of them.
    """
    return _find("trace", name, _folder("traces"), TRACE_SUFFIXES)


def config_path(name: str) -> Path:
    """Path of a bundled configuration.

    Raises:
        UsageError: no such configuration; names the nearest and all of them.
    """
    return _find("configuration", name, _folder("configs"), CONFIG_SUFFIXES)


def list_traces() -> tuple[str, ...]:
    """Names of the bundled traces, sorted, without suffix."""
    return tuple(sorted(_named(_folder("traces"), TRACE_SUFFIXES)))


def list_configs() -> tuple[str, ...]:
    """Names of the bundled configurations, sorted, without suffix."""
    return tuple(sorted(_named(_folder("configs"), CONFIG_SUFFIXES)))


def _folder(kind: str) -> Path:
    installed = _PACKAGE / "_bundled" / kind
    return installed if installed.is_dir() else _PACKAGE.parent / kind


def _named(folder: Path, suffixes: tuple[str, ...]) -> dict[str, Path]:
    found = {}
    for path in folder.rglob("*"):
        for suffix in suffixes:
            if path.name.endswith(suffix) and path.is_file():
                found[path.relative_to(folder).as_posix().removesuffix(suffix)] = path
    return found


def _find(what: str, name: str, folder: Path, suffixes: tuple[str, ...]) -> Path:
    known = _named(folder, suffixes)
    for suffix in ("", *suffixes):
        path = known.get(name.removesuffix(suffix))
        if path is not None:
            return path
    raise UsageError(unknown_name(f"bundled {what}", name, sorted(known)))
