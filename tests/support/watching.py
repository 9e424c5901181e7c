"""Two sanitizers side by side: one that recognises calls at which nothing is wrong, one that never
does."""

from __future__ import annotations

from collections.abc import Iterable

from swasim.allocator.registry import build
from swasim.call import Call, Effect
from swasim.config import SimConfig
from swasim.replayer import Replayer
from swasim.sanitizer.findings import Finding
from swasim.sanitizer.sanitizer import Sanitizer
from swasim.trace import events as ev
from swasim.trace.events import Entry
from swasim.trace.resolve import Resolved
from tests.support.truth import knowledge

COMPARED_EVERY = 11
"""Calls; comparing all that is known takes many times as long as looking at a call."""


class Twins:
    """Both are shown the same calls, which name no rows.

    Attributes:
        recognised: operations of the calls that were recognised.
        asked: how many calls were shown.
    """

    def __init__(self, config: SimConfig) -> None:
        self.quick, self.slow = Sanitizer(config, {}), Sanitizer(config, {})
        self.slow.recognises = False
        self.quick.recognises = True
        self.recognised: list[str] = []
        self.asked = 0

    def show(self, call: Call, effect: Effect) -> list[Finding]:
        """Both look at a call; what both find."""
        self.asked += 1
        entry, resolved = Entry(self.asked, self.asked + 1, event_of(call)), Resolved(call)
        if self.asked % COMPARED_EVERY:
            foreseen = self.quick.steady.reads(call, effect)
        else:
            knew = knowledge(self.quick)
            foreseen = self.quick.steady.reads(call, effect)
            assert knowledge(self.quick) == knew, "to look changes something"
        found = self.slow.observe(entry, resolved, effect)
        assert self.quick.observe(entry, resolved, effect) == found
        if foreseen:
            self.recognised.append(call.op)
            assert found == []
        return found

    def agree(self) -> None:
        """Both know the same, and find the same at the end."""
        assert knowledge(self.quick) == knowledge(self.slow)
        ends = [(twin.declare_idle(), twin.finish()) for twin in (self.quick, self.slow)]
        assert ends[0] == ends[1]
        assert knowledge(self.quick) == knowledge(self.slow)


def event_of(call: Call, site: str | None = None, t: float | None = None) -> ev.AnyEvent:
    """An event of the call's operation; what it names does not matter to a sanitizer."""
    named: dict[str, ev.AnyEvent] = {
        "alloc": ev.Alloc(need_size=call.need_size, site=site, t=t),
        "alloc_extend": ev.AllocExtend(seq_lens=call.seq_lens, site=site, t=t),
        "alloc_decode": ev.AllocDecode(seq_lens=call.seq_lens, site=site, t=t),
        "free": ev.Free(site=site, t=t),
        "free_swa": ev.FreeSwa(site=site, t=t),
        "free_full": ev.FreeFull(site=site, t=t),
    }
    return named.get(call.op, ev.Mark(label=call.op, site=site, t=t))


def replayed(
    config: SimConfig, entries: Iterable[Entry], *, recognises: bool
) -> tuple[Sanitizer, list[Finding]]:
    """Replay events; the sanitizer afterwards, and what it found."""
    replayer = Replayer(config, build(config))
    replayer.sanitizer.recognises = recognises
    findings = [finding for entry in entries for finding in replayer.step(entry).findings]
    return replayer.sanitizer, findings
