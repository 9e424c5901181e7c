"""What a search found, as a commented trace in a folder; no file there is ever replaced."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from swasim.config import SimConfig
from swasim.errors import UsageError
from swasim.trace.events import TRACE_VERSION, AnyEvent, Header
from swasim.trace.writer import encode_event, encode_header

NAMES_TRIED = 10_000


def header_of(config: SimConfig) -> Header:
    """The header with which a trace replays in this configuration; the allocator is not in it."""
    return Header(
        swasim_trace=TRACE_VERSION,
        page_size=config.page_size,
        kv_size=config.kv_size,
        kv_size_swa=config.kv_size_swa,
        sliding_window_size=config.sliding_window_size,
        need_sort=config.need_sort or None,
    )


def command_of(path: str, allocators: Sequence[str]) -> str:
    """The command that shows a find: `replay` for one allocator, `compare` for more."""
    names = " ".join(f"--allocator {shlex.quote(name)}" for name in allocators)
    verb = "replay" if len(allocators) == 1 else "compare"
    return f"swasim {verb} {shlex.quote(path)} {names}"


def commands_with(path: str, commands: Iterable[str]) -> list[str]:
    """The commands that go on from a finding, for its trace in `path`; none where that is ""."""
    if not path:
        return []
    split = [shlex.split(command) for command in commands]
    return [shlex.join([*words[:2], path, *words[3:]]) for words in split]


def check_folder(folder: str) -> None:
    """See that finds can be saved in a folder, before hours are spent on them.

    Raises:
        UsageError: they cannot.
    """
    if not folder:
        raise UsageError("--save is empty; give a folder")
    there = os.path.abspath(folder)
    while not os.path.exists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there):
        raise UsageError(f"--save {folder}: cannot be written: {there} is a file, not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"--save {folder}: cannot be written: no permission for {there}")


def save(
    folder: str,
    stem: str,
    config: SimConfig,
    events: Iterable[AnyEvent],
    comments: Iterable[str],
    allocators: Sequence[str],
) -> str:
    """Write one find into `folder`, which is made where it is missing.

    Args:
        stem: of the file's name; signs that no file system likes are replaced.
        comments: what it is, one line each; the command that replays it is added.

    Returns:
        The path. Where a file of the name holds the same events already, that one.

    Raises:
        UsageError: the folder cannot be made or written.
    """
    body = "\n".join(
        [
            encode_header(header_of(config)).decode(),
            *(encode_event(event).decode() for event in events),
        ]
    )
    name = re.sub(r"[^0-9A-Za-z.]+", "-", stem).strip("-") or "find"
    notes = [line.rstrip() for text in comments for line in (text.splitlines() or [""])]
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for number in range(1, NAMES_TRIED):
            path = os.path.join(folder, f"{name}{'' if number == 1 else f'-{number}'}.jsonl")
            lines = [*notes, "", f"  {command_of(path, allocators)}"]
            comment = "\n".join(f"# {line}".rstrip() for line in lines)
            if _written(path, f"{comment}\n{body}\n") or _same(path, body):
                return path
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"--save {folder}: cannot be written: {reason}") from None
    raise UsageError(f"--save {folder}: {NAMES_TRIED} finds of the name {name} lie there already")


def _written(path: str, text: str) -> bool:
    """Write a new file; False where there is one."""
    try:
        with open(path, "x", encoding="utf-8", newline="\n") as out:
            try:
                out.write(text)
                out.flush()
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(path)
                raise
    except FileExistsError:
        return False
    return True


def _same(path: str, body: str) -> bool:
    """Whether the file holds the same trace, whatever its comments."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return [line for line in text.splitlines() if not line.startswith("#")] == body.split("\n")
