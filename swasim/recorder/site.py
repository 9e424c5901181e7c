"""Where a call came from: the nearest frame outside the allocator."""

from __future__ import annotations

import importlib.metadata
import sys
from types import CodeType, FrameType
from typing import Any


class Sites:
    """Names of calling places, remembered per line of code.

    Args:
        inside: objects whose methods do not count as callers (the allocator and its pools).
    """

    def __init__(self, *inside: Any) -> None:
        self._names: dict[tuple[CodeType, int], str] = {}
        self._inside = {
            code
            for item in inside
            for cls in type(item).__mro__
            for function in vars(cls).values()
            if (code := getattr(function, "__code__", None)) is not None
        }

    def caller(self, depth: int) -> str:
        """`module.function:line` of the frame `depth` calls up, or the first one outside."""
        frame: FrameType | None = sys._getframe(depth + 1)
        while frame is not None and frame.f_code in self._inside:
            frame = frame.f_back
        if frame is None:
            return ""
        key = frame.f_code, frame.f_lineno
        name = self._names.get(key)
        if name is None:
            module = frame.f_globals.get("__name__", "?")
            name = self._names[key] = f"{module}.{key[0].co_qualname}:{key[1]}"
        return name


def source_of(cls: type) -> str:
    """Where the allocator comes from: "sglang 0.5.23", or the class."""
    package = cls.__module__.partition(".")[0]
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{cls.__module__}:{cls.__qualname__}"
