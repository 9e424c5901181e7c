"""The accounts: available against size, the equation with its terms, idle pools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from swasim.allocator import registry
from swasim.call import AllocatorState, Call, Effect
from swasim.config import SimConfig
from swasim.run import replay
from tests.support.events import IDLE, errors, everything, extend, findings, free, free_swa, one

SIZES = SimConfig(page_size=4, kv_size=32, kv_size_swa=32, allocator="ideal")


class Miscounting:
    """The ideal allocator, which says that one page fewer is available than its lists hold."""

    def __init__(self) -> None:
        self._pair = registry.build(SIZES)
        self.name = "miscounting"
        self.geometry = SIZES.geometry

    def perform(self, call: Call) -> Effect:
        effect = self._pair.perform(call)
        effect.full_available -= 4
        return effect

    def state(self) -> AllocatorState:
        return self._pair.state()


def test_more_available_than_there_is_follows_from_the_double_free() -> None:
    finding = one("accounting-overflow", extend("A", 4), free("A"), free("A"), allocator="fixed")
    assert finding.headline == "full pool: 36 tokens available of 32"
    assert (finding.cause_kind, finding.cause_at) == ("double-free", 3)


def test_an_overflow_is_said_once_while_it_lasts() -> None:
    twice = [extend("A", 4), free("A"), free("A"), free_swa("A"), free_swa("A")]
    found = [kind for _, kind in everything(*twice, allocator="fixed")]
    assert found.count("accounting-overflow") == 1


def test_a_count_that_differs_from_its_list_is_said_once() -> None:
    events = [extend("A", 4), extend("B", 4), free("A")]
    result = replay(events, SIZES, allocator=Miscounting())
    assert result.allocator == "miscounting"
    found = result.findings
    assert [(f.at.event, f.kind) for f in found] == [(1, "accounting-mismatch")]
    assert found[0].headline == "full pool says 24 tokens available, its lists hold 28"


def test_idle_pools_with_a_live_page_leak_it() -> None:
    full, swa = findings(extend("A", 8), extend("B", 4), free("B"), IDLE)
    assert (full.kind, full.pool, full.page, full.at.event) == ("leaked-page", "full", 1, 4)
    assert full.headline == "idle pools with 2 live full pages: 1, 2"
    assert full.owner is not None
    assert (full.owner.event, full.owner.req) == (1, "A")
    assert (swa.kind, swa.pool) == ("leaked-page", "swa")


def test_each_owner_leaks_by_itself() -> None:
    found = findings(extend("A", 4), extend("B", 4), IDLE)
    assert [(f.pool, f.owner.req) for f in found if f.owner] == [
        ("full", "A"),
        ("full", "B"),
        ("swa", "A"),
        ("swa", "B"),
    ]


def test_pools_that_are_idle_leak_nothing() -> None:
    assert everything(extend("A", 8), free("A"), IDLE) == []


def test_a_leak_is_told_once_however_often_the_pools_are_said_to_be_idle() -> None:
    assert len(findings(extend("A", 4), IDLE, IDLE)) == 2
    assert len(replay([extend("A", 4), IDLE], SIZES, expect_idle=True).findings) == 2


def test_the_end_of_a_trace_is_idle_only_where_that_is_said() -> None:
    assert replay([extend("A", 4)], SIZES).findings == ()
    found = replay([extend("A", 4)], SIZES, expect_idle=True).findings
    assert [(f.at.event, f.kind) for f in found] == [(1, "leaked-page"), (1, "leaked-page")]


def test_a_trace_that_was_cut_off_is_not_judged_by_its_end(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    stranded = [extend("A", 4), {"op": "free_full", "req": "A"}]
    lines = "\n".join(json.dumps(event) for event in stranded)
    path.write_text(lines + '\n{"op":"fr')
    settings: dict[str, Any] = {
        "page_size": 4,
        "kv_size": 32,
        "kv_size_swa": 32,
        "allocator": "sglang-0.5.23",
    }
    assert replay(path, expect_idle=True, **settings).findings == ()
    path.write_text(lines + "\n")
    assert [f.kind for f in replay(path, **settings).findings] == ["orphaned-page"]


def test_the_terms_of_the_equation_add_up() -> None:
    assert errors(extend("A", 8)) == []
    finding = one("leaked-page", extend("A", 8), free_swa("A"), IDLE)
    around = finding.surroundings
    assert around is not None
    terms = (around.free_pages, around.live_pages, around.pending_pages, around.lost_pages)
    assert terms == (6, 2, 0, 0)
    assert (around.size_pages, around.available_tokens, around.size_tokens) == (8, 24, 32)
