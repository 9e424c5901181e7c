"""A trace while it is being shrunk: events with explicit lengths, and tokens that have a name.

Which slot a token gets depends on everything that was allocated before it. So every token that an
allocation hands out gets a number of its own, a raw slot in an event is replaced by the token that
lay there, and a shorter trace asks its own replay where that token lies now. Rows are treated
alike: a length is explicit, and cutting tokens out of a row shifts every later position. What must
not be added here: replaying, judging.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from swasim.call import Call
from swasim.geometry import NO_LOC
from swasim.trace import events as ev
from swasim.trace.events import AnyEvent, ReqName, expand

TOKEN = 1 << 40
"""A raw slot number from here on stands for the token of that number less this."""


class Done(NamedTuple):
    """One event as a replay carried it out.

    Attributes:
        event: as it stood in the trace.
        call: the resolved call, or None.
        positions: row positions that a release or share named, or None.
        out: slots returned, or None.
        mapped_slots, mapped_to: mapping entries that changed.
    """

    event: AnyEvent
    call: Call | None
    positions: tuple[int, int] | None
    out: list[int] | None
    mapped_slots: list[int]
    mapped_to: list[int]


class Line(NamedTuple):
    """One event of a draft.

    Attributes:
        event: lengths and positions are explicit; a raw slot from `TOKEN` on is a token.
        fresh: numbers of the tokens that the event allocates, in the order of its result.
        refused: the allocation returned None when it was last replayed.
    """

    event: AnyEvent
    fresh: Sequence[int] = ()
    refused: bool = False


def fresh_tokens(call: Call) -> int:
    """How many slots an allocation asks for."""
    if call.op == "alloc":
        return call.need_size
    if call.op == "alloc_decode":
        return len(call.seq_lens)
    return sum(call.seq_lens) - sum(call.prefix_lens)


class Lifter:
    """Turns events that were carried out into lines, in order.

    Args:
        keep_claims: keep what the trace says of results (`out`, `expect`); only where the finding
            is that it does not hold.

    Attributes:
        rows: row name to its tokens, as of now.
        lying: pool to slot to the token that lies, or last lay, there.
        count: tokens that were born so far.
    """

    def __init__(self, *, keep_claims: bool = False) -> None:
        self.rows: dict[ReqName, list[int]] = {}
        self.lying: dict[str, dict[int, int]] = {"full": {}, "swa": {}}
        self.count = 0
        self._keep_claims = keep_claims

    def lift(self, done: Done) -> Line | None:
        """The line for one event; None where it says nothing (a mark)."""
        event, call = done.event, done.call
        if isinstance(event, ev.Mark):
            return None
        expect = self._expect(ev.expectation(event))
        if isinstance(event, ev.ExpectOnly):
            return None if expect is None else Line(ev.ExpectOnly(expect=expect))
        if isinstance(event, ev.Allocation):
            if call is None:
                return None
            return self._allocation(event, call, done.out, expect)
        if isinstance(event, ev.Release):
            return None if call is None else Line(self._release(event, call, done, expect))
        return self._other(event, call, done, expect)

    def _expect(self, expect: ev.Expect | None) -> ev.Expect | None:
        """Only what a finding may hang on: a recording's expectations say what was long ago."""
        if expect is None or self._keep_claims:
            return expect
        return ev.Expect(idle=True) if expect.idle is True else None

    def token(self, slot: int) -> int:
        """What a raw full slot stands for: a token where one lay there, else itself."""
        found = self.lying["full"].get(slot)
        return slot if found is None else TOKEN + found

    def _tokens(self, slots: Iterable[int], pool: str = "full") -> list[Any]:
        lying = self.lying[pool]
        return [TOKEN + lying[slot] if slot in lying else slot for slot in slots]

    def _allocation(
        self, event: ev.Allocation, call: Call, out: list[int] | None, expect: ev.Expect | None
    ) -> Line:
        fresh = range(self.count, self.count + fresh_tokens(call))
        self.count += len(fresh)
        lifted = self._explicit(event, call, expect)
        if self._keep_claims:
            lifted = msgspec.structs.replace(lifted, out=event.out)
        if out is not None:
            pool = call.pool or "full"
            self.lying[pool].update(zip(out, fresh, strict=False))
            grow(self.rows, lifted, fresh)
        return Line(lifted, fresh, out is None)

    def _explicit(
        self, event: ev.Allocation, call: Call, expect: ev.Expect | None
    ) -> ev.Alloc | ev.AllocExtend | ev.AllocDecode | ev.AllocExtendSwaTail:
        if isinstance(event, ev.Alloc):
            return ev.Alloc(need_size=call.need_size, req=event.req, pool=event.pool, expect=expect)
        if isinstance(event, ev.AllocExtendSwaTail):
            reqs = None if event.req is None else [event.req]
            last = self._last(reqs, call.prefix_lens, call.last_loc, event.last_loc is not None)
            return ev.AllocExtendSwaTail(
                req=event.req,
                prefix_len=call.prefix_lens[0],
                seq_len=call.seq_lens[0],
                swa_tail_len=call.swa_tail_len,
                last_loc=None if last is None else last[0],
                expect=expect,
            )
        if isinstance(event, ev.AllocExtend):
            return ev.AllocExtend(
                reqs=event.reqs,
                prefix_lens=list(call.prefix_lens),
                seq_lens=list(call.seq_lens),
                last_loc=self._last(
                    event.reqs, call.prefix_lens, call.last_loc, event.last_loc is not None
                ),
                expect=expect,
            )
        assert isinstance(event, ev.AllocDecode), event
        prefix_lens = [seq_len - 1 for seq_len in call.seq_lens]
        return ev.AllocDecode(
            reqs=event.reqs,
            seq_lens=list(call.seq_lens),
            last_loc=self._last(event.reqs, prefix_lens, call.last_loc, event.last_loc is not None),
            expect=expect,
        )

    def _last(
        self, reqs: list[ReqName] | None, prefix_lens: list[int], last_loc: list[int], given: bool
    ) -> list[int] | None:
        """`last_loc` as tokens; None where the rows say the same."""
        if reqs is not None and not given:
            return None
        tokens = [slot if slot == NO_LOC else self.token(slot) for slot in last_loc]
        if reqs is None:
            return tokens
        by_row = [
            TOKEN + self.rows[req][length - 1] if length else NO_LOC
            for req, length in zip(reqs, prefix_lens, strict=True)
        ]
        return None if tokens == by_row else tokens

    def _release(
        self, event: ev.Release, call: Call, done: Done, expect: ev.Expect | None
    ) -> AnyEvent:
        fields: dict[str, Any] = {"expect": expect}
        if isinstance(event, ev.Free | ev.FreeSegment):
            fields["pool"] = event.pool
        if event.req is None:
            fields["indices"] = self._tokens(call.indices, call.pool or "full")
            if isinstance(event, ev.SegmentRelease):
                fields["start_pos"] = call.start_pos
        else:
            start, end = done.positions or (0, 0)
            fields |= {"req": event.req, "start": start, "end": end}
            if isinstance(event, ev.SegmentRelease) and call.start_pos != start:
                fields["start_pos"] = call.start_pos
        kind: Any = type(event)
        made: AnyEvent = kind(**fields)
        return made

    def _other(self, event: Any, call: Call | None, done: Done, expect: ev.Expect | None) -> Line:
        plain = msgspec.structs.replace(event, t=None, site=None, expect=expect)
        if isinstance(event, ev.Share):
            start, end = done.positions or (0, 0)
            taken = self.rows.get(event.from_, [])[start:end]
            self.rows[event.req] = self.rows.get(event.req, []) + taken
            return Line(msgspec.structs.replace(plain, start=start, end=end))
        if isinstance(event, ev.Finish):
            self.rows.pop(event.req, None)
        elif isinstance(event, ev.Clear):
            self.rows.clear()
        elif isinstance(event, ev.SetFullToSwaMapping) and call is not None:
            full, swa = self._tokens(call.full), self._tokens(call.swa, "swa")
            return Line(msgspec.structs.replace(plain, full=full, swa=swa))
        elif isinstance(event, ev.FreeSegments | ev.FreeFullSegments) and call is not None:
            pieces = [
                ev.SegmentItem(indices=self._tokens(item.indices), start_pos=item.start_pos)
                for item in call.segments
            ]
            return Line(msgspec.structs.replace(plain, segments=pieces))
        return Line(plain)


