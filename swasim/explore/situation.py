"""Where the callers stand before a move: the requests that run, and what may be asked for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from swasim.explore.ledger import Ledger
from swasim.trace.events import ReqName
from swasim.trace.resolve import Row

LOAN = "H"
"""The row of pages that the host cache loads back."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far an exploration goes.

    Attributes:
        depth: longest sequence, in events.
        requests: running at a time.
        window_tokens: tokens before its own position that a step reads; None: no window.
    """

    depth: int = 5
    requests: int = 2
    window_tokens: int | None = None


@dataclass(slots=True)
class Request:
    """A running request, as its caller sees it.

    Attributes:
        name: its row.
        slots: full slots of the tokens that it has (what it gave back is not among them).
        shared: tokens at the front that another running request has too.
        whole: it gave nothing back but its end; only then it may go on.
        trimmed: its row still names tokens that it gave back.
    """

    name: ReqName
    slots: list[int]
    shared: int
    whole: bool
    trimmed: bool

    @property
    def length(self) -> int:
        """Tokens."""
        return len(self.slots)


class Situation:
    """What the moves are made from.

    Args:
        page_size: tokens per page.
        operations: what the allocator answers.
        bounds: requests at a time, window.
        names: of the requests, in order.
        rows: the resolver's rows; read, never changed.
        ledger: what the callers know.
    """

    def __init__(
        self,
        page_size: int,
        operations: frozenset[str],
        bounds: Bounds,
        names: tuple[str, ...],
        rows: Mapping[ReqName, Row],
        ledger: Ledger,
    ) -> None:
        self.page_size = page_size
        self.operations = operations
        self.bounds = bounds
        self.ledger = ledger
        self.rows = rows
        self.requests = [self._request(name) for name in names if self._is_running(name)]
        running = {request.name for request in self.requests}
        self.new_names = self._new_names(names, running)
        self.ended_names = [name for name in names if name in rows and not any(rows[name].held)]
        self.loan = self._request(LOAN) if self._is_running(LOAN) else None

    def _is_running(self, name: ReqName) -> bool:
        row = self.rows.get(name)
        return row is not None and name not in self.ledger.over and any(row.held)

    def _new_names(self, names: tuple[str, ...], running: set[ReqName]) -> list[str]:
        """Names for a new request: names are alike, so one that was never used stands for all."""
        unused = [name for name in names if name not in self.rows][:1]
        if self.page_size == 1:
            return unused
        return unused + [name for name in names if name in self.rows and name not in running]

    def _request(self, name: ReqName) -> Request:
        row = self.rows[name]
        slots = [slot for slot, held in zip(row.slots, row.held, strict=True) if held]
        first_gone = row.held.find(0)
        whole = first_gone < 0 or first_gone == len(slots)
        others = {
            slot
            for other, theirs in self.rows.items()
            if other != name and other not in self.ledger.over
            for slot, held in zip(theirs.slots, theirs.held, strict=True)
            if held
        }
        shared = sum(slot in others for slot in slots)
        return Request(name, slots, shared, whole, len(row) > len(slots))

    def may_grow(self, request: Request) -> bool:
        """Whether a step finds what it reads: the page it grows into, and its window."""
        if not request.whole or not request.length:
            return False
        if request.trimmed and self.page_size == 1:
            return False  # `alloc` would append behind what was given back
        back = self.bounds.window_tokens or 0
        if request.length % self.page_size:
            back = max(back, 1)
        read = request.slots[max(0, request.length - back) :]
        return all(slot // self.page_size in self.ledger.live for slot in read)

    def window_start(self, request: Request) -> int:
        """Tokens that lie on pages which no step reads any more; without a window all of them."""
        if not self.bounds.window_tokens:
            return request.length
        left = max(0, request.length - self.bounds.window_tokens)
        return left // self.page_size * self.page_size

    def dead_len(self, request: Request) -> int:
        """Tokens at the front whose SWA side is gone."""
        for at, slot in enumerate(request.slots):
            if slot // self.page_size in self.ledger.live:
                return at
        return request.length

    def is_live(self, request: Request, start: int, end: int) -> bool:
        """Whether any of these tokens has its SWA side."""
        live, size = self.ledger.live, self.page_size
        return any(slot // size in live for slot in request.slots[start:end])

    def peer_page(self, full_page: int) -> int:
        """SWA page that the callers know a full page to be mapped to."""
        return self.ledger.live[full_page]

    def page_spans(self, request: Request, start: int = 0) -> list[tuple[int, int]]:
        """Positions of each page of a request, from the page of `start` on."""
        size = self.page_size
        first = start // size * size
        return [(at, min(at + size, request.length)) for at in range(first, request.length, size)]
