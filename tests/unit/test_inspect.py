"""Pages, slots, rows and moments of small traces, and going back in long ones."""

from __future__ import annotations

from typing import Any

import pytest

from swasim.config import SimConfig
from swasim.errors import UsageError
from swasim.inspect import Inspector
from swasim.inspect.checkpoints import Checkpoints
from swasim.inspect.records import CellRun, MappingRun, Owner, PageLife, Peer, RowSummary, Span
from swasim.replayer import Replayer
from tests.support.vectors import DATA

HEADER: dict[str, Any] = {"swasim_trace": 1, "page_size": 4, "kv_size": 24, "kv_size_swa": 24}
RECORDED = DATA / "recorded" / "radix" / "0.5.23__p64__s7.jsonl.zst"
SHORT_RECORDED = DATA / "recorded" / "radix" / "0.5.23__p16__s3.jsonl.zst"

DOUBLE_FREE: list[dict[str, Any]] = [
    HEADER,
    {"op": "alloc_extend", "reqs": ["A"], "seq_lens": [4]},
    {"op": "free_swa", "req": "A", "start": 0, "end": 1, "site": "evict"},
    {"op": "free_swa", "req": "A", "start": 1, "end": 2},
]


def grown(tokens: int) -> list[dict[str, Any]]:
    """One request that decodes up to `tokens` tokens from 2, is shared, and ends."""
    return [
        HEADER,
        {"op": "alloc_extend", "reqs": ["A"], "seq_lens": [2]},
        *[{"op": "alloc_decode", "reqs": ["A"]}] * (tokens - 2),
        {"op": "share", "req": "cache", "from": "A", "start": 0, "end": 4},
        {"op": "free", "req": "A"},
    ]


def story(life: PageLife) -> list[tuple[int, int, str, str]]:
    """First event, steps, what happened, and the state afterwards."""
    return [
        (e.first.event, e.steps, " ".join(act.what for act in e.acts), e.after.state)
        for e in life.events
    ]


def test_an_swa_page_shows_both_releases_and_the_findings() -> None:
    life = Inspector(DOUBLE_FREE, allocator="buggy").page("swa", 1)
    assert story(life) == [
        (1, 1, "taken mapped", "live"),
        (2, 1, "unmapped released", "free"),
        (3, 1, "unmapped released", "free"),
    ]
    assert [finding.kind for finding in life.findings] == [
        "stale-mapping",
        "partial-page-free",
        "double-free",
    ]
    assert life.events[0].after.peers == (Peer(page=1, entries=4),)
    assert life.events[0].after.rows == (Span("A", 0, 3),)
    assert life.events[1].first.site == "evict"
    assert (life.end.copies, life.times_taken, life.last.event) == (2, 1, 3)


def test_a_full_page_keeps_its_owner_while_its_peer_goes() -> None:
    life = Inspector(DOUBLE_FREE, allocator="buggy").page("full", 1)
    assert story(life) == [
        (1, 1, "taken filled mapped joined", "live"),
        (2, 1, "unmapped peer-released", "live"),
        (3, 1, "unmapped peer-released", "live"),
    ]
    assert life.end.peers == (Peer(page=1, entries=2, stale=2),)


def test_runs_of_growth_are_one_entry() -> None:
    life = Inspector(grown(8)).page("full", 2)
    assert story(life) == [
        (4, 1, "taken filled mapped joined", "live"),
        (5, 3, "filled mapped", "live"),
        (9, 1, "unmapped released", "free"),
    ]
    assert (life.events[1].first.event, life.events[1].last.event) == (5, 7)
    assert [act.slots for act in life.events[1].acts] == [((9, 11),), ((9, 11),)]


def test_a_refill_is_a_new_life_with_another_owner() -> None:
    trace = [
        {**HEADER, "kv_size": 4, "kv_size_swa": 4},
        {"op": "alloc_extend", "reqs": ["A"], "seq_lens": [4]},
        {"op": "finish", "req": "A"},
        {"op": "alloc_extend", "reqs": ["B"], "seq_lens": [3]},
    ]
    life = Inspector(trace).page("full", 1)
    assert story(life) == [
        (1, 1, "taken filled mapped joined", "live"),
        (2, 1, "unmapped released left", "free"),
        (3, 1, "taken filled mapped joined", "live"),
    ]
    assert life.times_taken == 2
    assert life.end.rows == (Span("B", 0, 2),)


