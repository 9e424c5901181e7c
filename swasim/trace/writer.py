"""Writing a trace: the one canonical form of an event, and files that are whole or absent.

Canonical means: compact JSON, `op` first, the operation's own fields in the order of the
reference, then `out`, `t`, `site`, `expect`; index lists as short as they can be; defaults left
out. Equal events give equal bytes.
"""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeAlias

import msgspec
import zstandard
from msgspec import UNSET

from swasim.errors import UsageError
from swasim.trace.events import (
    ALL_EVENTS,
    AnyEvent,
    Entry,
    Expect,
    Header,
    RowRange,
    SegmentItem,
    canonical,
    fields_of,
    op_of,
)

Field: TypeAlias = tuple[str, str]
"""Name in the trace, name of the attribute."""

_encode = msgspec.json.encode


def encode_event(event: AnyEvent) -> bytes:
    """The event's canonical line, without a line feed."""
    return _encode({"op": op_of(event), **_plain_fields(event, _ORDER[type(event)])})


def encode_header(header: Header) -> bytes:
    """The header's canonical line, without a line feed."""
    return _encode(header)


class TraceWriter:
    """Writes one trace, line by line; a context manager.

    Args:
        target: a path, or an open binary file (never closed here). By suffix a path is written
            plain, `.gz` or `.zst`. The same events give the same bytes, compressed too.
        atomic: a path is written beside itself and renamed by `close`, so that it is whole or
            absent; leaving the `with` body by an exception discards it. False for a recording
            that must survive the death of its process: written in place, readable up to the cut.

    Raises:
        UsageError: the path cannot be written.
    """

    def __init__(self, target: str | Path | IO[bytes], *, atomic: bool = True) -> None:
        self._raw: IO[bytes]
        self._name = str(target) if isinstance(target, str | Path) else "<output>"
        self._path: str | None = None
        self._written_to: str | None = None
        if isinstance(target, str | Path):
            # Through a link the file it names is replaced, not the link.
            self._path = os.path.realpath(target)
            # A device or a pipe cannot be renamed over.
            atomic = atomic and (os.path.isfile(self._path) or not os.path.exists(self._path))
            self._written_to = _beside(self._path) if atomic else self._path
            self._raw = self._open(self._written_to)
        else:
            self._raw = target
        self._sink: Any = _packed(self._raw, self._path)
        self._lines = 0

    def __enter__(self) -> TraceWriter:
        """The writer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close; after an exception discard what was written beside the path."""
        if error is None:
            self.close()
        else:
            self.discard()

    def header(self, header: Header) -> None:
        """Write the header; only before any event."""
        if self._lines:
            raise ValueError("a header is the first object of a trace")
        self._put(encode_header(header))

    def event(self, event: AnyEvent | Entry) -> None:
        """Write one event."""
        self._put(encode_event(event.event if isinstance(event, Entry) else event))

    def comment(self, text: str) -> None:
        """Write a comment, one `#` line per line of text."""
        for line in text.splitlines():
            self._write(f"# {line}".rstrip().encode() + b"\n")

    def flush(self) -> None:
        """Hand what was written so far to the operating system."""
        try:
            self._sink.flush()
            self._raw.flush()
        except OSError as error:
            raise self._unwritable(error) from None

    def close(self) -> None:
        """Finish the file and give it its name. Closing twice is fine.

        Raises:
            UsageError: it could not be finished; an atomic one is gone.
        """
        if self._sink is None:
            return
        sink, self._sink = self._sink, None
        try:
            if sink is not self._raw:
                sink.close()
            self._raw.flush()
            if self._path is not None and self._written_to is not None:
                self._raw.close()
                if self._written_to != self._path:
                    os.replace(self._written_to, self._path)
        except OSError as error:
            self._drop()
            raise self._unwritable(error) from None

    def discard(self) -> None:
        """Close without giving the file its name; written in place, it keeps what it has."""
        if self._sink is None:
            return
        sink, self._sink = self._sink, None
        if sink is not self._raw:
            with contextlib.suppress(OSError):
                sink.close()
        self._drop()

    def _drop(self) -> None:
        if self._path is None or self._written_to is None:
            return
        with contextlib.suppress(OSError):
            self._raw.close()
        if self._written_to != self._path:
            with contextlib.suppress(OSError):
                os.unlink(self._written_to)

    def _put(self, line: bytes) -> None:
        self._write(line + b"\n")
        self._lines += 1

    def _write(self, data: bytes) -> None:
        try:
            self._sink.write(data)
        except OSError as error:
            raise self._unwritable(error) from None

    def _open(self, path: str) -> IO[bytes]:
        try:
            return open(path, "wb")
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> UsageError:
        return UsageError(f"cannot write trace {self._name!r}: {error.strerror or error}")


def write_trace(
    target: str | Path | IO[bytes], header: Header | None, events: Iterable[AnyEvent | Entry]
) -> int:
    """Write a whole trace; returns the number of events.

    Raises:
        UsageError: the path cannot be written; nothing is left behind.
    """
    count = 0
    with TraceWriter(target) as writer:
        if header is not None:
            writer.header(header)
        for event in events:
            writer.event(event)
            count += 1
    return count


def _beside(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{os.getpid()}.tmp")


def _packed(raw: IO[bytes], path: str | None) -> Any:
    if path is not None and path.endswith(".gz"):
        # No name and no time in the member's head: equal traces, equal bytes.
        return gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0)
    if path is not None and path.endswith((".zst", ".zstd")):
        return zstandard.ZstdCompressor(level=9).stream_writer(raw, closefd=False)
    return raw


def _plain_fields(record: Any, order: tuple[Field, ...]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, attribute in order:
        value = getattr(record, attribute)
        if value is UNSET or (value is None and name != "out"):
            continue
        fields[name] = _CANONICAL[name](value) if name in _CANONICAL else value
    return fields


def _expect(expect: Expect) -> dict[str, Any]:
    return _plain_fields(expect, _ORDER[Expect])


def _target(target: Any) -> Any:
    return target if isinstance(target, RowRange) else canonical(target)


def _out(out: Any) -> Any:
    return None if out is None else canonical(out)


def _segments(segments: list[SegmentItem]) -> list[Any]:
    return [{"indices": canonical(item.indices), "start_pos": item.start_pos} for item in segments]


_CANONICAL: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        ("indices", "full", "swa", "full_free", "swa_free", "full_staged", "swa_staged"), canonical
    ),
    "out": _out,
    "mapped": _target,
    "unmapped": _target,
    "segments": _segments,
    "expect": _expect,
}


def _order(record: type[Any]) -> tuple[Field, ...]:
    attributes = dict(zip(record.__struct_encode_fields__, record.__struct_fields__, strict=True))
    return tuple((name, attributes[name]) for name in fields_of(record))


_ORDER: dict[type[Any], tuple[Field, ...]] = {
    record: _order(record) for record in (*ALL_EVENTS, Expect)
}
