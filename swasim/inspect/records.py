"""What an inspection finds, as finished values. Reporters read them; nobody computes on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from swasim.config import SimConfig
from swasim.geometry import Pool
from swasim.sanitizer.findings import Finding, Moment

PageState: TypeAlias = Literal["free", "live", "pending", "lost", "padding"]
What: TypeAlias = Literal[
    "taken",
    "filled",
    "mapped",
    "unmapped",
    "joined",
    "left",
    "queued",
    "released",
    "peer-released",
    "named",
    "lost",
    "cleared",
]
PeerWord: TypeAlias = Literal["mapped", "unmapped", "stale", "lost"]
PageWord: TypeAlias = Literal["valid", "pending", "released", "reused", "lost"]
Run: TypeAlias = tuple[int, int]
"""First and last, both included."""


@dataclass(frozen=True, slots=True)
class Span:
    """Positions of one row that lie on a page.

    Attributes:
        first, last: positions, both included.
        valid: the page is still the one that the row was given, and not released since.
    """

    req: str
    first: int
    last: int
    valid: bool = True


@dataclass(frozen=True, slots=True)
class Peer:
    """A page of the other pool that is joined to a page by mapping entries.

    Attributes:
        entries: entries between the two.
        stale: those among them that outlived the release of the SWA page.
    """

    page: int
    entries: int
    stale: int = 0


@dataclass(frozen=True, slots=True)
class PageNow:
    """A page at one moment.

    Attributes:
        copies: how often it stands in the free list.
        filled: slots of it in use: handed out (full pool), or pointed at (SWA pool).
        rows: rows that name it, those without a right to it included.
        peers: full page: SWA pages that its entries point at; SWA page: full pages that point
            at it.
        allocated: how its present owner got it; None where nobody owns it.
    """

    state: PageState
    copies: int = 1
    filled: int = 0
    rows: tuple[Span, ...] = ()
    peers: tuple[Peer, ...] = ()
    allocated: Moment | None = None


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that happened to a page.

    Attributes:
        what: taken (from the free list), filled (slots handed out), mapped and unmapped
            (entries between it and the other pool), joined and left (a row names it, no more),
            queued (its release waits in a free group), released, peer-released (its SWA peer
            went, its entries stayed), named (by a release that changed nothing), lost (nobody
            owns it and it is not free), cleared (all pages became free).
        slots: slots of this page that are concerned, as runs.
        others: slots of the other pool, for mapped and unmapped; pages, for peer-released.
        reqs: rows, for joined and left.
        times: more than 1 where one call did it repeatedly (a double release).
    """

    what: What
    slots: tuple[Run, ...] = ()
    others: tuple[Run, ...] = ()
    reqs: tuple[str, ...] = ()
    times: int = 1


@dataclass(frozen=True, slots=True)
class LifeEvent:
    """One event in the life of a page, or a run of like ones.

    Attributes:
        first, last: the event; first and last of a run.
        steps: events in the run.
        ops: operations, each named once.
        acts: what happened, in the order in which it matters.
        after: the page afterwards.
    """

    first: Moment
    last: Moment
    steps: int
    ops: tuple[str, ...]
    acts: tuple[Act, ...]
    after: PageNow


@dataclass(frozen=True, slots=True)
class PageLife:
    """The whole life of one page, or of one slot of it.

    Attributes:
        slot: the slot, or None where the whole page is meant.
        slots: first and last slot of the page.
        pages: pages in the pool.
        events: what happened, in order; runs of growth are folded.
        findings: about the page, in order of the events that they are about.
        times_taken: how often the page left the free list.
        end: the page at the end.
        last: last event of the trace.
    """

    pool: Pool
    page: int
    slot: int | None
    slots: Run
    pages: int
    events: tuple[LifeEvent, ...]
    findings: tuple[Finding, ...]
    times_taken: int
    end: PageNow
    last: Moment


@dataclass(frozen=True, slots=True)
class RowPiece:
    """Consecutive positions of a row on one full page, alike in every other respect.

    Attributes:
        first, last: positions, both included.
        full_page, full_slots: where they are.
        swa_page, swa_slots: their peers; None where unmapped.
        peer: mapped, unmapped, stale (the SWA page was released), or lost (nobody owns it).
        page: valid, pending (its release waits in a free group), released (the page is free
            since), reused (another owner has it since), or lost.
        since: the release or the new owner's allocation, for a page that is not valid.
        given: number of the event that gave the slots.
        held: False where the row itself released them.
    """

    first: int
    last: int
    full_page: int
    full_slots: Run
    swa_page: int | None
    swa_slots: Run | None
    peer: PeerWord
    page: PageWord
    since: Moment | None
    given: int
    held: bool


