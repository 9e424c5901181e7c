"""Names of allocators: found, refused with the nearest one, and built with the right engine."""

from __future__ import annotations

import subprocess
import sys

import pytest

from swasim.allocator import registry
from swasim.bundled import trace_path
from swasim.call import Call
from swasim.config import SimConfig
from swasim.errors import UsageError
from swasim.sanitizer.kinds import KINDS


def test_the_pair_of_the_pull_request_comes_first() -> None:
    assert [info.name for info in registry.known()[:3]] == ["fixed", "buggy", "ideal"]


def test_fixed_is_the_first_release_with_the_repair_and_buggy_the_last_without() -> None:
    assert registry.profile("fixed") is registry.profile("sglang-0.5.14")
    assert registry.profile("buggy") is registry.profile("sglang-0.5.13.post1")
    assert registry.info("fixed").link == "https://github.com/sgl-project/sglang/pull/27779"


def test_only_the_variants_that_show_a_fault_are_marked_faulty() -> None:
    faulty = {info.name for info in registry.known() if info.faulty}
    assert faulty == {
        "buggy",
        "fault:25805",
        "fault:26078",
        "fault:36081",
        "fault:36646",
        "fault:36646-late-lookup",
        "fault:38159",
        "fault:38519",
        "fault:36723",
        "fault:36723-free-full",
        "fault:35338",
        "fault:34399",
        "fault:35501",
        "fault:6888",
    }


def test_names_are_unique() -> None:
    assert len(set(registry.names())) == len(registry.names())


def test_a_faulty_variant_names_its_trace_and_a_kind_that_exists() -> None:
    for info in registry.known():
        if info.faulty:
            assert trace_path(info.trace).is_file()
            assert info.finding in KINDS
            assert info.link.startswith("https://github.com/")
            assert info.summary
        else:
            assert (info.trace, info.finding) == ("", "")


@pytest.mark.parametrize(
    ("alias", "name"), [("0.5.12.post1", "sglang-0.5.12.post1"), ("fault:27779", "buggy")]
)
def test_an_alias_is_another_name(alias: str, name: str) -> None:
    assert registry.info(alias) is registry.info(name)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown allocator 'fixd'; did you mean 'fixed'\?"):
        registry.info("fixd")
    with pytest.raises(UsageError, match=r"unknown allocator '0\.5\.24'; did you mean '0\.5\."):
        registry.build(SimConfig(allocator="0.5.24"))
    with pytest.raises(UsageError, match="unknown allocator 'fault:99999'"):
        registry.build(SimConfig(allocator="fault:99999"))


def test_pages_on_a_release_without_them_are_refused() -> None:
    config = SimConfig(page_size=4, kv_size=16, kv_size_swa=16, allocator="sglang-0.5.7")
    with pytest.raises(UsageError) as refused:
        registry.build(config)
    assert str(refused.value) == (
        "sglang-0.5.7 knows page size 1 only (pages came with SGLang 0.5.8), but page_size is 4"
    )


@pytest.mark.parametrize("engine", ["core", "torch"])
def test_both_engines_are_built_under_the_name_that_was_asked_for(engine: str) -> None:
    config = SimConfig(
        page_size=4, kv_size=16, kv_size_swa=8, allocator="fault:27779", engine=engine
    )
    allocator = registry.build(config)
    assert allocator.name == "fault:27779"
    effect = allocator.perform(Call("alloc_extend", seq_lens=[5], prefix_lens=[0], last_loc=[-1]))
    assert effect.out == [4, 5, 6, 7, 8]
    assert (effect.full_available, effect.swa_available) == (8, 0)


@pytest.mark.parametrize(
    ("name", "foreign"),
    [
        ("sglang", True),
        ("package.module:Class", True),
        ("module:Class", True),
        ("fault:25805", False),
        ("sglang-0.5.14", False),
    ],
)
def test_a_name_with_a_colon_is_code_from_outside_unless_it_is_a_fault(
    name: str, foreign: bool
) -> None:
    assert registry.is_foreign(name) is foreign


def test_listing_and_the_core_engine_load_no_torch() -> None:
    program = (
        "import sys; from swasim.allocator.registry import build, known; "
        "from swasim.config import SimConfig; known(); build(SimConfig()); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
