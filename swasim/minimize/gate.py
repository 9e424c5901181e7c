"""The one gate: a candidate must be replayable, show the finding, and be strictly smaller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from swasim.config import SimConfig
from swasim.errors import SwasimError, TraceError
from swasim.minimize.draft import Done, Line, concrete, fresh_tokens, raw_slots
from swasim.minimize.target import Target
from swasim.replayer import Replayer
from swasim.sanitizer.findings import Finding
from swasim.trace import events as ev
from swasim.trace.check import EventError, validate_event
from swasim.trace.events import AnyEvent, Entry
from swasim.trace.writer import encode_event

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A candidate after its replay.

    Attributes:
        config: sizes and allocator.
        done: events as they were carried out, with concrete slots.
        lines: the same events as lines, parallel to `done`.
        finding: the finding that was asked for; None where the candidate does not show it.
        available: tokens before the last event, full and SWA.
    """

    config: SimConfig
    done: tuple[Done, ...]
    lines: tuple[Line, ...]
    finding: Finding | None
    available: tuple[int, int] = (0, 0)

    @property
    def events(self) -> tuple[AnyEvent, ...]:
        """The trace."""
        return tuple(done.event for done in self.done)


def run(lines: Iterable[Line], config: SimConfig, target: Target | None) -> Outcome | None:
    """Replay a draft, up to the finding.

    Events behind the finding are left out. Without a target the whole draft is replayed.

    Returns:
        None where the candidate is no trace at all: an event names what is not there.
    """
    try:
        replayer = Replayer(config)
    except SwasimError:
        # A foreign allocator may not want pools this small; the whole trace was fine with it.
        return None
    slots: dict[int, int] = {}
    done: list[Done] = []
    kept: list[Line] = []
    available = replayer.available
    for number, line in enumerate(lines, 1):
        event = concrete(line.event, slots)
        if event is None:
            return None
        available = replayer.available
        try:
            validate_event(event)
            step = replayer.step(Entry(number, number, event))
        except (TraceError, EventError):
            return None
        out = step.effect.out if step.effect is not None else None
        if out:
            slots.update(zip(line.fresh, out, strict=False))
        effect = step.effect
        mapped = (effect.mapped_slots, effect.mapped_to) if effect is not None else ([], [])
        done.append(Done(event, step.call, step.resolved.positions, out, *mapped))
        kept.append(line._replace(refused=out is None))
        if target is None or not step.findings:
            continue
        seen = target.judge(step.findings)
        if seen is False:
            return Outcome(config, tuple(done), tuple(kept), None, available)
        if isinstance(seen, Finding):
            return Outcome(config, tuple(done), tuple(kept), seen, available)
    seen = target.judge(replayer.finish()) if target is not None else True
    found = seen if isinstance(seen, Finding) else None
    return Outcome(config, tuple(done), tuple(kept), found, available)


def shows(
    events: Sequence[AnyEvent], config: SimConfig, target: Target, *, by_caller: bool = True
) -> bool:
    """Whether a trace, as it would stand in a file, shows the finding.

    Args:
        by_caller: False: only where the ideal allocator does not show it too.
    """
    lines = [Line(event) for event in events]
    return _found(lines, config, target) and (
        by_caller or not shows_on_ideal(lines, config, target)
    )


def shows_on_ideal(lines: Sequence[Line], config: SimConfig, target: Target) -> bool:
    """Whether the allocator that makes no mistakes of its own gives the finding, early or late."""
    ideal = replace(config, allocator="ideal", engine="core", device="cpu")
    return _found(lines, ideal, replace(target, first=False))


def _found(lines: Sequence[Line], config: SimConfig, target: Target) -> bool:
    outcome = run(lines, config, target)
    return outcome is not None and outcome.finding is not None


def key_of(outcome: Outcome) -> Key:
    """The total order: events, tokens, pools, page size, window, raw slots, text."""
    config = outcome.config
    text = b"\n".join(encode_event(event) for event in outcome.events)
    return (
        len(outcome.done),
        tokens_of(outcome.done),
        config.kv_size + config.kv_size_swa,
        config.page_size,
        config.sliding_window_size or 0,
        config.need_sort,
        sum(any(True for _ in raw_slots(event)) for event in outcome.events),
        len(text),
        text,
    )


def tokens_of(done: Iterable[Done]) -> int:
    """Tokens that a trace asks for, refused allocations included."""
    return sum(
        fresh_tokens(was.call)
        for was in done
        if isinstance(was.event, ev.Allocation) and was.call is not None
    )