@dataclass(frozen=True, slots=True)
class RowEvent:
    """One event that concerned a request, or a run of like ones.

    Attributes:
        detail: the positions, or what was shared with whom.
        result: "ok", "refused", "skipped", an exception's name, or "".
        length: tokens of the row afterwards.
    """

    first: Moment
    last: Moment
    steps: int
    detail: str
    result: str
    length: int


@dataclass(frozen=True, slots=True)
class RowView:
    """One request, page by page.

    Attributes:
        at: the row is shown as it was after this event.
        ended: the event that ended the row, where it is over; `at` is the one before it.
        length: tokens.
        window_tokens: size of the window, or None.
        reads_back_to: first position that the next step reads on the SWA side, or None.
        pieces: positions in order.
        events: what concerned the request, over the whole trace.
        findings: at those events.
    """

    req: str
    at: Moment
    ended: Moment | None
    length: int
    window_tokens: int | None
    reads_back_to: int | None
    pieces: tuple[RowPiece, ...]
    events: tuple[RowEvent, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds pages.

    Attributes:
        letter: its letter in the strips; "*" for those that are too many to have one.
        text: the rows, or the allocation where no row names the pages.
        full_pages, swa_pages: live and pending pages that it has.
    """

    letter: str
    text: str
    full_pages: int
    swa_pages: int


@dataclass(frozen=True, slots=True)
class CellRun:
    """Consecutive pages that look alike.

    Attributes:
        first, last: page ids, both included.
        owner: index in the owners of the moment, or None.
        copies: how often each stands in the free list.
    """

    first: int
    last: int
    state: PageState
    owner: int | None
    copies: int


@dataclass(frozen=True, slots=True)
class PoolView:
    """One pool at one moment.

    Attributes:
        cells: every page of the pool, and page 0 where something is wrong with it.
        free, staged: the allocator's lists, in order.
        free_pages, live_pages, pending_pages, lost_pages, size_pages: the terms of
            free + live + pending + lost = size, by the truth.
        available_tokens, size_tokens: by the allocator's account.
    """

    pool: Pool
    cells: tuple[CellRun, ...]
    free: tuple[int, ...]
    staged: tuple[int, ...]
    free_pages: int
    live_pages: int
    pending_pages: int
    lost_pages: int
    size_pages: int
    available_tokens: int
    size_tokens: int


@dataclass(frozen=True, slots=True)
class MappingRun:
    """Consecutive full slots that map to consecutive SWA slots.

    Attributes:
        full, swa: first and last slot, both included.
        stale: the entries outlived the release of the SWA page.
    """

    full: Run
    swa: Run
    stale: bool


@dataclass(frozen=True, slots=True)
class PendingPage:
    """A page whose release waits, and the calls that asked for it."""

    pool: Pool
    page: int
    asked: tuple[Moment, ...]


@dataclass(frozen=True, slots=True)
class GroupView:
    """The open free group."""

    opened: Moment
    pending: tuple[PendingPage, ...]


@dataclass(frozen=True, slots=True)
class RowSummary:
    """One row at one moment.

    Attributes:
        length: tokens.
        full_pages: pages that it names.
        mapped_tokens: tokens with an SWA peer, stale entries left out.
        unheld_tokens: tokens that the row itself released.
        reads_back_to: first position that the next step reads on the SWA side, or None.
    """

    req: str
    length: int
    full_pages: int
    mapped_tokens: int
    unheld_tokens: int
    reads_back_to: int | None


@dataclass(frozen=True, slots=True)
class StateView:
    """Everything after one event.

    Attributes:
        at: the event; event 0 is the initial state.
        detail, result: of the event, as the free-space table has them.
        findings: what came to light at it.
    """

    at: Moment
    detail: str
    result: str
    findings: tuple[Finding, ...]
    full: PoolView
    swa: PoolView
    owners: tuple[Owner, ...]
    mapping: tuple[MappingRun, ...]
    group: GroupView | None
    rows: tuple[RowSummary, ...]


View: TypeAlias = PageLife | RowView | StateView


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was looked at, and in which replay.

    Attributes:
        trace: path as the user named it.
        views: in the order in which they were asked for.
        warnings: sentences about the input.
    """

    trace: str
    config: SimConfig
    views: tuple[View, ...]
    warnings: tuple[str, ...] = ()
