"""Has the modules of swasim run as they stand, also where they are compiled.

A plugin of pytest, for `python -m pytest -p tests.support.as_they_stand`: it comes before anything
of swasim is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


class Sources:
    """Finds modules of swasim by their sources only."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module, where it is one of swasim's and no package."""
        source = ROOT / f"{name.replace('.', '/')}.py"
        if not name.startswith("swasim.") or not source.exists():
            return None
        return spec_from_file_location(name, source)


sys.meta_path.insert(0, Sources())
