"""From waiting calls to lines: the buffer, the writer thread, and the end of a recording."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from swasim.errors import UsageError
from swasim.recorder.calls import common_fields
from swasim.recorder.sink import PlainSink, RecordingEndedError, RingSink
from swasim.recorder.snapshot import Snapshot, rebuild
from swasim.recorder.tensors import wait
from swasim.trace.events import AnyEvent, Header, Mark
from swasim.trace.writer import encode_event, encode_header

logger = logging.getLogger("swasim.recorder")

FLUSH_SECONDS = 0.25
"""Longest time that a call waits in memory."""
WAKE_CALLS = 256
"""So many waiting calls wake the writer early."""
MOST_WAITING_CALLS = 8192
"""With so many waiting the server writes them itself: memory is bounded and no call is lost."""


class WaitingCall(NamedTuple):
    """A call that was made and is not written yet; `mark` is waited for before reading `kept`."""

    build: Callable[[Any, dict[str, Any]], AnyEvent]
    kept: Any
    t: float
    site: str
    raised: str | None
    returned: tuple[Any] | None
    mark: Any


class NewState(NamedTuple):
    """The allocator's state between two calls, to be written as a new beginning.

    `label` says in the trace why; `fresh` that nothing was called before; `restart` that a new
    part of the ring begins; `other_header` that the sizes changed, so that a new file begins.
    """

    snapshot: Snapshot
    t: float
    mark: Any
    label: str = ""
    fresh: bool = False
    restart: bool = False
    other_header: Header | None = None


class Journal:
    """What waits, the thread that writes it, and the file.

    Attributes:
        ended: why nothing more is written, or None.
        lock: held while lines are written.
        on_end: called once when the recording ends by itself.
    """

    def __init__(
        self, path: str, header: Header, *, ring: bool, max_bytes: int | None, force: bool
    ) -> None:
        """Create the file with its header.

        Raises:
            UsageError: it exists, or cannot be written.
        """
        self.ended: str | None = None
        self.lock = threading.RLock()
        self.on_end: Callable[[], None] = lambda: None
        self._path = path
        self._ring = ring
        self._max_bytes = max_bytes
        self._force = force
        self._header = header
        self._files = 1
        self._waiting: deque[WaitingCall | NewState] = deque()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._write_on, name="swasim-record", daemon=True)
        try:
            self._sink = self._open(path)
        except RecordingEndedError as error:
            raise UsageError(str(error)) from None

    @property
    def crowded(self) -> bool:
        """Whether the ring should begin a new part before its calls are many enough."""
        return isinstance(self._sink, RingSink) and self._sink.crowded

    def start(self) -> None:
        """Start the writer thread."""
        self._thread.start()

    def add(self, item: WaitingCall | NewState) -> None:
        """Take one item; returns at once unless the writer is far behind."""
        if self.ended is not None:
            return
        self._waiting.append(item)
        waiting = len(self._waiting)
        if waiting >= MOST_WAITING_CALLS:
            self.drain()
        elif waiting == WAKE_CALLS:
            self._wake.set()

    def drain(self) -> None:
        """Write everything that waits."""
        with self.lock:
            if self.ended is not None:
                return
            try:
                self._write_waiting()
            except RecordingEndedError as error:
                self.end(str(error))
            except Exception as error:
                self.end(f"the recorder failed: {type(error).__name__}: {error}")

    def end(self, reason: str) -> None:
        """Write nothing more; one log line says why."""
        with self.lock:
            if self.ended is not None:
                return
            self.ended = reason
            logger.warning("recording of %s stopped: %s", self._path, reason)
            self._waiting.clear()
            self._sink.close()
        self.on_end()

    def close(self) -> None:
        """End as asked, in silence; what waits is written."""
        with self.lock:
            self.drain()
            if self.ended is None:
                self.ended = "detached"
                self._sink.close()
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=5.0)

    def abandon(self, reason: str) -> None:
        """In a forked child: drop everything without touching the parent's file."""
        self.lock = threading.RLock()
        self.ended = reason
        self._waiting.clear()
        self._sink.abandon()

    # ── writing ─────────────────────────────────────────────────────────────────────────────

    def _write_on(self) -> None:
        while self.ended is None:
            self._wake.wait(FLUSH_SECONDS)
            self._wake.clear()
            self.drain()

    def _write_waiting(self) -> None:
        lines: list[bytes] = []
        while self._waiting:
            item = self._waiting.popleft()
            wait(item.mark)
            if isinstance(item, WaitingCall):
                lines.append(_line(_event(item)))
                continue
            if item.restart or item.other_header is not None:
                self._sink.write(lines)
                lines = []
                self._begin(item)
            else:
                lines.extend(_state_lines(item))
        self._sink.write(lines)

    def _begin(self, item: NewState) -> None:
        """A new part of the ring, or a new file for new sizes."""
        if item.other_header is None:
            if isinstance(self._sink, RingSink):
                state = item._replace(fresh=True)
                self._sink.restart(b"".join([encode_line(self._header), *_state_lines(state)]))
            return
        self._header = item.other_header
        self._sink.close()
        self._files += 1
        path = Path(self._path)
        name = f"{path.stem}.{self._files}{path.suffix}"
        logger.warning("the pools were resized; recording goes on in %s", path.with_name(name))
        self._sink = self._open(str(path.with_name(name)))
        self._sink.write(_state_lines(item._replace(fresh=True)))

    def _open(self, path: str) -> PlainSink | RingSink:
        kind = RingSink if self._ring else PlainSink
        head = encode_line(self._header)
        return kind(path, head, max_bytes=self._max_bytes, force=self._force)


def encode_line(header: Header) -> bytes:
    """The header with its newline."""
    return encode_header(header).rstrip(b"\n") + b"\n"


def _line(event: AnyEvent) -> bytes:
    return encode_event(event).rstrip(b"\n") + b"\n"


def _event(call: WaitingCall) -> AnyEvent:
    fields = common_fields(call.t, call.site, call.raised, call.returned)
    return call.build(call.kept, fields)


def _state_lines(state: NewState) -> list[bytes]:
    events = rebuild(state.snapshot, t=state.t, fresh_file=state.fresh)
    if state.label:
        events.insert(0, Mark(label=f"{state.label}: state written anew", t=state.t))
    return [_line(event) for event in events]
