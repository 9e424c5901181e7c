"""Where recorded lines go: one file, or a ring of two, bounded and readable at any moment.

Every batch is one `write` of whole lines to an unbuffered file, so a process that is killed
leaves a readable trace; a disk that runs full is cut back to the last whole line.
"""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path

from swasim.errors import UsageError


class RecordingEndedError(Exception):
    """The sink takes no more lines; the message says why."""


class TraceFile:
    """One trace file that only ever grows by whole lines."""

    def __init__(self, path: str, *, force: bool) -> None:
        """Create the file.

        Raises:
            UsageError: it exists (without `force`) or cannot be created.
        """
        self.path = path
        self.size_bytes = 0
        try:
            self._file = FileIO(path, "wb" if force else "xb")
        except FileExistsError:
            raise UsageError(f"{path} exists; record into another file, or use force") from None
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from None
        except ValueError as error:
            raise UsageError(f"cannot write {path!r}: {error}") from None

    def write(self, lines: bytes) -> None:
        """Append whole lines.

        Raises:
            RecordingEndedError: the disk refused them; the file ends with its last whole line.
        """
        done, rest = 0, memoryview(lines)
        try:
            while done < len(rest):
                done += self._file.write(rest[done:]) or 0
        except OSError as error:
            whole = lines.rfind(b"\n", 0, done) + 1
            self._cut(self.size_bytes + whole)
            reason = error.strerror or str(error)
            raise RecordingEndedError(f"{self.path} cannot be written: {reason}") from None
        self.size_bytes += done

    def _cut(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        try:
            self._file.truncate(size_bytes)
        except OSError:
            # A device or a vanished disk; the reader copes with a cut last line.
            return

    def begin(self, head: bytes) -> None:
        """Write the first lines; where that fails no file is left.

        Raises:
            RecordingEndedError: the disk is full.
        """
        try:
            self.write(head)
        except RecordingEndedError:
            self.close()
            if Path(self.path).is_file():
                Path(self.path).unlink()
            raise

    def renamed(self, path: str) -> None:
        """Note that the file is now at `path`."""
        self.path = path

    def close(self) -> None:
        """Close the descriptor; what was written stays."""
        self._file.close()


class PlainSink:
    """One file, from the first call to the last or to `max_bytes`."""

    def __init__(self, path: str, head: bytes, *, max_bytes: int | None, force: bool) -> None:
        """Create the file and write `head` (the header line).

        Raises:
            UsageError: the file cannot be created, or `head` alone is longer than `max_bytes`.
            RecordingEndedError: the disk is full.
        """
        _require_room(head, max_bytes)
        self._max_bytes = max_bytes
        self._file = TraceFile(path, force=force)
        self._file.begin(head)

    def write(self, lines: list[bytes]) -> None:
        """Append lines (each with its newline).

        Raises:
            RecordingEndedError: `max_bytes` is reached or the disk is full.
        """
        batch = b"".join(lines)
        if self._max_bytes is None or self._file.size_bytes + len(batch) <= self._max_bytes:
            self._file.write(batch)
            return
        room = self._max_bytes - self._file.size_bytes
        fits = batch[: batch.rfind(b"\n", 0, max(room, 0)) + 1]
        self._file.write(fits)
        raise RecordingEndedError(f"{self._file.path} has reached max_bytes {self._max_bytes}")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def abandon(self) -> None:
        """Close the descriptor and leave the file alone."""
        self._file.close()


class RingSink:
    """Two files: `path`, whole and long enough, and `path.next`, which will take its place.

    Every line goes to both. At each restart the younger file, which began with a state and has a
    ring's length of calls behind it, replaces the older one, and a new one begins. So `path` is
    a complete trace at any moment, also after SIGKILL.
    """

    def __init__(self, path: str, head: bytes, *, max_bytes: int | None, force: bool) -> None:
        """Create the file and write `head`; errors are those of `PlainSink`."""
        _require_room(head, max_bytes)
        self._path = path
        self._max_bytes = max_bytes
        self._older = TraceFile(path, force=force)
        self._younger: TraceFile | None = None
        self._older.begin(head)
        self._begun_bytes = self._older.size_bytes

    @property
    def crowded(self) -> bool:
        """Whether the youngest part has used its share of `max_bytes`."""
        if self._max_bytes is None:
            return False
        # A part stands once in the younger file, twice in all when it has become the older one,
        # behind two states. A quarter is left for what waits while the ring turns.
        share = max(self._max_bytes - 2 * self._begun_bytes, 0) // 4
        newest = self._younger or self._older
        return newest.size_bytes - self._begun_bytes > share

    def write(self, lines: list[bytes]) -> None:
        """Append lines to both files.

        Raises:
            RecordingEndedError: the disk is full, or `max_bytes` is too small to turn in time.
        """
        batch = b"".join(lines)
        self._require(len(batch) if self._younger is None else 2 * len(batch))
        self._older.write(batch)
        if self._younger is not None:
            self._younger.write(batch)

    def restart(self, head: bytes) -> None:
        """Drop the oldest calls; a new file begins with `head` (header and state).

        Raises:
            RecordingEndedError: the disk is full, or `max_bytes` has no room for two states.
        """
        if self._younger is not None:
            os.replace(self._younger.path, self._path)
            self._younger.renamed(self._path)
            self._older.close()
            self._older = self._younger
            self._younger = None
        self._require(len(head))
        self._younger = TraceFile(self._path + ".next", force=True)
        self._younger.write(head)
        self._begun_bytes = self._younger.size_bytes

    def _require(self, more_bytes: int) -> None:
        used = self._older.size_bytes + (self._younger.size_bytes if self._younger else 0)
        if self._max_bytes is not None and used + more_bytes > self._max_bytes:
            raise RecordingEndedError(
                f"{self._path} has reached max_bytes {self._max_bytes}, which is too small for a "
                f"ring of this allocator: its state takes {self._begun_bytes} bytes"
            )

    def close(self) -> None:
        """Close both; only `path` stays, since it holds all that the other holds."""
        self._older.close()
        if self._younger is not None:
            self._younger.close()
            Path(self._younger.path).unlink(missing_ok=True)

    def abandon(self) -> None:
        """Close the descriptors and leave the files alone."""
        self._older.close()
        if self._younger is not None:
            self._younger.close()


def _require_room(head: bytes, max_bytes: int | None) -> None:
    if max_bytes is not None and len(head) > max_bytes:
        raise UsageError(f"max_bytes is {max_bytes}; the header alone takes {len(head)}")