def items_of(event: AnyEvent) -> list[tuple[ReqName | None, int, int]]:
    """Row, prefix length and new length per batch item of an explicit allocation.

    The prefix of `alloc` is -1: it appends to whatever its row holds.
    """
    if isinstance(event, ev.Alloc):
        return [(event.req, -1, event.need_size - 1)]
    if isinstance(event, ev.AllocExtendSwaTail):
        return [(event.req, event.prefix_len or 0, event.seq_len)]
    if isinstance(event, ev.AllocDecode):
        seq_lens = event.seq_lens or []
        prefix_lens = [n - 1 for n in seq_lens]
    elif isinstance(event, ev.AllocExtend):
        seq_lens, prefix_lens = event.seq_lens, event.prefix_lens or []
    else:
        return []
    reqs: Sequence[ReqName | None] = event.reqs or [None] * len(seq_lens)
    return list(zip(reqs, prefix_lens, seq_lens, strict=True))


def grow(rows: dict[ReqName, list[int]], event: AnyEvent, fresh: Sequence[int]) -> None:
    """Append the tokens of an explicit allocation to the rows that it names."""
    at = 0
    for req, prefix_len, seq_len in items_of(event):
        count = seq_len - prefix_len
        if req is not None:
            row = rows.setdefault(req, [])
            if prefix_len >= 0:
                del row[prefix_len:]
            row.extend(fresh[at : at + count])
        at += count


