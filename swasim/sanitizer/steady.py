"""Calls at which nothing is wrong: recognised whole, and carried over to the truth at once.

Nearly every call of a long trace is one that no check has anything to say about. Such a call is
recognised here by its runs of slots, for a hundredth of what the checks cost, and the truth is
changed just as they would have changed it. Whatever is not plainly right is refused before
anything has changed, and goes to the checks; nothing is judged here.

The allocator is not trusted: every page that it moved and every entry that it wrote is held against
the truth. What must be so that `allocation.py`, `mapping.py`, `release.py` and `accounting.py` find
nothing, suspect nothing, and change nothing but what `follow.py` changes is written in
`handout.py` and `giveback.py`. It is enough only while no free group is open, no entry is stale,
nothing is suspected, and no row names a page, so that `window.py` has nothing to watch.

This module is compiled where that is possible (`steady.pxd` has its types).
"""

from __future__ import annotations

from swasim.call import Call, Effect
from swasim.runs import DECODE, RunCall, RunEffect
from swasim.sanitizer.findings import Finding, Moment
from swasim.sanitizer.follow import hand_out, take_back
from swasim.sanitizer.giveback import GiveBack
from swasim.sanitizer.handout import HandOut
from swasim.sanitizer.shadow import PoolTruth, Truth
from swasim.sanitizer.suspects import PageKey
from swasim.trace.events import ReqName

Suspected = dict[PageKey, Finding]
Named = dict[int, dict[ReqName, tuple[int, int]]]


class Steady:
    """Recognises the calls of one trace.

    Args:
        truth: brought up to date by what is recognised.
        suspected: what the next events may still explain; read only.
        named: the pages that rows name; read only.

    Attributes:
        last: the last event, where `step` recognised it.
        full_available, swa_available: tokens after it.
    """

    def __init__(self, truth: Truth, suspected: Suspected, named: Named) -> None:
        self.truth = truth
        self.suspected = suspected
        self.named = named
        self.page_size: int = truth.geometry.page_size
        self.hand_out = HandOut(truth)
        self.give_back = GiveBack(truth)
        self.call: RunCall | None = None
        self.effect: RunEffect | None = None
        self.last: Moment | None = None
        self.full_available = self.swa_available = 0

    def __reduce__(self) -> tuple[object, ...]:
        return Steady, (self.truth, self.suspected, self.named)

    def step(
        self,
        call: RunCall,
        effect: RunEffect,
        number: int,
        line: int,
        op: str,
        site: str,
        seconds: float | None,
    ) -> bool:
        """`follows` of an event that names no request, and keeps it as the last one.

        Args:
            number, line, op, site, seconds: of the event, as in `Moment`; of the last event of
                a group.
        """
        if not self.foresees(call, effect):
            return False
        moment = Moment(number, line, op, "", site, seconds)
        self.carry_over(call, effect, moment)
        self.last = moment
        self.full_available, self.swa_available = effect.full_available, effect.swa_available
        return True

    def follows(self, call: RunCall, effect: RunEffect, moment: Moment) -> bool:
        """Whether nothing is wrong with a call, surely; then the truth follows it.

        False: the checks must say; the truth is unchanged.
        """
        if not self.foresees(call, effect):
            return False
        self.carry_over(call, effect, moment)
        return True

    def reads(self, call: Call, effect: Effect) -> bool:
        """`foresees` of a call and an effect by lists; `carry_read_over` is for afterwards."""
        if not self.is_quiet():
            return False
        ours, theirs = self.call, self.effect
        if ours is None or theirs is None:
            ours, theirs = self.call, self.effect = RunCall(), RunEffect()
        return (
            ours.read(call)
            and theirs.read(effect, allocated=ours.op <= DECODE)
            and self.foresees(ours, theirs)
        )

    def carry_read_over(self, moment: Moment) -> None:
        """`carry_over` of what `reads` was True of."""
        if self.call is not None and self.effect is not None:
            self.carry_over(self.call, self.effect, moment)

    def is_quiet(self) -> bool:
        """Whether only the call itself can be wrong, and not what came before it."""
        truth = self.truth
        return not (self.named or self.suspected or truth.mapping.stale or truth.group is not None)

    def foresees(self, call: RunCall, effect: RunEffect) -> bool:
        """Whether nothing is wrong with a call, surely. Changes nothing."""
        truth, size = self.truth, self.page_size
        if not self.is_quiet():
            return False
        change = effect.full_returned.count - effect.full_taken.count
        if not agrees(truth.full, size, effect.full_available, change):
            return False
        change = effect.swa_returned.count - effect.swa_taken.count
        if not agrees(truth.swa, size, effect.swa_available, change):
            return False
        truth.mark += 2
        if call.op <= DECODE:
            return self.hand_out.is_right(call, effect)
        return self.give_back.is_right(call, effect)

    def carry_over(self, call: RunCall, effect: RunEffect, moment: Moment) -> None:
        """Bring the truth up to date with a call that `foresees` was True of."""
        if call.op <= DECODE:
            hand_out(self.truth, effect, moment)
        else:
            take_back(self.truth, effect, moment)


def agrees(pool: PoolTruth, page_size: int, available: int, change: int) -> bool:
    """Whether as many tokens are available as the lists must hold after a change in pages."""
    free = pool.free_pages + pool.account_offset_pages + change
    return not pool.overflown and free <= pool.size_pages and available == free * page_size
