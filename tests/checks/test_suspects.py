"""What looks wrong and may still be explained is held back, with the event at which it began."""

from __future__ import annotations

from typing import Any

from swasim.replayer import Step
from swasim.run import replay
from tests.support.events import (
    IDLE,
    Event,
    alloc,
    decode,
    errors,
    extend,
    findings,
    free_slots,
    free_swa,
    one,
    release,
    set_mapping,
)

RELEASE = "sglang-0.5.23"
STRANDED = [extend("A", 4), release("free_full", "A")]
"""SWA page 1 is live; only the entries of full page 1, which is free, lead to it."""


def told_at(*events: Event) -> list[tuple[int, int, str]]:
    """Event at which a finding was told, event that it is about, kind."""
    told: list[tuple[int, int, str]] = []

    def note(step: Step) -> None:
        told.extend((step.entry.number, f.at.event, f.kind) for f in step.findings)

    sizes: dict[str, Any] = {"page_size": 4, "kv_size": 32, "kv_size_swa": 32}
    replay(list(events), allocator=RELEASE, on_step=note, **sizes)
    return told


def test_a_suspicion_is_told_late_and_says_when_it_began() -> None:
    others = [extend("B", 4), extend("C", 4)]
    assert told_at(*STRANDED, {"op": "mark", "label": "later"}, IDLE)[0] == (4, 2, "orphaned-page")
    assert told_at(*STRANDED, *others)[0] == (3, 2, "orphaned-page")


def test_a_suspicion_that_is_explained_is_never_told() -> None:
    assert told_at(*STRANDED, free_swa("A")) == []
    cleared = {"op": "clear_full_to_swa_mapping", "indices": [[4, 8]]}
    assert told_at(*STRANDED, cleared, free_slots(4, 5, 6, 7, pool="swa")) == []


def test_an_entry_of_a_live_page_explains_a_stranded_peer() -> None:
    found = [
        *STRANDED,
        alloc(4, pool="full", req="H"),
        set_mapping([4, 5, 6, 7], [4, 5, 6, 7]),
        free_swa("H"),
    ]
    assert errors(*found, allocator=RELEASE) == []


def test_an_idle_pool_tells_a_suspicion_once_and_not_as_a_leak() -> None:
    assert [f.kind for f in findings(*STRANDED, IDLE, IDLE, allocator=RELEASE)] == ["orphaned-page"]


def test_the_finding_shows_the_pool_as_it_was_when_the_suspicion_began() -> None:
    finding = one("orphaned-page", *STRANDED, extend("B", 8), allocator=RELEASE)
    assert finding.surroundings is not None
    assert finding.surroundings.live_pages == 1
    assert finding.surroundings.available_tokens == 28
    assert finding.notes == ("nothing released or mapped it afterwards",)


def test_suspicions_of_one_call_are_one_fault() -> None:
    stranded = [extend("A", 12), release("free_full", "A")]
    found = findings(*stranded, allocator=RELEASE)
    assert [f.page for f in found] == [1, 2, 3]
    assert [f.cause for f in found] == [None, found[0].fingerprint, found[0].fingerprint]


def test_two_requests_that_strand_their_peers_are_two_faults() -> None:
    two = [*STRANDED, extend("B", 8), release("free_full", "B")]
    assert errors(*two, allocator=RELEASE) == [(2, "orphaned-page"), (4, "orphaned-page")]


def test_a_window_that_was_cut_into_is_told_at_the_step_that_reads_it() -> None:
    sizes: dict[str, Any] = {
        "page_size": 2,
        "kv_size": 32,
        "kv_size_swa": 32,
        "sliding_window_size": 3,
    }
    steps: list[tuple[int, int]] = []

    def note(step: Step) -> None:
        steps.extend((step.entry.number, f.at.event) for f in step.findings)

    events = [extend("A", 8), free_swa("A", 4, 8), extend("B", 2), decode("A")]
    replay(events, allocator="ideal", on_step=note, **sizes)
    assert steps == [(4, 2)]
