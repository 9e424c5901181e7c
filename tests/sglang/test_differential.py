"""Random calls, sound and unsound ones, on the real allocator and on each engine."""

from __future__ import annotations

import os

import pytest

from swasim.allocator.base import Allocator
from swasim.config import SimConfig
from tests.sglang.side_by_side import (
    configs,
    core,
    real,
    torch_engine,
)
from tests.support.random_calls import RandomCalls, first_difference, shrink

SEEDS = int(os.environ.get("SGLANG_SEEDS", "15"))
CALLS = 60


def name_of(config: SimConfig) -> str:
    staging = "sort" if config.need_sort else "nosort"
    return f"p{config.page_size}-{config.kv_size}-{config.kv_size_swa}-{staging}"


@pytest.mark.parametrize("engine", [core, torch_engine], ids=["core", "torch"])
@pytest.mark.parametrize("config", configs(), ids=name_of)
def test_engine_answers_every_call_as_the_real_allocator_does(
    config: SimConfig, engine: object
) -> None:
    assert callable(engine)

    def ours() -> Allocator:
        return engine(config)

    def theirs() -> Allocator:
        return real(config)

    for seed in range(SEEDS):
        calls, text = RandomCalls(seed, config).run(theirs, ours, CALLS)
        if text:
            short = shrink(theirs, ours, calls)
            found = first_difference(theirs, ours, short)
            listing = "\n".join(str(call) for call in short)
            pytest.fail(f"seed {seed}, real / engine:\n{listing}\n{found and found[1]}")
