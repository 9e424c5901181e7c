"""A sanitizer that cries wolf is worse than none: careful callers, correct allocators, no error."""

import os
import random

import pytest

from swasim.allocator import registry
from swasim.fuzz.play import contract_of, play, random_config

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
CALLS = 100_000 if os.environ.get("CI") else 20_000
"""Of each allocator, in the fast run: about a second and a quarter for each 20,000."""


def errors_of(allocator: str, page_size: int, seed: int, callers: str = "careful") -> list[str]:
    config = random_config(random.Random(seed), allocator, {"page_size": page_size})
    contract = contract_of(registry.profile(allocator))
    played = play(config, contract, seed, CALLS_PER_SEED, callers=callers)
    return [f"seed {seed}, event {f.at.event}: {f.kind}, {f.headline}" for f in played.errors]


@pytest.mark.parametrize("allocator", CORRECT)
def test_careful_callers_get_no_error(allocator: str) -> None:
    pages = CORRECT[allocator]
    for seed in range(CALLS // CALLS_PER_SEED):
        assert errors_of(allocator, pages[seed % len(pages)], seed) == []


def test_sloppy_callers_get_no_error_from_the_ideal_allocator() -> None:
    pages = CORRECT["ideal"]
    for seed in range(CALLS // CALLS_PER_SEED):
        assert errors_of("ideal", pages[seed % len(pages)], seed, "sloppy") == []


@pytest.mark.slow
@pytest.mark.parametrize("allocator", CORRECT)
def test_careful_callers_get_no_error_in_a_million_calls(allocator: str) -> None:
    pages = CORRECT[allocator]
    for seed in range(1_000_000 // CALLS_PER_SEED):
        assert errors_of(allocator, pages[seed % len(pages)], 10_000 + seed) == []


@pytest.mark.slow
def test_sloppy_callers_get_no_error_from_the_ideal_allocator_in_a_million_calls() -> None:
    pages = CORRECT["ideal"]
    for seed in range(1_000_000 // CALLS_PER_SEED):
        assert errors_of("ideal", pages[seed % len(pages)], 10_000 + seed, "sloppy") == []
