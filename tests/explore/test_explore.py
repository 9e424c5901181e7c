"""Exact numbers of situations per bound, the shortest sequences, and what they prove."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from swasim.allocator import registry
from swasim.collect import Replay
from swasim.commands.app import run
from swasim.config import SimConfig
from swasim.errors import UsageError
from swasim.explore import Bounds, Exploration, chosen_families, explore
from swasim.explore.key import digest
from swasim.run import replay
from swasim.trace.events import op_of
from tests.support.hunts import EXPLORE

OPERATIONS = registry.profile("ideal").operations


def tiny(
    allocator: str,
    depth: int,
    *,
    pages: int = 3,
    page_size: int = 2,
    requests: int = 2,
    callers: str = "sloppy",
    moves: str | None = None,
    **settings: object,
) -> Exploration:
    config = SimConfig(
        page_size=page_size,
        kv_size=page_size * pages,
        kv_size_swa=page_size * pages,
        allocator=allocator,
    )
    families = chosen_families(callers, registry.profile(allocator).operations, moves)
    bounds = Bounds(depth, requests)
    return explore(config, bounds, families, **settings)  # type: ignore[arg-type]


def again(result: Exploration) -> Replay:
    return replay(list(result.found[0].events), result.config)


def test_situations_of_one_request_can_be_counted_by_hand() -> None:
    # 1, 2 or 3 tokens at first; a page more makes 3 again, 4 or 5; and 6 from 4. A seventh token
    # is refused. The end of the request leads back to the beginning.
    result = tiny("ideal", 9, requests=1, moves="extend,finish")
    assert (result.per_depth, result.end) == ((1, 3, 2, 1, 0), "closed")


def test_exact_numbers_of_situations_per_bound() -> None:
    result = tiny("ideal", 3)
    assert result.per_depth == (1, 8, 66, 490)
    assert (result.tried, result.distinct, result.queue) == (1743, 565, 490)
    assert (result.end, result.exhausted, result.depth) == ("depth", True, 3)


def test_requests_are_alike_whatever_their_names() -> None:
    one_after_the_other = tiny("ideal", 2, moves="extend", pages=2)
    # A of one token and B of two, or A of two and B of one: the pages differ, so both stand.
    assert one_after_the_other.per_depth == (1, 3, 5)


def test_a_search_without_new_situations_is_true_of_every_length() -> None:
    result = tiny("ideal", 50, pages=1, page_size=1, requests=1, callers="careful")
    assert result.end == "closed"
    assert result.exhausted
    assert result.found == ()


def test_buggy_shows_the_fault_of_pr_27779_as_the_shortest_sequence() -> None:
    result = tiny("buggy", 5)
    (found,) = result.found
    assert [op_of(event) for event in found.events] == ["alloc_extend", "free_swa"]
    assert (found.finding.kind, found.finding.at.event) == ("stale-mapping", 2)
    assert [f.kind for f in again(result).findings if f.severity == "error"] == ["stale-mapping"]


def test_the_double_free_of_pr_27779_takes_three_calls() -> None:
    result = tiny("buggy", 4, kind="double-free")
    assert [op_of(event) for event in result.found[0].events] == [
        "alloc_extend",
        "free_swa",
        "finish",
    ]
    assert "double-free" in [f.kind for f in again(result).findings]


def test_fixed_shows_nothing_but_the_half_allocation_that_it_has() -> None:
    result = tiny("fixed", 4, collect=True)
    assert result.exhausted
    assert {found.finding.kind for found in result.found} == {"half-allocation"}


def test_the_control_takes_out_what_is_the_callers_fault() -> None:
    alone = tiny("ideal", 3, callers="wrong", moves="extend,finish,again", collect=True)
    controlled = tiny(
        "ideal", 3, callers="wrong", moves="extend,finish,again", collect=True, control="fixed"
    )
    assert {found.finding.kind for found in alone.found} == {"double-free"}
    assert controlled.found == ()
    assert controlled.pruned > 0


def test_a_spent_budget_is_said_and_proves_nothing() -> None:
    result = tiny("ideal", 9, budget_s=0.0)
    assert (result.end, result.exhausted, result.depth) == ("budget", False, 0)


def test_an_allocator_from_outside_is_refused() -> None:
    config = SimConfig(allocator="sglang")
    with pytest.raises(UsageError, match="swasim fuzz"):
        explore(config, Bounds(), chosen_families("careful", OPERATIONS))


def test_an_engine_that_cannot_be_copied_is_refused() -> None:
    config = SimConfig(page_size=2, kv_size=8, kv_size_swa=8, engine="torch")
    with pytest.raises(UsageError, match="engine core only"):
        explore(config, Bounds(), chosen_families("careful", OPERATIONS))


@pytest.mark.parametrize("allocator", EXPLORE)
def test_the_command_of_the_table_finds_the_fault(
    allocator: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hunt = EXPLORE[allocator]
    options = [*hunt.options.split(), "--save", "-", "-f", "json"]
    assert run(["explore", "-a", allocator, *options]) == 1
    document = json.loads(capsys.readouterr().out)
    found = document["found"][0]
    assert (found["finding"]["kind"], found["length"]) == (hunt.kind, hunt.length)


def test_every_fault_of_the_registry_has_its_command() -> None:
    assert set(EXPLORE) == {info.name for info in registry.known() if info.faulty}


@pytest.mark.slow
def test_ideal_shows_nothing_in_any_sequence_of_five_calls() -> None:
    result = tiny("ideal", 5, collect=True)
    assert result.exhausted
    assert result.found == ()


@pytest.mark.parametrize("page_size", [1, 2])
@pytest.mark.parametrize("allocator", ["sglang-0.5.5", "sglang-0.5.11", "sglang-0.5.19", "ideal"])
def test_careful_callers_get_no_error_in_any_short_sequence(
    allocator: str, page_size: int, tmp_path: Path
) -> None:
    if page_size > 1 and not registry.profile(allocator).paged:
        pytest.skip("page size 1 only")
    result = tiny(allocator, 4, callers="careful", page_size=page_size, collect=True)
    assert result.exhausted
    # alloc_decode without asking first is what careful callers do not do; the search does.
    assert {found.finding.kind for found in result.found} <= {"half-allocation"}


@pytest.mark.parametrize(
    ("allocator", "callers", "depth", "moves"),
    [
        ("buggy", "sloppy", 3, None),
        ("sglang-0.5.23", "sloppy", 3, None),
        ("ideal", "wrong", 3, None),
        ("fixed", "sloppy", 4, "extend,decode,partial,group,load_back,share"),
        ("sglang-0.5.18", "wrong", 4, "extend,finish,group,nest,alias,tail"),
        ("sglang-0.5.19", "wrong", 4, "extend,split,again,finish,share,trim"),
    ],
)
def test_merging_situations_loses_no_error(
    allocator: str, callers: str, depth: int, moves: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged = tiny(allocator, depth, callers=callers, moves=moves, collect=True)
    numbers = itertools.count()
    monkeypatch.setattr(
        "swasim.explore.search.digest", lambda *_: next(numbers).to_bytes(16, "big")
    )
    apart = tiny(allocator, depth, callers=callers, moves=moves, collect=True)
    assert apart.distinct > merged.distinct
    assert distinct(apart) == distinct(merged)


def distinct(result: Exploration) -> set[tuple[str, str | None, str, int]]:
    return {
        (found.finding.kind, found.finding.pool, op_of(found.events[-1]), len(found.events))
        for found in result.found
    }


def test_an_interrupt_ends_the_search_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object) -> bytes:
        raise KeyboardInterrupt

    started = digest

    def first_then_stop(*given: object) -> bytes:
        monkeypatch.setattr("swasim.explore.search.digest", stop)
        return started(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("swasim.explore.search.digest", first_then_stop)
    assert run(["explore", "-a", "ideal", "--save", "-", "-f", "concise"]) == 130
    assert "; interrupted: " in capsys.readouterr().out
