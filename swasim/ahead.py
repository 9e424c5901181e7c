"""Calls that are answered together before they are looked at one by one.

On a GPU every look at what a call changed is a synchronisation. Calls that do not depend on what an
earlier one returned are carried out one after the other and looked at once; the checks then go
through their effects in order. What must not be added here: findings.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol, TypeGuard

from msgspec import UNSET

from swasim.allocator.base import Allocator
from swasim.call import Call, Effect
from swasim.errors import TraceError, UsageError
from swasim.trace import events as ev
from swasim.trace.events import AnyEvent
from swasim.trace.reader import Batch
from swasim.trace.resolve import Resolver

MOST = 64
"""Calls answered together: so many wait for one synchronisation, and as many effects are held."""


class AnswersTogether(Protocol):
    """An allocator for which one look at many calls is cheaper than many looks."""

    waits_to_be_read: bool

    def perform_all(self, calls: list[Call]) -> list[Effect]:
        """`perform` of each, in order."""
        ...


class LookAhead:
    """Effects of calls that the replay has not come to yet, in order."""

    def __init__(self) -> None:
        self._effects: deque[Effect] = deque()

    def fill(self, allocator: Allocator, resolver: Resolver, batch: Batch, start: int) -> None:
        """Have the calls of the events from index `start` on answered, as far as they can be.

        Nothing is done while effects are left, or where the allocator gains nothing by it. A call
        that cannot be made at all is left to the step that comes to it.
        """
        if self._effects or not _answers_together(allocator):
            return
        calls: list[Call] = []
        for index in range(start, min(start + MOST, len(batch))):
            if not _stands_alone(batch.events[index]):
                break
            try:
                call = resolver.resolve(batch.entry(index)).call
            except TraceError:
                break
            if call is None:
                break
            calls.append(call)
        if len(calls) < 2:
            return
        try:
            self._effects.extend(allocator.perform_all(calls))
        except UsageError:
            return

    def take(self) -> Effect | None:
        """The effect of the next call; None where it was not made yet."""
        return self._effects.popleft() if self._effects else None


def _answers_together(allocator: Any) -> TypeGuard[AnswersTogether]:
    return getattr(allocator, "waits_to_be_read", False) is True


def _stands_alone(event: AnyEvent) -> bool:
    """Whether the call of an event depends on no result of an earlier one.

    It names raw slots; nothing is expected of it, so nobody looks at the allocator behind it; and
    it does not say what was returned, so the meaning of later slots cannot change by it.
    """
    if event.expect is not None:
        return False
    if isinstance(event, ev.AllocDecode | ev.AllocExtend):
        return event.reqs is None and event.last_loc is not None and event.out is UNSET
    if isinstance(event, ev.Alloc):
        return event.req is None and event.out is UNSET
    if isinstance(event, ev.Free | ev.FreeSwa | ev.FreeFull | ev.SegmentRelease):
        return event.req is None
    return isinstance(event, ev.FreeGroupBegin | ev.FreeGroupEnd)
