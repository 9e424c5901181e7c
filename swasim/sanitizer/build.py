"""From evidence to a finished `Finding`: provenance, surroundings, fingerprint, next command.

The checks say what is wrong and why they think so; everything that every finding carries is
added here, in one place.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from swasim.geometry import Pool
from swasim.sanitizer.findings import Finding, Moment, PageCell, Surroundings
from swasim.sanitizer.kinds import KINDS

if TYPE_CHECKING:
    from swasim.sanitizer.shadow import PageLook, PoolTruth, Truth

STRIP_REACH_PAGES = 3
HEADLINE_LIMIT = 80
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class FindingBuilder:
    """Builds the findings of one replay.

    Args:
        truth: the truth that the findings are about; read, never changed.
        trace_path, allocator: as they stand in the commands that a finding suggests.
    """

    def __init__(self, truth: Truth, trace_path: str, allocator: str = "") -> None:
        self._truth = truth
        self._replayed = shlex.quote(trace_path)
        if allocator:
            self._replayed += f" --allocator {shlex.quote(allocator)}"
        self.available_tokens: dict[Pool, int] = {
            "full": truth.geometry.kv_size,
            "swa": truth.geometry.kv_size_swa,
        }

    def clone(self, truth: Truth) -> FindingBuilder:
        """A builder for findings about another truth with the same content."""
        twin = object.__new__(FindingBuilder)
        twin.__dict__.update(self.__dict__)
        twin._truth = truth
        twin.available_tokens = self.available_tokens.copy()
        return twin

    def build(
        self,
        kind: str,
        headline: str,
        at: Moment,
        *,
        pool: Pool | None = None,
        page: int | None = None,
        slots: Sequence[int] = (),
        positions: tuple[int, int] | None = None,
        cause: Finding | None = None,
        released: Moment | None = None,
        owner: Moment | None = None,
        expected: str = "",
        actual: str = "",
        notes: Iterable[str] = (),
    ) -> Finding:
        """One finished finding; `released` and `owner` override what the page's record says."""
        record = None if pool is None or page is None else self._truth.pool(pool).peek(page)
        allocated = record.allocated if record else None
        first_release = released or (record.released if record else None)
        return Finding(
            kind=kind,
            severity=KINDS[kind].severity,
            headline=_headline(headline),
            at=at,
            pool=pool,
            page=page,
            slots=tuple(slots),
            positions=positions,
            allocated=allocated,
            mapped=record.mapped if record else None,
            released=first_release,
            owner=owner,
            surroundings=self._surroundings(pool, page),
            cause=cause.fingerprint if cause else None,
            cause_at=cause.at.event if cause else None,
            cause_kind=cause.kind if cause else None,
            expected=expected,
            actual=actual,
            notes=tuple(notes),
            fingerprint=_fingerprint(kind, pool, at, allocated, first_release, cause),
            help=self._help(kind, pool, page, at),
        )

    def settle(self, finding: Finding) -> Finding:
        """The finding with its surroundings as they are now that the event is carried over."""
        return replace(finding, surroundings=self._surroundings(finding.pool, finding.page))

    def _surroundings(self, pool: Pool | None, page: int | None) -> Surroundings | None:
        if pool is None:
            return None
        truth = self._truth.pool(pool)
        before, after, owners = _strips(truth, page) if page is not None else ((), (), ())
        return Surroundings(
            before=before,
            after=after,
            owners=owners,
            free_pages=truth.free_pages,
            live_pages=truth.live_pages,
            pending_pages=truth.pending_pages,
            lost_pages=truth.lost_pages,
            size_pages=truth.size_pages,
            available_tokens=self.available_tokens[pool],
            size_tokens=self._truth.geometry.size_tokens(pool),
        )

    def _help(self, kind: str, pool: Pool | None, page: int | None, at: Moment) -> tuple[str, ...]:
        look = f"--at {at.event}"
        if pool is not None and page is not None and 0 <= page <= self._truth.pool(pool).size_pages:
            look = f"--page {pool}:{page}"
        return (
            f"swasim inspect {self._replayed} {look}",
            f"swasim minimize {self._replayed} --keep {kind}",
        )


def _strips(
    truth: PoolTruth, page: int
) -> tuple[tuple[PageCell, ...], tuple[PageCell, ...], tuple[tuple[str, str], ...]]:
    """The neighbourhood of `page` before and after, and the legend of its owner letters."""
    first = max(0, page - STRIP_REACH_PAGES)
    last = max(min(truth.size_pages, page + STRIP_REACH_PAGES), page)
    letters: dict[Moment, str] = {}
    pages = range(first, last + 1)
    before = tuple(_cell(p, truth.looked_before(p), letters) for p in pages)
    after = tuple(_cell(p, truth.look_at(p), letters) for p in pages)
    return before, after, tuple((letter, describe(owner)) for owner, letter in letters.items())


def _cell(page: int, look: PageLook, letters: dict[Moment, str]) -> PageCell:
    state, owner, copies = look
    letter = ""
    if owner is not None:
        letter = letters.get(owner) or letters.setdefault(owner, _letter(owner, letters))
    return PageCell(page, state, letter, copies)


def _letter(owner: Moment, letters: dict[Moment, str]) -> str:
    """The initial of the owner's request where it is not taken, else the next free letter."""
    taken = set(letters.values())
    wanted = [owner.req[:1].upper(), *LETTERS]
    return next((c for c in wanted if c in LETTERS and c and c not in taken), "?")


def describe(moment: Moment) -> str:
    """A moment in a few words: "event 3 alloc_extend req B"."""
    req = f" req {moment.req}" if moment.req else ""
    return f"event {moment.event} {moment.op}{req}"


def _headline(text: str) -> str:
    return text if len(text) <= HEADLINE_LIMIT else text[: HEADLINE_LIMIT - 3] + "..."


def _fingerprint(
    kind: str,
    pool: Pool | None,
    at: Moment,
    allocated: Moment | None,
    released: Moment | None,
    cause: Finding | None,
) -> str:
    """What stays the same when events are renumbered and pages come out differently."""
    parts = (
        kind,
        pool or "",
        at.op,
        at.site,
        allocated.op if allocated else "",
        released.op if released else "",
        released.site if released else "",
        cause.fingerprint if cause else "",
    )
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16]