def test_a_page_that_is_queued_in_a_group_is_pending_until_its_end() -> None:
    trace = [
        HEADER,
        {"op": "alloc_extend", "reqs": ["A"], "seq_lens": [4]},
        {"op": "free_group_begin"},
        {"op": "free", "req": "A"},
        {"op": "free_group_end"},
    ]
    inspector = Inspector(trace)
    assert story(inspector.page("full", 1)) == [
        (1, 1, "taken filled mapped joined", "live"),
        (3, 1, "queued", "pending"),
        (4, 1, "unmapped released", "free"),
    ]
    group = inspector.at(3).group
    assert group is not None
    assert group.opened.event == 2
    assert [(p.pool, p.page, [m.event for m in p.asked]) for p in group.pending] == [
        ("full", 1, [3]),
        ("swa", 1, [3]),
    ]
    full = inspector.at(3).full
    assert (full.free_pages, full.live_pages, full.pending_pages, full.size_pages) == (5, 0, 1, 6)
    assert inspector.at(4).group is None


def test_a_slot_shows_only_what_concerns_it() -> None:
    inspector = Inspector(DOUBLE_FREE, allocator="buggy")
    assert story(inspector.slot("full", 5)) == [
        (1, 1, "taken filled mapped joined", "live"),
        (2, 1, "peer-released", "live"),
        (3, 1, "unmapped", "live"),
    ]
    assert inspector.slot("full", 5).events[0].after.rows == (Span("A", 1, 1),)
    assert [event.first.event for event in inspector.slot("swa", 7).events] == [1, 2, 3]
    assert inspector.slot("full", 9).events == ()


def test_a_release_that_changes_nothing_is_kept() -> None:
    life = Inspector(DOUBLE_FREE, allocator="fixed").page("full", 1)
    assert story(life) == [
        (1, 1, "taken filled mapped joined", "live"),
        (2, 1, "unmapped", "live"),
        (3, 1, "named", "live"),
    ]
    assert [finding.kind for finding in life.findings] == ["redundant-free"]


def test_clear_ends_every_life() -> None:
    trace = [*DOUBLE_FREE[:2], {"op": "clear"}]
    life = Inspector(trace).page("full", 1)
    assert story(life)[-1] == (2, 1, "cleared left", "free")
    assert life.end.state == "free"


def test_a_row_says_which_positions_are_no_longer_its_own() -> None:
    trace = [
        {**HEADER, "sliding_window_size": 4},
        {"op": "alloc_extend", "reqs": ["A"], "seq_lens": [10]},
        {"op": "free_swa", "req": "A", "start": 0, "end": 4},
        {"op": "share", "req": "cache", "from": "A", "start": 0, "end": 8},
        {"op": "free", "req": "A", "start": 4, "end": 8},
    ]
    view = Inspector(trace).row("cache")
    assert (view.length, view.window_tokens, view.reads_back_to, view.ended) == (8, 4, 5, None)
    told = [(p.first, p.last, p.full_page, p.swa_page, p.page, p.held) for p in view.pieces]
    assert told == [
        (0, 3, 1, None, "valid", True),
        (4, 4, 2, None, "released", True),
        (5, 7, 2, None, "released", True),
    ]
    since = view.pieces[1].since
    assert since is not None
    assert since.event == 4
    held = [(p.first, p.last, p.held) for p in Inspector(trace).row("A").pieces]
    assert held == [(0, 3, True), (4, 6, False), (7, 7, False), (8, 9, True)]


def test_the_row_of_a_request_that_is_over_is_shown_as_it_was() -> None:
    trace = [*grown(6), {"op": "finish", "req": "A"}]
    view = Inspector(trace).row("A")
    assert view.ended is not None
    assert (view.at.event, view.ended.event, view.length) == (7, 8, 6)
    told = [(e.first.event, e.last.event, e.steps, e.detail, e.length) for e in view.events]
    assert told == [
        (1, 1, 1, "0:2", 2),
        (2, 5, 4, "2:6", 6),
        (6, 6, 1, "0:4 taken over by cache", 6),
        (7, 7, 1, "0:6", 6),
        (8, 8, 1, "0:6", 0),
    ]


def test_a_request_named_by_a_number_is_found() -> None:
    trace = [HEADER, {"op": "alloc_extend", "reqs": [7], "seq_lens": [3]}]
    assert Inspector(trace).row(7).length == 3
    assert Inspector(trace).row("7").length == 3


def test_a_moment_has_both_pools_their_owners_and_the_mapping() -> None:
    view = Inspector(DOUBLE_FREE, allocator="buggy").at(3)
    assert view.full.cells == (
        CellRun(1, 1, "live", 0, 0),
        CellRun(2, 6, "free", None, 1),
    )
    assert view.swa.cells == (
        CellRun(1, 1, "free", None, 2),
        CellRun(2, 6, "free", None, 1),
    )
    assert view.owners == (Owner("A", "req A", 1, 0),)
    assert view.swa.free == (1, 1, 2, 3, 4, 5, 6)
    assert (view.swa.free_pages, view.swa.lost_pages, view.swa.size_pages) == (7, -1, 6)
    assert (view.swa.available_tokens, view.swa.size_tokens) == (28, 24)
    assert view.mapping == (MappingRun((6, 7), (6, 7), stale=True),)
    assert view.rows == (RowSummary("A", 4, 1, 0, 0, None),)
    assert view.findings[0].kind == "double-free"


