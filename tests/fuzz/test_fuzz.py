"""Everything follows from the seed; a campaign can be gone on with; every fault is found."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from swasim.allocator import registry
from swasim.commands.app import run
from swasim.errors import UsageError
from swasim.fuzz import Campaign, Settings, State, fuzz, load, store
from swasim.fuzz.play import contract_for, play, random_config
from swasim.fuzz.sloppy import SLOPPY, WRONG
from swasim.run import replay
from swasim.trace.writer import encode_event
from tests.support.hunts import FUZZ, FUZZ_SEEDS

SLOPPY_BUGGY = Settings("buggy", callers="sloppy")


def told(campaign: Campaign) -> list[tuple[int, str, list[bytes]]]:
    return [(f.seed, f.kind, [encode_event(e) for e in f.events]) for f in campaign.finds]


def test_equal_seeds_play_equal_traces() -> None:
    config = random_config(random.Random(7), "ideal")
    contract = contract_for("ideal", config)
    first, second = (play(config, contract, 7, 300, callers="sloppy") for _ in range(2))
    assert first == second
    assert play(config, contract, 8, 300, callers="sloppy").entries != first.entries


def test_the_first_find_ends_a_campaign() -> None:
    campaign = fuzz(SLOPPY_BUGGY, seed=0, seeds=50)
    assert (campaign.end, campaign.seeds, len(campaign.finds)) == ("found", 1, 1)


def test_a_find_is_minimized_and_replays() -> None:
    (find,) = fuzz(SLOPPY_BUGGY, seeds=1).finds
    assert [encode_event(event) for event in find.events] == [
        b'{"op":"alloc_extend","seq_lens":[2],"reqs":["A"]}',
        b'{"op":"free_swa","req":"A","start":1}',
    ]
    assert (find.kind, find.minimal, find.by_caller) == ("stale-mapping", True, False)
    kinds = [f.kind for f in replay(list(find.events), find.config).findings]
    assert kinds[0] == "stale-mapping"


def test_collecting_gathers_distinct_finds_in_seed_order() -> None:
    campaign = fuzz(SLOPPY_BUGGY, seeds=30, collect=True)
    assert (campaign.end, campaign.seeds) == ("seeds", 30)
    assert [find.seed for find in campaign.finds] == sorted({f.seed for f in campaign.finds})
    assert len({find.fingerprint for find in campaign.finds}) == len(campaign.finds)
    assert {find.kind for find in campaign.finds} == {"stale-mapping", "half-allocation"}
    assert (len(campaign.finds), campaign.repeats) == (3, 23)


def test_the_finds_do_not_depend_on_the_number_of_processes() -> None:
    settings = Settings("fault:34399", callers="sloppy", calls=60)
    alone = fuzz(settings, seeds=12, collect=True, jobs=1)
    together = fuzz(settings, seeds=12, collect=True, jobs=2)
    assert told(alone) == told(together)
    assert (alone.seeds, alone.calls, alone.repeats) == (
        together.seeds,
        together.calls,
        together.repeats,
    )


def test_what_was_known_is_no_news() -> None:
    first = fuzz(SLOPPY_BUGGY, seeds=1)
    again = fuzz(SLOPPY_BUGGY, seeds=1, known=frozenset(f.fingerprint for f in first.finds))
    assert (len(again.finds), again.repeats) == (0, 1)


def test_two_allocators_in_lockstep_part() -> None:
    settings = Settings("ideal", against="sglang-0.5.23", callers="sloppy")
    find = fuzz(settings, seeds=1).finds[0]
    assert find.kind == "divergence"
    assert find.divergence is not None
    assert (find.divergence.op, find.divergence.what) == ("free_full", "mapping")
    assert len(find.events) == 3


def test_careful_callers_do_not_tell_one_release_from_the_next() -> None:
    settings = Settings("sglang-0.5.12", against="sglang-0.5.11", calls=200)
    assert fuzz(settings, seeds=10).finds == ()


def test_the_control_takes_out_what_is_the_callers_fault() -> None:
    settings = Settings("ideal", callers="wrong", mistakes=("free_twice",), calls=100)
    (find,) = fuzz(settings, seeds=5).finds
    assert (find.kind, find.by_caller) == ("double-free", True)
    excused = fuzz(replace(settings, control="fixed"), seeds=5)
    assert (excused.finds, excused.excused) == ((), 5)


def test_given_sizes_are_kept_and_the_rest_is_random() -> None:
    given = {"page_size": 4, "kv_size": 64, "kv_size_swa": 32}
    configs = [random_config(random.Random(s), "ideal", given=given) for s in range(8)]
    assert {(c.page_size, c.kv_size, c.kv_size_swa) for c in configs} == {(4, 64, 32)}
    assert len({(c.sliding_window_size, c.need_sort) for c in configs}) > 2


def test_a_release_without_pages_is_played_at_page_size_1() -> None:
    contract = contract_for("sglang-0.5.5", random_config(random.Random(0), "sglang-0.5.5"))
    sizes = {
        random_config(random.Random(s), "sglang-0.5.5", paged=contract.paged).page_size
        for s in range(8)
    }
    assert sizes == {1}


def test_a_class_from_outside_is_played_with_nothing_taken_for_granted() -> None:
    name = "tests.support.tiny_allocator:TinyAllocator"
    contract = contract_for(name, random_config(random.Random(0), name, {"page_size": 4}))
    assert not contract.skips_unmapped
    assert not contract.drafts


@pytest.mark.parametrize("callers", ["sloppy", "wrong"])
def test_every_move_is_made_by_some_seed(callers: str) -> None:
    made: set[str] = set()
    for seed in range(60):
        config = random_config(random.Random(seed), "ideal")
        for entry in play(
            config, contract_for("ideal", config), seed, 200, callers=callers
        ).entries:
            made.add(encode_event(entry.event).decode().split('"')[3])
    assert {"free_full", "free_swa_segment", "free_group_begin", "alloc_decode", "mark"} <= made
    assert len(SLOPPY) == 9
    assert len(WRONG) == 7


def test_an_interrupt_leaves_the_old_state_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.json"
    store(str(path), State(SLOPPY_BUGGY, 0))
    before = path.read_text()

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store(str(path), State(SLOPPY_BUGGY, 7))
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]
    assert path.read_text() == before


def test_a_state_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    path = str(tmp_path / "state.json")
    settings = Settings("buggy", callers="wrong", mistakes=("nest",), given={"page_size": 4})
    state = State(settings, 3, seeds=10, calls=500)
    store(path, state)
    assert load(path, settings, 3) == state
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"callers": "careful"}, "with callers 'sloppy', not 'careful'"),
        ({"calls": 9}, "with calls 500, not 9"),
        ({"given": {"page_size": 4}}, "with given {}, not {'page_size': 4}"),
    ],
)
def test_a_state_of_another_campaign_is_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    path = str(tmp_path / "state.json")
    store(path, State(SLOPPY_BUGGY, 0))
    with pytest.raises(UsageError, match="give another file") as refusal:
        load(path, replace(SLOPPY_BUGGY, **change), 0)  # type: ignore[arg-type]
    assert message in str(refusal.value)
    with pytest.raises(UsageError, match="began at seed 0, not 5"):
        load(path, SLOPPY_BUGGY, 5)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"swasim_fuzz": 9}', "\x00"])
def test_a_file_that_is_no_state_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="--state"):
        load(str(path), SLOPPY_BUGGY, 0)


def test_every_fault_of_the_registry_has_its_callers() -> None:
    assert set(FUZZ) == {info.name for info in registry.known() if info.faulty}


def found(allocator: str, seed: int, capsys: pytest.CaptureFixture[str]) -> str:
    options = [*FUZZ[allocator].options.split(), "--save", "-", "-f", "json"]
    run(["fuzz", "-a", allocator, *options, "--seed", str(seed), "--seeds", str(FUZZ_SEEDS)])
    finds = json.loads(capsys.readouterr().out)["finds"]
    return str(finds[0]["kind"]) if finds else ""


@pytest.mark.parametrize("allocator", FUZZ)
def test_a_seed_finds_the_fault(allocator: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert found(allocator, 0, capsys) == FUZZ[allocator].kind


@pytest.mark.slow
@pytest.mark.parametrize("allocator", FUZZ)
def test_nine_of_ten_seeds_find_the_fault(
    allocator: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = [found(allocator, 1000 * number, capsys) for number in range(10)]
    assert kinds.count(FUZZ[allocator].kind) >= 9
