"""The moves: families of events that callers can make in a situation.

Three kinds of callers. Careful ones do what a scheduler does. Sloppy ones do what an allocator
must bear: they are within the contract, and an error is the allocator's. Wrong ones break it: what
is found may be theirs; with the ideal allocator as control it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

from swasim.errors import UsageError, unknown_name
from swasim.explore.situation import LOAN, Request, Situation
from swasim.trace import events as ev
from swasim.trace.events import AnyEvent, compress

Callers = Literal["careful", "sloppy", "wrong"]
CALLERS: tuple[Callers, ...] = ("careful", "sloppy", "wrong")

Moves = Callable[[Situation], Iterator[AnyEvent]]


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of move.

    Attributes:
        name: as `--moves` takes it.
        callers: who makes it; every later kind of caller makes it too.
        summary: what is tried, for the statement of what was proved.
        moves: makes the events.
        needs: operations without which it makes none.
        may_raise: an exception is an answer here, and no fault.
    """

    name: str
    callers: Callers
    summary: str
    moves: Moves
    needs: frozenset[str] = frozenset()
    may_raise: bool = False


def _extend(now: Situation) -> Iterator[AnyEvent]:
    size = now.page_size
    first = (1, size, size + 1) if size > 1 else (1, 2)
    if len(now.requests) < now.bounds.requests:
        for name in now.new_names:
            for length in first:
                yield _grow(now, name, 0, length)
    for request in now.requests:
        if now.may_grow(request):
            yield _grow(now, request.name, request.length, size)


def _grow(now: Situation, name: ev.ReqName, prefix_len: int, tokens: int) -> AnyEvent:
    if now.page_size == 1:
        return ev.Alloc(need_size=tokens, req=name)
    return ev.AllocExtend(reqs=[name], prefix_lens=[prefix_len], seq_lens=[prefix_len + tokens])


def _decode(now: Situation) -> Iterator[AnyEvent]:
    if now.page_size == 1:
        return
    growing = [request for request in now.requests if now.may_grow(request)]
    for count in (1, len(growing)) if len(growing) > 1 else (len(growing),):
        for batch in permutations(growing, count) if count else ():
            seq_lens = [request.length + 1 for request in batch]
            trimmed = any(request.trimmed for request in batch)
            yield ev.AllocDecode(
                reqs=[request.name for request in batch], seq_lens=seq_lens if trimmed else None
            )


def _slide(now: Situation) -> Iterator[AnyEvent]:
    for request in now.requests:
        start = max(now.dead_len(request), request.shared)
        border = now.window_start(request) // now.page_size * now.page_size
        if request.whole and border > start:
            yield ev.FreeSwa(req=request.name, start=start, end=border)


def _finish(now: Situation) -> Iterator[AnyEvent]:
    """The end of a request; what is dead already is released by itself where that is asked for."""
    for request in now.requests:
        dead = now.dead_len(request)
        if request.shared:
            if request.whole and request.length > request.shared:
                yield ev.Free(req=request.name, start=request.shared, end=request.length)
        elif dead > 0 and "free_full" in now.operations and request.whole:
            yield ev.FreeFull(req=request.name, start=0, end=dead)
        else:
            yield ev.Finish(req=request.name)
    if now.page_size == 1:
        # `alloc` appends to a row, so a name is free again only when its row is forgotten.
        for name in now.ended_names:
            yield ev.Finish(req=name)


def _drop(now: Situation) -> Iterator[AnyEvent]:
    """`finish` of a request whose front has lost its SWA side."""
    for request in now.requests:
        if not request.shared and now.dead_len(request) and request.whole:
            yield ev.Finish(req=request.name)


def _partial(now: Situation) -> Iterator[AnyEvent]:
    for request in now.requests:
        for start, end in _ranges(now, request):
            if now.is_live(request, start, end):
                yield ev.FreeSwa(req=request.name, start=start, end=end)


def _ranges(now: Situation, request: Request) -> list[tuple[int, int]]:
    """Every token by itself, every page, everything; of what is its own and out of its window."""
    start, end = request.shared, now.window_start(request)
    if not request.whole or start >= end:
        return []
    tokens = [(at, at + 1) for at in range(start, end)]
    pages = [(first, last) for first, last in now.page_spans(request, start) if last <= end]
    return list(dict.fromkeys([*tokens, *pages, (start, end)]))


def _repeat(now: Situation) -> Iterator[AnyEvent]:
    for request in now.requests:
        for start, end in _ranges(now, request):
            if not now.is_live(request, start, end):
                yield ev.FreeSwa(req=request.name, start=start, end=end)


def _trim(now: Situation) -> Iterator[AnyEvent]:
    for request in now.requests:
        if request.whole:
            for start, _ in now.page_spans(request, request.shared):
                if start:
                    yield ev.Free(req=request.name, start=start, end=request.length)


