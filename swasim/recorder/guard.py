"""The sanitizer on a live allocator: every call is judged while it happens.

A call is turned into the event that the recorder would write, and replayed by the replay step;
only that the allocator which performs it is the live object, and the call its caller's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec

from swasim.allocator import adapter, registry
from swasim.allocator.base import Allocator
from swasim.allocator.watched import Outcome, Watched
from swasim.call import AllocatorState, Call, Effect
from swasim.collect import Collector, Replay
from swasim.config import SimConfig
from swasim.errors import SwasimError
from swasim.recorder import mapping as mapping_writes
from swasim.recorder.calls import Arguments, Method, set_mapping
from swasim.recorder.intercept import Interceptor, pools_of
from swasim.recorder.site import Sites, source_of
from swasim.recorder.snapshot import rebuild, take
from swasim.recorder.tensors import index_list
from swasim.replayer import Replayer
from swasim.sanitizer.findings import Finding
from swasim.trace.events import TRACE_VERSION, AnyEvent, Entry, Expect, Header, Mark

_OWN = "ideal"
"""Allocator that stands in while the truth follows to the state that an object has."""


class Guard:
    """Watches one allocator object until `stop`.

    Every call costs a copy and a comparison of the free lists and the mapping, and waits for the
    device: for tests, not for servers.

    Attributes:
        trace: how findings call the calls.
        header, entries: the calls as a trace that replays.
        failure: why the watching ended before `stop`, or "": the object could not be read.
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
        self.failure = ""
        self._on_finding = on_finding
        self._switch = _Switch(watched)
        source = source_of(type(allocator))
        self._config = _config(watched, source)
        self.header = Header(
            swasim_trace=TRACE_VERSION,
            page_size=self._config.page_size,
            kv_size=self._config.kv_size,
            kv_size_swa=self._config.kv_size_swa,
            need_sort=self._config.need_sort,
            source=source,
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
        __tracebackhide__ = True
        site = self._sites.caller(2)
        call = _CallersCall(lambda: self._interceptor.run(original, arguments))
        found: tuple[Finding, ...] = ()
        try:
            found = self._judge(name, method, arguments, call, site)
        except Exception as error:
            if error is not call.error:
                self._give_up(error)
        self._tell(found)
        return call.leave()

    def _judge(
        self, name: str, method: Method, arguments: Arguments, call: _CallersCall, site: str
    ) -> tuple[Finding, ...]:
        kept = method.keep(arguments)
        event = method.build(kept, {"site": site})
        outcome = self._switch.make(call.make, allocates=method.returns)
        found = self._step(self._completed(event, method, kept, outcome))
        if isinstance(event, Mark):
            self._state_wanted = name
        self._between_calls(name)
        return found

    def _give_up(self, error: Exception) -> None:
        """End the watching: the caller's test goes on as if there were none."""
        self.failure = f"{type(error).__name__}: {error}"
        if isinstance(error, SwasimError):
            self.failure = str(error)
        self._listening = False
        self._interceptor.undo()

    def on_wordless(self, label: str) -> None:
        """Take the state over as it is: nobody can say what the call should have done."""
        try:
            self._state_wanted = label
            if label == "resize":
                self._group_open = False
            self._between_calls("")
        except Exception as error:
            self._give_up(error)

    def on_direct_write(self, key: Any, write: Callable[[], object]) -> None:
        """Judge an assignment to the mapping as the operation that would have done it."""
        __tracebackhide__ = True
        site = f"{mapping_writes.SITE} ({self._sites.caller(3)})"
        call = _CallersCall(write)
        found: tuple[Finding, ...] = ()
        try:
            found = self._judge_write(key, call, site)
        except Exception as error:
            if error is not call.error:
                self._give_up(error)
        self._tell(found)
        call.leave()

    def _judge_write(self, key: Any, call: _CallersCall, site: str) -> tuple[Finding, ...]:
        outcome = self._switch.make(call.make, allocates=False)
        if outcome.error is not None:
            return ()
        mapping = self._allocator.full_to_swa_index_mapping
        kept = mapping_writes.written(mapping, key)
        return self._step(set_mapping(mapping.numel(), kept, {"site": site}))

    def _step(self, event: AnyEvent) -> tuple[Finding, ...]:
        number = len(self.entries) + 1
        entry = Entry(number, number + 1, event)
        self.entries.append(entry)
        step = self._replayer.step(entry)
        self._collector.add(step)
        return step.findings

    def _tell(self, findings: tuple[Finding, ...]) -> None:
        __tracebackhide__ = True
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
        own = registry.build(replace(self._config, allocator=_OWN))
        with self._switch.standing_in(own):
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

    def make(self, run: Callable[[], Any], *, allocates: bool) -> Outcome:
        """Make a call on the live object; the next `perform` reports its effect."""
        self._effect, outcome = self._watched.observe(run, allocates=allocates)
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


class _CallersCall:
    """A call that somebody else makes: made once, whatever becomes of the watching."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self.error: BaseException | None = None
        self._run = run
        self._made = False
        self._result: Any = None

    def make(self) -> Any:
        """Make it; an exception is noted and leaves."""
        self._made = True
        try:
            self._result = self._run()
        except BaseException as error:
            self.error = error
            raise
        return self._result

    def leave(self) -> Any:
        """What the caller gets, an exception included; made now if it was not yet."""
        __tracebackhide__ = True
        if not self._made:
            return self._run()
        if self.error is not None:
            raise self.error
        return self._result


def _config(watched: Watched, source: str) -> SimConfig:
    pair, geometry = watched.target, watched.geometry
    return SimConfig(
        page_size=geometry.page_size,
        kv_size=geometry.kv_size,
        kv_size_swa=geometry.kv_size_swa,
        need_sort=bool(getattr(pair.full_attn_allocator, "need_sort", True)),
        allocator=_replayed_on(type(pair), source),
    )


def _replayed_on(cls: type, source: str) -> str:
    """The allocator on which whoever reads a finding sees it again."""
    package, _, release = source.partition(" ")
    if package != registry.INSTALLED:
        return f"{cls.__module__}:{cls.__qualname__}"
    name = f"{registry.INSTALLED}-{release}"
    return name if name in registry.names() else registry.INSTALLED
