"""Reading a trace: bytes to events, a stretch of lines at a time.

A line is decoded straight from its bytes into the typed event; only a stretch in which a line is
none is read line by line, and only a line that is refused is looked at twice
(`swasim.trace.diagnose`). What must not be added here: rows, allocators.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, TypeAlias

import msgspec

from swasim.errors import TraceError, UsageError
from swasim.trace.check import EventError, validate_event
from swasim.trace.diagnose import explain_header, explain_line, is_cut_off
from swasim.trace.events import (
    TRACE_VERSION,
    AnyEvent,
    Entry,
    Free,
    FreeGroupBegin,
    Header,
)
from swasim.trace.source import ByteSource, Stretch

STDIN = "-"
STDIN_NAME = "<stdin>"

Item: TypeAlias = Mapping[str, Any] | AnyEvent | Entry | Header | str | bytes

_decode_event: Callable[[bytes], AnyEvent] = msgspec.json.Decoder(AnyEvent).decode
_decode_header: Callable[[bytes], Header] = msgspec.json.Decoder(Header).decode

_REFUSED = (msgspec.DecodeError, RecursionError)
_SPACE = b" \t\r"
_NO_EVENTS = "no events"

LINES_AT_ONCE = 64
"""Lines that are decoded together: what they become is still in the cache when it is looked at, and
gone before the garbage collector counts it."""


class Batch:
    """Events that follow one another in the trace, one on each line.

    What types cannot say of them is checked when an entry is asked for, so whoever takes an event
    from `events` must not depend on it.

    Args:
        path: the trace, for error messages.
        lines: what the events were decoded from; None for events from memory.

    Attributes:
        events: the events, one or more.
        number: 1-based number of the first of them in the trace; the header does not count.
        line: 1-based line of the first of them.
    """

    __slots__ = ("_lines", "_path", "events", "line", "number")

    def __init__(
        self,
        path: str,
        events: list[AnyEvent],
        number: int,
        line: int,
        lines: Sequence[bytes] | None = None,
    ) -> None:
        self.events = events
        self.number = number
        self.line = line
        self._path = path
        self._lines = lines

    def __len__(self) -> int:
        """How many events."""
        return len(self.events)

    def entry(self, index: int) -> Entry:
        """The event at `index`, checked.

        Raises:
            TraceError: it is malformed.
        """
        event, line = self.events[index], self.line + index
        try:
            validate_event(event)
        except EventError as error:
            data = msgspec.json.encode(event) if self._lines is None else self._lines[index]
            raise explain_line(data, error, self._path, line) from None
        return Entry(self.number + index, line, event)

    def rest(self, start: int) -> Batch:
        """The events from index `start` on."""
        lines = None if self._lines is None else self._lines[start:]
        return Batch(self._path, self.events[start:], self.number + start, self.line + start, lines)


class Decoded(NamedTuple):
    """Events from memory that follow one another.

    Attributes:
        line: 1-based line of the first of them; the others follow one by one.
        events: one or more.
    """

    line: int
    events: list[AnyEvent]


class TraceReader:
    """The events of one trace, in order. Iterate once; a context manager that closes the file.

    Attributes:
        path: the trace, as the user named it ("<stdin>", "<events>").
        header: the first object, if it is a header; `header_line` is where it stands, else 0.
        truncated_line: the line inside which the trace was cut off; known once all is read.
    """

    def __init__(
        self, path: str, pieces: Iterable[Stretch | Decoded], source: ByteSource | None
    ) -> None:
        self.path = path
        self.header: Header | None = None
        self.header_line = 0
        self.truncated_line: int | None = None
        self._source = source
        self._spent = False
        self._last_line = 0
        self._number = 1
        self._unread = self._read(pieces)
        self._at = 0
        self._batch = next(self._unread, None)
        if self._batch is None:
            raise TraceError(self._no_events(), path)
        self._batch.entry(0)
        self._entries = self._one_by_one()

    def __iter__(self) -> Iterator[Entry]:
        """Entries that were not handed out yet.

        Raises:
            UsageError: the last one was: going on would look like an empty trace.
        """
        self._refuse_twice()
        return self._entries

    def batches(self) -> Iterator[Batch]:
        """Events that were not handed out yet, together as they were read.

        Raises:
            UsageError: as `__iter__`. Going on raises TraceError for a line that is no event;
                for what is wrong with an event, `Batch.entry` does.
        """
        self._refuse_twice()
        return self._together()

    def _refuse_twice(self) -> None:
        if self._spent:
            raise UsageError(f"{self.path} was read to its end; open it again")

    def _one_by_one(self) -> Iterator[Entry]:
        while self._batch is not None:
            while self._at < len(self._batch):
                self._at += 1
                yield self._batch.entry(self._at - 1)
            self._turn()

    def _together(self) -> Iterator[Batch]:
        while self._batch is not None:
            start, self._at = self._at, len(self._batch)
            if start < self._at:
                yield self._batch if start == 0 else self._batch.rest(start)
            self._turn()

    def _turn(self) -> None:
        self._at = 0
        self._batch = next(self._unread, None)
        self._spent = self._batch is None

    def __enter__(self) -> TraceReader:
        """The reader itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._source is not None and self.path != STDIN_NAME:
            self._source.close()

    def progress(self) -> tuple[int, int | None]:
        """Bytes read, and bytes in all (None where nobody knows); compressed bytes both."""
        if self._source is None:
            return 0, None
        return self._source.consumed_bytes, self._source.total_bytes

    def _read(self, pieces: Iterable[Stretch | Decoded]) -> Iterator[Batch]:
        opened = False
        for piece in pieces:
            if isinstance(piece, Decoded):
                opened = True
                yield self._batch_of(piece.events, piece.line)
                continue
            start = 0
            if not opened:
                start = self._open(piece)
                opened = start < len(piece.lines) or self.header is not None
            yield from self._in_batches(piece, start)
            if self.truncated_line is not None:
                return
        if self._source is not None and self._source.cut:
            self.truncated_line = self._last_line + 1

    def _in_batches(self, stretch: Stretch, start: int) -> Iterator[Batch]:
        """Lines from index `start` on, decoded together where all of some are events."""
        lines = stretch.lines
        while start < len(lines):
            some = lines[start : start + LINES_AT_ONCE]
            number = stretch.number + start
            try:
                events = list(map(_decode_event, some))
            except _REFUSED:
                ended = stretch.ended or start + len(some) < len(lines)
                yield from self._line_by_line(Stretch(number, some, ended))
                if self.truncated_line is not None:
                    return
            else:
                if _is_group_open(events):
                    _close_group(events, some, lines, start)
                self._last_line = number + len(some) - 1
                yield self._batch_of(events, number, some)
            start += len(some)

    def _open(self, stretch: Stretch) -> int:
        """Read the header, if there is one; how many lines stand before the first event."""
        for index, data in enumerate(stretch.lines):
            self._last_line = stretch.number + index
            if _is_blank(data):
                continue
            if b'"swasim_trace"' not in data:
                return index
            ended = stretch.ended or index + 1 < len(stretch.lines)
            self.header = self._read_header(data, self._last_line, ended=ended)
            self.header_line = 0 if self.header is None else self._last_line
            return index + 1
        return len(stretch.lines)

    def _line_by_line(self, stretch: Stretch) -> Iterator[Batch]:
        """Lines of which some are blank, comments, or no events."""
        last = len(stretch.lines) - 1
        for index, data in enumerate(stretch.lines):
            line = self._last_line = stretch.number + index
            if _is_blank(data):
                continue
            try:
                event = _decode_event(data)
            except _REFUSED as error:
                if index == last and not stretch.ended and is_cut_off(data):
                    self.truncated_line = line
                    return
                raise explain_line(data, error, self.path, line) from None
            yield self._batch_of([event], line, [data])

    def _batch_of(
        self, events: list[AnyEvent], line: int, lines: list[bytes] | None = None
    ) -> Batch:
        batch = Batch(self.path, events, self._number, line, lines)
        self._number += len(events)
        return batch

    def _read_header(self, data: bytes, line: int, *, ended: bool) -> Header | None:
        """The header, or an error that says who wrote a trace of another version."""
        try:
            raw = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            if not ended and is_cut_off(data):
                self.truncated_line = line
                return None
            raise explain_line(data, error, self.path, line) from None
        version = raw.get("swasim_trace") if isinstance(raw, dict) else None
        if type(version) is int and version != TRACE_VERSION:
            raise TraceError(_other_version(version, raw), self.path, line)
        try:
            return _decode_header(data)
        except msgspec.DecodeError as error:
            raise explain_header(data, error, self.path, line) from None

    def _no_events(self) -> str:
        if self.truncated_line is not None:
            return f"{_NO_EVENTS}: the trace is cut off inside line {self.truncated_line}"
        if self._last_line == 0:
            return f"{_NO_EVENTS}: the trace is empty"
        what = "only a header" if self.header is not None else "only blank lines and comments"
        return f"{_NO_EVENTS}: the trace holds {what}"


