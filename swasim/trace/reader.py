"""Reading a trace: bytes to events, one line at a time.

A line is decoded straight from its bytes into the typed event; only a line that is refused is
looked at twice (`swasim.trace.diagnose`). What must not be added here: rows, allocators.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeAlias

import msgspec

from swasim.errors import TraceError, UsageError
from swasim.trace.check import EventError, validate_event
from swasim.trace.diagnose import explain_header, explain_line, is_cut_off
from swasim.trace.events import TRACE_VERSION, AnyEvent, Entry, Header
from swasim.trace.source import ByteSource, Line

STDIN = "-"
STDIN_NAME = "<stdin>"

Item: TypeAlias = Mapping[str, Any] | AnyEvent | Entry | Header | str | bytes

_decode_event: Callable[[bytes], AnyEvent] = msgspec.json.Decoder(AnyEvent).decode
_decode_header: Callable[[bytes], Header] = msgspec.json.Decoder(Header).decode

_REFUSED = (msgspec.DecodeError, EventError, RecursionError)
_SPACE = b" \t\r"
_NO_EVENTS = "no events"


class TraceReader:
    """The events of one trace, in order. Iterate once; a context manager that closes the file.

    Attributes:
        path: the trace, as the user named it ("<stdin>", "<events>").
        header: the first object, if it is a header; `header_line` is where it stands, else 0.
        truncated_line: the line inside which the trace was cut off; known once all is read.
    """

    def __init__(self, path: str, lines: Iterable[Line | Entry], source: ByteSource | None) -> None:
        self.path = path
        self.header: Header | None = None
        self.header_line = 0
        self.truncated_line: int | None = None
        self._source = source
        self._spent = False
        self._last_line = 0
        objects = self._objects(lines)
        first = next(objects, None)
        if isinstance(first, Line) and b'"swasim_trace"' in first.data:
            self.header = self._read_header(first)
            self.header_line = first.number if self.header is not None else 0
        elif first is not None:
            objects = itertools.chain([first], objects)
        entries = self._decode(objects)
        head = next(entries, None)
        if head is None:
            raise TraceError(self._no_events(), path)
        self._entries = self._to_the_end(itertools.chain([head], entries))

    def __iter__(self) -> Iterator[Entry]:
        """Entries that were not handed out yet.

        Raises:
            UsageError: the last one was: going on would look like an empty trace.
        """
        if self._spent:
            raise UsageError(f"{self.path} was read to its end; open it again")
        return self._entries

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

    def _to_the_end(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        yield from entries
        self._spent = True

    def _objects(self, lines: Iterable[Line | Entry]) -> Iterator[Line | Entry]:
        """Lines that are neither blank nor a comment."""
        for line in lines:
            if isinstance(line, Line):
                self._last_line = line.number
                if line.data[:1] != b"{":
                    text = line.data.lstrip(_SPACE)
                    if not text or text.startswith(b"#"):
                        continue
            yield line

    def _decode(self, objects: Iterator[Line | Entry]) -> Iterator[Entry]:
        number = 0
        for item in objects:
            number += 1
            if isinstance(item, Entry):
                yield Entry(number, item.line, self._checked(item))
                continue
            line, data, ended = item
            try:
                event = _decode_event(data)
                validate_event(event)
            except _REFUSED as error:
                if not ended and is_cut_off(data):
                    self.truncated_line = line
                    return
                raise explain_line(data, error, self.path, line) from None
            yield Entry(number, line, event)
        if self._source is not None and self._source.cut:
            self.truncated_line = self._last_line + 1

    def _checked(self, entry: Entry) -> AnyEvent:
        try:
            validate_event(entry.event)
        except EventError as error:
            data = msgspec.json.encode(entry.event)
            raise explain_line(data, error, self.path, entry.line) from None
        return entry.event

    def _read_header(self, line: Line) -> Header | None:
        """The header, or an error that says who wrote a trace of another version."""
        try:
            raw = msgspec.json.decode(line.data)
        except (msgspec.DecodeError, RecursionError) as error:
            if not line.ended and is_cut_off(line.data):
                self.truncated_line = line.number
                return None
            raise explain_line(line.data, error, self.path, line.number) from None
        version = raw.get("swasim_trace") if isinstance(raw, dict) else None
        if type(version) is int and version != TRACE_VERSION:
            raise TraceError(_other_version(version, raw), self.path, line.number)
        try:
            return _decode_header(line.data)
        except msgspec.DecodeError as error:
            raise explain_header(line.data, error, self.path, line.number) from None

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
    return TraceReader(path, _lines_of(items, path), None)


def decode_event(data: bytes | str) -> AnyEvent:
    """One event from its JSON, checked.

    Raises:
        TraceError: it is no event.
    """
    return next(iter(from_events([data], "<event>"))).event


def _open_unbuffered(name: str) -> IO[bytes]:
    return open(name, "rb", buffering=0)


def _read(source: ByteSource) -> TraceReader:
    try:
        return TraceReader(source.path, source.lines(), source)
    except BaseException:
        if source.path != STDIN_NAME:
            source.close()
        raise


def _lines_of(items: Iterable[Item], path: str) -> Iterator[Line | Entry]:
    for number, item in enumerate(items, start=1):
        if isinstance(item, Entry):
            yield item
        elif isinstance(item, bytes):
            yield Line(number, item, True)
        elif isinstance(item, str):
            yield Line(number, item.encode(), True)
        elif isinstance(item, msgspec.Struct) and not isinstance(item, Header):
            yield Entry(number, number, item)
        else:
            yield Line(number, _encoded(item, path, number), True)


def _encoded(item: Any, path: str, number: int) -> bytes:
    try:
        return msgspec.json.encode(item)
    except (TypeError, ValueError, OverflowError) as error:
        raise TraceError(f"the item is no event: {error}", path, number) from None


def _other_version(version: int, raw: dict[str, Any]) -> str:
    wrote = raw.get("source")
    by = f"written by {wrote}; " if isinstance(wrote, str) and wrote else ""
    advice = "a newer swasim reads it" if version > TRACE_VERSION else "the first version is 1"
    return f"{by}swasim_trace is {version}, and this swasim reads version {TRACE_VERSION}; {advice}"
