"""Recorded slots to the slots of this replay.

The n-th slot of a recorded `out` stands for the n-th slot that the replay returned. Until the
two differ for the first time translation is the identity, and costs nothing.
"""

from __future__ import annotations

from msgspec import UnsetType

from swasim.geometry import Pool
from swasim.trace.events import IndexList, expand


class Translation:
    """What each recorded slot stands for, per pool.

    Attributes:
        diverged: a recorded `out` differed from what the replay returned.
    """

    def __init__(self) -> None:
        self.diverged = False
        self._stands_for: dict[Pool, dict[int, int]] = {"full": {}, "swa": {}}

    def clone(self) -> Translation:
        """The same meanings, to be changed on their own."""
        twin = object.__new__(Translation)
        twin.diverged = self.diverged
        twin._stands_for = {pool: known.copy() for pool, known in self._stands_for.items()}
        return twin

    def learn(
        self, recorded: IndexList | UnsetType | None, returned: list[int] | None, pool: Pool
    ) -> None:
        """Take over one allocation; `recorded` is unset where the trace does not say."""
        if isinstance(recorded, UnsetType):
            return
        slots = None if recorded is None else expand(recorded)
        if slots != returned:
            self.diverged = True
        if not self.diverged or slots is None:
            return
        stands_for = self._stands_for[pool]
        found = returned or []
        for at, slot in enumerate(slots):
            if at < len(found) and found[at] != slot:
                stands_for[slot] = found[at]
            else:
                # Handed out anew, as itself or to nobody: an older meaning is over.
                stands_for.pop(slot, None)

    def slots(self, recorded: list[int], pool: Pool) -> list[int]:
        """Slots of this replay; one that was never translated stands for itself."""
        stands_for = self._stands_for[pool]
        if not stands_for:
            return recorded
        return [stands_for.get(slot, slot) for slot in recorded]

    def forget(self) -> None:
        """The pools are empty again (`clear`): no recorded slot is live."""
        for stands_for in self._stands_for.values():
            stands_for.clear()
