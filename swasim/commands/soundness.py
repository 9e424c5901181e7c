"""What `validate` knows about a file without an allocator.

Rows are followed as if every allocation that the trace does not record as refused succeeded: a
row named too early, or positions beyond it, are then wrong on any allocator.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import msgspec
from msgspec import UNSET

from swasim.config import KEYS, SimConfig, resolve
from swasim.errors import ConfigError
from swasim.trace import events as ev
from swasim.trace.events import AnyEvent, Entry, expand
from swasim.trace.reader import STDIN, TraceReader, open_trace
from swasim.trace.resolve import Resolved, Resolver

CONFIG_SUFFIXES = (".yaml", ".yml")
TRACE_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".json", ".gz", ".zst")


@dataclass(frozen=True, slots=True)
class SoundFile:
    """A file that is in order.

    Attributes:
        path: as the user named it, "<stdin>" for standard input.
        summary: what it holds, for one line.
        warnings: sentences about what will be rounded, or was cut off.
    """

    path: str
    summary: str
    warnings: tuple[str, ...] = ()


def check_file(name: str) -> SoundFile:
    """Check one trace or configuration, told apart by suffix, else by content.

    Raises:
        SwasimError: the first thing that is wrong, with its place.
    """
    return _check_config(name) if _is_config(name) else _check_trace(name)


def _is_config(name: str) -> bool:
    lowered = name.lower()
    if lowered.endswith(CONFIG_SUFFIXES):
        return True
    if name == STDIN or lowered.endswith(TRACE_SUFFIXES):
        return False
    try:
        with open(name, "rb") as stream:
            head = stream.read(4096)
    except (OSError, ValueError):
        return False
    lines = (line.split(b"#")[0].strip() for line in head.split(b"\n"))
    first = next((line for line in lines if line), b"")
    return any(first.startswith(key.encode()) for key in KEYS)


def _check_config(name: str) -> SoundFile:
    resolved = resolve({}, {}, name, None)
    return SoundFile(name, f"configuration, {_sizes(resolved.config)}", resolved.warnings)


def _sizes(config: SimConfig) -> str:
    return (
        f"page size {config.page_size}, full {config.kv_size} tokens,"
        f" SWA {config.kv_size_swa} tokens"
    )


def _check_trace(name: str) -> SoundFile:
    with open_trace(name) as reader:
        sizes, warnings = _check_header(reader)
        resolver = Resolver(reader.path)
        events = 0
        for entry in reader:
            _follow(resolver, entry)
            events = entry.number
    if reader.truncated_line is not None:
        warnings += (f"cut off inside line {reader.truncated_line}; read up to there",)
    plural = "event" if events == 1 else "events"
    return SoundFile(reader.path, f"trace of {events} {plural}{sizes}", warnings)


def _check_header(reader: TraceReader) -> tuple[str, tuple[str, ...]]:
    if reader.header is None:
        return ", no header", ()
    try:
        resolved = resolve({}, {}, None, msgspec.structs.asdict(reader.header))
    except ConfigError as error:
        raise ConfigError(str(error), reader.path) from None
    return f", {_sizes(resolved.config)}", resolved.warnings


def _follow(resolver: Resolver, entry: Entry) -> None:
    resolved = resolver.resolve(entry)
    resolver.commit(entry, resolved, _returned(entry.event, resolved))
    _check_targets(resolver, entry.event)


def _returned(event: AnyEvent, resolved: Resolved) -> list[int] | None:
    """What the trace recorded, or as many made-up slots as were asked for."""
    call = resolved.call
    if call is None or not isinstance(event, ev.Allocation):
        return None
    if event.out is not UNSET:
        return None if event.out is None else expand(event.out)
    if call.op == "alloc":
        return [0] * call.need_size
    prefix_lens = call.prefix_lens or [seq_len - 1 for seq_len in call.seq_lens]
    return [0] * (sum(call.seq_lens) - sum(prefix_lens))


def _check_targets(resolver: Resolver, event: AnyEvent) -> None:
    """Row ranges that an `expect` names must exist too."""
    expectations = itertools.chain(
        [] if event.expect is None else [event.expect],
        [event] if isinstance(event, ev.ExpectOnly) else [],
    )
    for expected in expectations:
        for target in (expected.mapped, expected.unmapped):
            if target is not UNSET:
                resolver.slots_of(target)
