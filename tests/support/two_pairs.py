"""A pair that is asked the swift way first, beside one that performs every call."""

from __future__ import annotations

from collections import Counter

from swasim.allocator.core import CorePair
from swasim.allocator.core.swift import Swift
from swasim.allocator.profile import Profile
from swasim.call import Call, Effect
from swasim.errors import UsageError
from swasim.geometry import Geometry
from swasim.runs import ALLOC, DECODE, EXTEND, FREE, FREE_FULL, FREE_SWA, RunCall, RunEffect

OPERATIONS = {
    "alloc": ALLOC,
    "alloc_extend": EXTEND,
    "alloc_decode": DECODE,
    "free": FREE,
    "free_swa": FREE_SWA,
    "free_full": FREE_FULL,
}


def in_runs(call: Call) -> RunCall | None:
    """The call by runs; None where it cannot be written so."""
    if call.op not in OPERATIONS or call.pool is not None:
        return None
    made = RunCall()
    made.op = OPERATIONS[call.op]
    made.need_size = call.need_size
    made.prefix_lens.load(call.prefix_lens)
    made.seq_lens.load(call.seq_lens)
    made.last_loc.load(call.last_loc)
    for slot in call.indices:
        made.name(slot, 1)
    return made


class TwoPairs:
    """One that performs every call, and one that is asked the swift way first.

    Attributes:
        asked, plain: calls, by operation: all that can be written by runs outside of a group, and
            those of them that were answered.
    """

    def __init__(self, profile: Profile, geometry: Geometry, need_sort: bool) -> None:
        self.slow = CorePair("slow", profile, geometry, need_sort)
        self.fast = CorePair("fast", profile, geometry, need_sort)
        self.swift, self.effect = Swift(self.fast), RunEffect()
        self.asked, self.plain = Counter[str](), Counter[str]()

    def perform(self, call: Call, compared: bool = True) -> Effect:
        """Carry the call out on both, and compare."""
        before = self.fast.key() if compared else None
        grouped = self.slow.in_group
        effect = self.slow.perform(call)
        runs = in_runs(call)
        answered = runs is not None and self.swift.answer(runs, self.effect)
        if runs is not None and not grouped:
            self.asked[call.op] += 1
            self.plain[call.op] += answered
        if answered:
            said = self.effect.to_effect(allocated=call.op.startswith("alloc"))
            assert said == effect, call
        else:
            assert not compared or self.fast.key() == before, call
            assert self.fast.perform(call) == effect
        assert not compared or self.fast.key() == self.slow.key(), call
        return effect

    def refuses(self, call: Call) -> bool:
        """Whether the profile has no such method; then the swift way must not have it either."""
        try:
            self.slow.clone().perform(call)
        except UsageError:
            runs, before = in_runs(call), self.fast.key()
            assert runs is None or not self.swift.answer(runs, self.effect)
            assert self.fast.key() == before
            return True
        return False

    @property
    def share(self) -> float:
        """Of the calls that were answered."""
        return self.plain.total() / self.asked.total()
