"""The scheduler in miniature, less careful: what an allocator must bear, and what none can.

Sloppy moves keep the contract of the ideal allocator: an error after them is the allocator's.
Wrong moves break it, one kind of them in each trace, so that a find has one cause. A request whose
window was cut short never takes another step: that would be a mistake of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from swasim.fuzz.habits import Request
from swasim.fuzz.workload import Later, Workload
from swasim.sanitizer.shadow import Truth
from swasim.trace import events as ev
from swasim.trace.events import AnyEvent, compress

SLOPPY: dict[str, float] = {
    "evict_tokens": 3,
    "cut_short": 2,
    "evict_again": 2,
    "drop_all": 1,
    "full_over_live": 1,
    "ask_too_much": 0.7,
    "fill": 1,
    "blind_decode": 4,
    "remap": 1,
}
"""Move name to weight, beside those of the careful scheduler."""

WRONG: tuple[str, ...] = (
    "nest",
    "revive",
    "alias_dropped",
    "alias_evicted",
    "split_page",
    "free_twice",
    "unaligned",
)
"""Mistakes of callers; the first three are borne by the ideal allocator all the same."""

WRONG_WEIGHT = 6.0


class SloppyWorkload(Workload):
    """Makes one event after the other; arguments as for `Workload`.

    Attributes:
        truth: for its mapping, which callers may look up as they may the allocator's.
    """

    truth: Truth

    def add_moves(self, truth: Truth) -> None:
        """Make the moves of this module known by their names."""
        self.truth = truth
        moves: dict[str, Callable[[], bool]] = {
            "evict_tokens": self._evict_tokens,
            "cut_short": self._cut_short,
            "evict_again": self._evict_again,
            "drop_all": self._drop_all,
            "full_over_live": self._full_over_live,
            "ask_too_much": self._ask_too_much,
            "fill": self._fill,
            "blind_decode": self._blind_decode,
            "remap": self._remap,
            "nest": self._nest,
            "revive": self._revive,
            "alias_dropped": self._alias_dropped,
            "alias_evicted": self._alias_evicted,
            "split_page": self._split_page,
            "free_twice": self._free_twice,
            "unaligned": self._unaligned,
        }
        self._moves.update(moves)

    # What an allocator must bear

    def _evict_tokens(self) -> bool:
        """Tokens leave the window one by one, not a page at a time."""
        for request in self.running:
            start = max(request.swa_from, request.shared)
            border = self._floor(request.length - self.habits.window - self._size)
            if border > start:
                end = start + self.rng.randint(1, border - start)
                self._pending.append(ev.FreeSwa(req=request.name, start=start, end=end))
                request.swa_from = min(border, self._pages(end) * self._size)
                return True
        return False

    def _cut_short(self) -> bool:
        """Any tokens are evicted, inside the window too, and the request ends."""
        request = self._any_running()
        if request is None or request.length <= max(request.swa_from, request.shared):
            return False
        low, high = max(request.swa_from, request.shared), request.length
        for _ in range(self.rng.randint(1, 2)):
            start = self.rng.randint(low, high - 1)
            end = self.rng.randint(start + 1, high)
            self._pending.append(ev.FreeSwa(req=request.name, start=start, end=end))
        self._end(request, "free")
        return True

    def _evict_again(self) -> bool:
        """What left the window is evicted once more."""
        for request in self.running:
            end = self._floor(request.swa_from)
            if end > request.shared:
                start = self._floor(request.shared)
                self._pending.append(self._release("free_swa", request, start, end))
                return True
        return False

    def _drop_all(self) -> bool:
        """A request ends and is freed in one piece, whatever of it has no SWA side any more."""
        request = self._any_running()
        if request is None:
            return False
        self._end(request, "free")
        return True

    def _full_over_live(self) -> bool:
        """free_full of a request whose SWA side is there."""
        request = self._any_running()
        if request is None or "free_full" not in self._operations:
            return False
        self._end(request, "free_full")
        return True

    def _end(self, request: Request, op: str) -> None:
        """Everything of its own goes in one release."""
        self.running.remove(request)
        if request.length > request.shared:
            self._group([self._release(op, request, request.shared, request.length)])
        self._leave(request)

    def _ask_too_much(self) -> bool:
        """More than there is: to be refused, and nothing may change."""
        pages = self._free[0] + self.rng.randint(1, 2)
        self._pending.append(self._new_rows(self._new_request(), pages * self._size))
        return True

    def _fill(self) -> bool:
        """A prompt that takes exactly what the shorter pool has left."""
        pages = min(self._free)
        if not pages or pages > 12:
            return False
        request = self._new_request()
        self._pending.append(self._new_rows(request, pages * self._size))
        self._pending.append(partial(self._admitted, request, pages * self._size))
        return True

    def _new_rows(self, request: Request, tokens: int) -> AnyEvent:
        if self._size == 1:
            return ev.Alloc(need_size=tokens, req=request.name)
        return ev.AllocExtend(reqs=[request.name], prefix_lens=[0], seq_lens=[tokens])

    def _admitted(self, request: Request, tokens: int, out: list[int]) -> AnyEvent:
        if len(out) == tokens:
            request.length = tokens
            self.running.append(request)
        return ev.Mark(label=f"{request.name} {'runs' if out else 'is refused'}")

    def _blind_decode(self) -> bool:
        """A step that needs a page, although one of the pools has none."""
        if self._size == 1 or min(self._free) or not max(self._free):
            return False
        ready = [r for r in self.running if r.length % self._size == 0]
        if not ready:
            return False
        request = self.rng.choice(ready)
        self._pending.append(ev.AllocDecode(reqs=[request.name]))
        self._pending.append(partial(self._decoded, request))
        return True

    def _decoded(self, request: Request, out: list[int]) -> AnyEvent:
        request.length += len(out)
        return ev.Mark(label=f"{request.name} {'goes on' if out else 'waits'}")

    def _remap(self) -> bool:
        """In one group, a page of a cached prefix leaves its SWA page and gets another."""
        idle = [c for c in self.cached if not c.users and c.swa_from < c.length]
        if not idle or not self._has(0, 1) or not self._grouped:
            return False
        cache = self.rng.choice(idle)
        first = self.rng.randrange(self._floor(cache.swa_from), cache.length, self._size)
        self._pending.extend(
            (
                ev.FreeGroupBegin(),
                ev.FreeSwa(req=cache.name, start=first, end=first + self._size),
                ev.Alloc(need_size=self._size, pool="swa"),
                partial(self._map_back, cache.name, first),
                ev.FreeGroupEnd(),
            )
        )
        return True

    # What callers must not do

    def _nest(self) -> bool:
        request = self._ended()
        if request is None:
            return False
        release = self._release("free", request, request.shared, request.length)
        self._pending.extend((ev.FreeGroupBegin(), release, ev.FreeGroupBegin(), ev.FreeGroupEnd()))
        return True

    def _ended(self, *, own: bool = False) -> Request | None:
        """A request that stops running, with tokens of its own; `own`: it shares nothing."""
        able = [r for r in self.running if r.length > r.shared and not (own and r.shared)]
        if not able:
            return None
        request = self.rng.choice(able)
        self.running.remove(request)
        self._leave(request)
        return request

    def _revive(self) -> bool:
        """Pages released in a group are mapped anew, and released again, before it ends."""
        if not self._has(0, 1):
            return False
        request = self._ended(own=True)
        if request is None:
            return False
        page = self.rows[request.name].slots[0] // self._size
        slots = list(range(page * self._size, (page + 1) * self._size))
        self._pending.extend(
            (
                ev.FreeGroupBegin(),
                ev.Free(req=request.name),
                ev.Alloc(need_size=self._size, pool="swa"),
                partial(_map, slots),
                ev.FreeSwa(indices=compress(slots)),
                ev.FreeGroupEnd(),
            )
        )
        return True

    def _alias(self, owner: Request) -> tuple[Request, Later] | None:
        """A full page loaded back onto an SWA page that a request has: the loan, and the event."""
        slots = self.rows[owner.name].slots
        first = self._floor(owner.length - 1)
        start = slots[first] // self._size * self._size
        peers = self.truth.mapping.read(list(range(start, start + self._size)))
        if not self._has(1, 0) or not peers[0]:
            return None
        page = peers[0] // self._size * self._size
        loan = self._new_request("h")
        loan.length = self._size
        onto = partial(_onto, list(range(page, page + self._size)))
        return loan, onto

    def _alias_dropped(self) -> bool:
        """The loan is dropped again, and the next prompt gets its page without SWA slots."""
        if "alloc_extend_swa_tail" not in self._operations or self._size == 1:
            return False
        owners = [r for r in self.running if r.length > max(r.shared, r.swa_from)]
        made = self._alias(self.rng.choice(owners)) if owners else None
        if made is None or not self._has(4, 1):
            return False
        loan, onto = made
        taker = self._new_request()
        tail = self.rng.choice((0, self._size))
        taker.length, taker.swa_from = 2 * self._size, 2 * self._size - tail
        self._pending.extend(
            (
                ev.Alloc(need_size=self._size, pool="full", req=loan.name),
                onto,
                ev.Free(req=loan.name, pool="full"),
                ev.AllocExtendSwaTail(
                    req=taker.name, prefix_len=0, seq_len=taker.length, swa_tail_len=tail
                ),
                self._release("free", taker, 0, taker.length),
            )
        )
        return True

    def _alias_evicted(self) -> bool:
        """Both full pages let the SWA page go."""
        owner = self._any_running()
        if owner is None or owner.shared or owner.length <= owner.swa_from:
            return False
        made = self._alias(owner)
        if made is None:
            return False
        loan, onto = made
        self.running.remove(owner)
        first = self._floor(owner.length - 1)
        self._pending.extend(
            (
                ev.Alloc(need_size=self._size, pool="full", req=loan.name),
                onto,
                ev.FreeSwa(req=owner.name, start=max(first, owner.swa_from), end=owner.length),
                ev.FreeSwa(req=loan.name),
            )
        )
        return True

    def _split_page(self) -> bool:
        """A page shared in part with the cache: the request frees its end, the cache the rest."""
        if self._size == 1:
            return False
        request = self._ended(own=True)
        cuts = [at for at in range(1, request.length) if at % self._size] if request else []
        if request is None or not cuts:
            return request is not None
        cut = self.rng.choice(cuts)
        cache = self._new_request("c")
        cache.length = cut
        self._pending.extend(
            (
                ev.Share(req=cache.name, from_=request.name, start=0, end=cut),
                ev.Free(req=request.name, start=cut, end=request.length),
                ev.Free(req=cache.name),
            )
        )
        return True

    def _free_twice(self) -> bool:
        request = self._ended()
        if request is None:
            return False
        release = self._release("free", request, request.shared, request.length)
        self._pending.extend((release, release))
        return True

    def _unaligned(self) -> bool:
        """A segment that starts inside a page."""
        op = "free_swa_segment" if "free_swa_segment" in self._operations else "free_segment"
        if op not in self._operations or self._size == 1:
            return False
        request = self._ended(own=True)
        if request is None or request.length < 2:
            return request is not None
        if op == "free_swa_segment":
            event: AnyEvent = ev.FreeSwaSegment(req=request.name, start=1, end=request.length)
        else:
            event = ev.FreeSegment(req=request.name, start=1, end=request.length)
        self._pending.append(event)
        return True


def _map(full_slots: list[int], swa_slots: list[int]) -> AnyEvent:
    return ev.SetFullToSwaMapping(
        full=compress(full_slots[: len(swa_slots)]), swa=compress(swa_slots)
    )


def _onto(swa_slots: list[int], full_slots: list[int]) -> AnyEvent:
    return _map(full_slots, swa_slots)