def follow(rows: dict[ReqName, list[int]], line: Line) -> None:
    """Change `rows` as one line does."""
    event = line.event
    if isinstance(event, ev.Allocation):
        if not line.refused:
            grow(rows, event, line.fresh)
    elif isinstance(event, ev.Share):
        rows.setdefault(event.req, []).extend(rows.get(event.from_, [])[event.start : event.end])
    elif isinstance(event, ev.Finish):
        rows.pop(event.req, None)
    elif isinstance(event, ev.Clear):
        rows.clear()


def named_tokens(line: Line, rows: dict[ReqName, list[int]]) -> list[int]:
    """Tokens that a line names or allocates; `rows` as they are before it."""
    event = line.event
    found = list(line.fresh)
    if isinstance(event, ev.Release | ev.Share):
        req = event.from_ if isinstance(event, ev.Share) else event.req
        if req is not None:
            return found + rows.get(req, [])[event.start : event.end]
    if isinstance(event, ev.Finish):
        return found + rows.get(event.req, [])
    for req, prefix_len, _ in items_of(event):
        if req is not None and prefix_len > 0:
            found.append(rows[req][prefix_len - 1])
    return found + [slot - TOKEN for slot in raw_slots(event) if slot >= TOKEN]


def raw_slots(event: AnyEvent) -> Iterator[int]:
    """Raw slots of an event, tokens among them."""
    if isinstance(event, ev.Release):
        yield from expand(event.indices or [])
    elif isinstance(event, ev.AllocExtend | ev.AllocDecode):
        yield from event.last_loc or ()
    elif isinstance(event, ev.AllocExtendSwaTail):
        if event.last_loc is not None:
            yield event.last_loc
    elif isinstance(event, ev.SetFullToSwaMapping):
        yield from expand(event.full)
        yield from expand(event.swa)
    elif isinstance(event, ev.FreeSegments | ev.FreeFullSegments):
        for piece in event.segments:
            yield from expand(piece.indices)


def concrete(event: AnyEvent, slots: dict[int, int]) -> AnyEvent | None:
    """The event with tokens replaced by where they lie; None where one lies nowhere."""
    if all(slot < TOKEN for slot in raw_slots(event)):
        return event
    try:
        placed: AnyEvent = _with_slots(
            event, lambda slot: slots[slot - TOKEN] if slot >= TOKEN else slot
        )
    except KeyError:
        return None
    return placed


def _with_slots(event: Any, place: Any) -> Any:
    replace = msgspec.structs.replace

    def listed(items: ev.IndexList) -> ev.IndexList:
        return ev.compress([place(slot) for slot in expand(items)])

    if isinstance(event, ev.Release):
        return replace(event, indices=listed(event.indices or []))
    if isinstance(event, ev.SetFullToSwaMapping):
        return replace(event, full=listed(event.full), swa=listed(event.swa))
    if isinstance(event, ev.FreeSegments | ev.FreeFullSegments):
        pieces = [replace(item, indices=listed(item.indices)) for item in event.segments]
        return replace(event, segments=pieces)
    if isinstance(event, ev.AllocExtendSwaTail):
        return replace(event, last_loc=place(event.last_loc))
    return replace(event, last_loc=[place(slot) for slot in event.last_loc])
