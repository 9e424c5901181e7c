"""Each allocator as a state machine, every step held against the truth; hypothesis shrinks it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from swasim.allocator import registry
from swasim.allocator.core import CorePair
from swasim.config import SimConfig
from swasim.explore.ledger import Ledger
from swasim.explore.moves import chosen_families
from swasim.explore.situation import Bounds, Situation
from swasim.replayer import Replayer
from swasim.trace import events as ev
from swasim.trace.events import Entry

NAMES = ("A", "B", "C")
CASES = [
    ("ideal", "careful"),
    ("ideal", "sloppy"),
    ("fixed", "careful"),
    ("fixed", "sloppy"),
    ("sglang-0.4.10", "careful"),
    ("sglang-0.5.7", "careful"),
    ("sglang-0.5.11", "careful"),
    ("sglang-0.5.17", "careful"),
    ("sglang-0.5.18", "careful"),
    ("sglang-0.5.19", "careful"),
    ("sglang-0.5.23", "careful"),
]


class AllocatorMachine(RuleBasedStateMachine):
    """Callers make any move that they may; nothing may go wrong, and the accounts must close."""

    allocator: str
    callers: str

    def __init__(self) -> None:
        super().__init__()
        self.replayer: Replayer | None = None
        self.number = 0

    @initialize(
        page_size=st.sampled_from((1, 2, 4)),
        full_pages=st.integers(2, 5),
        swa_pages=st.integers(2, 5),
        need_sort=st.booleans(),
    )
    def start(self, page_size: int, full_pages: int, swa_pages: int, need_sort: bool) -> None:
        profile = registry.profile(self.allocator)
        size = page_size if profile.paged else 1
        config = SimConfig(
            page_size=size,
            kv_size=size * full_pages,
            kv_size_swa=size * swa_pages,
            need_sort=need_sort,
            allocator=self.allocator,
        )
        self.replayer = Replayer(config)
        self.ledger = Ledger(config.geometry)
        self.operations = profile.operations
        self.families = chosen_families(self.callers, profile.operations)

    def events(self) -> list[ev.AnyEvent]:
        """What the callers may do now; they ask for room before a step, as schedulers do."""
        assert self.replayer is not None
        size = self.replayer.config.page_size
        now = Situation(
            size,
            self.operations,
            Bounds(requests=len(NAMES)),
            NAMES,
            self.replayer.resolver.rows,
            self.ledger,
        )
        room = min(self.replayer.available) // size
        return [
            event
            for family in self.families
            for event in family.moves(now)
            if not isinstance(event, ev.AllocDecode) or len(event.reqs or []) <= room
        ]

    @precondition(lambda self: self.replayer is not None)
    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        assert self.replayer is not None
        events = self.events()
        if not events:
            return
        event = data.draw(st.sampled_from(events))
        self.number += 1
        step = self.replayer.step(Entry(self.number, self.number + 1, event))
        self.ledger.note(step, self.replayer.resolver.rows)
        assert [f.headline for f in step.findings if f.severity == "error"] == []

    @invariant()
    def accounts_close(self) -> None:
        """Free and live pages are the pool, each once, by the lists and by the truth alike."""
        if self.replayer is None:
            return
        pair, truth = self.replayer.allocator, self.replayer.sanitizer.truth
        assert isinstance(pair, CorePair)
        state = pair.state()
        for pool, listed in (
            (truth.full, state.full_free + state.full_staged),
            (truth.swa, state.swa_free + state.swa_staged),
        ):
            copies = Counter(listed)
            assert set(copies.values()) <= {1}
            owned = {page for page, record in pool.pages.items() if record.live}
            assert owned.isdisjoint(copies)
            assert owned | set(copies) == set(range(1, pool.size_pages + 1))
            assert pool.free_pages + pool.live_pages + pool.pending_pages == pool.size_pages

    @invariant()
    def mapping_names_live_pages_only(self) -> None:
        """Whatever entry is not 0 leads from a page to an SWA page that somebody has."""
        if self.replayer is None or self.ledger.in_group:
            return
        truth = self.replayer.sanitizer.truth
        size = self.replayer.config.page_size
        for slot in truth.mapping.mapped_slots():
            swa_slot = truth.mapping.entry(slot)
            record = truth.swa.peek(swa_slot // size)
            assert record is not None
            assert record.live, f"slot {slot} leads to SWA slot {swa_slot}"


def run_machine(allocator: str, callers: str, examples: int, steps: int, *, shrink: bool) -> None:
    machine = type("Machine", (AllocatorMachine,), {"allocator": allocator, "callers": callers})
    phases = tuple(Phase) if shrink else (Phase.generate,)
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=examples, stateful_step_count=steps, phases=phases),
    )


@pytest.mark.parametrize(("allocator", "callers"), CASES)
def test_no_step_parts_allocator_and_truth(allocator: str, callers: str) -> None:
    run_machine(allocator, callers, examples=30, steps=25, shrink=True)


@pytest.mark.slow
@pytest.mark.parametrize(("allocator", "callers"), CASES)
def test_no_step_of_many_parts_allocator_and_truth(allocator: str, callers: str) -> None:
    run_machine(allocator, callers, examples=200, steps=50, shrink=True)


@pytest.mark.parametrize(
    "allocator", ["buggy", "fault:36723-free-full", "fault:38519", "fault:34399"]
)
def test_the_machine_parts_on_a_known_fault(allocator: str) -> None:
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_machine(allocator, "sloppy", examples=100, steps=30, shrink=False)
