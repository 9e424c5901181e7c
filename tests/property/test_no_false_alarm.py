"""A sanitizer that cries wolf is worse than none: careful callers, correct allocators, no error."""

import random

import pytest

from swasim.allocator import registry
from swasim.fuzz.play import play, random_config

CORRECT = {
    # One release of each profile; the ideal allocator; page sizes that the release has.
    "sglang-0.4.10": (1,),
    "sglang-0.5.5": (1,),
    "sglang-0.5.8": (1, 2, 4, 16, 64),
    "sglang-0.5.11": (1, 2, 4, 16, 64),
    "sglang-0.5.12": (1, 2, 4, 16, 64),
    "buggy": (1, 2, 4, 16, 64),
    "fixed": (1, 2, 4, 16, 64),
    "sglang-0.5.17": (1, 2, 4, 16, 64),
    "sglang-0.5.18": (1, 2, 4, 16, 64),
    "sglang-0.5.19": (1, 2, 4, 16, 64),
    "sglang-0.5.23": (1, 2, 4, 16, 64),
    "ideal": (1, 2, 4, 16, 64),
}
CALLS_PER_SEED = 500


def errors_of(allocator: str, page_size: int, seed: int) -> list[str]:
    config = random_config(random.Random(seed), allocator, page_size)
    played = play(config, registry.profile(allocator), seed, CALLS_PER_SEED)
    return [f"seed {seed}, event {f.at.event}: {f.kind}, {f.headline}" for f in played.errors]


@pytest.mark.parametrize("allocator", CORRECT)
def test_careful_callers_get_no_error_in_a_tenth_of_the_calls(allocator: str) -> None:
    pages = CORRECT[allocator]
    for seed in range(100_000 // CALLS_PER_SEED):
        assert errors_of(allocator, pages[seed % len(pages)], seed) == []


@pytest.mark.slow
@pytest.mark.parametrize("allocator", CORRECT)
def test_careful_callers_get_no_error_in_a_million_calls(allocator: str) -> None:
    pages = CORRECT[allocator]
    for seed in range(1_000_000 // CALLS_PER_SEED):
        assert errors_of(allocator, pages[seed % len(pages)], 10_000 + seed) == []
