"""The sanitizer on a live allocator: every call is judged while it happens.

A call is turned into the event that the recorder would write, and replayed by the replay step;
only that the allocator which performs it is the live object, and the call its caller's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from swasim.allocator import adapter, registry
from swasim.allocator.base import Allocator
from swasim.allocator.watched import Outcome, Watched
from swasim.call import AllocatorState, Call, Effect
from swasim.collect import Collector, Replay
from swasim.config import SimConfig
from swasim.recorder import mapping as mapping_writes
from swasim.recorder.calls import Arguments, Method, set_mapping
from swasim.recorder.intercept import Interceptor, pools_of
from swasim.recorder.site import Sites, source_of
from swasim.recorder.snapshot import rebuild, take
from swasim.recorder.tensors import index_list
from swasim.replayer import Replayer
from swasim.sanitizer.findings import Finding
from swasim.trace.events import TRACE_VERSION, AnyEvent, Entry, Expect, Header, Mark


class Guard:
    """Watches one allocator object until `stop`.

    Every call costs a copy and a comparison of the free lists and the mapping, and waits for the
    device: for tests, not for servers.

    Attributes:
        trace: how findings call the calls.
        header, entries: the calls as a trace that replays.
    """

    def __init__(
        self,
        allocator: Any,
        on_finding: Callable[[Guard, Finding], None] | None = None,
        trace: str = "guarded.jsonl",
    ) -> None:
        """Wrap `allocator`, whatever it holds already.

        Args:
            allocator: an SGLang pair of pools, as for `swasim.record`.
            on_finding: called at each finding, inside the call that is at fault; an exception
                leaves that call.
            trace: how findings call the calls that were made; whoever wants the file writes it.

        Raises:
            UsageError: the object has no free lists and mapping that could be read.
        """
        watched = adapter.watch(allocator)
        self.entries: list[Entry] = []
        self._allocator = allocator
        self.trace = trace
        self._on_finding = on_finding
        self._switch = _Switch(watched)
        self._config = _config(watched)
        self.header = Header(
            swasim_trace=TRACE_VERSION,
            page_size=self._config.page_size,
            kv_size=self._config.kv_size,
            kv_size_swa=self._config.kv_size_swa,
            need_sort=self._config.need_sort,
            source=source_of(type(allocator)),
        )
        self._collector = Collector()
        self._replayer = Replayer(self._config, self._switch, trace)
        self._sites = Sites(allocator, *(pool for _, pool in pools_of(allocator)))
        self._listening = True
        self._state_wanted = ""
        self._group_open = False
        self._follow_state(fresh=True)
        self._interceptor = Interceptor(allocator, self, watch_writes=True)

    @property
    def listening(self) -> bool:
        """Whether calls are judged."""
        return self._listening

    @property
    def config(self) -> SimConfig:
        """Sizes of the allocator that is watched."""
        return self._config

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found so far, in order."""
        return tuple(self._collector.findings)

    def stop(self) -> Replay:
        """Put the object back as it was; everything that was found, the last word included."""
        if self._listening:
            self._listening = False
            self._interceptor.undo()
            self._collector.late(self._replayer.finish())
        return self._collector.result(self._replayer, self.trace)

    def on_call(
        self, name: str, original: Callable[..., Any], method: Method, arguments: Arguments
    ) -> Any:
        """Judge one call, and make it."""
        kept = method.keep(arguments)
        event = method.build(kept, {"site": self._sites.caller(2)})
        outcome = self._switch.make(lambda: self._interceptor.run(original, arguments))
        found = self._step(self._completed(event, method, kept, outcome))
        if isinstance(event, Mark):
            self._state_wanted = name
        self._between_calls(name)
        self._tell(found)
        if outcome.error is not None:
            raise outcome.error
        return outcome.result

    def on_wordless(self, label: str) -> None:
        """Take the state over as it is: nobody can say what the call should have done."""
        self._state_wanted = label
        if label == "resize":
            self._group_open = False
        self._between_calls("")

    def on_direct_write(self, key: Any, write: Callable[[], object]) -> None:
        """Judge an assignment to the mapping as the operation that would have done it."""
        site = f"{mapping_writes.SITE} ({self._sites.caller(3)})"
        self._switch.make(write)
        mapping = self._allocator.full_to_swa_index_mapping
        kept = mapping_writes.written(mapping, key)
        found = self._step(set_mapping(mapping.numel(), kept, {"site": site}))
        self._tell(found)

    def _step(self, event: AnyEvent) -> tuple[Finding, ...]:
        number = len(self.entries) + 1
        entry = Entry(number, number + 1, event)
        self.entries.append(entry)
        step = self._replayer.step(entry)
        self._collector.add(step)
        return step.findings

    def _tell(self, findings: tuple[Finding, ...]) -> None:
        if self._on_finding is not None:
            for finding in findings:
                self._on_finding(self, finding)

    @staticmethod
    def _completed(event: AnyEvent, method: Method, kept: Any, outcome: Outcome) -> AnyEvent:
        """The event with what only the call itself could tell."""
        if outcome.error is not None:
            raises = Expect(raises=type(outcome.error).__name__)
            return msgspec.structs.replace(event, expect=raises)
        if method.after is not None:
            method.after(kept, outcome.result)
        if not method.returns:
            return event
        out = None if outcome.result is None else index_list(outcome.result)
        return msgspec.structs.replace(event, out=out)

    def _between_calls(self, name: str) -> None:
        if name == "free_group_begin":
            self._group_open = True
        elif name in ("free_group_end", "clear"):
            self._group_open = False
        if self._state_wanted and not self._group_open:
            self._step(Mark(label=f"{self._state_wanted}: state taken over"))
            self._state_wanted = ""
            self._follow_state(fresh=False)

    def _follow_state(self, *, fresh: bool) -> None:
        """Have the truth follow from an empty pool to what the object holds now.

        The calls of that way are performed by an allocator of our own; what they show of an
        object that is damaged already is found here.
        """
        with self._switch.standing_in(registry.build(self._config)):
            for event in rebuild(take(self._allocator), t=None, fresh_file=fresh):
                self._step(msgspec.structs.replace(event, expect=None))


class _Switch:
    """Answers the replay step with what the live object did just now."""

    def __init__(self, watched: Watched) -> None:
        self.name = watched.name
        self.geometry = watched.geometry
        self._watched = watched
        self._effect = Effect()
        self._stand_in: Allocator | None = None

    def make(self, run: Callable[[], Any]) -> Outcome:
        """Make a call on the live object; the next `perform` reports its effect."""
        self._effect, outcome = self._watched.observe(run)
        return outcome

    @contextmanager
    def standing_in(self, allocator: Allocator) -> Iterator[None]:
        """Perform on `allocator` instead, while inside."""
        self._stand_in = allocator
        yield
        self._stand_in = None

    def perform(self, call: Call) -> Effect:
        """The effect of the call that was made."""
        return self._effect if self._stand_in is None else self._stand_in.perform(call)

    def state(self) -> AllocatorState:
        """What the object holds."""
        return (self._stand_in or self._watched).state()


def _config(watched: Watched) -> SimConfig:
    pair, geometry = watched.target, watched.geometry
    return SimConfig(
        page_size=geometry.page_size,
        kv_size=geometry.kv_size,
        kv_size_swa=geometry.kv_size_swa,
        need_sort=bool(getattr(pair.full_attn_allocator, "need_sort", True)),
    )
