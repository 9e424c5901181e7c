"""Calls that look right and are not, one for each thing that a recognised call must be.

Some of the effects are made by hand: no engine here answers so, but a foreign allocator may.
"""

from __future__ import annotations

import pytest

from swasim.allocator.core import CorePair
from swasim.allocator.profile import IDEAL
from swasim.call import Call, Effect
from swasim.config import SimConfig
from tests.support.watching import Twins

SIZE = 4
CONFIG = SimConfig(page_size=SIZE, kv_size=64, kv_size_swa=48)


class Scene:
    """A pair and two sanitizers that watch it."""

    def __init__(self) -> None:
        self.pair = CorePair("ideal", IDEAL, CONFIG.geometry, need_sort=False)
        self.twins = Twins(CONFIG)

    def call(self, op: str, **fields: object) -> list[int]:
        """Have the pair answer a call; slots that it returned."""
        call = Call(op=op, **fields)  # type: ignore[arg-type]
        effect = self.pair.perform(call)
        self.twins.show(call, effect)
        return effect.out or []

    def extend(self, tokens: int) -> list[int]:
        """A new request."""
        return self.call("alloc_extend", prefix_lens=[0], seq_lens=[tokens], last_loc=[-1])

    def kinds(self, call: Call, effect: Effect) -> list[str]:
        """Show a call that must not be recognised; kinds of what is found."""
        before = len(self.twins.recognised)
        effect.full_available = (
            effect.full_available or self.pair.full_attn_allocator.available_size()
        )
        effect.swa_available = effect.swa_available or self.pair.swa_attn_allocator.available_size()
        found = self.twins.show(call, effect)
        assert len(self.twins.recognised) == before
        self.twins.agree()
        return [finding.kind for finding in found]


def test_an_allocation_of_part_of_a_page() -> None:
    scene = Scene()
    slots = list(range(4, 10))
    effect = Effect(
        out=slots,
        full_taken=[1, 2],
        swa_taken=[1, 2],
        mapped_slots=slots,
        mapped_from=[0] * 6,
        mapped_to=slots,
        full_available=56,
        swa_available=40,
    )
    assert scene.kinds(Call(op="alloc", need_size=6), effect) == ["misaligned"]


def test_a_request_that_does_not_grow_and_names_a_slot_outside() -> None:
    call = Call(op="alloc_extend", prefix_lens=[4], seq_lens=[4], last_loc=[83])
    assert Scene().kinds(call, Effect(out=[])) == ["index-out-of-range"]


def test_a_request_that_grows_from_the_end_of_a_page_that_is_gone() -> None:
    for op in ("alloc_extend", "alloc_decode"):
        scene = Scene()
        slots = scene.extend(4)
        scene.call("free", indices=slots)
        prefix_lens = [4] if op == "alloc_extend" else []
        call = Call(op=op, prefix_lens=prefix_lens, seq_lens=[5], last_loc=[slots[-1]])
        assert scene.kinds(call, scene.pair.perform(call)) == ["use-after-free"]


@pytest.mark.parametrize("op", ["alloc_extend", "alloc_decode"])
def test_two_requests_that_grow_into_one_page(op: str) -> None:
    scene = Scene()
    slots = scene.extend(6)
    twice = [slots[-1] + 1] * 2
    call = Call(
        op=op,
        prefix_lens=[6, 6] if op == "alloc_extend" else [],
        seq_lens=[7, 7],
        last_loc=[slots[-1]] * 2,
    )
    effect = Effect(out=twice, mapped_slots=twice, mapped_from=[0, 0], mapped_to=twice)
    assert scene.kinds(call, effect) == []


@pytest.mark.parametrize("op", ["alloc_extend", "alloc_decode"])
def test_a_request_that_grows_beside_an_swa_page_that_nobody_owns(op: str) -> None:
    scene = Scene()
    slots = scene.extend(6)
    scene.call("set_full_to_swa_mapping", full=slots[-1:], swa=[9 * SIZE + 1])
    prefix_lens = [6] if op == "alloc_extend" else []
    call = Call(op=op, prefix_lens=prefix_lens, seq_lens=[7], last_loc=slots[-1:])
    assert scene.kinds(call, scene.pair.perform(call)) == ["use-after-free"]