def test_the_initial_state_is_event_0() -> None:
    view = Inspector(DOUBLE_FREE).at(0)
    assert view.full.cells == (CellRun(1, 6, "free", None, 1),)
    assert (view.at.event, view.owners, view.mapping) == (0, (), ())


def test_owners_without_a_row_are_told_by_their_allocation_in_both_pools() -> None:
    trace = [
        HEADER,
        {"op": "alloc_extend", "prefix_lens": [0], "seq_lens": [8], "last_loc": [-1]},
        {"op": "alloc_extend", "prefix_lens": [0], "seq_lens": [4], "last_loc": [-1]},
    ]
    view = Inspector(trace).at(2)
    assert view.owners == (
        Owner("A", "event 1 alloc_extend", 2, 2),
        Owner("B", "event 2 alloc_extend", 1, 1),
    )
    assert [(cell.first, cell.last, cell.owner) for cell in view.swa.cells] == [
        (1, 2, 0),
        (3, 3, 1),
        (4, 6, None),
    ]


# --- going back ----------------------------------------------------------------------------------


def test_going_back_ten_events_replays_a_few_and_not_all() -> None:
    inspector = Inspector(str(RECORDED))
    inspector.at(700)
    assert inspector.performed == 700
    inspector.at(690)
    assert inspector.performed == 706


def test_stepping_back_one_by_one_costs_less_than_ten_events_each() -> None:
    inspector = Inspector(str(RECORDED))
    inspector.at(793)
    for event in range(792, 692, -1):
        inspector.at(event)
    assert inspector.performed - 793 < 1000


def test_every_moment_is_the_same_backwards_and_forwards() -> None:
    forwards, backwards = Inspector(str(SHORT_RECORDED)), Inspector(str(SHORT_RECORDED))
    there = [forwards.at(event) for event in range(forwards.events + 1)]
    back = [backwards.at(event) for event in range(backwards.events, -1, -1)]
    assert back[::-1] == there


def test_rows_and_findings_survive_the_way_back() -> None:
    inspector = Inspector(
        [
            HEADER,
            *[{"op": "mark", "label": "x"}] * 100,
            *DOUBLE_FREE[1:],
        ],
        allocator="buggy",
    )
    last = inspector.at(103)
    assert last.findings[0].kind == "double-free"
    inspector.at(101)
    assert inspector.at(103) == last
    assert inspector.performed < 120


def test_going_back_does_not_start_over() -> None:
    trace = [HEADER, *[{"op": "mark", "label": "x"}] * 20_000]
    inspector = Inspector(trace)
    inspector.at(20_000)
    inspector.at(10_000)
    assert inspector.performed < 20_000 + 1024


def test_copies_of_a_replay_do_not_grow_with_the_trace() -> None:
    replayer = Replayer(SimConfig(page_size=4, kv_size=24, kv_size_swa=24))
    checkpoints = Checkpoints()
    for event in range(1, 20_001):
        checkpoints.passing(event, replayer, 20_000)
    checkpoints.arrived(20_000)
    kept = {checkpoints.nearest_before(event) for event in range(1, 20_001)}
    assert 16 < len(kept) <= 56


def test_a_foreign_allocator_is_replayed_from_the_start() -> None:
    trace = [{**HEADER, "page_size": 1}, {"op": "alloc", "need_size": 2, "req": "A"}]
    inspector = Inspector(trace, allocator="tests.support.tiny_allocator:TinyAllocator")
    inspector.at(1)
    inspector.at(0)
    inspector.at(1)
    assert inspector.performed == 2


# --- wrong questions -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (lambda i: i.page("full", 7), "--page full:7: the full pool has pages 1 to 6"),
        (lambda i: i.slot("swa", 28), "--slot swa:28: the SWA pool has slots 4 to 27"),
        (lambda i: i.page("ful", 1), "there is no such pool, did you mean 'full'?"),
        (lambda i: i.at(4), "--at 4: the trace has events 1 to 3"),
        (lambda i: i.row("B"), "unknown request 'B' (known: A)"),
    ],
    ids=["page", "slot", "pool", "event", "request"],
)
def test_what_is_not_there_is_said_with_what_is(question: Any, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        question(Inspector(DOUBLE_FREE))
    assert expected in str(caught.value)


def test_a_trace_without_requests_says_so() -> None:
    with pytest.raises(UsageError, match="the trace names no requests"):
        Inspector(str(SHORT_RECORDED)).row("A")
