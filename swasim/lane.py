"""The fast lane: event after event carried over without an object for any of them.

Nearly all events of a recorded trace are plain (`swasim.plain`), nothing unusual happens in the
allocator, and nothing is wrong. Such an event is read into the one call that there is, answered,
compared with what was recorded, followed by the truth, and gone; a free group is, as a whole.
Where anything else comes, the lane ends and the step (`swasim.replayer`) takes over; nothing is
judged here.

This module is compiled where that is possible (`lane.pxd` has its types); it runs as it stands
otherwise, no faster than steps. What must not be added here: findings, rows, rules of pools.
"""

from __future__ import annotations

from swasim.allocator.core.swift import Swift
from swasim.call import Effect
from swasim.plain import PlainReader
from swasim.runs import DECODE, RunCall, RunEffect
from swasim.sanitizer.steady import Steady
from swasim.trace.events import AnyEvent


class Lane:
    """Carries events over for one replay, for as long as nothing has to be said about them.

    Only for a replay without rows, in which recorded slots still stand for themselves.

    Args:
        swift: answers calls on the allocator.
        steady: holds their effects against the truth, and remembers the last event.
        page_size: tokens per page.

    Attributes:
        carried: events that were carried over, in all.
        full_available, swa_available: tokens, after the last of them; to be set before `run`.
        full_before, swa_before: tokens, before it.
    """

    def __init__(self, swift: Swift, steady: Steady, page_size: int) -> None:
        self.carried = 0
        self.full_available = self.swa_available = 0
        self.full_before = self.swa_before = 0
        self._left: Effect | None = None
        self._swift = swift
        self._steady = steady
        self._reader = PlainReader(page_size)
        self._effect = RunEffect()
        self._returned = RunCall()

    def run(
        self, events: list[AnyEvent], number: int, line: int, start: int, stop: int, wanted: int
    ) -> int:
        """Carry over events from index `start` on.

        Args:
            events: decoded from a line each, or made of the same types.
            number: of `events[0]` in the trace.
            line: on which `events[0]` stands; the others follow one by one.
            stop: index at which to stop, at most `len(events)`.
            wanted: index of an event that somebody wants to look at: from there on, none is
                carried over in one with others.

        Returns:
            The index of the first event that was not carried over: `stop`, or that of an event
            for a step. Then `take_left` says whether the allocator has answered it.
        """
        reader, effect = self._reader, self._effect
        call = reader.call
        self._left = None
        index, group_stop = start, min(stop, wanted)
        while index < stop:
            read = reader.read(events, index, group_stop)
            if not read or not self._swift.answer(call, effect):
                return index
            last = index + read - 1
            if reader.has_out and not self._returned_what_was_recorded():
                self._left = self.last_effect()
                return index
            if not self._steady.step(
                call,
                effect,
                number + last,
                line + last,
                reader.op,
                reader.site,
                reader.seconds,
            ):
                if read > 1:
                    self._swift.take_back(effect)
                else:
                    self._left = self.last_effect()
                return index
            self.full_before, self.swa_before = self.full_available, self.swa_available
            self.full_available = effect.full_available
            self.swa_available = effect.swa_available
            self.carried += read
            index += read
        return stop

    def take_left(self) -> Effect | None:
        """What the event changed at which `run` stopped; None where it was not answered. Once."""
        left, self._left = self._left, None
        return left

    def last_call(self) -> RunCall:
        """What the event asked for that was carried over last."""
        return self._reader.call

    def last_effect(self) -> Effect:
        """What the event changed that was answered last."""
        return self._effect.to_effect(allocated=self._reader.call.op <= DECODE)

    def _returned_what_was_recorded(self) -> bool:
        """Whether the slots of the effect are those that were recorded, in the same order."""
        effect, returned, recorded = self._effect, self._returned, self._reader.recorded
        returned.name_none()
        for run in range(effect.slots.count):
            returned.name(effect.slots.at[run], effect.lengths.at[run])
        if returned.slots != recorded.slots or returned.starts.count != recorded.starts.count:
            return False
        for run in range(returned.starts.count):
            if returned.starts.at[run] != recorded.starts.at[run]:
                return False
            if returned.lengths.at[run] != recorded.lengths.at[run]:
                return False
        return True
