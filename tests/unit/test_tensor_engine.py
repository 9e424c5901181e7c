from __future__ import annotations

import pytest
import torch

from swasim.allocator.core import CorePair
from swasim.allocator.profile import PROFILE_F, PROFILE_G, PROFILE_H, PROFILE_K, Profile
from swasim.allocator.tensor import swa
from swasim.allocator.tensor import tape as tape_module
from swasim.allocator.tensor.engine import TensorEngine
from swasim.allocator.tensor.mapping import SlotMapping
from swasim.allocator.tensor.tape import Tape
from swasim.call import AllocatorState, Call, Effect
from swasim.config import SimConfig
from swasim.errors import UsageError
from swasim.geometry import Geometry
from tests.support.random_calls import RandomCalls, answer


def engine(profile: Profile = PROFILE_G, page: int = 4, need_sort: bool = False) -> TensorEngine:
    return swa.build(profile, Geometry(page, 16, 16), need_sort, "cpu", "under test")


def extend(prefix: int, seq: int, last: int = -1) -> Call:
    return Call(op="alloc_extend", prefix_lens=[prefix], seq_lens=[seq], last_loc=[last])


def test_engine_carries_its_name_and_its_sizes() -> None:
    built = engine()
    assert (built.name, built.geometry) == ("under test", Geometry(4, 16, 16))


def test_allocation_reports_slots_pages_and_entries() -> None:
    assert engine().perform(extend(0, 5)) == Effect(
        out=[4, 5, 6, 7, 8],
        full_taken=[1, 2],
        swa_taken=[1, 2],
        mapped_slots=[4, 5, 6, 7, 8],
        mapped_from=[0, 0, 0, 0, 0],
        mapped_to=[4, 5, 6, 7, 8],
        full_available=8,
        swa_available=8,
    )


def test_release_reports_only_entries_that_change() -> None:
    allocator = engine()
    allocator.perform(extend(0, 2))
    assert allocator.perform(Call(op="free", indices=[4])) == Effect(
        full_returned=[1],
        swa_returned=[1],
        mapped_slots=[4, 5],
        mapped_from=[4, 5],
        mapped_to=[0, 0],
        full_available=16,
        swa_available=16,
    )


def test_refusal_reports_nothing_but_what_is_available() -> None:
    assert engine().perform(extend(0, 17)) == Effect(full_available=16, swa_available=16)


def test_half_allocation_reports_the_pages_that_are_gone() -> None:
    allocator = swa.build(PROFILE_K, Geometry(4, 16, 4), False, "cpu", "x")
    allocator.perform(extend(0, 4))
    effect = allocator.perform(Call(op="alloc_decode", seq_lens=[5], last_loc=[7]))
    assert effect == Effect(full_taken=[2], full_available=8, swa_available=0)


def test_exception_is_reported_with_what_had_changed_before_it() -> None:
    allocator = engine(PROFILE_F)
    allocator.perform(extend(0, 4))
    allocator.perform(Call(op="free_swa", indices=[4]))
    assert allocator.perform(Call(op="free", indices=[4, 5])) == Effect(
        raised="AssertionError",
        raised_text="swa pool has 20 tokens available, its size is 16",
        full_returned=[1],
        swa_returned=[1],
        mapped_slots=[5],
        mapped_from=[5],
        mapped_to=[0],
        full_available=16,
        swa_available=20,
    )


def test_write_out_of_range_reports_the_entries_before_it() -> None:
    effect = engine().perform(Call(op="set_full_to_swa_mapping", full=[4, 21, 5], swa=[8, 9, 10]))
    assert effect.raised == "IndexError"
    assert effect.raised_text == "index 21 is out of bounds for dimension 0 with size 21"
    assert (effect.mapped_slots, effect.mapped_from, effect.mapped_to) == ([4], [0], [8])


def test_entry_written_twice_appears_twice() -> None:
    effect = engine().perform(Call(op="set_full_to_swa_mapping", full=[4, 5, 4], swa=[8, 9, 10]))
    assert effect.mapped_slots == [4, 5, 4]
    assert effect.mapped_from == [0, 0, 8]
    assert effect.mapped_to == [8, 9, 10]


def test_negative_slot_is_reported_as_the_entry_that_it_reaches() -> None:
    effect = engine().perform(Call(op="set_full_to_swa_mapping", full=[-1], swa=[8]))
    assert (effect.mapped_slots, effect.mapped_from, effect.mapped_to) == ([20], [-1], [8])


def test_merging_staged_pages_is_no_change() -> None:
    allocator = engine(PROFILE_K, need_sort=True)
    allocator.perform(extend(0, 16))
    allocator.perform(Call(op="free", indices=[8, 4]))
    effect = allocator.perform(extend(0, 1))
    assert (effect.full_taken, effect.full_returned) == ([1], [])
    assert allocator.state().full_free == [2]


def test_call_on_one_pool_leaves_the_other_alone() -> None:
    allocator = engine()
    effect = allocator.perform(Call(op="alloc", pool="swa", need_size=4))
    assert effect == Effect(out=[4, 5, 6, 7], swa_taken=[1], full_available=16, swa_available=12)


def test_restore_reports_the_difference_between_the_lists() -> None:
    allocator = engine()
    allocator.perform(Call(op="alloc", pool="full", need_size=4))
    allocator.perform(Call(op="backup_state", slot="a"))
    allocator.perform(Call(op="free", pool="full", indices=[4]))
    allocator.perform(Call(op="alloc", pool="swa", need_size=8))
    effect = allocator.perform(Call(op="restore_state", slot="a"))
    assert (effect.full_taken, effect.full_returned) == ([1], [])
    assert (effect.swa_taken, effect.swa_returned) == ([], [1, 2])


