"""Bytes of a trace, block by block, decompressed; and stretches of lines out of them.

Memory stays at a few blocks, whatever the length of the input. Compression is recognised by
content, so a renamed file or a pipe works. What must not be added here: JSON.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

import zstandard

from swasim.errors import TraceError

BLOCK_BYTES = 1 << 18
MAX_LINE_BYTES = 64 << 20
"""A longer line is an error: it is no event, and would have to be held in memory whole."""

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"
"""Bytes 2 to 4 of a zstd frame without content, which parallel compressors put first."""
_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")

# zstd unpacks 4 bytes to at most 128 KiB, so small bites bound what one of them can become.
_ZSTD_BITE_BYTES = 4096


class Stretch(NamedTuple):
    """Lines that follow one another, without their ends; empty ones too.

    Attributes:
        number: 1-based line of the file at which the first of them stands.
        lines: the bytes of each, without the line feed; at least one line.
        ended: a line feed followed the last of them; False for a last line without one.
    """

    number: int
    lines: list[bytes]
    ended: bool = True


class ByteSource:
    """A trace as a stream of decompressed bytes.

    Args:
        stream: binary, positioned at the start.
        path: the trace, as the user named it.
        total_bytes: size of the (compressed) input, or None where it is not known.

    Attributes:
        consumed_bytes: read so far, compressed bytes where the input is compressed.
        cut: the compressed stream ended before its own end mark.
    """

    def __init__(self, stream: IO[bytes], path: str, total_bytes: int | None) -> None:
        self.path = path
        self.total_bytes = total_bytes
        self.consumed_bytes = 0
        self.cut = False
        self._stream = stream
        # read1 hands over what a pipe has; read would wait for a full block.
        self._read: Callable[[int], bytes | None] = getattr(stream, "read1", stream.read)

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    def stretches(self) -> Iterator[Stretch]:
        """Lines in order, as many at once as have come.

        Raises:
            TraceError: binary content, damaged compression, a line over `MAX_LINE_BYTES`.
        """
        pending: list[bytes] = []
        pending_bytes = 0
        number = 1
        for block in self._text_blocks():
            if b"\n" not in block:
                pending.append(block)
                pending_bytes += len(block)
                self._check_length(pending_bytes, number)
                continue
            lines = block.split(b"\n")
            tail = lines.pop()
            self._check_length(pending_bytes + len(lines[0]), number)
            if pending:
                lines[0] = b"".join([*pending, lines[0]])
            yield Stretch(number, lines)
            number += len(lines)
            pending, pending_bytes = [tail], len(tail)
        if pending_bytes:
            yield Stretch(number, [b"".join(pending)], ended=False)

    def _check_length(self, length: int, number: int) -> None:
        if length > MAX_LINE_BYTES:
            raise TraceError(
                f"the line is longer than {MAX_LINE_BYTES >> 20} MiB, the most that is accepted",
                self.path,
                number,
            )

    def _text_blocks(self) -> Iterator[bytes]:
        blocks = self._unpacked()
        head = b""
        for block in blocks:
            head += block
            if len(head) >= len(_BOM):
                break
        self._refuse_binary(head)
        yield head.removeprefix(_BOM)
        yield from blocks

    def _refuse_binary(self, head: bytes) -> None:
        if head.startswith(_UTF16_BOMS):
            raise TraceError("the text is UTF-16; a trace is UTF-8 JSON Lines", self.path)
        # Zero bytes at the end alone are what a crashed file system leaves of a good trace.
        text = head.rstrip(b"\0")
        if b"\0" in text[:4096] or (head and not text):
            raise TraceError(
                "binary file, not a trace; a trace is UTF-8 JSON Lines, plain, .gz or .zst",
                self.path,
            )

    def _unpacked(self) -> Iterator[bytes]:
        blocks = self._raw_blocks()
        head = b""
        for block in blocks:
            head += block
            if len(head) >= len(_ZSTD_MAGIC):
                break
        raw = _chain(head, blocks)
        if head.startswith(_GZIP_MAGIC):
            return self._gunzip(raw)
        if head.startswith(_ZSTD_MAGIC) or _is_skippable(head):
            return self._unzstd(raw)
        return raw

    def _raw_blocks(self) -> Iterator[bytes]:
        while True:
            try:
                block = self._read(BLOCK_BYTES)
            except OSError as error:
                raise TraceError(f"reading failed: {error.strerror or error}", self.path) from None
            if not block:
                return
            self.consumed_bytes += len(block)
            yield block

    def _gunzip(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        unpacker = zlib.decompressobj(wbits=31)
        try:
            for block in blocks:
                rest = block
                while rest:
                    if unpacker.eof:
                        rest = rest.lstrip(b"\0")  # padding between and behind members
                        if not rest:
                            break
                        unpacker = zlib.decompressobj(wbits=31)
                    yield unpacker.decompress(rest, BLOCK_BYTES)
                    rest = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
            if not unpacker.eof:
                yield unpacker.flush()
                self.cut = not unpacker.eof
        except zlib.error as error:
            raise self._damaged("gzip", error) from None

    def _unzstd(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        unpacker = zstandard.ZstdDecompressor().decompressobj()
        try:
            for block in blocks:
                for start in range(0, len(block), _ZSTD_BITE_BYTES):
                    rest = block[start : start + _ZSTD_BITE_BYTES]
                    while rest:
                        if unpacker.eof:
                            unpacker = zstandard.ZstdDecompressor().decompressobj()
                        yield unpacker.decompress(rest)
                        rest = unpacker.unused_data if unpacker.eof else b""
            self.cut = not unpacker.eof
        except zstandard.ZstdError as error:
            raise self._damaged("zstd", error) from None

    def _damaged(self, kind: str, error: Exception) -> TraceError:
        return TraceError(
            f"the {kind} data is damaged near byte {self.consumed_bytes} ({error})", self.path
        )


def _is_skippable(head: bytes) -> bool:
    return head[:1].hex()[:1] == "5" and head[1:4] == _SKIPPABLE


def _chain(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if head:
        yield head
    yield from rest
