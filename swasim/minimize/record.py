"""The one replay of the whole trace: up to the finding, remembering what every event did."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from swasim.call import Call
from swasim.config import SimConfig
from swasim.errors import TraceError, UsageError, unknown_name
from swasim.minimize.draft import Done, fresh_tokens
from swasim.minimize.target import ABOUT_THE_TRACE, Target, is_root, target_of
from swasim.replayer import Replayer, Step
from swasim.sanitizer.findings import Finding
from swasim.sanitizer.kinds import KINDS
from swasim.trace.events import Entry, ExpectOnly
from swasim.trace.reader import TraceReader
from swasim.trace.rows import MAX_ROW_TOKENS

Looker = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Recording:
    """What the replay found and did.

    Attributes:
        done: the events up to the one at which the finding was reported.
        finding, target: what is to be kept; None where an outside judge decides alone.
        numbers: event number to index in `done`.
        available: tokens before the last of them, full and SWA.
        events_total: events read (of the whole trace where the finding came at its end).
        at_end: the finding came with the end of the trace.
    """

    done: list[Done]
    finding: Finding | None
    target: Target | None
    numbers: dict[int, int]
    available: tuple[int, int]
    events_total: int
    at_end: bool = False


def record(
    reader: TraceReader,
    config: SimConfig,
    *,
    keep: str | None = None,
    judged_outside: bool = False,
    expect_idle: bool = False,
    look: Looker | None = None,
) -> Recording:
    """Replay until the finding is there.

    Args:
        keep: kind to look for; None: the first error that follows from no other.
        judged_outside: do not look for a finding, replay everything.
        expect_idle: every page must be free at the end; becomes an event of the trace.
        look: told the number of events now and then.

    Raises:
        UsageError: the trace does not give such a finding.
        TraceError: an event asks for more tokens than can be followed one by one.
    """
    with without_collections():
        return _record(reader, config, keep, judged_outside, expect_idle, look)


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """No garbage collection: millions of lists stay, and looking through them doubles the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _record(
    reader: TraceReader,
    config: SimConfig,
    keep: str | None,
    judged_outside: bool,
    expect_idle: bool,
    look: Looker | None,
) -> Recording:
    replayer = Replayer(config, trace_path=reader.path)
    done: list[Done] = []
    numbers: dict[int, int] = {}
    lesser: Recording | None = None
    seen: list[str] = []
    available = replayer.available
    for entry in _entries(reader, expect_idle):
        available = replayer.available
        step = replayer.step(entry)
        if step.skipped:
            continue
        _check_size(step.call, reader.path, entry.line)
        numbers[entry.number] = len(done)
        done.append(_done(step))
        if step.findings and not judged_outside:
            seen += [finding.kind for finding in step.findings]
            found = _wanted(step.findings, keep)
            if found is not None:
                target = target_of(found, first=keep is None)
                recording = Recording(done, found, target, numbers, available, entry.number)
                if is_root(found) or keep is not None:
                    return recording
                lesser = lesser or _frozen(recording)
        if look is not None and not entry.number & 1023:
            look(entry.number)
    total = max(numbers, default=0)
    if judged_outside:
        return Recording(done, None, None, numbers, available, total)
    if reader.truncated_line is None:
        late = replayer.finish()
        seen += [finding.kind for finding in late]
        found = _wanted(late, keep)
        if found is not None and (is_root(found) or keep is not None or lesser is None):
            target = target_of(found, first=keep is None)
            return Recording(done, found, target, numbers, available, total, at_end=True)
    if lesser is not None:
        return lesser
    raise UsageError(_nothing(reader.path, keep, seen))


def _check_size(call: Call | None, path: str, line: int) -> None:
    tokens = 0 if call is None else fresh_tokens(call)
    if tokens > MAX_ROW_TOKENS:
        message = f"asks for {tokens} tokens; minimize follows each, and takes {MAX_ROW_TOKENS}"
        raise TraceError(message, path, line)


def _done(step: Step) -> Done:
    event, positions, effect = step.entry.event, step.resolved.positions, step.effect
    if effect is None:
        return Done(event, None, positions, None, [], [])
    return Done(event, step.call, positions, effect.out, effect.mapped_slots, effect.mapped_to)


def _entries(reader: TraceReader, expect_idle: bool) -> Iterator[Entry]:
    number = line = 0
    for entry in reader:
        number, line = entry.number, entry.line
        yield entry
    if expect_idle:
        yield Entry(number + 1, line, ExpectOnly(idle=True))


def _wanted(findings: list[Finding] | tuple[Finding, ...], keep: str | None) -> Finding | None:
    if keep is not None:
        return next((f for f in findings if f.kind == keep), None)
    return next((f for f in findings if is_root(f)), None) or next(
        (f for f in findings if f.kind in ABOUT_THE_TRACE), None
    )


def _frozen(recording: Recording) -> Recording:
    """As it stands: the replay goes on and may find something better."""
    return Recording(
        list(recording.done),
        recording.finding,
        recording.target,
        dict(recording.numbers),
        recording.available,
        recording.events_total,
    )


def _nothing(path: str, keep: str | None, seen: list[str]) -> str:
    kinds = ", ".join(dict.fromkeys(seen)) or "none"
    wanted = f"finding of kind {keep!r}" if keep else "finding of severity error"
    hint = "" if keep or not seen else " (--keep KIND keeps one of another severity)"
    return f"{path}: nothing to minimize: no {wanted}; found: {kinds}{hint}"


def check_kind(keep: str | None) -> None:
    """Raises UsageError for a kind that does not exist."""
    if keep is not None and keep not in KINDS:
        raise UsageError("--keep: " + unknown_name("kind", keep, KINDS))
