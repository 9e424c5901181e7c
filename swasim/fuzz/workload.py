"""A scheduler in miniature: random requests that keep the allocator's contract.

It does what SGLang's scheduler does with an allocator: it asks for capacity first, grows requests
by extend and decode, lets tokens leave the window, hands finished prefixes to a cache that others
share, evicts, retracts, drafts and trims, loads back, and groups its releases. It never looks at
an allocator's state beyond what it was told is available, so whatever is found on such a trace is
the allocator's own fault. What must not be added here: a caller's mistake (`sloppy.py`).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from swasim.fuzz.habits import Habits, Request
from swasim.geometry import Geometry
from swasim.trace import events as ev
from swasim.trace.events import AnyEvent, ReqName, compress
from swasim.trace.resolve import Row

DRAFT_TOKENS = 4


class Workload:
    """Makes one event after the other.

    Args:
        geometry: sizes of the pools.
        operations: what the allocator answers (`Profile.operations`).
        habits: what the scheduler does.
        rng: source of every choice.
        rows: the resolver's rows; read, never changed.
        grouped: wrap releases in free groups now and then.
        skips_unmapped: `free` may name slots whose SWA peer is gone. Allocators from 0.5.20 on
            ask their callers to release such slots with `free_full`.
        asks_by_token: an extend is refused by its tokens, not by its new pages (up to 0.5.10).
    """

    def __init__(
        self,
        geometry: Geometry,
        operations: frozenset[str],
        habits: Habits,
        rng: random.Random,
        rows: Mapping[ReqName, Row],
        *,
        grouped: bool = True,
        skips_unmapped: bool = True,
        asks_by_token: bool = False,
    ) -> None:
        self._asks_by_token = asks_by_token
        self.geometry = geometry
        self.habits = habits
        self.rng = rng
        self.rows = rows
        self.running: list[Request] = []
        self.cached: list[Request] = []
        self._operations = operations
        self._grouped = grouped
        self._skips_unmapped = skips_unmapped
        self._pending: deque[AnyEvent | Later] = deque()
        self._names = 0
        self._size = geometry.page_size
        self._free = (geometry.full_pages, geometry.swa_pages)
        self._moves: dict[str, Callable[[], bool]] = {
            "admit": self._admit,
            "decode": self._decode,
            "chunk": self._chunk,
            "slide": self._slide,
            "finish": self._finish,
            "cache": self._cache,
            "evict": self._evict,
            "tombstone": self._tombstone,
            "retract": self._retract,
            "draft": self._draft,
            "tail": self._tail,
            "load_back": self._load_back,
            "flush": self._flush,
        }

    @property
    def settled(self) -> bool:
        """Nothing that was begun waits for its end: a trace may stop here."""
        return not self._pending

    def next_event(
        self, full_available: int, swa_available: int, last_out: list[int] | None
    ) -> AnyEvent:
        """The next event.

        Args:
            full_available, swa_available: tokens, as the allocator says after the last event.
            last_out: slots that the last event returned.
        """
        self._free = (full_available // self._size, swa_available // self._size)
        while not self._pending:
            names = list(self.habits.weights)
            weights = [self.habits.weights[name] for name in names]
            if not self._moves[self.rng.choices(names, weights)[0]]():
                self._make_room()
        event = self._pending.popleft()
        return event(last_out or []) if callable(event) else event

    # Growing

    def _admit(self) -> bool:
        if len(self.running) >= self.habits.max_running:
            return False
        count = self.rng.randint(1, 2) if self._size > 1 else 1
        batch: list[tuple[Request, int]] = []
        shares: list[AnyEvent] = []
        for _ in range(count):
            request = self._new_request()
            prefix = self._prefix_hit()
            if prefix is not None:
                parent, tokens = prefix
                request.parent, request.shared, request.length = parent, tokens, tokens
                request.swa_from = parent.swa_from
                shares.append(ev.Share(req=request.name, from_=parent.name, start=0, end=tokens))
            grow = self.rng.randint(1, self.habits.max_prompt_tokens)
            batch.append((request, request.length + grow))
        if not self._fits(batch):
            return False
        self._pending.extend(shares)
        for request, _ in batch:
            if request.parent is not None:
                request.parent.users += 1
        self.running += [request for request, _ in batch]
        self._extend(batch)
        return True

    def _prefix_hit(self) -> tuple[Request, int] | None:
        """A cached prefix whose window is complete, cut at a page."""
        if not self.cached or self.rng.random() < 0.5:
            return None
        parent = self.rng.choice(self.cached)
        tokens = self._floor(self.rng.randint(0, parent.length))
        needs_from = max(0, tokens - self.habits.window)
        return (parent, tokens) if tokens and parent.swa_from <= needs_from else None

    def _chunk(self) -> bool:
        """One more chunk of a prompt."""
        request = self._any_running()
        if request is None:
            return False
        batch = [(request, request.length + self.rng.randint(1, self.habits.max_prompt_tokens))]
        if not self._fits(batch):
            return False
        self._extend(batch)
        return True

    def _decode(self) -> bool:
        if not self.running:
            return False
        count = self.rng.randint(1, len(self.running))
        chosen = self.rng.sample(self.running, count)
        batch = [(request, request.length + 1) for request in chosen]
        if not self._fits(batch):
            return False
        if self._size == 1:
            self._extend(batch)
            return True
        self._pending.append(ev.AllocDecode(reqs=[request.name for request in chosen]))
        for request in chosen:
            request.length += 1
        return True

    def _extend(self, batch: list[tuple[Request, int]]) -> None:
        if self._size == 1:
            for request, seq_len in batch:
                need_size = seq_len - request.length
                self._pending.append(ev.Alloc(need_size=need_size, req=request.name))
        else:
            self._pending.append(
                ev.AllocExtend(
                    reqs=[request.name for request, _ in batch],
                    seq_lens=[seq_len for _, seq_len in batch],
                    prefix_lens=[request.length for request, _ in batch],
                )
            )
        for request, seq_len in batch:
            request.length = seq_len

    def _draft(self) -> bool:
        """Speculation: take slots for a draft, then give the rejected whole pages back."""
        request = self._any_running()
        if request is None:
            return False
        drafted = request.length + DRAFT_TOKENS + self._size
        if not self._fits([(request, drafted)]):
            return False
        accepted = request.length + self.rng.randint(1, DRAFT_TOKENS)
        self._extend([(request, drafted)])
        keep = self._pages(accepted) * self._size
        if keep < drafted:
            self._pending.append(self._release("free", request, keep, drafted))
        if self._size > 1:
            # The row is cut back to the accepted tokens by the next allocation.
            self._pending.append(
                ev.AllocExtend(
                    reqs=[request.name], prefix_lens=[accepted], seq_lens=[min(keep, accepted + 1)]
                )
            )
            request.length = min(keep, accepted + 1)
        else:
            self._pending.append(ev.Mark(label=f"{request.name} accepts {accepted}"))
            self._cut_row(request, accepted)
        return True

    def _cut_row(self, request: Request, accepted: int) -> None:
        """Page size 1: `alloc` appends, so the accepted tokens move to a row of their own."""
        old = request.name
        request.name = self._new_request().name
        self._pending.append(ev.Share(req=request.name, from_=old, start=0, end=accepted))
        request.length = accepted

    def _tail(self) -> bool:
        """A decode node takes a request over: SWA slots for the end of the prompt only."""
        if "alloc_extend_swa_tail" not in self._operations or self._size == 1:
            return False
        if len(self.running) >= self.habits.max_running:
            return False
        seq_len = self.rng.randint(1, self.habits.max_prompt_tokens + self.habits.window)
        first = self._floor(max(0, seq_len - self.habits.window))
        if not self._has(self._pages(seq_len), self._pages(seq_len) - first // self._size):
            return False
        request = self._new_request()
        request.length, request.swa_from = seq_len, first
        self.running.append(request)
        self._pending.append(
            ev.AllocExtendSwaTail(
                req=request.name, prefix_len=0, seq_len=seq_len, swa_tail_len=seq_len - first
            )
        )
        return True

    def _load_back(self) -> bool:
        """A tombstoned prefix gets SWA pages again: one pool alone, then the mapping."""
        for cache in self.cached:
            tokens = min(cache.swa_from, self._size * 2)
            first = cache.swa_from - tokens
            if tokens and not cache.users:
                if not self._has(0, tokens // self._size):
                    return False
                self._pending.append(ev.Alloc(need_size=tokens, pool="swa"))
                self._pending.append(partial(self._map_back, cache.name, first))
                cache.swa_from = first
                return True
        return False

    def _map_back(self, name: str, first: int, swa_slots: list[int]) -> AnyEvent:
        full_slots = self.rows[name].slots[first : first + len(swa_slots)]
        return ev.SetFullToSwaMapping(full=compress(full_slots), swa=compress(swa_slots))

    # Giving back

    def _slide(self) -> bool:
        """Tokens leave the window, a page at a time; one page more is kept, as upstream does."""
        moved = False
        for request in self.running:
            border = self._floor(request.length - self.habits.window - self._size)
            start = max(request.swa_from, request.shared)
            if border > start:
                self._pending.append(self._release("free_swa", request, start, border))
                request.swa_from = border
                moved = True
        return moved

    def _finish(self) -> bool:
        """A request ends and gives everything back that is its own."""
        request = self._any_running()
        if request is None:
            return False
        self.running.remove(request)
        self._group(self._give_back(request, request.shared))
        self._leave(request)
        return True

    _retract = _finish

    def _cache(self) -> bool:
        """A request ends; the cache takes its whole pages over, or drops what it has already."""
        request = self._any_running()
        if request is None or request.parent is not None:
            return False
        kept = self._floor(request.length)
        if not kept:
            return False
        self.running.remove(request)
        cache = self._new_request("c")
        cache.length, cache.swa_from = kept, min(request.swa_from, kept)
        self._pending.append(ev.Share(req=cache.name, from_=request.name, start=0, end=kept))
        self._group(self._give_back(request, kept))
        self.cached.append(cache)
        return True

    def _evict(self) -> bool:
        """The cache gives a prefix back that nobody uses."""
        idle = [cache for cache in self.cached if not cache.users]
        if not idle:
            return False
        cache = self.rng.choice(idle)
        self.cached.remove(cache)
        self._group(self._give_back(cache, 0))
        return True

    def _tombstone(self) -> bool:
        """The cache gives the SWA side of a prefix back and keeps the full side."""
        idle = [c for c in self.cached if not c.users and c.swa_from < c.length]
        if not idle:
            return False
        cache = self.rng.choice(idle)
        self._group([self._release("free_swa", cache, cache.swa_from, cache.length)])
        cache.swa_from = cache.length
        return True

    def _flush(self) -> bool:
        """Everything is dropped at once."""
        self._pending.append(ev.Clear())
        self.running.clear()
        self.cached.clear()
        return True

    def _make_room(self) -> None:
        """Nothing fits: evict, else retract; that always frees something."""
        if not self._evict():
            self._finish()

    def _give_back(self, request: Request, start: int) -> list[AnyEvent]:
        """Release `[start, length)`: both sides, or the full side where the SWA side is gone."""
        end = request.length
        if start >= end:
            return []
        border = min(max(request.swa_from, start), end)
        if border == start or self._skips_unmapped:
            return [self._release("free", request, start, end)]
        events = [self._release("free_full", request, start, border)]
        if border < end:
            events.append(self._release("free", request, border, end))
        return events

    def _release(self, op: str, request: Request, start: int, end: int) -> AnyEvent:
        """One release; in its segment form now and then, where it starts at a page."""
        segment = f"{op}_segment"
        aligned = start % self._size == 0
        if segment in self._operations and aligned and self.rng.random() < 0.5:
            op = segment
        return RELEASES[op](req=request.name, start=start, end=end)

    def _group(self, events: list[AnyEvent]) -> None:
        if events and self._grouped and self.rng.random() < 0.5:
            events = [ev.FreeGroupBegin(), *events, ev.FreeGroupEnd()]
        self._pending.extend(events)

    def _leave(self, request: Request) -> None:
        if request.parent is not None:
            request.parent.users -= 1

    # Arithmetic

    def _new_request(self, prefix: str = "r") -> Request:
        self._names += 1
        return Request(f"{prefix}{self._names}")

    def _any_running(self) -> Request | None:
        return self.rng.choice(self.running) if self.running else None

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self._size)

    def _floor(self, tokens: int) -> int:
        return max(tokens, 0) // self._size * self._size

    def _fits(self, batch: list[tuple[Request, int]]) -> bool:
        """Whether both pools have room, a page per request in hand as upstream asks for."""
        pages = sum(self._pages(end) - self._pages(request.length) for request, end in batch)
        if self._asks_by_token:
            pages = max(pages, self._pages(sum(end - request.length for request, end in batch)))
        return self._has(pages + len(batch), pages + len(batch))

    def _has(self, full_pages: int, swa_pages: int) -> bool:
        return full_pages <= self._free[0] and swa_pages <= self._free[1]


Later = Callable[[list[int]], AnyEvent]
"""An event that needs the slots that the event before it returned."""

RowRelease = (
    ev.Free | ev.FreeSwa | ev.FreeFull | ev.FreeSegment | ev.FreeSwaSegment | ev.FreeFullSegment
)

RELEASES: dict[str, type[RowRelease]] = {
    "free": ev.Free,
    "free_swa": ev.FreeSwa,
    "free_full": ev.FreeFull,
    "free_segment": ev.FreeSegment,
    "free_swa_segment": ev.FreeSwaSegment,
    "free_full_segment": ev.FreeFullSegment,
}
