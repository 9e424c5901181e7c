"""What the callers know of their own doing, without looking into the allocator.

A caller remembers what it asked for and what it was given. The moves are made from that alone:
were they made from the truth, a fault that changes the truth would change what is tried.
"""

from __future__ import annotations

from collections.abc import Mapping

from swasim.call import Call, Effect
from swasim.geometry import Geometry
from swasim.replayer import Step
from swasim.sanitizer.release import RELEASES_FULL, RELEASES_SWA
from swasim.trace import events as ev
from swasim.trace.events import ReqName
from swasim.trace.resolve import Row


class Ledger:
    """The callers' books.

    Attributes:
        live: full pages whose SWA peer is live, as far as the callers know, and that peer.
        hand: SWA slots that a caller got directly and has not mapped yet.
        in_group: a free group is open.
        queued: full pages released in the open group.
        revived: those of them that were mapped anew since.
        over: rows whose request is over although the row still stands there.
    """

    __slots__ = ("_size", "hand", "in_group", "live", "over", "queued", "revived")

    def __init__(self, geometry: Geometry) -> None:
        self._size = geometry.page_size
        self.live: dict[int, int] = {}
        self.hand: tuple[int, ...] = ()
        self.in_group = False
        self.queued: frozenset[int] = frozenset()
        self.revived: frozenset[int] = frozenset()
        self.over: frozenset[ReqName] = frozenset()

    def clone(self) -> Ledger:
        """Books that say the same and can change on their own."""
        twin = object.__new__(Ledger)
        for name in Ledger.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.live = self.live.copy()
        return twin

    def key(self) -> tuple[object, ...]:
        """Hashable; `over` is left to the rows."""
        return (
            sorted(self.live.items()),
            self.hand,
            self.in_group,
            sorted(self.queued),
            sorted(self.revived),
        )

    def note(self, step: Step, rows: Mapping[ReqName, Row]) -> None:
        """Enter one event that was carried out."""
        event, call, effect = step.entry.event, step.call, step.effect
        if call is None or effect is None or effect.raised:
            return
        if isinstance(event, ev.Allocation):
            if effect.out is not None:
                self._note_allocation(event, call, effect)
        elif isinstance(event, ev.SetFullToSwaMapping):
            self._note_mapped(call.full, call.swa)
            self.revived |= self._pages(call.full) & self.queued
            if set(call.swa) & set(self.hand):
                self.hand = ()
        elif isinstance(event, ev.FreeGroupBegin):
            self.in_group = True
        elif isinstance(event, ev.FreeGroupEnd):
            self.in_group = False
            self.queued = self.revived = frozenset()
        else:
            self._note_release(event, call, rows)

    def _note_allocation(self, event: ev.Allocation, call: Call, effect: Effect) -> None:
        out = effect.out or []
        if call.pool == "swa":
            self.hand = tuple(out)
            return
        self.over -= frozenset(_names(event))
        if call.pool is None:
            head = 0
            if isinstance(event, ev.AllocExtendSwaTail):
                head = len(out) - event.swa_tail_len
                self._forget(out)
            self.live.update(dict.fromkeys(self._pages(out[head:]), 0))
            self._note_mapped(effect.mapped_slots, effect.mapped_to)
        else:
            self._forget(out)

    def _note_mapped(self, full_slots: list[int], swa_slots: list[int]) -> None:
        size = self._size
        for slot, swa_slot in zip(full_slots, swa_slots, strict=True):
            if swa_slot:
                self.live[slot // size] = swa_slot // size

    def _forget(self, slots: list[int]) -> None:
        for page in self._pages(slots):
            self.live.pop(page, None)

    def _note_release(self, event: ev.AnyEvent, call: Call, rows: Mapping[ReqName, Row]) -> None:
        if call.pool == "swa":
            self.hand = ()
            return
        slots = call.named_slots
        pages = self._pages(slots)
        self._forget(slots)
        if call.op in RELEASES_SWA:
            self.revived -= pages
        if call.op in RELEASES_FULL and self.in_group and call.pool is None:
            self.queued |= pages
        req = getattr(event, "req", None)
        if call.op in RELEASES_FULL and req is not None and req in rows:
            self._note_end(req, rows)

    def _note_end(self, req: ReqName, rows: Mapping[ReqName, Row]) -> None:
        """A row that holds nothing any more but what others hold too belongs to nobody."""
        row = rows[req]
        others = {
            slot
            for name, other in rows.items()
            if name != req and name not in self.over
            for slot, held in zip(other.slots, other.held, strict=True)
            if held
        }
        own = (s for s, held in zip(row.slots, row.held, strict=True) if held and s not in others)
        if next(own, None) is None:
            self.over |= {req}

    def _pages(self, slots: list[int]) -> frozenset[int]:
        return frozenset(slot // self._size for slot in slots)


def _names(event: ev.Allocation) -> list[ReqName]:
    """Rows that an allocation is for."""
    if isinstance(event, ev.AllocExtend | ev.AllocDecode):
        return event.reqs or []
    if isinstance(event, ev.Alloc | ev.AllocExtendSwaTail):
        return [] if event.req is None else [event.req]
    return []
