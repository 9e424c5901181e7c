"""The core and the torch engine answer every call alike, whatever the profile and the caller."""

from __future__ import annotations

import pytest
import torch

from swasim.allocator.core import CorePair
from swasim.allocator.faults import FAULTS
from swasim.allocator.profile import IDEAL, PROFILES, Profile
from swasim.allocator.tensor import swa
from swasim.allocator.tensor.engine import TensorEngine
from swasim.allocator.tensor.mapping import SlotMapping
from swasim.call import Effect
from swasim.config import SimConfig
from tests.support.random_calls import RandomCalls, answer, first_difference, shrink

EVERY_PROFILE = [*PROFILES, IDEAL, *(fault.profile for fault in FAULTS if not fault.by_caller)]
SIZES = [(1, 12, 8), (1, 8, 12), (2, 16, 12), (4, 32, 32), (4, 40, 20), (16, 128, 96)]


def configs(profile: Profile) -> list[SimConfig]:
    """Small pools, each of them the short one in turn, both staging modes."""
    return [
        SimConfig(page_size=page, kv_size=full, kv_size_swa=swa_tokens, need_sort=need_sort)
        for page, full, swa_tokens in SIZES
        for need_sort in (False, True)
        if page == 1 or profile.paged
    ]


def hold_against_each_other(profile: Profile, config: SimConfig, seed: int, length: int) -> None:
    def core() -> CorePair:
        return CorePair("core", profile, config.geometry, config.need_sort)

    def torch_engine() -> TensorEngine:
        return swa.build(profile, config.geometry, config.need_sort, "cpu", "torch")

    calls, text = RandomCalls(seed, config).run(core, torch_engine, length)
    if text:
        short = shrink(core, torch_engine, calls)
        found = first_difference(core, torch_engine, short)
        listing = "\n".join(str(call) for call in short)
        pytest.fail(f"{config}, seed {seed}, core / torch:\n{listing}\n{found and found[1]}")


def wording_apart(effect: Effect | None) -> dict[str, object]:
    """Everything that an effect says but the text of an exception."""
    fields = () if effect is None else effect.__struct_fields__
    return {name: getattr(effect, name) for name in fields if name != "raised_text"}


@pytest.mark.parametrize("profile", EVERY_PROFILE, ids=lambda profile: profile.name)
def test_engines_report_the_same_changes(profile: Profile) -> None:
    for seed, config in enumerate(configs(profile), start=20):
        generator = RandomCalls(seed, config, misuse=0.4)
        core = CorePair("core", profile, config.geometry, config.need_sort)
        torch_engine = swa.build(profile, config.geometry, config.need_sort, "cpu", "torch")
        for _ in range(40):
            call = generator.next()
            ours, theirs = answer(core, call), answer(torch_engine, call)
            generator.follow(call, ours)
            assert wording_apart(ours.effect) == wording_apart(theirs.effect), f"{config} {call}"


@pytest.mark.parametrize("profile", EVERY_PROFILE, ids=lambda profile: profile.name)
def test_engines_agree_after_every_call(profile: Profile) -> None:
    for number, config in enumerate(configs(profile)):
        hold_against_each_other(profile, config, seed=number, length=40)


class Unguarded(SlotMapping):
    """The mapping as an accelerator has it: a slot out of range would end the process."""

    def read(self, slots: torch.Tensor) -> torch.Tensor:
        if not self.check_range:
            limit = len(self.entries)
            if not all(-limit <= slot < limit for slot in slots.tolist()):
                pytest.fail(f"{slots.tolist()} used with {limit} entries")
        return super().read(slots)


def as_on_an_accelerator(profile: Profile, config: SimConfig) -> TensorEngine:
    engine = swa.build(profile, config.geometry, config.need_sort, "cpu", "torch")
    mapping = engine.pair._mapping
    mapping.__class__ = Unguarded
    mapping._on_cpu = False
    engine.pair.check_range = False
    return engine


@pytest.mark.parametrize("profile", EVERY_PROFILE, ids=lambda profile: profile.name)
def test_no_slot_out_of_range_is_used_where_torch_would_not_look(profile: Profile) -> None:
    for seed, config in enumerate(configs(profile)):
        generator = RandomCalls(seed, config, misuse=0.4)
        core = CorePair("core", profile, config.geometry, config.need_sort)
        unguarded = as_on_an_accelerator(profile, config)
        for _ in range(40):
            call = generator.next()
            ours, theirs = answer(core, call), answer(unguarded, call)
            generator.follow(call, ours)
            assert not ours.differences(theirs), f"{config} {call}"


@pytest.mark.slow
@pytest.mark.parametrize("profile", EVERY_PROFILE, ids=lambda profile: profile.name)
def test_engines_agree_after_every_call_of_many(profile: Profile) -> None:
    for seed in range(100, 112):
        for config in configs(profile):
            hold_against_each_other(profile, config, seed, length=100)
