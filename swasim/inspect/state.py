"""Both pools, the mapping, the open group and the rows, as they are where a replay has stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from swasim.geometry import PAD_PAGE, UNMAPPED, Pool
from swasim.inspect.look import owner_rows, reads_back_to
from swasim.inspect.records import (
    CellRun,
    GroupView,
    MappingRun,
    Owner,
    PageState,
    PendingPage,
    PoolView,
    RowSummary,
    StateView,
)
from swasim.inspect.rowwatch import START
from swasim.replayer import Replayer, Step
from swasim.sanitizer.build import LETTERS, describe
from swasim.sanitizer.findings import Moment
from swasim.sanitizer.scene import moment_of
from swasim.sanitizer.shadow import Truth
from swasim.timeline import detail_of

ROWS_NAMED = 4
"""Rows that an owner's text names before the rest is counted."""

MANY = "*"
"""Letter of the owners that are too many to have one of their own."""


@dataclass(slots=True)
class _Holding:
    """What one owner has, while it is counted."""

    index: int
    pages: dict[Pool, int] = field(default_factory=lambda: {"full": 0, "swa": 0})


class _Owners:
    """Owners in order of appearance: the full pool first, ascending."""

    def __init__(self, replayer: Replayer) -> None:
        self._replayer = replayer
        self._truth = replayer.sanitizer.truth
        self._found: dict[str, _Holding] = {}
        self._of_full: dict[int, str] = {}

    def of(self, pool: Pool, page: int, allocated: Moment | None) -> int:
        """Number of the owner of a live page; counts the page."""
        text = self._text(pool, page, allocated)
        if pool == "full":
            self._of_full[page] = text
        holding = self._found.setdefault(text, _Holding(len(self._found)))
        holding.pages[pool] += 1
        return holding.index

    def _text(self, pool: Pool, page: int, allocated: Moment | None) -> str:
        if pool == "swa":
            # An SWA page belongs to whom the full page that maps to it belongs.
            for full_page in sorted(self._truth.mapping.owners(page)):
                if full_page in self._of_full:
                    return self._of_full[full_page]
        else:
            rows = owner_rows(self._replayer, page)
            if rows:
                more = f" (+{len(rows) - ROWS_NAMED} more)" if len(rows) > ROWS_NAMED else ""
                return f"req {', '.join(rows[:ROWS_NAMED])}{more}"
        return "unknown" if allocated is None else describe(allocated)

    def finished(self) -> tuple[Owner, ...]:
        """All owners; those with the most pages have a letter each."""
        holdings = list(self._found.items())
        by_size = sorted(holdings, key=lambda item: (-sum(item[1].pages.values()), item[1].index))
        limit = len(LETTERS) if len(holdings) <= len(LETTERS) else len(LETTERS) - 1
        lettered = {text for text, _ in by_size[:limit]}
        letters = iter(LETTERS)
        return tuple(
            Owner(
                letter=next(letters) if text in lettered else MANY,
                text=text,
                full_pages=holding.pages["full"],
                swa_pages=holding.pages["swa"],
            )
            for text, holding in holdings
        )


def state_view(replayer: Replayer, step: Step | None) -> StateView:
    """Everything after `step`, the last one that `replayer` made; None: before the first."""
    owners = _Owners(replayer)
    state = replayer.allocator.state()
    full = _pool(replayer, "full", state.full_free, state.full_staged, owners)
    swa = _pool(replayer, "swa", state.swa_free, state.swa_staged, owners)
    truth = replayer.sanitizer.truth
    return StateView(
        at=START if step is None else moment_of(step.entry, step.resolved),
        detail="" if step is None else detail_of(step.entry.event, step.resolved),
        result="" if step is None else step.result,
        findings=() if step is None else step.findings,
        full=full,
        swa=swa,
        owners=owners.finished(),
        mapping=tuple(_mapping_runs(truth)),
        group=_group(truth),
        rows=tuple(_rows(replayer)),
    )


