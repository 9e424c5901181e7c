"""What a step reads must have live SWA peers: where the window begins, and whose window counts."""

from __future__ import annotations

import pytest

from swasim.config import SimConfig
from tests.support.events import (
    BEGIN,
    END,
    IDLE,
    alloc,
    decode,
    errors,
    everything,
    extend,
    finish,
    free,
    free_swa,
    one,
    share,
    tail,
)

WINDOW = {"page_size": 2, "sliding_window_size": 3}
"""A has 8 tokens below. The next step is at position 8 and reads 6, 7 and itself; where the window
does not count the token itself, 5 too. Pages are positions 0-1, 2-3, 4-5, 6-7."""


def test_the_window_counts_the_token_itself_unless_told_otherwise() -> None:
    assert SimConfig(page_size=2, kv_size=8, kv_size_swa=8).window_includes_self is True


@pytest.mark.parametrize(
    ("includes_self", "end", "wrong"),
    [(True, 6, False), (True, 8, True), (False, 4, False), (False, 6, True)],
)
def test_a_release_is_wrong_from_the_first_position_that_the_next_step_reads(
    includes_self: bool, end: int, wrong: bool
) -> None:
    found = errors(
        extend("A", 8),
        free_swa("A", 0, end),
        decode("A"),
        window_includes_self=includes_self,
        **WINDOW,
    )
    assert found == ([(2, "window-violation")] if wrong else [])


@pytest.mark.parametrize(("end", "wrong"), [(5, False), (6, True)])
def test_at_page_size_one_the_border_is_exact(end: int, wrong: bool) -> None:
    found = errors(
        alloc(8, req="A"),
        free_swa("A", 0, end),
        alloc(1, req="A"),
        page_size=1,
        kv_size=16,
        kv_size_swa=16,
        sliding_window_size=4,
    )
    assert found == ([(2, "window-violation")] if wrong else [])


def test_the_finding_names_the_positions_and_what_the_step_reads() -> None:
    finding = one("window-violation", extend("A", 8), free_swa("A", 4, 8), decode("A"), **WINDOW)
    assert finding.headline == "the peers of positions 6..7 of req A go, inside its window"
    assert (finding.pool, finding.page, finding.slots) == ("swa", 4, (8, 9))
    assert finding.positions == (6, 8)
    assert finding.notes == ("req A has 8 tokens and reads back to position 6 in its next step",)


def test_without_a_window_nothing_is_said_of_it() -> None:
    assert errors(extend("A", 8), free_swa("A", 0, 8), extend("A", 9), page_size=2) == []


def test_an_early_release_by_a_request_that_is_over_then_is_nothing() -> None:
    early = [extend("A", 8), free_swa("A", 4, 8)]
    assert errors(*early, finish("A"), **WINDOW) == []
    assert errors(*early, free("A"), **WINDOW) == []


def test_an_early_release_by_a_request_that_could_go_on_is_found_at_the_end() -> None:
    early = [extend("A", 8), free_swa("A", 4, 8)]
    assert errors(*early, **WINDOW) == [(2, "window-violation")]
    assert errors(*early, IDLE, **WINDOW)[0] == (2, "window-violation")


def test_eviction_from_a_request_that_takes_no_further_step_is_nothing() -> None:
    evicted = [extend("A", 8), share("cache", "A"), free_swa("cache", 4, 8)]
    assert errors(*evicted, **WINDOW) == []
    assert errors(*evicted, decode("A"), **WINDOW) == [(3, "window-violation")]


def test_a_row_of_shared_slots_is_a_cache_and_has_no_window() -> None:
    cached = [extend("A", 8), share("cache", "A"), extend("A", 4, 0), free_swa("cache")]
    assert [f for f in everything(*cached, **WINDOW) if f[1] == "window-violation"] == []


def test_one_early_release_is_one_finding_however_many_steps_follow() -> None:
    steps = [decode("A") for _ in range(4)]
    found = errors(extend("A", 8), free_swa("A", 4, 8), *steps, **WINDOW)
    assert found.count((2, "window-violation")) == 1


def test_a_second_early_release_is_a_second_finding() -> None:
    found = errors(
        extend("A", 8),
        free_swa("A", 4, 8),
        extend("A", 12),
        free_swa("A", 8, 12),
        decode("A"),
        **WINDOW,
    )
    assert found == [(2, "window-violation"), (4, "window-violation")]


def test_a_tail_that_covers_the_window_is_enough() -> None:
    assert everything(tail("A", 8, 2), decode("A"), **WINDOW) == []


def test_a_tail_that_is_shorter_than_the_window_is_found_at_the_first_step() -> None:
    wider = {**WINDOW, "sliding_window_size": 5}
    finding = one("window-violation", tail("A", 8, 2), decode("A"), decode("A"), **wider)
    assert finding.at.event == 2
    assert finding.headline == "req A needs position 4, whose SWA peer is gone"
    assert finding.slots == (6,)


def test_a_prefix_hit_without_peers_in_the_window_is_found_at_its_first_step() -> None:
    evicted = [extend("A", 8), share("cache", "A"), extend("A", 1, 0), free_swa("cache")]
    hit = [share("B", "cache", 0, 8), extend("B", 9)]
    assert errors(*evicted, *hit, **WINDOW) == [(6, "window-violation")]


def test_a_release_that_waits_in_a_group_counts_when_it_is_asked_for() -> None:
    found = errors(extend("A", 8), BEGIN, free_swa("A", 4, 8), END, decode("A"), **WINDOW)
    assert found == [(3, "window-violation")]