def _free_full(now: Situation) -> Iterator[AnyEvent]:
    for request in now.requests:
        if request.whole and not request.shared:
            yield ev.FreeFull(req=request.name, start=0, end=request.length)


def _segments(now: Situation) -> Iterator[AnyEvent]:
    for request in now.requests:
        if not request.whole or request.shared % now.page_size:
            continue
        spans = now.page_spans(request, request.shared)
        if "free_swa_segment" in now.operations:
            whole = [(request.shared, request.length)] if len(spans) > 1 else []
            for start, end in [*spans, *whole]:
                yield ev.FreeSwaSegment(req=request.name, start=start, end=end)
        for start, _ in spans:
            yield ev.FreeSegment(req=request.name, start=start, end=request.length)
        if "free_full_segment" in now.operations and not request.shared and request.length:
            yield ev.FreeFullSegment(req=request.name, start=0, end=request.length)


def _group(now: Situation) -> Iterator[AnyEvent]:
    if not now.ledger.in_group:
        yield ev.FreeGroupBegin()
    elif not now.ledger.revived:
        yield ev.FreeGroupEnd()


def _nest(now: Situation) -> Iterator[AnyEvent]:
    if now.ledger.in_group:
        yield ev.FreeGroupBegin()


def _load_back(now: Situation) -> Iterator[AnyEvent]:
    hand = now.ledger.hand
    if not hand:
        yield ev.Alloc(need_size=now.page_size, pool="swa")
        return
    for request in now.requests:
        for start, _ in now.page_spans(request):
            page = request.slots[start] // now.page_size
            if page not in now.ledger.live and not request.shared and request.whole:
                yield _map(now, page, hand)
    yield ev.Free(indices=compress(list(hand)), pool="swa")


def _map(now: Situation, page: int, swa_slots: Iterable[int]) -> AnyEvent:
    first = page * now.page_size
    slots = range(first, first + now.page_size)
    return ev.SetFullToSwaMapping(full=compress(list(slots)), swa=compress(list(swa_slots)))


def _revive(now: Situation) -> Iterator[AnyEvent]:
    for page in sorted(now.ledger.queued):
        if page in now.ledger.revived:
            first = page * now.page_size
            yield ev.FreeSwa(indices=compress(list(range(first, first + now.page_size))))
        elif now.ledger.hand:
            yield _map(now, page, now.ledger.hand)


def _tail(now: Situation) -> Iterator[AnyEvent]:
    size = now.page_size
    if size == 1 or len(now.requests) >= now.bounds.requests:
        return
    for name in now.new_names:
        for seq_len, tail_len in ((size, 0), (size, size), (size + 1, 1), (2 * size, size)):
            yield ev.AllocExtendSwaTail(
                req=name, prefix_len=0, seq_len=seq_len, swa_tail_len=tail_len
            )


def _share(now: Situation) -> Iterator[AnyEvent]:
    size = now.page_size
    yield from _shares(now, lambda length: range(size, length + 1, size))


def _split(now: Situation) -> Iterator[AnyEvent]:
    """A page of which two requests hold a part, and its end given back by the first of them."""
    size = now.page_size
    yield from _shares(now, lambda length: (at for at in range(1, length) if at % size))
    for request in now.requests:
        cut = request.shared
        if request.whole and 0 < cut < request.length and cut % size:
            yield ev.Free(req=request.name, start=cut, end=request.length)
        if request.shared:
            yield ev.Finish(req=request.name)


def _shares(now: Situation, cuts: Callable[[int], Iterable[int]]) -> Iterator[AnyEvent]:
    if len(now.requests) >= now.bounds.requests:
        return
    unused = [name for name in now.new_names if name not in now.rows]
    for name in unused:
        for request in now.requests:
            if request.whole and not request.trimmed and not request.shared:
                for cut in cuts(request.length):
                    if now.is_live(request, 0, cut):
                        yield ev.Share(req=name, from_=request.name, start=0, end=cut)


def _alias(now: Situation) -> Iterator[AnyEvent]:
    """A full page loaded back onto the SWA page of another, and dropped."""
    loan = now.loan
    if loan is None:
        if LOAN not in now.rows:
            yield ev.Alloc(need_size=now.page_size, pool="full", req=LOAN)
        return
    page = loan.slots[0] // now.page_size
    if page in now.ledger.live:
        yield ev.FreeSwa(req=LOAN)
    else:
        for request in now.requests:
            for start, end in now.page_spans(request):
                if end - start == now.page_size and now.is_live(request, start, end):
                    yield _alias_of(now, page, request, start)
    yield ev.Free(req=LOAN, pool="full")


