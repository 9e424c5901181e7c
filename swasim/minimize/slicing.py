"""Slicing by cause: what made the page, the mapping entries and the requests of the finding.

The finding names its page and the events that made it. Everything that happened to the tokens of
that page is one slice of the trace, a handful of events out of any number; where that does not
show the finding, the slice is widened step by step. What must not be added here: passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from swasim.config import SimConfig
from swasim.geometry import Geometry
from swasim.minimize.draft import Lifter, Line, named_tokens
from swasim.minimize.project import project
from swasim.minimize.record import Recording
from swasim.minimize.target import is_about_claims
from swasim.sanitizer.findings import Finding, Moment
from swasim.trace import events as ev
from swasim.trace.events import ReqName


class Slicer:
    """Makes slices of a recording, narrow ones first.

    Args:
        recording: of the whole trace, up to its finding.
        config: of the recording.
    """

    def __init__(self, recording: Recording, config: SimConfig) -> None:
        self._recording = recording
        self._geometry: Geometry = config.geometry
        finding = recording.finding
        self._marked = _marked(recording, finding) if finding is not None else set()
        if finding is not None and not recording.at_end:
            self._marked.add(len(recording.done) - 1)
        self._lift()

    def _lift(self) -> None:
        """All events as lines; what the marked ones name, and where every token was born."""
        lifter = Lifter(keep_claims=is_about_claims(self._recording.target))
        self.lines: list[Line] = []
        self._index_of: list[int] = []
        self._first_of: dict[int, int] = {}
        self._named: dict[int, list[int]] = {}
        for index, done in enumerate(self._recording.done):
            self._first_of[index] = lifter.count
            rows = lifter.rows
            marked = index in self._marked
            before = {req: list(row) for req, row in rows.items()} if marked else {}
            line = lifter.lift(done)
            if line is None:
                continue
            self.lines.append(line)
            self._index_of.append(index)
            if marked:
                self._named[index] = named_tokens(line, before)

    def drafts(self) -> Iterator[tuple[str, list[Line]]]:
        """Slices with a name for the report; the last one is everything up to the finding."""
        seen: set[int] = set()
        if self._recording.finding is not None:
            for name, alive in self._levels(self._recording.finding):
                if len(alive) in seen:
                    continue
                seen.add(len(alive))
                marked = {at for at, index in enumerate(self._index_of) if index in self._marked}
                yield name, project(self.lines, alive, self._geometry.page_size, marked=marked)
        yield "everything up to the finding", self.lines

    def _levels(self, finding: Finding) -> Iterator[tuple[str, set[int]]]:
        pages = self._pages_of(finding)
        direct = self._refused_tokens()
        tokens = direct | self._tokens_on(pages)
        yield "the page of the finding", tokens
        named = {token for found in self._named.values() for token in found}
        at = self._recording.numbers.get(finding.at.event)
        narrow = tokens | set(self._named.get(at, ()) if at is not None else ())
        yield "the pages that its event names", narrow | self._page_mates(narrow)
        wide = tokens | named
        wide |= self._page_mates(wide)
        yield "the pages of the events that made it", wide
        yield "the requests of those pages", wide | self._row_mates(wide)

    def _refused_tokens(self) -> set[int]:
        """What a marked allocation asked for and did not get: the event must stay."""
        return {
            token
            for line, index in zip(self.lines, self._index_of, strict=True)
            if line.refused and index in self._marked
            for token in line.fresh
        }

    def _pages_of(self, finding: Finding) -> set[tuple[str, int]]:
        size = self._geometry.page_size
        pages: set[tuple[str, int]] = set()
        if finding.pool is not None and finding.page is not None:
            pages.add((finding.pool, finding.page))
        direct = self._names_swa_slots(finding)
        pages |= {("swa" if direct else "full", slot // size) for slot in finding.slots}
        return pages

    def _names_swa_slots(self, finding: Finding) -> bool:
        at = self._recording.numbers.get(finding.at.event)
        call = self._recording.done[at].call if at is not None else None
        return call is not None and call.pool == "swa"

    def _since(self) -> int:
        """Index of the first event that may have put something on those pages."""
        born = [self._birth(token) for tokens in self._named.values() for token in tokens]
        return min([*self._marked, *born], default=0)

    def _birth(self, token: int) -> int:
        """Index of the event that allocated a token, by bisection over the first numbers."""
        low, high = 0, len(self._recording.done) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._first_of[middle] <= token:
                low = middle
            else:
                high = middle - 1
        return low

    def _tokens_on(self, pages: set[tuple[str, int]]) -> set[int]:
        """Tokens that were on those pages since the first event that matters."""
        size = self._geometry.page_size
        full = {page for pool, page in pages if pool == "full"}
        swa = {page for pool, page in pages if pool == "swa"}
        found: set[int] = set()
        for index in range(self._since(), len(self._recording.done)):
            done = self._recording.done[index]
            if not done.out:
                if done.mapped_to and isinstance(done.event, ev.SetFullToSwaMapping):
                    found |= self._mapped_by(index, full, swa)
                continue
            first = self._first_of[index]
            direct = done.call is not None and done.call.pool == "swa"
            wanted = swa if direct else full
            found.update(first + nth for nth, slot in enumerate(done.out) if slot // size in wanted)
            if not direct and swa and any(to // size in swa for to in done.mapped_to):
                nth_of = {slot: nth for nth, slot in enumerate(done.out)}
                found.update(
                    first + nth_of[slot]
                    for slot, to in zip(done.mapped_slots, done.mapped_to, strict=True)
                    if to // size in swa and slot in nth_of
                )
        return found

    def _mapped_by(self, index: int, full: set[int], swa: set[int]) -> set[int]:
        """Both sides of the pairs that an explicit mapping write set on one of the pages."""
        size = self._geometry.page_size
        call = self._recording.done[index].call
        if call is None:
            return set()
        hits = [
            (a, b)
            for a, b in zip(call.full, call.swa, strict=False)
            if a // size in full or b // size in swa
        ]
        return {
            token
            for a, b in hits
            for token in (self._lay_at(index, a, "full"), self._lay_at(index, b, "swa"))
            if token is not None
        }

    def _lay_at(self, index: int, slot: int, pool: str) -> int | None:
        """The token that lay at a slot before an event."""
        for at in range(index - 1, -1, -1):
            done = self._recording.done[at]
            if done.out and done.call is not None and (done.call.pool or "full") == pool:
                with_slot = [nth for nth, found in enumerate(done.out) if found == slot]
                if with_slot:
                    return self._first_of[at] + with_slot[-1]
        return None

    def _page_mates(self, tokens: set[int]) -> set[int]:
        """Tokens on the full pages on which these were born, and on their SWA pages."""
        size = self._geometry.page_size
        pages: set[tuple[str, int]] = set()
        for token in tokens:
            index = self._birth(token)
            done = self._recording.done[index]
            nth = token - self._first_of[index]
            if done.out and nth < len(done.out):
                pool = (done.call.pool if done.call is not None else None) or "full"
                pages.add((pool, done.out[nth] // size))
        return self._tokens_on(pages)

    def _row_mates(self, tokens: set[int]) -> set[int]:
        """All tokens of the requests that hold one of these."""
        rows: dict[ReqName, list[int]] = {}
        for line in self.lines:
            at = 0
            for req, count in _grown(line):
                if req is not None:
                    rows.setdefault(req, []).extend(line.fresh[at : at + count])
                at += count
        found: set[int] = set()
        for row in rows.values():
            if not tokens.isdisjoint(row):
                found.update(row)
        return found


def _grown(line: Line) -> Iterator[tuple[ReqName | None, int]]:
    event = line.event
    if isinstance(event, ev.Alloc):
        yield event.req, event.need_size
    elif isinstance(event, ev.AllocExtendSwaTail):
        yield event.req, event.seq_len - (event.prefix_len or 0)
    elif isinstance(event, ev.AllocExtend) and event.reqs is not None:
        for req, a, b in zip(event.reqs, event.prefix_lens or (), event.seq_lens, strict=True):
            yield req, b - a
    elif isinstance(event, ev.AllocDecode) and event.reqs is not None:
        for req in event.reqs:
            yield req, 1


def _marked(recording: Recording, finding: Finding) -> set[int]:
    """Indices of the events that the finding names."""
    moments: list[Moment | None] = [
        finding.at,
        finding.allocated,
        finding.mapped,
        finding.released,
        finding.owner,
    ]
    events = [moment.event for moment in moments if moment is not None]
    if finding.cause_at is not None:
        events.append(finding.cause_at)
    numbers = recording.numbers
    return {numbers[event] for event in events if event in numbers}


def tightened(config: SimConfig, wanted: tuple[int, int], has: tuple[int, int]) -> SimConfig:
    """Pools so much smaller that as much is available at the finding as there was.

    Args:
        wanted: tokens available before the finding in the whole trace, full and SWA.
        has: likewise in the slice.
    """
    page = config.page_size
    full = max(config.kv_size - max(has[0] - wanted[0], 0), page)
    swa = max(config.kv_size_swa - max(has[1] - wanted[1], 0), page)
    return replace(config, kv_size=full // page * page, kv_size_swa=swa // page * page)