def test_restore_of_something_never_saved_names_what_was_saved() -> None:
    allocator = engine()
    allocator.perform(Call(op="backup_state", slot="a"))
    with pytest.raises(UsageError, match=r"no state was saved as 'b' \(saved: a\)"):
        allocator.perform(Call(op="restore_state", slot="b"))


def test_clear_reports_neither_pages_nor_entries() -> None:
    allocator = engine()
    allocator.perform(extend(0, 4))
    effect = allocator.perform(Call(op="clear"))
    assert effect == Effect(full_available=16, swa_available=16)


def test_method_of_another_release_is_refused_and_says_which_has_it() -> None:
    with pytest.raises(
        UsageError, match=r"free_swa_segment: this method came with SGLang 0\.5\.20"
    ):
        engine(PROFILE_H).perform(Call(op="free_swa_segment", indices=[4]))


def test_state_holds_every_list_and_the_whole_mapping() -> None:
    allocator = swa.build(PROFILE_K, Geometry(2, 6, 4), True, "cpu", "x")
    allocator.perform(extend(0, 3))
    allocator.perform(Call(op="free", indices=[4]))
    assert allocator.state() == AllocatorState(
        full_free=[3],
        swa_free=[],
        full_staged=[2],
        swa_staged=[2],
        mapping=[0, 0, 2, 3, 0, 0, 0, 0, -1],
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpu", r"unknown device 'gpu' \(known: cpu, cuda, cuda:N, mps\)"),
        ("meta", r"unknown device 'meta'"),
        ("", r"unknown device ''"),
        ("cuda:x", r"unknown device 'cuda:x'"),
    ],
)
def test_unknown_device_is_one_line_with_the_known_ones(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        swa.build(PROFILE_G, Geometry(4, 16, 16), False, name, "x")
    assert "\n" not in str(error.value)


def test_missing_accelerator_says_what_to_use_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for name in ("cuda", "cuda:1", "mps"):
        with pytest.raises(UsageError, match="use --device cpu"):
            swa.build(PROFILE_G, Geometry(4, 16, 16), False, name, "x")


def test_gpu_number_beyond_the_last_says_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(UsageError, match=r"device 'cuda:1': this machine has 1 CUDA GPU"):
        swa.build(PROFILE_G, Geometry(4, 16, 16), False, "cuda:1", "x")


def test_last_value_of_a_slot_stays_in_a_write_too_long_to_be_in_order() -> None:
    mapping = SlotMapping(10, trailing=True, device=torch.device("cpu"))
    slots = torch.arange(40_000) % 9
    mapping.write(slots, torch.arange(40_000))
    assert mapping.entries.tolist() == [*range(39_996, 40_000), *range(39_991, 39_996), -1]


def test_tape_without_changes_leaves_an_effect_empty() -> None:
    effect, tape = Effect(), Tape()
    tape.end_call(effect, None)
    tape.deliver(mapping_len=1)
    assert effect == Effect()


def recorded_calls(profile: Profile, need_sort: bool) -> list[Call]:
    """Calls as a careless caller makes them, with the slots that they got."""
    config = SimConfig(4, kv_size=32, kv_size_swa=20, need_sort=need_sort)
    core = CorePair("core", profile, config.geometry, need_sort)
    generator = RandomCalls(7, config, 0.3)
    calls: list[Call] = []
    for _ in range(300):
        call = generator.next()
        generator.follow(call, answer(core, call))
        calls.append(call)
    return [call for call in calls if call.op in profile.operations]


@pytest.mark.parametrize("profile", [PROFILE_F, PROFILE_K], ids=lambda profile: profile.name)
@pytest.mark.parametrize("need_sort", [False, True])
def test_many_calls_at_once_have_the_effects_of_one_after_the_other(
    profile: Profile, need_sort: bool
) -> None:
    calls = recorded_calls(profile, need_sort)
    geometry = Geometry(4, 32, 20)
    one = swa.build(profile, geometry, need_sort, "cpu", "one")
    many = swa.build(profile, geometry, need_sort, "cpu", "many")
    together = [e for at in range(0, len(calls), 17) for e in many.perform_all(calls[at : at + 17])]
    assert together == [one.perform(call) for call in calls]
    assert one.state() == many.state()
    assert any(effect.raised for effect in together)


def test_many_calls_at_once_are_one_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    transfers: list[int] = []
    to_host = tape_module._to_host

    def counted(parts: list[torch.Tensor]) -> list[list[int]]:
        transfers.append(len(parts))
        return to_host(parts)

    monkeypatch.setattr(tape_module, "_to_host", counted)
    allocator = swa.build(PROFILE_K, Geometry(4, 64, 64), False, "cpu", "x")
    steps = [Call(op="alloc_decode", seq_lens=[n + 1], last_loc=[3 + n]) for n in range(4, 12)]
    effects = allocator.perform_all([extend(0, 4), *steps])
    assert [effect.out for effect in effects[1:]] == [[4 + n] for n in range(4, 12)]
    assert len(transfers) == 1


def test_call_without_a_method_is_refused_before_any_is_carried_out() -> None:
    allocator = engine(PROFILE_F)
    with pytest.raises(UsageError, match="free_segment"):
        allocator.perform_all([extend(0, 4), Call(op="free_segment", indices=[4])])
    assert allocator.state().full_free == [1, 2, 3, 4]


def test_empty_allocation_returns_an_empty_list() -> None:
    effect = engine(PROFILE_K, page=1).perform(Call(op="alloc", need_size=0))
    assert effect.out == []
