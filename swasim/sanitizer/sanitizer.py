"""One sanitizer for every engine: event and effect in, findings out.

It trusts neither side: what a call should do follows from the call and the truth; what it did is
in the effect; a finding is where the two part. Afterwards the truth takes over what the allocator
did, so that one fault is one finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swasim.call import Call, Effect
from swasim.config import SimConfig
from swasim.geometry import Pool
from swasim.runs import COMPILED
from swasim.sanitizer.accounting import check_accounts, check_idle, names_out_of_range
from swasim.sanitizer.allocation import check_allocation
from swasim.sanitizer.build import FindingBuilder
from swasim.sanitizer.findings import Finding, Moment
from swasim.sanitizer.group import check_group_begin, check_group_end
from swasim.sanitizer.mapping import (
    apply_mapping_writes,
    check_entries_set_again,
    check_remap_in_group,
)
from swasim.sanitizer.release import RELEASES, check_release
from swasim.sanitizer.rows import RowIndex
from swasim.sanitizer.scene import Scene, moment_of
from swasim.sanitizer.shadow import Truth
from swasim.sanitizer.state import StateKeeper
from swasim.sanitizer.steady import Steady
from swasim.sanitizer.suspects import Suspects
from swasim.sanitizer.window import Window
from swasim.trace.events import Entry, ReqName
from swasim.trace.resolve import Resolved, Row, RowChange

ALLOCATIONS = frozenset({"alloc", "alloc_extend", "alloc_decode", "alloc_extend_swa_tail"})
NO_CALL = Call(op="")
NO_EFFECT = Effect()


class Sanitizer:
    """Watches one allocator through one trace.

    Args:
        config: sizes of the pools, window.
        rows: the resolver's rows; read, never changed.
        trace_path: as the user named the trace; stands in suggested commands.

    Attributes:
        recognises: whether calls at which nothing is wrong are looked for first. Findings and truth
            are the same either way; where nothing is compiled, looking costs as much as the checks.
        steady: what recognises them; a loop in compiled code asks its `step` directly.
    """

    recognises = COMPILED

    def __init__(
        self, config: SimConfig, rows: Mapping[ReqName, Row], trace_path: str = "TRACE"
    ) -> None:
        self._truth = Truth(config.geometry)
        self.build = FindingBuilder(self._truth, trace_path, config.allocator)
        self._suspects = Suspects()
        self._window = Window(
            rows,
            config.page_size,
            config.sliding_window_size,
            includes_self=config.window_includes_self,
        )
        self._states = StateKeeper()
        self.steady = Steady(self._truth, self._suspects.by_page, self._window.index.by_page)
        self._last: tuple[Entry, Resolved] | Moment | None = None

    def clone(self, rows: Mapping[ReqName, Row]) -> Sanitizer:
        """A sanitizer that knows the same and watches another replay from here on.

        Args:
            rows: that replay's rows, equal in content to those watched so far.
        """
        self._catch_up()
        twin = object.__new__(Sanitizer)
        twin._truth = self._truth.clone()
        twin.build = self.build.clone(twin._truth)
        twin._suspects = self._suspects.clone()
        twin._window = self._window.clone(rows)
        twin._states = self._states.clone()
        twin.steady = Steady(twin._truth, twin._suspects.by_page, twin._window.index.by_page)
        twin._last = self._last
        return twin

    def __getstate__(self) -> dict[str, Any]:
        self._catch_up()
        return self.__dict__

    @property
    def truth(self) -> Truth:
        """The truth after the last event; to be read only."""
        self._catch_up()
        return self._truth

    @property
    def suspected(self) -> list[tuple[Pool, int, str]]:
        """Pool, page and kind of what the next events may still explain away."""
        return self._suspects.pages()

    @property
    def row_index(self) -> RowIndex:
        """Which rows name which pages; to be read only."""
        return self._window.index

    @property
    def reads_back_tokens(self) -> int | None:
        """Tokens before its own position that a step reads on the SWA side; None: no window."""
        return self._window.back_tokens

    def observe(
        self,
        entry: Entry,
        resolved: Resolved,
        effect: Effect | None,
        changes: tuple[RowChange, ...] = (),
    ) -> list[Finding]:
        """Hold one event against the truth.

        Args:
            entry: the event.
            resolved: its call and the rows that it names.
            effect: what the allocator did; None for an event without a call.
            changes: how rows changed by it.

        Returns:
            What is wrong, first cause first. A finding about an earlier event, which only now
            cannot be explained any more, says so in `Finding.at`.
        """
        call = resolved.call
        self._catch_up()
        self._last = entry, resolved
        if call is not None and effect is not None:
            self.build.available_tokens["full"] = effect.full_available
            self.build.available_tokens["swa"] = effect.swa_available
            if self.recognises and not changes and self.steady.reads(call, effect):
                self.steady.carry_read_over(moment_of(entry, resolved))
                return []
        moment = moment_of(entry, resolved)
        self._truth.begin_event()
        scene = self._scene(moment, call or NO_CALL, effect or NO_EFFECT, resolved)
        if call is not None and effect is not None:
            names_out_of_range(scene)
            self._carry_over(scene, call)
            check_accounts(scene)
        if changes:
            self._window.follow(scene, changes)
            self._window.check_step(scene, changes)
        return [self.build.settle(f) if f.at is moment else f for f in scene.findings]

    def _scene(self, moment: Moment, call: Call, effect: Effect, resolved: Resolved) -> Scene:
        return Scene(moment, call, effect, resolved, self._truth, self.build, self._suspects)

    def _carry_over(self, scene: Scene, call: Call) -> None:
        op = call.op
        if op in ALLOCATIONS:
            check_allocation(scene)
        elif op in RELEASES:
            check_release(scene, self._window)
        elif op == "free_group_begin":
            check_group_begin(scene)
        elif op == "free_group_end":
            check_group_end(scene, self._window)
        elif op == "clear":
            self._settle(scene)
            self._start_over()
        elif op == "backup_state":
            self._states.backup(scene)
        elif op == "restore_state":
            self._states.restore(scene)
        else:
            check_remap_in_group(scene)
            apply_mapping_writes(scene)
            check_entries_set_again(scene)

    def _start_over(self) -> None:
        """`clear`: everything is free again. The group's queue is gone with it."""
        self._truth.reset()
        self._window.index.clear()

    def _settle(self, scene: Scene) -> None:
        """Nothing can explain the suspicions any more."""
        scene.findings.extend(self._suspects.confirm_all())
        scene.findings.extend(self._window.confirm_all(scene))

    def declare_idle(self) -> list[Finding]:
        """The pools are said to be idle after the present event: every live page is leaked."""
        scene = self._scene(self._last_moment(), NO_CALL, NO_EFFECT, Resolved(None))
        self._truth.begin_event()
        scene.findings.extend(self._window.confirm_all(scene))
        check_idle(scene)
        return scene.findings

    def _last_moment(self) -> Moment:
        self._catch_up()
        if self._last is None:
            return Moment(0, 0, "start")
        return self._last if isinstance(self._last, Moment) else moment_of(*self._last)

    def _catch_up(self) -> None:
        """Take note of the last event that `steady` was asked about directly."""
        steady = self.steady
        if steady.last is not None:
            self._last, steady.last = steady.last, None
            self.build.available_tokens["full"] = steady.full_available
            self.build.available_tokens["swa"] = steady.swa_available

    def finish(self, *, truncated: bool = False) -> list[Finding]:
        """The trace is over. Of a trace that was cut off, nothing is concluded from its end."""
        if truncated:
            return []
        scene = self._scene(self._last_moment(), NO_CALL, NO_EFFECT, Resolved(None))
        self._settle(scene)
        return scene.findings
