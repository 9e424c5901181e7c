"""A log file as lines: any bytes, any length, compressed or not, without keeping it in memory."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import os
import shlex
import sys
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from swasim.errors import UsageError

LONGEST_LINE = 64 * 1024
"""Bytes of a line that are read; the rest of a longer one is skipped."""

_STDIN = "standard input"
_CHUNK = 256 * 1024
_GZIP = b"\x1f\x8b"
_OTHER_TOOLS = {b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}
"""First bytes of a file to the tool that made it, and reads it."""

_LONGEST_MARK = 6
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@contextlib.contextmanager
def open_log(source: str) -> Iterator[Iterator[str]]:
    """Lines of a log, opened for one pass.

    Args:
        source: a path, or "-" for standard input. gzip is recognised by its first bytes, UTF-16
            by its mark; everything else is read as UTF-8 with bad bytes replaced.

    Raises:
        UsageError: it cannot be opened or read, or it holds no bytes at all.
    """
    if source == "-":
        if sys.stdin is None:
            raise UsageError("standard input is closed; give a log file")
        yield _lines(sys.stdin.buffer, _STDIN)
        return
    if os.path.isdir(source):
        raise UsageError(f"{source}: is a directory; give a log file, or - for standard input")
    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context(open(source, "rb"))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"{source}: cannot be read: {reason}") from None
        yield _lines(stream, source)


def _lines(stream: BinaryIO, name: str) -> Iterator[str]:
    buffered = io.BufferedReader(cast(io.RawIOBase, stream), _CHUNK)
    try:
        head = buffered.peek(_LONGEST_MARK)[:_LONGEST_MARK]
        if not head:
            raise UsageError(f"{name}: is empty; a server log is expected")
        for mark, tool in _OTHER_TOOLS.items():
            if head.startswith(mark):
                raise UsageError(_compressed(name, tool))
        source: BinaryIO = buffered
        if head.startswith(_GZIP):
            source = cast(BinaryIO, gzip.GzipFile(fileobj=buffered))
        encoding = _UTF16.get(head[:2], "utf-8")
        yield from _split(source, encoding)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{name}: cannot be read to its end: {reason}") from None
    finally:
        # The caller's stream stays open: only the buffer around it goes.
        with contextlib.suppress(ValueError):
            buffered.detach()


def _compressed(name: str, tool: str) -> str:
    read = f"{tool} -dc" if name == _STDIN else f"{tool} -dc {shlex.quote(name)}"
    return f"{name}: is compressed; try `{read} | swasim triage -`"


def _split(source: BinaryIO, encoding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    kept, skipping = "", False
    while True:
        chunk = source.read(_CHUNK)
        pieces = (kept + decoder.decode(chunk, final=not chunk)).split("\n")
        kept = pieces.pop()
        for piece in pieces:
            if skipping:
                skipping = False
            else:
                yield piece[:LONGEST_LINE]
        if not chunk:
            if kept and not skipping:
                yield kept
            return
        if skipping:
            kept = ""
        elif len(kept) > LONGEST_LINE:
            yield kept[:LONGEST_LINE]
            kept, skipping = "", True
