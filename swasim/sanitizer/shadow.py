"""The truth: who owns which page, kept beside the allocator and never read from its accounts.

Pages that no call has touched are free and have no record, so memory and cost follow the calls
and not the size of the pools. Everything here is page arithmetic on plain ints.

This module is compiled where that is possible (`shadow.pxd` has its types).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from swasim.geometry import PAD_PAGE, Geometry, Pool
from swasim.runs import zeros
from swasim.sanitizer.cells import CELL, FILL, OWNED, OWNERLESS, QUEUED, STANDING
from swasim.sanitizer.entries import MappingTruth, copied
from swasim.sanitizer.findings import Finding, Moment

PageState: TypeAlias = Literal["free", "live", "pending", "lost", "padding"]
PageLook: TypeAlias = tuple[PageState, Moment | None, int]
"""State, present owner's allocation, copies in the free list."""


class PageTruth:
    """What is true of one page.

    Attributes:
        live: somebody owns it.
        queued: the call that queued its release in the open free group; None outside of one.
        copies: how often the page stands in the free list (free and staged together).
        held: an SWA page that a caller got directly and that no entry has pointed at yet.
        allocated, released, mapped: last of each, whatever the present state.
        fault: the last finding about the page; see `damage`.

    There may be hundreds of thousands.
    """

    __slots__ = (
        "allocated",
        "copies",
        "fault",
        "held",
        "live",
        "mapped",
        "queued",
        "released",
    )

    def __init__(self, copies: int = 1) -> None:
        self.live = False
        self.queued: Moment | None = None
        self.copies = copies
        self.held = False
        self.allocated: Moment | None = None
        self.released: Moment | None = None
        self.mapped: Moment | None = None
        self.fault: Finding | None = None

    def clone(self) -> PageTruth:
        """A record that says the same and can change on its own."""
        twin = PageTruth.__new__(PageTruth)
        twin.live, twin.queued, twin.copies = self.live, self.queued, self.copies
        twin.held = self.held
        twin.allocated, twin.released = self.allocated, self.released
        twin.mapped, twin.fault = self.mapped, self.fault
        return twin

    @property
    def damage(self) -> Finding | None:
        """The fault that may explain what goes wrong with the page now.

        None once the page was handed out anew after it: what follows then is a fault of its own.
        """
        fault, allocated = self.fault, self.allocated
        if fault is None or (allocated is not None and fault.at.event < allocated.event):
            return None
        return fault

    def fault_after(self, event: int) -> Finding | None:
        """The last finding about the page, where it is later than `event`."""
        return self.fault if self.fault is not None and self.fault.at.event > event else None

    @property
    def state(self) -> PageState:
        """Where the page is: with an owner, on its way back, in the free list, or nowhere."""
        return state_of(self.live, self.queued, self.copies)

    def look(self) -> PageLook:
        """How the page looks now, for a strip."""
        return self.state, self.allocated if self.live else None, self.copies


def state_of(live: bool, queued: Moment | None, copies: int) -> PageState:
    """Where a page is, from its record."""
    if live:
        return "pending" if queued else "live"
    return "free" if copies else "lost"


PoolState: TypeAlias = tuple[
    dict[int, PageTruth],
    bytes,
    dict[int, int],
    tuple[int, int, int],
    Finding | None,
    Finding | None,
    tuple[bool, int],
]
"""All that a pool knows: pages, cells, strange fills, terms, what is to blame, accounts."""


