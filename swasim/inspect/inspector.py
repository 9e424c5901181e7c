"""Looking at a trace again and again: any moment, forwards and backwards, any page, slot or row."""

from __future__ import annotations

from typing import Any

from swasim.config import SimConfig
from swasim.errors import UsageError
from swasim.inspect.checkpoints import Checkpoints
from swasim.inspect.once import Watch, conclude, no_such_event, walk
from swasim.inspect.records import PageLife, RowView, StateView
from swasim.inspect.rowwatch import RowWatch
from swasim.inspect.state import state_view
from swasim.inspect.target import Target, page_target, slot_target
from swasim.inspect.watch import PageWatch
from swasim.replayer import Replayer, Step
from swasim.run import TraceSource, config_for, reader_of
from swasim.sanitizer.findings import Moment


class Inspector:
    """One trace on one allocator, to be looked at repeatedly.

    The events are kept in memory. `at` goes back from a checkpoint, in bounded memory, where the
    allocator is one of the core engine; the torch engine and allocators from outside are replayed
    from the start when an earlier event is asked for.

    Args:
        trace: a path, "-" for standard input, an open `TraceReader`, or events in memory.
        config: the configuration; without it, `settings` (page_size, allocator, ...) win over
            the trace header, and the header over the defaults.

    Attributes:
        events: events in the trace.
        performed: events carried out so far, by all questions together.
        warnings: sentences about the input.

    Raises:
        TraceError, ConfigError, UsageError: bad input, with file, line, field and value.
    """

    def __init__(
        self, trace: TraceSource, config: SimConfig | None = None, **settings: Any
    ) -> None:
        with reader_of(trace) as reader:
            self.config, self.warnings = config_for(reader, config, settings)
            self._entries = list(reader)
            self._path = reader.path
            self._truncated = reader.truncated_line is not None
        self.events = len(self._entries)
        self.performed = 0
        self._checkpoints = Checkpoints()
        self._now = self._start()
        self._step: Step | None = None
        self._event = 0

    def _start(self) -> Replayer:
        return Replayer(self.config, trace_path=self._path)

    def at(self, event: int) -> StateView:
        """Everything after an event; 0 is the initial state.

        Raises:
            UsageError: the trace has no such event.
            TraceError: an event up to there names a row or positions that do not exist.
        """
        if not 0 <= event <= self.events:
            raise UsageError(no_such_event(event, self.events))
        if event != self._event:
            self._go_to(event)
        return state_view(self._now, self._step)

    def _go_to(self, event: int) -> None:
        nearest = self._checkpoints.nearest_before(event)
        if event < self._event or nearest > self._event:
            self._event = nearest
            self._now = self._checkpoints.copy_at(nearest) if nearest else self._start()
            self._step = None
        while self._event < event:
            self._step = self._now.step(self._entries[self._event])
            self._event += 1
            self.performed += 1
            if self._event < event:
                self._checkpoints.passing(self._event, self._now, event)
        self._checkpoints.arrived(event)

    def page(self, pool: str, page: int) -> PageLife:
        """The whole life of a page of the "full" or the "swa" pool. Replays the trace.

        Raises:
            UsageError: no such pool or page.
        """
        return self._life(page_target(f"{pool}:{page}", self.config.geometry))

    def slot(self, pool: str, slot: int) -> PageLife:
        """The life of one slot: that of its page, as far as the slot is concerned.

        Raises:
            UsageError: no such pool or slot.
        """
        return self._life(slot_target(f"{pool}:{slot}", self.config.geometry))

    def row(self, req: str | int) -> RowView:
        """The row of a request, page by page: at the end, or just before the request was over.

        Raises:
            UsageError: no such request.
        """
        replayer = self._start()
        watch = RowWatch(replayer, str(req))
        self._replay(replayer, watch)
        return watch.view()

    def _life(self, target: Target) -> PageLife:
        replayer = self._start()
        watch = PageWatch(replayer, target)
        return watch.life(self._replay(replayer, watch))

    def _replay(self, replayer: Replayer, watch: Watch) -> Moment:
        last = walk(self._entries, replayer, [watch])
        self.performed += self.events
        conclude(replayer, [watch], truncated=self._truncated)
        return last
