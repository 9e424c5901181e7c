"""swasim: the memory debugger for paged full/SWA KV caches.

    import swasim

    result = swasim.replay("trace.jsonl", allocator="fixed")
    for finding in result.findings:
        print(finding.kind, finding.headline)

The functions are loaded when they are first used, so that `import swasim` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swasim.lockstep import compare as compare
    from swasim.recorder import record as record
    from swasim.run import replay as replay

__version__ = "0.1.0"

__all__ = ["__version__", "compare", "record", "replay"]

_HOMES = {
    "compare": "swasim.lockstep",
    "record": "swasim.recorder",
    "replay": "swasim.run",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'swasim' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