class PoolTruth:
    """All pages of one pool, with the terms of `free + live + pending = size` kept current.

    Attributes:
        pages: the pages that calls have touched, in the order in which they first did.
        by_id: those of them that the pool has, at their page ids; None elsewhere. It grows with the
            highest page that is touched.
        cells: what is kept of the same pages in plain numbers, `CELL` for each; see `cells.py`.
        strange_fill: FILL of pages that the pool does not have.
        free_pages, live_pages, pending_pages: the terms.
        excess, shortage: the findings that may explain too many or too few pages.
        overflown: more was available than there is, and that has been told.
        account_offset_pages: what the allocator's account is off by, and has been told.
    """

    def __init__(self, name: Pool, size_pages: int) -> None:
        self.name: Pool = name
        self.label = "SWA" if name == "swa" else name
        self.size_pages = size_pages
        self.pages: dict[int, PageTruth] = {}
        self.by_id: list[PageTruth | None] = []
        self.cells = zeros(0)
        self.strange_fill: dict[int, int] = {}
        self.free_pages = size_pages
        self.live_pages = 0
        self.pending_pages = 0
        self.excess: Finding | None = None
        self.shortage: Finding | None = None
        self.overflown = False
        self.account_offset_pages = 0
        self._before: dict[int, tuple[bool, Moment | None, Moment | None, int]] = {}

    def clone(self) -> PoolTruth:
        """A pool that says the same and can change on its own; without the last event's strips."""
        twin = PoolTruth(self.name, self.size_pages)
        twin.__setstate__(self._state({page: r.clone() for page, r in self.pages.items()}))
        twin.strange_fill = self.strange_fill.copy()
        return twin

    def __reduce__(self) -> tuple[object, ...]:
        return PoolTruth, (self.name, self.size_pages), self._state(self.pages)

    def _state(self, pages: dict[int, PageTruth]) -> PoolState:
        terms = self.free_pages, self.live_pages, self.pending_pages
        account = self.overflown, self.account_offset_pages
        plain = bytes(self.cells), self.strange_fill
        return pages, *plain, terms, self.excess, self.shortage, account

    def __setstate__(self, state: PoolState) -> None:
        self.pages, cells, self.strange_fill, terms, self.excess, self.shortage, account = state
        self.free_pages, self.live_pages, self.pending_pages = terms
        self.overflown, self.account_offset_pages = account
        self.cells = array("q", cells)
        self.by_id = [None] * (len(cells) // (8 * CELL))
        for page, record in self.pages.items():
            if 0 <= page <= self.size_pages:
                self.by_id[page] = record

    @property
    def lost_pages(self) -> int:
        """What the equation lacks; negative when pages are counted twice."""
        return self.size_pages - self.free_pages - self.live_pages - self.pending_pages

    def begin_event(self) -> None:
        """Forget what the strips of the previous event needed."""
        if self._before:
            self._before = {}

    def peek(self, page: int) -> PageTruth | None:
        """The record of `page`, or None while no call has touched it."""
        return self.pages.get(page)

    def touch(self, page: int) -> PageTruth:
        """The record of `page`, about to change in this event."""
        truth = self.pages.get(page)
        if truth is None:
            truth = self.meet(page)
        if page not in self._before:
            self._before[page] = (truth.live, truth.queued, truth.allocated, truth.copies)
        return truth

    def meet(self, page: int) -> PageTruth:
        """The record of a page that no call has touched."""
        truth = self.pages[page] = PageTruth(0 if page == PAD_PAGE or page > self.size_pages else 1)
        if 0 <= page <= self.size_pages:
            self.reserve(page + 1)
            self.by_id[page] = truth
        return truth

    def reserve(self, pages: int) -> None:
        """Make room for the first `pages` pages, of those that the pool has."""
        known = len(self.by_id)
        if pages > known:
            room = min(max(pages, 2 * known, 64), self.size_pages + 1)
            self.cells = copied(self.cells, known * CELL, room * CELL)
            self.by_id += [None] * (room - known)

    def fill_of(self, page: int) -> int:
        """Slots of a page that were handed out, counted from its first."""
        if 0 <= page < len(self.by_id):
            return self.cells[page * CELL + FILL]
        return self.strange_fill.get(page, 0)

    def fill_up(self, page: int, slots: int) -> int:
        """At least so many slots of a page that has a record were handed out; how many before."""
        known = self.fill_of(page)
        if known < slots:
            self.set_fill(page, slots)
        return known

    def set_fill(self, page: int, slots: int) -> None:
        """So many slots of a page that has a record were handed out."""
        if 0 <= page < len(self.by_id):
            self.cells[page * CELL + FILL] = slots
        else:
            self.strange_fill[page] = slots

    def is_fresh(self, pages: list[int]) -> bool:
        """Whether every one of `pages` is real, named once, and free."""
        records, size_pages = self.pages, self.size_pages
        for page in pages:
            record = records.get(page)
            if not PAD_PAGE < page <= size_pages or (record is not None and record.live):
                return False
        return len(pages) == 1 or len(set(pages)) == len(pages)

    def is_real(self, page: int) -> bool:
        """Whether the pool has such a page (padding is not one)."""
        return PAD_PAGE < page <= self.size_pages

    def take(self, page: int, moment: Moment) -> PageTruth:
        """`page` left the free list for an owner; its record."""
        truth = self.touch(page)
        if truth.copies:
            truth.copies -= 1
        self.free_pages -= 1
        if truth.live:
            self._end_life(page, truth)
        truth.live = True
        self.stand(page, OWNED)
        truth.allocated = moment
        self.set_fill(page, 0)
        truth.held = False
        self.live_pages += 1
        return truth

    def put(self, page: int, moment: Moment) -> None:
        """`page` entered the free list."""
        truth = self.touch(page)
        truth.copies += 1
        self.free_pages += 1
        if truth.live:
            self._end_life(page, truth)
        truth.released = moment

    def take_all(self, pages: list[int], moment: Moment) -> None:
        """`take` of pages that are fresh, see `is_fresh`."""
        for page in pages:
            truth = self.touch(page)
            truth.copies -= truth.copies > 0
            truth.live = True
            self.cells[page * CELL + STANDING] = OWNED
            self.cells[page * CELL + FILL] = 0
            truth.allocated = moment
            truth.held = False
        self.free_pages -= len(pages)
        self.live_pages += len(pages)

    def is_held(self, pages: list[int]) -> bool:
        """Whether every one of `pages` is real, live, not queued, and named once."""
        records, size_pages = self.pages, self.size_pages
        for page in pages:
            record = records.get(page)
            if (
                not PAD_PAGE < page <= size_pages
                or record is None
                or not record.live
                or record.queued is not None
            ):
                return False
        return len(pages) < 2 or len(set(pages)) == len(pages)

    def put_all(self, pages: list[int], moment: Moment) -> None:
        """`put` of pages that are held, see `is_held`."""
        for page in pages:
            truth = self.touch(page)
            truth.copies += 1
            truth.live = False
            self.cells[page * CELL + STANDING] = OWNERLESS
            truth.released = moment
        self.free_pages += len(pages)
        self.live_pages -= len(pages)

    def lose(self, page: int) -> None:
        """`page` has no owner and is not in the free list: nobody can use it again."""
        truth = self.touch(page)
        if truth.live:
            self._end_life(page, truth)

    def queue(self, page: int, moment: Moment) -> None:
        """The release of a live page waits for the end of the free group."""
        truth = self.touch(page)
        if truth.queued is None:
            truth.queued = moment
            self.stand(page, QUEUED if truth.live else OWNERLESS)
            self.live_pages -= 1
            self.pending_pages += 1

    def stand(self, page: int, standing: int) -> None:
        """Note how a page stands, where the pool has it."""
        if 0 <= page <= self.size_pages:
            self.cells[page * CELL + STANDING] = standing

    def _end_life(self, page: int, truth: PageTruth) -> None:
        if truth.queued:
            self.pending_pages -= 1
        else:
            self.live_pages -= 1
        truth.live = False
        truth.queued = None
        self.stand(page, OWNERLESS)

    def look_at(self, page: int) -> PageLook:
        """How `page` looks now."""
        truth = self.peek(page)
        if page == PAD_PAGE:
            return "padding", None, truth.copies if truth else 0
        return truth.look() if truth else ("free", None, 1)

    def looked_before(self, page: int) -> PageLook:
        """How `page` looked before the present event."""
        before = self._before.get(page)
        if before is None:
            return self.look_at(page)
        live, queued, allocated, copies = before
        if page == PAD_PAGE:
            return "padding", None, copies
        return state_of(live, queued, copies), allocated if live else None, copies


@dataclass(slots=True)
class FreeGroup:
    """The open free group.

    Attributes:
        opened: the call that opened it.
        queued: pool -> page -> the calls that queued it, in order.
        slots: full slots named by queued releases.
        full_slots: those of them whose full side waits.
        doubled: full page -> the finding about a slot of it that was released twice in the group.
        peers: live SWA peers of what `free_full` named; the allocator may release them, or not.
        overwritten: SWA page -> the call that rewrote its last entry while it waited.
        begun_again: the last call that opened a group while this one was open.
    """

    opened: Moment
    queued: dict[Pool, dict[int, list[Moment]]] = field(
        default_factory=lambda: {"full": {}, "swa": {}}
    )
    slots: set[int] = field(default_factory=set)
    full_slots: set[int] = field(default_factory=set)
    doubled: dict[int, Finding] = field(default_factory=dict)
    peers: set[int] = field(default_factory=set)
    overwritten: dict[int, Finding] = field(default_factory=dict)
    begun_again: Moment | None = None

    def clone(self) -> FreeGroup:
        """A group with the same queue that can change on its own."""
        queued: dict[Pool, dict[int, list[Moment]]] = {
            pool: {page: calls.copy() for page, calls in pages.items()}
            for pool, pages in self.queued.items()
        }
        return FreeGroup(
            self.opened,
            queued,
            self.slots.copy(),
            self.full_slots.copy(),
            self.doubled.copy(),
            self.peers.copy(),
            self.overwritten.copy(),
            self.begun_again,
        )


class Truth:
    """Both pools, the mapping between them, and the open free group.

    Attributes:
        mark: of the last call that noted something in cells.
    """

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.full = PoolTruth("full", geometry.full_pages)
        self.swa = PoolTruth("swa", geometry.swa_pages)
        self.mapping = MappingTruth(geometry)
        self.group: FreeGroup | None = None
        self.mark = 0

    def clone(self) -> Truth:
        """A truth that says the same and can change on its own."""
        twin = Truth.__new__(Truth)
        twin.geometry = self.geometry
        twin.full = self.full.clone()
        twin.swa = self.swa.clone()
        twin.mapping = self.mapping.clone()
        twin.mark = self.mark
        twin.group = None if self.group is None else self.group.clone()
        return twin

    def pool(self, name: Pool) -> PoolTruth:
        """The pool of that name."""
        return self.full if name == "full" else self.swa

    def reset(self) -> None:
        """Everything is free and unmapped again, as at the start. An open group stays open."""
        self.full = PoolTruth("full", self.geometry.full_pages)
        self.swa = PoolTruth("swa", self.geometry.swa_pages)
        self.mapping = MappingTruth(self.geometry)
        if self.group is not None:
            self.group = FreeGroup(self.group.opened)

    def begin_event(self) -> None:
        """To be called before the changes of an event are applied."""
        self.full.begin_event()
        self.swa.begin_event()

    def is_reachable(self, swa_page: int) -> bool:
        """Whether a live full page has an entry to `swa_page`, or its caller holds it directly."""
        record = self.swa.peek(swa_page)
        if record is not None and record.held:
            return True
        for full_page in self.mapping.pointing_at(swa_page):
            owner = self.full.peek(full_page)
            if owner is not None and owner.live:
                return True
        return False
