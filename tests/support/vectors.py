"""The traces under tests/data that real SGLang allocators answered, by name."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from swasim.trace.reader import open_trace

DATA = Path(__file__).resolve().parents[1] / "data"

BENCH = DATA / "bench" / "decode64.jsonl.gz"
"""20,000 decode-heavy calls, raw slots, 64-token pages."""

BENCH_EXPECT = DATA / "bench" / "decode64.expect.json"
"""The state in which they end: availability and SHA-256 of lists and mapping."""


class Vector(NamedTuple):
    """One recorded trace; `name` is its file name without suffixes."""

    name: str
    path: Path

    @property
    def release(self) -> str:
        """The SGLang release that answered, such as "0.5.12"; from the header's `source`."""
        with open_trace(self.path) as trace:
            assert trace.header is not None
            assert trace.header.source is not None
            return trace.header.source.removeprefix("sglang ")

    @property
    def release_in_name(self) -> str:
        """The same, from the file name; cheap enough for collecting tests."""
        return self.name.split("__")[0]


def golden_vectors() -> list[Vector]:
    """Scenarios with the exact state after every call."""
    return _vectors("golden")


def recorded_radix() -> list[Vector]:
    """Runs of a small scheduler on SGLang's radix caches."""
    return _vectors("recorded/radix")


def recorded_unit() -> list[Vector]:
    """Runs of SGLang's own unit tests."""
    return _vectors("recorded/unit")


def all_vectors() -> list[Vector]:
    """All of the above."""
    return golden_vectors() + recorded_radix() + recorded_unit()


def _vectors(folder: str) -> list[Vector]:
    paths = sorted((DATA / folder).glob("*.jsonl.zst"))
    return [Vector(path.name.removesuffix(".jsonl.zst"), path) for path in paths]
