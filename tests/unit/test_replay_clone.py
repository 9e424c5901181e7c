"""A copied replay goes on as the original would, and neither changes the other."""

from __future__ import annotations

import random

import pytest

from swasim.allocator import registry
from swasim.config import SimConfig
from swasim.errors import UsageError
from swasim.fuzz.play import play, random_config
from swasim.replayer import Replayer


@pytest.mark.parametrize("allocator", ["ideal", "buggy", "sglang-0.5.19", "fault:36646"])
@pytest.mark.parametrize("page_size", [1, 4])
def test_copy_and_original_find_and_return_the_same(allocator: str, page_size: int) -> None:
    config = random_config(random.Random(5), allocator, {"page_size": page_size})
    entries = play(config, registry.profile(allocator), 5, 120).entries
    original = Replayer(config)
    copy = original.clone()
    for entry in entries:
        kept = copy.clone()
        assert original.step(entry) == copy.step(entry)
        copy = kept
        copy.step(entry)
    assert original.allocator.state() == copy.allocator.state()
    assert original.finish() == copy.finish()


def test_only_the_core_engine_can_be_copied() -> None:
    replayer = Replayer(SimConfig(engine="torch"))
    with pytest.raises(UsageError, match="engine core only"):
        replayer.clone()
