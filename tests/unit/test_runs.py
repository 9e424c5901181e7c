"""Lists to runs and back: what cannot be said by runs is refused, the rest comes back as it was."""

from __future__ import annotations

import random

import msgspec
import pytest

from swasim.call import Call, Effect, Segment
from swasim.runs import DECODE, FREE, FREE_SWA, OPS, Ints, RunCall, RunEffect

BEYOND = 2**63


def allocated() -> Effect:
    return Effect(
        out=[8, 9, 10, 20],
        full_taken=[2],
        swa_taken=[1],
        mapped_slots=[8, 9, 10, 20],
        mapped_from=[0, 0, 0, 0],
        mapped_to=[4, 5, 6, 30],
        full_available=40,
        swa_available=-4,
    )


def released() -> Effect:
    return Effect(
        full_returned=[2, 5],
        swa_returned=[1],
        mapped_slots=[8, 9, 20],
        mapped_from=[4, 5, 6],
        mapped_to=[0, 0, 0],
    )


@pytest.mark.parametrize(("effect", "grows"), [(allocated(), True), (released(), False)])
def test_an_effect_comes_back_as_it_was(effect: Effect, grows: bool) -> None:
    runs = RunEffect()
    runs.slots.load([1, 2, 3])
    assert runs.read(effect, allocated=grows)
    assert runs.to_effect(allocated=grows) == effect
    assert not runs.read(effect, allocated=not grows)


def test_random_entries_come_back_as_they_were() -> None:
    rng, runs = random.Random(1), RunEffect()
    for _ in range(200):
        slots = [rng.randrange(12) for _ in range(rng.randrange(12))]
        peers = [slot + rng.choice([1, 1, 7]) for slot in slots]
        effect = Effect(mapped_slots=slots, mapped_from=peers, mapped_to=[0] * len(slots))
        assert runs.read(effect, allocated=False)
        assert runs.to_effect(allocated=False) == effect
        assert runs.lengths.count <= len(slots)


def test_entries_that_go_on_on_both_sides_are_one_run() -> None:
    runs = RunEffect()
    assert runs.read(allocated(), allocated=True)
    assert (runs.slots.tolist(), runs.peers.tolist()) == ([8, 20], [4, 30])
    assert runs.lengths.tolist() == [3, 1]


@pytest.mark.parametrize(
    ("effect", "changes"),
    [
        (allocated(), {"out": None}),
        (allocated(), {"out": [8, 9, 10, 21]}),
        (allocated(), {"raised": "IndexError"}),
        (allocated(), {"mapped_from": [0, 0, 3, 0]}),
        (allocated(), {"mapped_to": [4, 5, 6]}),
        (allocated(), {"mapped_to": [4, 5, 6, BEYOND]}),
        (allocated(), {"full_taken": [BEYOND]}),
        (allocated(), {"swa_available": BEYOND}),
        (released(), {"out": []}),
        (released(), {"raised": "AssertionError"}),
        (released(), {"mapped_to": [0, 0, 7]}),
        (released(), {"mapped_from": [4, 5, 6, 7]}),
    ],
)
def test_what_runs_cannot_say_is_refused(effect: Effect, changes: dict[str, object]) -> None:
    assert not RunEffect().read(
        msgspec.structs.replace(effect, **changes), allocated=effect.out is not None
    )


@pytest.mark.parametrize(
    "call",
    [
        Call(op="free_segment", indices=[4]),
        Call(op="free_segments", segments=[Segment([4], 0)]),
        Call(op="alloc_extend_swa_tail", seq_lens=[4], prefix_lens=[0], last_loc=[-1]),
        Call(op="free", pool="swa", indices=[4]),
        Call(op="alloc", pool="full", need_size=4),
        Call(op="alloc", need_size=BEYOND),
        Call(op="free", indices=[4, -BEYOND - 1]),
        Call(op="alloc_decode", seq_lens=[4], last_loc=[BEYOND]),
        Call(op="clear"),
    ],
)
def test_a_call_that_runs_cannot_say_is_refused(call: Call) -> None:
    assert not RunCall().read(call)


def test_a_call_is_taken_over() -> None:
    runs = RunCall()
    assert runs.read(Call(op="alloc_decode", seq_lens=[5, 9], last_loc=[3, -1]))
    assert (runs.op, runs.seq_lens.tolist(), runs.last_loc.tolist()) == (DECODE, [5, 9], [3, -1])
    assert runs.prefix_lens.count == 0
    assert runs.read(Call(op="free_swa", indices=[4, 5, 6, 9, 8, 9]))
    assert (runs.op, runs.slots) == (FREE_SWA, 6)
    assert (runs.starts.tolist(), runs.lengths.tolist()) == ([4, 9, 8], [3, 1, 2])
    assert runs.read(Call(op="free"))
    assert (runs.op, runs.slots, runs.starts.count) == (FREE, 0, 0)
    assert OPS[FREE] == "free"


def test_a_list_grows_and_keeps_what_it_holds() -> None:
    ints = Ints()
    for value in range(200):
        ints.push(-value)
    assert ints.tolist() == [-value for value in range(200)]
    ints.load([7] * 300)
    assert ints.tolist() == [7] * 300