def open_trace(source: str | Path) -> TraceReader:
    """Open a trace: a path (plain, gzip or zstd, by content), or "-" for standard input.

    The header and the first event are read at once, so that a file that is no trace is refused
    here and not in the middle of the work.

    Raises:
        UsageError: the path cannot be read.
        TraceError: the content is no trace, its first event is malformed, or it has no events.
            Iterating raises it for later lines.
    """
    name = str(source)
    if name == STDIN:
        if sys.stdin is None:
            raise UsageError(f"cannot read trace {name!r}: standard input is closed")
        return _read(ByteSource(sys.stdin.buffer, STDIN_NAME, None))
    if os.path.isdir(name):
        raise UsageError(f"cannot read trace {name!r}: it is a directory; a trace is a file")
    try:
        stream = _open_unbuffered(name)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"cannot read trace {name!r}: {reason}") from None
    total = os.fstat(stream.fileno()).st_size if os.path.isfile(name) else None
    return _read(ByteSource(stream, name, total))


def from_events(items: Iterable[Item], path: str = "<events>") -> TraceReader:
    """A trace from memory: dicts, JSON lines, events, or entries of another trace, mixed.

    The first item may be a header. Line numbers count the items; an `Entry` keeps its own line.

    Raises:
        TraceError: as `open_trace`.
    """
    return TraceReader(path, _pieces_of(items, path), None)


