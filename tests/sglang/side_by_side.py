"""One call after another on a real allocator and on swasim's model of it, compared after each."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from swasim.allocator import adapter
from swasim.allocator.base import Allocator
from swasim.allocator.core import CorePair
from swasim.allocator.profile import RELEASES, Profile
from swasim.allocator.tensor import swa
from swasim.call import Call
from swasim.config import SimConfig
from swasim.trace.events import Expect, Header, expand
from swasim.trace.reader import open_trace
from swasim.trace.resolve import Resolver
from tests.support.random_calls import Answer

RELEASE = os.environ.get("SGLANG_RELEASE", "")
VECTORS = Path(__file__).parents[1] / "data" / "golden"

NUMBERS = tuple(int(part) for part in RELEASE.split(".")[:3])
"""The release without its post or candidate suffix, for comparing."""


def profile() -> Profile:
    """The profile of the release under test; the newest for one that is not known yet."""
    return RELEASES.get(RELEASE) or list(RELEASES.values())[-1]


def real(config: SimConfig) -> Allocator:
    return adapter.build("sglang", config)


def core(config: SimConfig) -> Allocator:
    return CorePair("core", profile(), config.geometry, config.need_sort)


def torch_engine(config: SimConfig) -> Allocator:
    return swa.build(profile(), config.geometry, config.need_sort, "cpu", "torch")


def vectors() -> list[Path]:
    """Vectors of this release, or of the release that stands for its profile."""
    own = sorted(VECTORS.glob(f"{RELEASE}__*.jsonl.zst"))
    if own:
        return own
    alike = [name for name, known in RELEASES.items() if known is profile()]
    return sorted(path for name in alike for path in VECTORS.glob(f"{name}__*.jsonl.zst"))


def calls_of(path: Path) -> Iterator[tuple[int, Call, Expect | None, object]]:
    """(line, call, expectation, recorded out) of a trace of raw slots."""
    with open_trace(path) as trace:
        resolver = Resolver()
        for entry in trace:
            resolved = resolver.resolve(entry)
            out = getattr(entry.event, "out", ())
            if resolved.call is not None:
                yield entry.line, resolved.call, entry.event.expect, out
            resolver.commit(entry, resolved, expand(out) if isinstance(out, list) else None)


def config_of(path: Path) -> SimConfig:
    with open_trace(path) as trace:
        header = trace.header
    assert isinstance(header, Header)
    return SimConfig(
        page_size=header.page_size,
        kv_size=header.kv_size,
        kv_size_swa=header.kv_size_swa,
        need_sort=bool(header.need_sort),
    )


def unmet(expect: Expect, got: Answer) -> str:
    """What of a vector's expectation an answer does not meet; "" when all is met."""
    state = got.state
    assert state is not None
    wrong = []
    if (expect.raises or None) != got.raised:
        wrong.append(f"raises {expect.raises}, got {got.raised}")
    if (expect.full_available, expect.swa_available) != got.available:
        wrong.append(f"available {expect.full_available}, {expect.swa_available}: {got.available}")
    for name in ("full_free", "swa_free", "full_staged", "swa_staged"):
        want, have = getattr(expect, name), getattr(state, name)
        digest = getattr(expect, f"{name}_sha256")
        if isinstance(want, list) and expand(want) != have:
            wrong.append(f"{name} {want}: {have}")
        if isinstance(digest, str) and digest != sha256(have):
            wrong.append(f"{name} has another digest")
    if isinstance(expect.mapping_sha256, str) and expect.mapping_sha256 != sha256(state.mapping):
        wrong.append("mapping has another digest")
    if isinstance(expect.mapping, list):
        want_entries = {
            full + n: swa + n for full, swa, length in expect.mapping for n in range(length)
        }
        entries = {slot: to for slot, to in enumerate(state.mapping[:-1]) if to}
        if want_entries != entries:
            wrong.append(f"mapping {want_entries}: {entries}")
    return "; ".join(wrong)


def sha256(values: list[int]) -> str:
    return hashlib.sha256(struct.pack(f"<{len(values)}q", *values)).hexdigest()


def configs() -> list[SimConfig]:
    """Small pools, each pool the short one in turn, both staging modes."""
    sizes = [(1, 12, 8), (1, 8, 12)]
    if profile().paged:
        sizes += [(2, 16, 12), (4, 32, 32), (4, 40, 20)]
    return [
        SimConfig(page_size=page, kv_size=full, kv_size_swa=swa, need_sort=need_sort)
        for page, full, swa in sizes
        for need_sort in (False, True)
    ]
