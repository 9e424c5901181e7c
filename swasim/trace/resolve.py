"""Events to calls: rows become slots, recorded slots become the slots of this replay.

A row is the list of full-pool slots of one request, in sequence order. Rows grow by what this
replay's allocator returned, never by what the recording says, so one trace drives any allocator.
What must not be added here: anything that knows pages, pools or owners.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from swasim.call import Call, Segment
from swasim.geometry import NO_LOC
from swasim.trace import events as ev
from swasim.trace.events import AnyEvent, Entry, ReqName, Target, expand, op_of
from swasim.trace.rows import MAX_ROW_TOKENS
from swasim.trace.rows import Row as Row
from swasim.trace.rows import RowChange as RowChange
from swasim.trace.rows import RowError as RowError
from swasim.trace.translate import Translation


class Resolved(msgspec.Struct, frozen=True):
    """An event with its names replaced by slots.

    Attributes:
        call: the call to make; None for share, mark and expect.
        reqs: row named per batch item; one item for a single request; empty for raw slots.
        positions: row positions `[start, end)` that a release or share names; None for raw slots.
        births: parallel to `call.indices`: event number at which the row got each slot (its
            generation). None for raw slots.
        last_births: parallel to `call.last_loc`, likewise; 0 where there is no last slot. None
            for raw slots or where the event gave `last_loc` itself.
    """

    call: Call | None
    reqs: tuple[ReqName, ...] = ()
    positions: tuple[int, int] | None = None
    births: list[int] | None = None
    last_births: list[int] | None = None


class Resolver:
    """The rows of a replay, and the way from events to calls.

    Args:
        path: the trace, for error messages.

    For each entry: `resolve`, perform the call, `commit` with what it returned. `resolve` changes
    no row; nor does `commit` of a refused allocation (None), not even by its truncation.
    """

    def __init__(self, path: str = "<events>") -> None:
        self.path = path
        self.rows: dict[ReqName, Row] = {}
        self._translation = Translation()
        self._finished: dict[ReqName, int] = {}
        self._refused: dict[ReqName, int] = {}
        self._saved: dict[str, None] = {}
        self._line = 0
        self._number = 0
        self._op = ""

    def clone(self) -> Resolver:
        """A resolver with the same rows that can go on by itself."""
        twin = object.__new__(Resolver)
        twin.__dict__.update(self.__dict__)
        twin.rows = {req: row.clone() for req, row in self.rows.items()}
        twin._translation = self._translation.clone()
        twin._finished = self._finished.copy()
        twin._refused = self._refused.copy()
        twin._saved = self._saved.copy()
        return twin

    @property
    def diverged(self) -> bool:
        """Whether a recorded `out` differed from what this replay returned, at any event yet."""
        return self._translation.diverged

    def resolve(self, entry: Entry) -> Resolved:
        """The call that an event means in this replay.

        Raises:
            RowError: the event names a row or positions that do not exist.
        """
        self._enter(entry)
        try:
            return _RESOLVE[type(entry.event)](self, entry.event)
        except RowError as error:
            if error.refused_event is not None:
                # What would have grown lacks these tokens too, through no fault of the trace.
                for req in _grown(entry.event):
                    self._refused.setdefault(req, error.refused_event)
            raise

    def commit(
        self, entry: Entry, resolved: Resolved, out: list[int] | None
    ) -> tuple[RowChange, ...]:
        """Take over what the call returned; says how rows changed.

        Args:
            out: slots that the call returned; None where it returned None, raised, or there was
                no call.
        """
        self._enter(entry)
        event = entry.event
        if isinstance(event, ev.Allocation):
            pool = event.pool if isinstance(event, ev.Alloc) else None
            self._translation.learn(event.out, out, pool or "full")
            return self._grow(resolved, out)
        if isinstance(event, ev.Release):
            if event.req is not None and isinstance(event, _RELEASES_FULL):
                start, end = resolved.positions or (0, 0)
                self.rows[event.req].held[start:end] = bytes(end - start)
            return ()
        if isinstance(event, ev.Share):
            return (self._share(event, resolved),)
        if isinstance(event, ev.Finish):
            return (self._forget(event.req),)
        if isinstance(event, ev.BackupState):
            self._saved[event.slot] = None
        if isinstance(event, ev.Clear):
            self._translation.forget()
            return tuple([self._forget(req) for req in list(self.rows)])
        return ()

    def slots_of(self, target: Target) -> list[int]:
        """Full slots that an `expect` names: its index list, translated, or a range of a row.

        Raises:
            RowError: as `resolve`; located at the entry that was resolved last.
        """
        if isinstance(target, ev.RowRange):
            row, (start, end) = self._range(target.req, target.start, target.end)
            return row.slots[start:end]
        return self._translation.slots(expand(target), "full")

    def _enter(self, entry: Entry) -> None:
        self._line, self._number = entry.line, entry.number
        self._op = op_of(entry.event)

    def _fail(self, message: str, req: ReqName | None = None) -> RowError:
        refused = self._refused.get(req) if req is not None else None
        if refused is not None:
            message += f"; the allocation for it at event {refused} was refused"
        error = RowError(f"{self._op}: {message}", self.path, self._line)
        error.refused_event = refused
        return error

    def _row(self, req: ReqName) -> Row:
        row = self.rows.get(req)
        if row is not None:
            return row
        if req in self._finished:
            raise self._fail(f"request {req!r} is over since event {self._finished[req]}", req)
        known = ", ".join(repr(name) for name in list(self.rows)[:8]) or "none"
        raise self._fail(f"request {req!r} was never allocated (rows at this point: {known})", req)

    def _range(
        self, req: ReqName, start: int | None, end: int | None
    ) -> tuple[Row, tuple[int, int]]:
        row = self._row(req)
        length = len(row)
        first = 0 if start is None else start
        last = length if end is None else end
        if last > length:
            raise self._fail(f"end is {last}, beyond row {req!r}, which holds {length} tokens", req)
        if first > last:
            raise self._fail(
                f"start is {first}, beyond "
                + (f"row {req!r}, which holds {length} tokens" if end is None else f"end = {last}"),
                req,
            )
        return row, (first, last)

    # Allocation

    def _alloc(self, event: ev.Alloc) -> Resolved:
        call = Call(op="alloc", pool=event.pool, need_size=event.need_size)
        return Resolved(call, () if event.req is None else (event.req,))

    def _extend(self, event: ev.AllocExtend) -> Resolved:
        reqs = event.reqs
        prefix_lens = event.prefix_lens
        if prefix_lens is None:
            prefix_lens = [len(self.rows.get(req, ())) for req in reqs or ()]
        last_loc, births = self._last(reqs, prefix_lens, event.last_loc)
        for at, prefix_len in enumerate(prefix_lens):
            if event.seq_lens[at] < prefix_len:
                raise self._shrinks(reqs, at, event.seq_lens[at], prefix_len)
        call = Call(
            op="alloc_extend",
            prefix_lens=prefix_lens,
            seq_lens=event.seq_lens,
            last_loc=last_loc,
        )
        return Resolved(call, tuple(reqs or ()), last_births=births)

    def _decode(self, event: ev.AllocDecode) -> Resolved:
        reqs = event.reqs
        seq_lens = event.seq_lens
        if seq_lens is None:
            if event.last_loc is None:
                return self._decode_at_ends(reqs or [])
            seq_lens = [len(self._row(req)) + 1 for req in reqs or ()]
        if reqs is None and event.last_loc is not None:
            slots = self._translation.slots(event.last_loc, "full")
            return Resolved(Call(op="alloc_decode", seq_lens=seq_lens, last_loc=slots))
        prefix_lens = [seq_len - 1 for seq_len in seq_lens]
        last_loc, births = self._last(reqs, prefix_lens, event.last_loc)
        call = Call(op="alloc_decode", seq_lens=seq_lens, last_loc=last_loc)
        return Resolved(call, tuple(reqs or ()), last_births=births)

    def _decode_at_ends(self, reqs: list[ReqName]) -> Resolved:
        """One token behind the end of each row: the hot path of a hand-written trace."""
        seq_lens: list[int] = []
        last_loc: list[int] = []
        births: list[int] = []
        for req in reqs:
            row = self._row(req)
            slots = row.slots
            seq_lens.append(len(slots) + 1)
            last_loc.append(slots[-1] if slots else NO_LOC)
            births.append(row.births[-1] if slots else 0)
        call = Call(op="alloc_decode", seq_lens=seq_lens, last_loc=last_loc)
        return Resolved(call, tuple(reqs), last_births=births)

    def _tail(self, event: ev.AllocExtendSwaTail) -> Resolved:
        reqs = None if event.req is None else [event.req]
        prefix_len = event.prefix_len
        if prefix_len is None:
            prefix_len = len(self.rows.get(event.req, ())) if event.req is not None else 0
        given = None if event.last_loc is None else [event.last_loc]
        last_loc, births = self._last(reqs, [prefix_len], given)
        if event.seq_len < prefix_len:
            raise self._shrinks(reqs, 0, event.seq_len, prefix_len)
        call = Call(
            op="alloc_extend_swa_tail",
            prefix_lens=[prefix_len],
            seq_lens=[event.seq_len],
            last_loc=last_loc,
            swa_tail_len=event.swa_tail_len,
        )
        return Resolved(call, tuple(reqs or ()), last_births=births)

    def _last(
        self, reqs: list[ReqName] | None, prefix_lens: list[int], given: list[int] | None
    ) -> tuple[list[int], list[int] | None]:
        """`last_loc` and its births; each row is checked to reach as far as its prefix."""
        rows = [self._reach(req, prefix_lens[at]) for at, req in enumerate(reqs or ())]
        if given is not None:
            return self._translation.slots(given, "full"), None
        if reqs is None:
            return [NO_LOC] * len(prefix_lens), None
        last_loc: list[int] = []
        births: list[int] = []
        for row, prefix_len in zip(rows, prefix_lens, strict=True):
            if row is None or prefix_len == 0:
                last_loc.append(NO_LOC)
                births.append(0)
            else:
                last_loc.append(row.slots[prefix_len - 1])
                births.append(row.births[prefix_len - 1])
        return last_loc, births

    def _reach(self, req: ReqName, prefix_len: int) -> Row | None:
        if not prefix_len:
            return self.rows.get(req)
        row = self._row(req)
        if prefix_len > len(row):
            raise self._fail(
                f"the prefix of {prefix_len} tokens is beyond row {req!r}, which holds"
                f" {len(row)} tokens",
                req,
            )
        return row

    def _shrinks(
        self, reqs: list[ReqName] | None, at: int, seq_len: int, prefix_len: int
    ) -> RowError:
        req = reqs[at] if reqs else None
        return self._fail(
            f"seq_len {seq_len} of request {req!r} is less than its prefix of {prefix_len} tokens",
            req,
        )

    def _grow(self, resolved: Resolved, out: list[int] | None) -> tuple[RowChange, ...]:
        if not resolved.reqs or resolved.call is None:
            return ()
        if out is None:
            self._refused.update(dict.fromkeys(resolved.reqs, self._number))
            return ()
        call = resolved.call
        changes: list[RowChange] = []
        at = 0
        for item, req in enumerate(resolved.reqs):
            row = self.rows.get(req)
            if row is None:
                row = self.rows[req] = Row()
            if call.prefix_lens:
                kept, count = call.prefix_lens[item], call.seq_lens[item] - call.prefix_lens[item]
            elif call.seq_lens:
                kept, count = call.seq_lens[item] - 1, 1
            else:
                kept, count = len(row), len(out)
            added = out[at : at + count]
            at += count
            if kept == len(row.slots):
                change = RowChange(req, kept, [], [], added, allocated=True)
            else:
                change = RowChange(req, kept, *row.truncate(kept), added, allocated=True)
            row.extend(added, [self._number] * len(added))
            changes.append(change)
        return tuple(changes)

    # Release

    def _release(self, event: ev.Release) -> Resolved:
        op = self._op
        pool = event.pool if isinstance(event, ev.Free | ev.FreeSegment) else None
        start_pos = event.start_pos if isinstance(event, ev.SegmentRelease) else None
        if event.req is None:
            slots = self._translation.slots(expand(event.indices or []), pool or "full")
            return Resolved(Call(op=op, pool=pool, indices=slots, start_pos=start_pos or 0))
        row, (start, end) = self._range(event.req, event.start, event.end)
        if start_pos is None:
            start_pos = start if isinstance(event, ev.SegmentRelease) else 0
        call = Call(op=op, pool=pool, indices=row.slots[start:end], start_pos=start_pos)
        return Resolved(call, (event.req,), (start, end), row.births[start:end])

    def _segments(self, event: ev.FreeSegments | ev.FreeFullSegments) -> Resolved:
        segments = [
            Segment(self._translation.slots(expand(item.indices), "full"), item.start_pos)
            for item in event.segments
        ]
        return Resolved(Call(op=self._op, segments=segments))

    def _finish(self, event: ev.Finish) -> Resolved:
        row = self._row(event.req)
        length = len(row)
        if row.held.count(1) == length:
            slots, births = row.slots[:], row.births[:]
        else:
            slots = [slot for slot, held in zip(row.slots, row.held, strict=True) if held]
            births = [birth for birth, held in zip(row.births, row.held, strict=True) if held]
        return Resolved(Call(op="free", indices=slots), (event.req,), (0, length), births)

    def _forget(self, req: ReqName) -> RowChange:
        row = self.rows.pop(req)
        self._finished[req] = self._number
        self._refused.pop(req, None)
        return RowChange(req, 0, row.slots, row.births, forgotten=True)

    # Mapping, state, rows

    def _set_mapping(self, event: ev.SetFullToSwaMapping) -> Resolved:
        full = self._translation.slots(expand(event.full), "full")
        swa = self._translation.slots(expand(event.swa), "swa")
        return Resolved(Call(op=self._op, full=full, swa=swa))

    def _backup(self, event: ev.BackupState) -> Resolved:
        return Resolved(Call(op=self._op, slot=event.slot))

    def _restore(self, event: ev.RestoreState) -> Resolved:
        if event.slot not in self._saved:
            known = ", ".join(self._saved) or "none"
            raise self._fail(f"no state was saved as {event.slot!r} (saved: {known})")
        return Resolved(Call(op=self._op, slot=event.slot))

    def _bare_call(self, event: AnyEvent) -> Resolved:
        return Resolved(Call(op=self._op))

    def _no_call(self, event: AnyEvent) -> Resolved:
        return Resolved(None)

    def _resolve_share(self, event: ev.Share) -> Resolved:
        _, positions = self._range(event.from_, event.start, event.end)
        row = self.rows.get(event.req)
        length = (0 if row is None else len(row)) + positions[1] - positions[0]
        if length > MAX_ROW_TOKENS:
            raise self._fail(
                f"row {event.req!r} would hold {length} tokens; at most {MAX_ROW_TOKENS} are"
                " accepted"
            )
        return Resolved(None, (event.req,), positions)

    def _share(self, event: ev.Share, resolved: Resolved) -> RowChange:
        source = self.rows[event.from_]
        start, end = resolved.positions or (0, 0)
        slots, births = source.slots[start:end], source.births[start:end]
        row = self.rows.get(event.req)
        if row is None:
            row = self.rows[event.req] = Row()
        kept = len(row)
        row.extend(slots, births)
        return RowChange(event.req, kept, added_slots=slots)


def _grown(event: AnyEvent) -> list[ReqName]:
    """The rows that an event makes longer."""
    if isinstance(event, ev.AllocExtend | ev.AllocDecode):
        return event.reqs or []
    if isinstance(event, ev.Alloc | ev.AllocExtendSwaTail | ev.Share):
        return [] if event.req is None else [event.req]
    return []


_RELEASES_FULL = (ev.Free, ev.FreeFull, ev.FreeSegment, ev.FreeFullSegment)
"""After these the row holds the positions no more; the SWA-only forms leave the full slots."""

_RESOLVE: dict[type[Any], Callable[[Resolver, Any], Resolved]] = {
    ev.Alloc: Resolver._alloc,
    ev.AllocExtend: Resolver._extend,
    ev.AllocDecode: Resolver._decode,
    ev.AllocExtendSwaTail: Resolver._tail,
    ev.Free: Resolver._release,
    ev.FreeSwa: Resolver._release,
    ev.FreeFull: Resolver._release,
    ev.FreeSegment: Resolver._release,
    ev.FreeSwaSegment: Resolver._release,
    ev.FreeFullSegment: Resolver._release,
    ev.FreeSegments: Resolver._segments,
    ev.FreeFullSegments: Resolver._segments,
    ev.FreeGroupBegin: Resolver._bare_call,
    ev.FreeGroupEnd: Resolver._bare_call,
    ev.Finish: Resolver._finish,
    ev.SetFullToSwaMapping: Resolver._set_mapping,
    ev.ClearFullToSwaMapping: Resolver._release,
    ev.BackupState: Resolver._backup,
    ev.RestoreState: Resolver._restore,
    ev.Clear: Resolver._bare_call,
    ev.Share: Resolver._resolve_share,
    ev.Mark: Resolver._no_call,
    ev.ExpectOnly: Resolver._no_call,
}
