"""YAML to one frozen, checked `SimConfig`."""

from __future__ import annotations

from dataclasses import dataclass

from swasim.geometry import Geometry


@dataclass(frozen=True, slots=True)
class SimConfig:
    """Everything that decides a replay besides the trace.

    Attributes:
        page_size: tokens per page.
        kv_size, kv_size_swa: tokens in each pool, whole pages.
        sliding_window_size: tokens; None means that no window is checked.
        window_includes_self: whether the window counts the token that attends (model configs:
            yes; SGLang's runtime value, one smaller: no).
        need_sort: freed pages are staged and merged in order when an allocation runs short.
        device: torch device of the torch engine.
        allocator: registry name, or `package.module:Class`.
        engine: "core" (plain integers, CPU) or "torch" (the reference; any device).
    """

    page_size: int = 1
    kv_size: int = 1024
    kv_size_swa: int = 1024
    sliding_window_size: int | None = None
    window_includes_self: bool = True
    need_sort: bool = False
    device: str = "cpu"
    allocator: str = "fixed"
    engine: str = "core"

    @property
    def geometry(self) -> Geometry:
        """Sizes of the pools."""
        return Geometry(self.page_size, self.kv_size, self.kv_size_swa)
