"""The torch engine on a CUDA GPU: the same answers as the core, and no wait that can be spared."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import torch

from swasim.allocator.core import CorePair
from swasim.allocator.profile import (
    IDEAL,
    PROFILE_B,
    PROFILE_F,
    PROFILE_G,
    PROFILE_I,
    PROFILE_K,
    Profile,
)
from swasim.allocator.tensor import swa
from swasim.allocator.tensor.swa import SWATokenToKVPoolAllocator
from swasim.call import Call
from swasim.config import SimConfig
from swasim.sanitizer.expectation import sha256_of
from swasim.trace.reader import open_trace
from swasim.trace.resolve import Resolver
from tests.support.random_calls import RandomCalls, answer
from tests.support.vectors import BENCH, BENCH_EXPECT

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU; none is here"),
]

PROFILES = (PROFILE_B, PROFILE_F, PROFILE_G, PROFILE_I, PROFILE_K, IDEAL)
BENCH_CALLS = 2000


@pytest.fixture
def no_waiting() -> Iterator[None]:
    """Raises where something waits for the GPU."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode(before)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@pytest.mark.parametrize("misuse", [0.0, 0.4])
@pytest.mark.parametrize("page_size", [1, 4])
def test_every_call_is_answered_as_by_the_core(
    profile: Profile, misuse: float, page_size: int
) -> None:
    if page_size > 1 and not profile.paged:
        pytest.skip(f"profile {profile.name} has no pages")
    config = SimConfig(page_size, kv_size=32, kv_size_swa=20, need_sort=misuse > 0)
    generator = RandomCalls(3, config, misuse)
    core = CorePair("core", profile, config.geometry, config.need_sort)
    gpu = swa.build(profile, config.geometry, config.need_sort, "cuda", "torch")
    for _ in range(80):
        call = generator.next()
        ours, theirs = answer(core, call), answer(gpu, call)
        generator.follow(call, ours)
        assert not ours.differences(theirs), f"{call}"


def test_every_tensor_is_int64_on_the_gpu() -> None:
    device = torch.device("cuda")
    allocator = SWATokenToKVPoolAllocator(32, 32, 4, device, True, PROFILE_K)
    lens = torch.tensor([6], device=device)
    out = allocator.alloc_extend(
        lens * 0, lens.cpu() * 0, lens, lens.cpu(), torch.tensor([-1], device=device), 6
    )
    assert out is not None
    for tensor in (
        out,
        allocator.full_to_swa_index_mapping,
        allocator.full_attn_allocator.free_pages,
        allocator.swa_attn_allocator.release_pages,
    ):
        assert (tensor.dtype, tensor.device.type) == (torch.int64, "cuda")


def test_slot_out_of_range_raises_and_the_gpu_goes_on() -> None:
    allocator = swa.build(PROFILE_K, SimConfig(4, 16, 16).geometry, False, "cuda", "torch")
    effect = allocator.perform(Call(op="free_swa", indices=[99]))
    assert effect.raised == "IndexError"
    assert effect.raised_text == "index 96 is out of bounds for dimension 0 with size 21"
    effect = allocator.perform(
        Call(op="alloc_extend", prefix_lens=[0], seq_lens=[4], last_loc=[-1])
    )
    assert effect.out == [4, 5, 6, 7]


def test_last_value_stays_where_a_slot_is_written_twice() -> None:
    allocator = swa.build(PROFILE_K, SimConfig(4, 16, 16).geometry, False, "cuda", "torch")
    effect = allocator.perform(
        Call(op="set_full_to_swa_mapping", full=[4, 5, 4, 4], swa=[8, 9, 10, 11])
    )
    assert effect.mapped_to == [8, 9, 10, 11]
    assert allocator.state().mapping[4:6] == [11, 9]


def test_allocation_waits_for_nothing(no_waiting: None) -> None:
    device = torch.device("cuda")
    allocator = SWATokenToKVPoolAllocator(256, 256, 16, device, False, PROFILE_K)
    allocator.check_range = False
    lens, lens_cpu = torch.full((2,), 20, device=device), torch.full((2,), 20)
    none, none_cpu = torch.zeros_like(lens), torch.zeros_like(lens_cpu)
    out = allocator.alloc_extend(none, none_cpu, lens, lens_cpu, none - 1, 40)
    assert out is not None
    assert allocator.alloc_decode(lens + 1, lens_cpu + 1, out[19::20]) is not None


def test_long_decode_run_is_answered_as_by_the_core() -> None:
    config = SimConfig(64, kv_size=262144, kv_size_swa=65536)
    core = CorePair("core", PROFILE_G, config.geometry, False)
    gpu = swa.build(PROFILE_G, config.geometry, False, "cuda", "torch")
    with open_trace(BENCH) as trace:
        resolver = Resolver()
        for entry in trace:
            if entry.number > BENCH_CALLS:
                break
            resolved = resolver.resolve(entry)
            assert resolved.call is not None
            ours, theirs = core.perform(resolved.call), gpu.perform(resolved.call)
            assert ours == theirs
            resolver.commit(entry, resolved, ours.out)
    assert core.state() == gpu.state()


@pytest.mark.slow
def test_whole_decode_run_ends_in_the_lists_of_the_release() -> None:
    wanted = json.loads(BENCH_EXPECT.read_text())
    config = SimConfig(64, kv_size=262144, kv_size_swa=65536)
    gpu = swa.build(PROFILE_G, config.geometry, False, "cuda", "torch")
    with open_trace(BENCH) as trace:
        resolver = Resolver()
        for entry in trace:
            resolved = resolver.resolve(entry)
            assert resolved.call is not None
            resolver.commit(entry, resolved, gpu.perform(resolved.call).out)
    state = gpu.state()
    assert sha256_of(state.full_free) == wanted["full_free_sha256"]
    assert sha256_of(state.swa_free) == wanted["swa_free_sha256"]
    assert sha256_of(state.mapping) == wanted["mapping_sha256"]