def _alias_of(now: Situation, page: int, request: Request, start: int) -> AnyEvent:
    """The SWA page of the other: with every list as it came, pages of both pools pair by number."""
    owner = request.slots[start] // now.page_size
    peer = now.peer_page(owner)
    return _map(now, page, range(peer * now.page_size, (peer + 1) * now.page_size))


def _again(now: Situation) -> Iterator[AnyEvent]:
    """Both sides released, and once more by the row that gave them back."""
    for name, row in now.rows.items():
        if name != LOAN and len(row) and (all(row.held) or not any(row.held)):
            yield ev.Free(req=name)


def _unaligned(now: Situation) -> Iterator[AnyEvent]:
    if now.page_size == 1:
        return
    for request in now.requests:
        if request.whole and not request.shared and request.length > 1:
            yield ev.FreeSwaSegment(req=request.name, start=1, end=request.length)


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family(
            "extend",
            "careful",
            "a new request of 1 token, a page, or a page and a token; one more page for an old one",
            _extend,
        ),
        Family("decode", "careful", "one more token, for each request and for all", _decode),
        Family("slide", "careful", "free_swa of the whole pages outside the window", _slide),
        Family("finish", "careful", "the end of a request, free_full first where needed", _finish),
        Family(
            "partial",
            "sloppy",
            "free_swa of each token, each page and all of a request, out of the window",
            _partial,
        ),
        Family("repeat", "sloppy", "the same once more when the SWA side is gone", _repeat),
        Family("drop", "sloppy", "finish of a request whose front has no SWA side", _drop),
        Family("trim", "sloppy", "free of the end of a request, from each page on", _trim),
        Family(
            "free_full",
            "sloppy",
            "free_full of a request, with and without SWA side",
            _free_full,
            frozenset({"free_full"}),
        ),
        Family(
            "segments",
            "sloppy",
            "the segment forms, page by page and whole",
            _segments,
            frozenset({"free_segment"}),
        ),
        Family("group", "sloppy", "free_group_begin and free_group_end anywhere", _group),
        Family(
            "load_back",
            "sloppy",
            "one SWA page by itself, mapped to a page without one, or given back",
            _load_back,
        ),
        Family(
            "tail",
            "sloppy",
            "alloc_extend_swa_tail with a tail of nothing, a token, a page",
            _tail,
            frozenset({"alloc_extend_swa_tail"}),
        ),
        Family("share", "sloppy", "a request on the whole pages of another", _share),
        Family("nest", "wrong", "free_group_begin inside a group", _nest, may_raise=True),
        Family(
            "revive",
            "wrong",
            "pages released in a group mapped anew before its end, and released again",
            _revive,
        ),
        Family(
            "alias", "wrong", "a full page mapped to the SWA page of another, and dropped", _alias
        ),
        Family("split", "wrong", "a page shared in part, and released by both", _split),
        Family(
            "again",
            "wrong",
            "free of a request, and again of what was freed",
            _again,
            may_raise=True,
        ),
        Family(
            "unaligned",
            "wrong",
            "a segment that starts inside a page",
            _unaligned,
            frozenset({"free_swa_segment"}),
            may_raise=True,
        ),
    )
}
"""Every family, by name, careful ones first."""


def chosen_families(
    callers: str, operations: frozenset[str], names: str | None = None
) -> tuple[Family, ...]:
    """The families of some callers that an allocator can answer.

    Args:
        callers: "careful", "sloppy" or "wrong".
        operations: of the allocator.
        names: comma-separated: only these; with "+" before each: these too.

    Raises:
        UsageError: unknown callers or family, or a family that the allocator cannot answer.
    """
    if callers not in CALLERS:
        raise UsageError("--callers: " + unknown_name("kind of caller", callers, CALLERS))
    rank = CALLERS.index(callers)
    base = {f.name for f in FAMILIES.values() if CALLERS.index(f.callers) <= rank}
    wanted = base
    if names is not None:
        words = [word.strip() for word in names.split(",") if word.strip()]
        plain = {word.removeprefix("+") for word in words}
        for word in sorted(plain):
            if word not in FAMILIES:
                raise UsageError("--moves: " + unknown_name("move", word, FAMILIES))
            missing = FAMILIES[word].needs - operations
            if missing:
                lacking = ", ".join(sorted(missing))
                raise UsageError(f"--moves: {word} needs {lacking}, which this allocator lacks")
        if not plain:
            raise UsageError("--moves is empty; known: " + ", ".join(FAMILIES))
        added = words[0].startswith("+")
        if any(word.startswith("+") != added for word in words):
            raise UsageError(f"--moves {names}: put + before each of them, or before none")
        wanted = base | plain if added else plain
    return tuple(f for f in FAMILIES.values() if f.name in wanted and f.needs <= operations)
