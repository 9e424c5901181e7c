"""Every answer that a real SGLang release gave, given again by the profile of that release.

Held against the trace itself and not against the sanitizer: the same slots in the same order, the
same refusals and exceptions, and after each call the same lists and mapping.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from msgspec import UNSET

from swasim.allocator.base import Allocator
from swasim.allocator.registry import build
from swasim.call import Effect
from swasim.config import SimConfig
from swasim.sanitizer.expectation import mismatches, sha256_of
from swasim.trace import events as ev
from swasim.trace.reader import open_trace
from swasim.trace.resolve import Resolver
from tests.support.vectors import BENCH, BENCH_EXPECT, Vector, all_vectors

VECTORS = all_vectors()

SAMPLE_STEP = 9
"""The torch engine answers every ninth vector in a quick run, all of them in a slow one."""


def replay(vector: Vector, engine: str) -> tuple[int, list[str]]:
    """Number of events, and what first differs: empty where nothing does."""
    with open_trace(vector.path) as trace:
        header = trace.header
        assert header is not None
        config = SimConfig(
            page_size=int(header.page_size or 0),
            kv_size=int(header.kv_size or 0),
            kv_size_swa=int(header.kv_size_swa or 0),
            need_sort=bool(header.need_sort),
            allocator=f"sglang-{vector.release_in_name}",
            engine=engine,
        )
        allocator, resolver, number = build(config), Resolver(), 0
        for number, entry in enumerate(trace, 1):
            resolved = resolver.resolve(entry)
            effect = None if resolved.call is None else allocator.perform(resolved.call)
            resolver.commit(entry, resolved, effect.out if effect else None)
            different = list(differences(entry, effect, allocator, resolver))
            if different:
                return number, [f"line {entry.line} {ev.op_of(entry.event)}", *different]
        return number, []


def differences(
    entry: ev.Entry, effect: Effect | None, allocator: Allocator, resolver: Resolver
) -> Iterator[str]:
    recorded = getattr(entry.event, "out", UNSET)
    if recorded is not UNSET and effect is not None:
        wanted = None if recorded is None else ev.expand(recorded)
        if wanted != effect.out:
            yield f"returned {effect.out}, recorded {wanted}"
    expect = ev.expectation(entry.event)
    if expect is None:
        return
    if effect is not None and effect.raised and expect.raises is UNSET:
        yield f"raised {effect.raised}: {effect.raised_text}"
    available = allocator.state().available(allocator.geometry)
    if effect is not None and (effect.full_available, effect.swa_available) != available:
        yield f"says that {effect.full_available}, {effect.swa_available} are available"
    for mismatch in mismatches(
        expect, effect, available, allocator.state, resolver.slots_of, allocator.geometry
    ):
        yield f"{mismatch.name} is {mismatch.actual}, recorded {mismatch.expected}"


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_core_engine_answers_as_the_release_did(vector: Vector) -> None:
    events, different = replay(vector, "core")
    assert not different
    assert events


@pytest.mark.parametrize("vector", VECTORS[::SAMPLE_STEP], ids=lambda vector: vector.name)
def test_torch_engine_answers_as_the_release_did(vector: Vector) -> None:
    assert replay(vector, "torch")[1] == []


@pytest.mark.slow
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_torch_engine_answers_every_vector_as_the_release_did(vector: Vector) -> None:
    assert replay(vector, "torch")[1] == []


@pytest.mark.parametrize("engine", ["core", pytest.param("torch", marks=pytest.mark.slow)])
def test_a_long_decode_run_ends_in_the_lists_of_the_release(engine: str) -> None:
    wanted = json.loads(BENCH_EXPECT.read_text())
    bench = Vector("0.5.14__bench", BENCH)
    with open_trace(bench.path) as trace:
        assert trace.header is not None
        config = SimConfig(
            page_size=64,
            kv_size=262144,
            kv_size_swa=65536,
            allocator="sglang-0.5.14",
            engine=engine,
        )
        allocator, resolver, effect = build(config), Resolver(), Effect()
        for entry in trace:
            resolved = resolver.resolve(entry)
            assert resolved.call is not None
            effect = allocator.perform(resolved.call)
            resolver.commit(entry, resolved, effect.out)
    state = allocator.state()
    assert (effect.full_available, effect.swa_available) == (161664, 28736)
    assert sha256_of(state.full_free) == wanted["full_free_sha256"]
    assert sha256_of(state.swa_free) == wanted["swa_free_sha256"]
    assert sha256_of(state.mapping) == wanted["mapping_sha256"]