@pytest.mark.parametrize("op", ["alloc_extend", "alloc_decode"])
def test_a_request_whose_peers_have_another_offset(op: str) -> None:
    scene = Scene()
    slots = scene.call(
        "alloc_extend_swa_tail", prefix_lens=[0], seq_lens=[6], last_loc=[-1], swa_tail_len=3
    )
    other = scene.extend(4)
    for length in (7, 8):
        prefix_lens = [length - 1] if op == "alloc_extend" else []
        call = Call(op=op, prefix_lens=prefix_lens, seq_lens=[length], last_loc=slots[-1:])
        effect = scene.pair.perform(call)
        recognised = len(scene.twins.recognised)
        scene.twins.show(call, effect)
        assert len(scene.twins.recognised) == recognised
        slots += effect.out or []
    scene.call("free", indices=other)
    scene.twins.agree()


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("op", ["alloc_extend", "alloc_decode"])
def test_a_page_on_which_an_entry_stands_already(op: str, at: int) -> None:
    scene = Scene()
    slots = scene.extend(4)
    scene.call("set_full_to_swa_mapping", full=[2 * SIZE + at], swa=slots[-1:])
    growth = 1 if op == "alloc_decode" else 3
    prefix_lens = [4] if op == "alloc_extend" else []
    call = Call(op=op, prefix_lens=prefix_lens, seq_lens=[4 + growth], last_loc=slots[-1:])
    effect = scene.pair.perform(call)
    recognised = len(scene.twins.recognised)
    scene.twins.show(call, effect)
    assert len(scene.twins.recognised) - recognised == (growth == 1 and at == 1)
    scene.twins.agree()


@pytest.mark.parametrize("pool", ["full", "swa"])
def test_a_page_that_is_taken_twice(pool: str) -> None:
    first, second = list(range(4, 8)), list(range(8, 12))
    out = first + (first if pool == "full" else second)
    peers = first + (second if pool == "full" else first)
    effect = Effect(
        out=out,
        full_taken=[1, 1] if pool == "full" else [1, 2],
        swa_taken=[1, 2] if pool == "full" else [1, 1],
        mapped_slots=out,
        mapped_from=[0] * 8,
        mapped_to=peers,
        full_available=56,
        swa_available=40,
    )
    call = Call(op="alloc_extend", prefix_lens=[0, 0], seq_lens=[4, 4], last_loc=[-1, -1])
    assert "page-aliased" in Scene().kinds(call, effect)


@pytest.mark.parametrize("op", ["alloc_extend", "alloc_decode", "free", "free_swa"])
def test_a_page_whose_release_waits_though_its_group_is_over(op: str) -> None:
    """The end of the group raised: nobody knows what became of what it had queued."""
    scene = Scene()
    slots = scene.extend(4)
    scene.call("free_group_begin")
    scene.call("free", indices=slots)
    failed = Effect(raised="RuntimeError", full_available=60, swa_available=44)
    scene.twins.show(Call(op="free_group_end"), failed)
    if op == "free" or op == "free_swa":
        call = Call(op=op, indices=slots)
        effect = Effect(
            full_returned=[1] if op == "free" else [],
            swa_returned=[1],
            mapped_slots=slots,
            mapped_from=slots,
            mapped_to=[0] * 4,
            full_available=64 if op == "free" else 60,
            swa_available=48,
        )
    else:
        prefix_lens = [4] if op == "alloc_extend" else []
        call = Call(op=op, prefix_lens=prefix_lens, seq_lens=[5], last_loc=slots[-1:])
        effect = Effect(
            out=[8],
            full_taken=[2],
            swa_taken=[2],
            mapped_slots=[8],
            mapped_from=[0],
            mapped_to=[8],
            full_available=56,
            swa_available=40,
        )
    scene.kinds(call, effect)


def test_a_page_that_goes_with_an_entry_behind_its_tokens() -> None:
    """The entry is the only way to an SWA page: whose it is, nobody can say any more."""
    scene = Scene()
    slots = scene.extend(2)
    apart = scene.call("alloc", pool="swa", need_size=SIZE)
    scene.call("set_full_to_swa_mapping", full=[slots[0] + 3], swa=apart[3:])
    effect = Effect(
        full_returned=[1],
        swa_returned=[1],
        mapped_slots=slots,
        mapped_from=slots,
        mapped_to=[0, 0],
        full_available=64,
        swa_available=44,
    )
    before = len(scene.twins.recognised)
    scene.twins.show(Call(op="free", indices=slots), effect)
    assert len(scene.twins.recognised) == before
    assert (
        scene.twins.quick.suspected == scene.twins.slow.suspected == [("swa", 2, "orphaned-page")]
    )
    scene.twins.agree()


def test_an_swa_page_that_comes_back_and_that_nobody_owned() -> None:
    scene = Scene()
    slots = scene.extend(2)
    scene.call("set_full_to_swa_mapping", full=[slots[0] + 3], swa=[9 * SIZE + 3])
    effect = Effect(
        swa_returned=[9],
        mapped_slots=[slots[0] + 3],
        mapped_from=[9 * SIZE + 3],
        mapped_to=[0],
        full_available=60,
        swa_available=48,
    )
    assert scene.kinds(Call(op="free_swa", indices=[slots[0] + 3]), effect) == ["double-free"]


def test_a_release_after_which_more_is_free_than_there_is() -> None:
    scene = Scene()
    first, second = scene.extend(4), scene.extend(4)
    scene.call("free", indices=first)
    scene.call("free", indices=first)
    effect = Effect(
        full_returned=[2],
        swa_returned=[2],
        mapped_slots=second,
        mapped_from=second,
        mapped_to=[0] * 4,
        full_available=68,
        swa_available=48,
    )
    assert scene.kinds(Call(op="free", indices=second), effect) == ["accounting-overflow"]
