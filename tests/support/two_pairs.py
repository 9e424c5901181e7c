"""A pair that is asked the swift way first, beside one that performs every call."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from swasim.allocator.core import CorePair
from swasim.allocator.core.swift import Swift
from swasim.allocator.profile import Profile
from swasim.allocator.registry import profile as registered
from swasim.call import Call, Effect
from swasim.errors import UsageError
from swasim.geometry import Geometry
from swasim.runs import (
    ALLOC,
    DECODE,
    EXTEND,
    FREE,
    FREE_FULL,
    FREE_FULL_SEGMENT,
    FREE_GROUP,
    FREE_SEGMENT,
    FREE_SWA,
    FREE_SWA_SEGMENT,
    RunCall,
    RunEffect,
)

OPERATIONS = {
    "alloc": ALLOC,
    "alloc_extend": EXTEND,
    "alloc_decode": DECODE,
    "free": FREE,
    "free_swa": FREE_SWA,
    "free_full": FREE_FULL,
    "free_segment": FREE_SEGMENT,
    "free_swa_segment": FREE_SWA_SEGMENT,
    "free_full_segment": FREE_FULL_SEGMENT,
    "free_segments": FREE_SEGMENT,
    "free_full_segments": FREE_FULL_SEGMENT,
}

BEGIN, END = Call("free_group_begin"), Call("free_group_end")


def in_runs(call: Call, page_size: int) -> RunCall | None:
    """The call by runs; None where it cannot be written so."""
    indices, start_pos = call.indices, call.start_pos
    if call.op in ("free_segments", "free_full_segments"):
        if len(call.segments) != 1:
            return None
        indices, start_pos = call.segments[0].indices, call.segments[0].start_pos
    if call.op not in OPERATIONS or call.pool is not None or start_pos % page_size:
        return None
    made = RunCall()
    made.op = OPERATIONS[call.op]
    made.need_size = call.need_size
    made.prefix_lens.load(call.prefix_lens)
    made.seq_lens.load(call.seq_lens)
    made.last_loc.load(call.last_loc)
    for slot in indices:
        made.name(slot, 1)
    return made


def group_in_runs(frees: list[Call]) -> RunCall:
    """A group around these calls, each a plain free."""
    made = RunCall()
    made.op = FREE_GROUP
    for free in frees:
        for slot in free.indices:
            made.name(slot, 1)
    return made


def one_effect(effects: list[Effect]) -> Effect:
    """What calls changed together; what is available after the last."""
    made = Effect(
        full_available=effects[-1].full_available, swa_available=effects[-1].swa_available
    )
    for effect in effects:
        made.raised = made.raised or effect.raised
        for name in (
            "full_taken",
            "full_returned",
            "swa_taken",
            "swa_returned",
            "mapped_slots",
            "mapped_from",
            "mapped_to",
        ):
            getattr(made, name).extend(getattr(effect, name))
    return made


def ascending(effect: Effect) -> Effect:
    """The same with its entries by slot."""
    written = sorted(zip(effect.mapped_slots, effect.mapped_from, effect.mapped_to, strict=True))
    return replace(
        effect,
        mapped_slots=[slot for slot, _, _ in written],
        mapped_from=[peer for _, peer, _ in written],
        mapped_to=[peer for _, _, peer in written],
    )


class TwoPairs:
    """One that performs every call, and one that is asked the swift way first.

    Releases are answered, taken back and answered again.

    Attributes:
        asked, plain: calls, by operation: all that can be written by runs outside of an open group,
            and those of them that were answered. A group of plain frees is one
            "free_group_begin".
    """

    def __init__(self, profile: Profile, geometry: Geometry, need_sort: bool) -> None:
        self.slow = CorePair("slow", profile, geometry, need_sort)
        self.fast = CorePair("fast", profile, geometry, need_sort)
        self.swift, self.effect = Swift(self.fast), RunEffect()
        self.asked, self.plain = Counter[str](), Counter[str]()
        self.ahead: list[Call] = []

    def perform(self, call: Call, compared: bool = True) -> Effect:
        """Carry the call out on both, and compare."""
        return self._perform(in_runs(call, self.slow.page_size), [call], compared)[0]

    def perform_group(self, frees: list[Call], compared: bool = True) -> Effect:
        """Carry a group of plain frees out on both, and compare; says what it changed in all."""
        calls = [BEGIN, *frees, END]
        return one_effect(self._perform(group_in_runs(frees), calls, compared))

    def follow(self, call: Call, compared: bool = True) -> Effect | None:
        """`perform`, and `perform_group` where a begin and plain frees are followed by an end.

        Returns:
            None for a begin, and a free behind one: they wait.
        """
        if call == BEGIN and not self.ahead:
            self.ahead = [call]
            return None
        if self.ahead and call.op == "free" and call.pool is None:
            self.ahead.append(call)
            return None
        if self.ahead and call == END:
            frees, self.ahead = self.ahead[1:], []
            return self.perform_group(frees, compared)
        self.settle(compared)
        return self.perform(call, compared)

    def settle(self, compared: bool = True) -> None:
        """Carry out what waits."""
        waiting, self.ahead = self.ahead, []
        for call in waiting:
            self.perform(call, compared)

    def _perform(self, runs: RunCall | None, calls: list[Call], compared: bool) -> list[Effect]:
        before = self.fast.key() if compared else None
        open_group = self.slow.in_group
        effects = [self.slow.perform(call) for call in calls]
        answered = runs is not None and self.swift.answer(runs, self.effect)
        if answered and compared and runs is not None and runs.op >= FREE:
            self.swift.take_back(self.effect)
            assert self.fast.key() == before, calls
            assert self.swift.answer(runs, self.effect), calls
        if runs is not None and not open_group:
            self.asked[calls[0].op] += 1
            self.plain[calls[0].op] += answered
        if answered:
            said = self.effect.to_effect(allocated=calls[0].op.startswith("alloc"))
            done = effects[0] if len(calls) == 1 else one_effect(effects)
            if len(calls) > 1 and self.slow.profile.free_queue == "resolved":
                # Each free of the group unmapped its pages by itself, in ascending order.
                said, done = ascending(said), ascending(done)
            assert said == done, calls
            for pages in (said.full_returned, said.swa_returned) if self.slow.page_size > 1 else ():
                assert len(set(pages)) == len(pages), calls
        else:
            assert not compared or self.fast.key() == before, calls
            assert [self.fast.perform(call) for call in calls] == effects
        assert not compared or self.fast.key() == self.slow.key(), calls
        return effects

    def refuses(self, call: Call) -> bool:
        """Whether the profile has no such method; then the swift way must not have it either."""
        try:
            self.slow.clone().perform(call)
        except UsageError:
            runs, before = in_runs(call, self.slow.page_size), self.fast.key()
            assert runs is None or not self.swift.answer(runs, self.effect)
            assert self.fast.key() == before
            return True
        return False

    @property
    def share(self) -> float:
        """Of the calls that were answered."""
        return self.plain.total() / self.asked.total()

    def share_of(self, op: str) -> float:
        """Of the calls of one operation."""
        return self.plain[op] / self.asked[op]


def pairs(name: str = "ideal", page_size: int = 4, need_sort: bool = False) -> TwoPairs:
    """Eight pages in each pool."""
    geometry = Geometry(page_size, 8 * page_size, 8 * page_size)
    return TwoPairs(registered(name), geometry, need_sort)


def used(name: str = "ideal", need_sort: bool = False) -> TwoPairs:
    """Three requests of 8, 6 and 4 tokens: full pages 1 to 5, mapped to the same SWA pages."""
    made = pairs(name, need_sort=need_sort)
    for tokens in (8, 6, 4):
        made.perform(extend([0], [tokens], [-1]))
    return made


def used_slots(name: str = "ideal", need_sort: bool = False) -> TwoPairs:
    """Page size 1: slots 1 to 5 of eight, 4 without its SWA peer."""
    made = pairs(name, 1, need_sort)
    made.perform(Call("alloc", need_size=5))
    made.perform(Call("free_swa", indices=[4]))
    return made


def extend(prefix_lens: list[int], seq_lens: list[int], last_loc: list[int]) -> Call:
    return Call("alloc_extend", prefix_lens=prefix_lens, seq_lens=seq_lens, last_loc=last_loc)


def free(*slots: int) -> Call:
    return Call("free", indices=[*slots])


def answered(made: TwoPairs, call: Call) -> bool:
    """Whether the last call was; that it was answered rightly has been compared."""
    before = made.plain.total()
    made.perform(call)
    return made.plain.total() > before