def _pool(
    replayer: Replayer, name: Pool, free: list[int], staged: list[int], owners: _Owners
) -> PoolView:
    truth = replayer.sanitizer.truth.pool(name)
    geometry = replayer.config.geometry
    return PoolView(
        pool=name,
        cells=tuple(_cells(replayer, name, owners)),
        free=tuple(free),
        staged=tuple(staged),
        free_pages=truth.free_pages,
        live_pages=truth.live_pages,
        pending_pages=truth.pending_pages,
        lost_pages=truth.lost_pages,
        size_pages=truth.size_pages,
        available_tokens=replayer.available[0 if name == "full" else 1],
        size_tokens=geometry.size_tokens(name),
    )


def _cells(replayer: Replayer, name: Pool, owners: _Owners) -> Iterator[CellRun]:
    """Every page, equal neighbours together. Cost: the pages that calls have touched."""
    pool = replayer.sanitizer.truth.pool(name)
    run: CellRun | None = None
    for cell in _touched(replayer, name, owners):
        first = pool.size_pages + 1 if cell is None else cell.first
        last = run.last if run is not None else PAD_PAGE
        if first > last + 1:
            if run is not None and _look(run) != ("free", None, 1):
                yield run
                run = None
            start = last + 1 if run is None else run.first
            run = CellRun(start, first - 1, "free", None, 1)
        if cell is None:
            break
        if run is not None and _look(run) == _look(cell):
            run = CellRun(run.first, cell.last, run.state, run.owner, run.copies)
        else:
            if run is not None:
                yield run
            run = cell
    if run is not None:
        yield run


def _look(run: CellRun) -> tuple[PageState, int | None, int]:
    return run.state, run.owner, run.copies


def _touched(replayer: Replayer, name: Pool, owners: _Owners) -> Iterator[CellRun | None]:
    """Pages that have a record, ascending, then None."""
    pool = replayer.sanitizer.truth.pool(name)
    for page in sorted(pool.pages):
        state, owner, copies = pool.look_at(page)
        if page < PAD_PAGE or page > pool.size_pages or (page == PAD_PAGE and not copies):
            continue
        owned = state in ("live", "pending")
        yield CellRun(page, page, state, owners.of(name, page, owner) if owned else None, copies)
    yield None


def _mapping_runs(truth: Truth) -> Iterator[MappingRun]:
    mapping, stale = truth.mapping, truth.mapping.stale
    run: MappingRun | None = None
    for slot in mapping.mapped_slots():
        swa_slot, is_stale = mapping.entry(slot), slot in stale
        if (
            run is not None
            and (slot, swa_slot) == (run.full[1] + 1, run.swa[1] + 1)
            and is_stale == run.stale
        ):
            run = MappingRun((run.full[0], slot), (run.swa[0], swa_slot), is_stale)
            continue
        if run is not None:
            yield run
        run = MappingRun((slot, slot), (swa_slot, swa_slot), is_stale)
    if run is not None:
        yield run


def _group(truth: Truth) -> GroupView | None:
    group = truth.group
    if group is None:
        return None
    pools: tuple[Pool, ...] = ("full", "swa")
    return GroupView(
        opened=group.opened,
        pending=tuple(
            PendingPage(pool, page, tuple(asked))
            for pool in pools
            for page, asked in group.queued[pool].items()
        ),
    )


def _rows(replayer: Replayer) -> Iterator[RowSummary]:
    size = replayer.config.page_size
    mapping = replayer.sanitizer.truth.mapping
    for req, row in replayer.resolver.rows.items():
        yield RowSummary(
            req=str(req),
            length=len(row),
            full_pages=len({slot // size for slot in row.slots}),
            mapped_tokens=sum(
                mapping.entry(slot) != UNMAPPED and slot not in mapping.stale for slot in row.slots
            ),
            unheld_tokens=row.held.count(0),
            reads_back_to=reads_back_to(replayer, len(row)),
        )
