"""Copies of a replay at earlier events, so that going back does not mean starting over.

Two kinds: `spread` ones lie evenly over all that was replayed; when they become too many, every
other one is dropped and the distance doubles. `trail` ones lie behind the event that was asked
for last, at doubling distances, because whoever steps back once steps back again.
"""

from __future__ import annotations

import pickle

from swasim.allocator.core import CorePair
from swasim.replayer import Replayer

SPREAD_EVENTS = 64
SPREAD_AT_MOST = 32
TRAIL_EVENTS = 8
TRAIL_AT_MOST = 24


class Checkpoints:
    """A bounded number of copies of a replay. A copy is bytes: it shares nothing."""

    def __init__(self) -> None:
        self._distance = SPREAD_EVENTS
        self._spread: dict[int, bytes] = {}
        self._trail: dict[int, bytes] = {}

    def passing(self, event: int, replayer: Replayer, target: int) -> None:
        """`replayer` stands after `event`, on its way to `target`: keep a copy where it pays."""
        if not isinstance(replayer.allocator, CorePair):
            return
        behind = target - event
        if event % self._distance == 0 and event not in self._spread:
            self._spread[event] = pickle.dumps(replayer, pickle.HIGHEST_PROTOCOL)
            if len(self._spread) > SPREAD_AT_MOST:
                self._distance *= 2
                self._spread = {e: c for e, c in self._spread.items() if e % self._distance == 0}
        elif behind >= TRAIL_EVENTS and behind & (behind - 1) == 0 and event not in self._trail:
            self._trail[event] = pickle.dumps(replayer, pickle.HIGHEST_PROTOCOL)

    def arrived(self, event: int) -> None:
        """The walk is over: forget what lies ahead of it, and the oldest of too many."""
        kept = sorted(e for e in self._trail if e < event)[-TRAIL_AT_MOST:]
        self._trail = {e: self._trail[e] for e in kept}

    def nearest_before(self, event: int) -> int:
        """Event of the nearest copy that lies before `event`; 0 where there is none."""
        return max((e for e in (*self._spread, *self._trail) if e < event), default=0)

    def copy_at(self, event: int) -> Replayer:
        """A replay as it stood after `event`, one of those that are kept."""
        copy = self._spread.get(event) or self._trail[event]
        replayer: Replayer = pickle.loads(copy)
        return replayer