def _open_unbuffered(name: str) -> IO[bytes]:
    return open(name, "rb", buffering=0)


def _read(source: ByteSource) -> TraceReader:
    try:
        return TraceReader(source.path, source.stretches(), source)
    except BaseException:
        if source.path != STDIN_NAME:
            source.close()
        raise


def _pieces_of(items: Iterable[Item], path: str) -> Iterator[Stretch | Decoded]:
    """Events that follow one another in a list go together; an iterator is asked for no item before
    the one before it was carried out."""
    together = LINES_AT_ONCE if isinstance(items, list | tuple) else 1
    line, events = 0, list[AnyEvent]()
    for number, item in enumerate(items, start=1):
        if not isinstance(item, msgspec.Struct) or isinstance(item, Header):
            if events:
                yield Decoded(line, events)
                events = []
            yield Stretch(number, [_encoded(item, path, number)])
            continue
        at, event = (item.line, item.event) if isinstance(item, Entry) else (number, item)
        if events and at != line + len(events):
            yield Decoded(line, events)
            events = []
        if not events:
            line = at
        events.append(event)
        open_group = together <= len(events) < 2 * together and _is_group_open(events)
        if len(events) >= together and not open_group:
            yield Decoded(line, events)
            events = []
    if events:
        yield Decoded(line, events)


def _is_group_open(events: list[AnyEvent]) -> bool:
    """Whether the events end in the middle of a free group."""
    for event in reversed(events):
        if type(event) is not Free:
            return type(event) is FreeGroupBegin
    return False


def _close_group(
    events: list[AnyEvent], taken: list[bytes], lines: list[bytes], start: int
) -> None:
    """Decode more of `lines`, of which those `taken` stand at `start`, until the group ends."""
    for data in lines[start + len(taken) : start + 2 * LINES_AT_ONCE]:
        try:
            event = _decode_event(data)
        except _REFUSED:
            return
        events.append(event)
        taken.append(data)
        if type(event) is not Free:
            return


def _is_blank(line: bytes) -> bool:
    """Whether a line holds nothing or a comment."""
    if line[:1] == b"{":
        return False
    text = line.lstrip(_SPACE)
    return not text or text.startswith(b"#")


def _encoded(item: Any, path: str, number: int) -> bytes:
    """The line of an item; bytes and text are lines already."""
    if isinstance(item, bytes):
        return item
    if isinstance(item, str):
        return item.encode()
    try:
        return msgspec.json.encode(item)
    except (TypeError, ValueError, OverflowError) as error:
        raise TraceError(f"the item is no event: {error}", path, number) from None


def _other_version(version: int, raw: dict[str, Any]) -> str:
    wrote = raw.get("source")
    by = f"written by {wrote}; " if isinstance(wrote, str) and wrote else ""
    advice = "a newer swasim reads it" if version > TRACE_VERSION else "the first version is 1"
    return f"{by}swasim_trace is {version}, and this swasim reads version {TRACE_VERSION}; {advice}"
