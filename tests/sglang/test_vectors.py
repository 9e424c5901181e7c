"""The golden vectors, on the real allocator and on the built-in profile at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from swasim.allocator import installed
from swasim.call import Call
from swasim.config import SimConfig
from swasim.trace.events import expand
from tests.sglang.side_by_side import (
    NUMBERS,
    RELEASE,
    calls_of,
    config_of,
    core,
    real,
    torch_engine,
    unmet,
    vectors,
)
from tests.support.random_calls import Answer, answer

PATHS = vectors()


def test_the_release_under_test_is_the_one_that_was_asked_for() -> None:
    assert installed.load().version == RELEASE


def test_there_are_vectors_for_this_release() -> None:
    assert PATHS


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name.removesuffix(".jsonl.zst"))
def test_real_allocator_and_both_engines_answer_as_the_vector_says(path: Path) -> None:
    config = config_of(path)
    engines = {"real": real(config), "core": core(config), "torch": torch_engine(config)}
    for line, call, expect, out in calls_of(path):
        answers = {name: answer(engine, call) for name, engine in engines.items()}
        told = answers["real"]
        where = f"{path.name}:{line} {call.op}"
        if isinstance(out, list | None):
            assert told.out == (None if out is None else expand(out)), where
        if expect is not None:
            assert not unmet(expect, told), where
        assert not told.differences(answers["core"]), f"{where}: real / core"
        assert not told.differences(answers["torch"]), f"{where}: real / torch"


SEED = (
    Call(op="alloc_extend", prefix_lens=[0], seq_lens=[4], last_loc=[-1]),
    Call(op="free_swa", indices=[4]),
    Call(op="free_swa", indices=[5]),
    Call(op="free", indices=[4, 5, 6, 7]),
)


@pytest.mark.skipif(NUMBERS < (0, 5, 8), reason="no pages in SWA pools before 0.5.8")
def test_fault_of_pr_27779_shows_up_to_0_5_13_and_not_from_0_5_14_on() -> None:
    allocator = real(SimConfig(page_size=4, kv_size=16, kv_size_swa=16))
    answers: list[Answer] = [answer(allocator, call) for call in SEED]
    swa_available = [told.available[1] for told in answers]
    if NUMBERS <= (0, 5, 13):
        assert swa_available == [12, 16, 20, 24]
        assert answers[-1].raised == "AssertionError"
    else:
        assert swa_available == [12, 16, 16, 16]
        assert answers[-1].raised is None
