"""What a trace found, minimized, and what makes it distinct."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from swasim.config import SimConfig
from swasim.errors import SwasimError
from swasim.fuzz.play import Play
from swasim.lockstep import Divergence, Lockstep
from swasim.minimize import Judge, Minimized, minimize
from swasim.sanitizer.findings import Finding
from swasim.trace.events import AnyEvent, Entry

DIVERGENCE = "divergence"
"""Stands where a find has a kind: two allocators answered differently."""

MINIMIZE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Find:
    """One distinct find.

    Attributes:
        seed: of the trace.
        calls: events of the trace up to the find.
        kind: of the finding, or "divergence".
        finding: None for a divergence.
        divergence: None for a finding.
        config: of the minimized trace.
        events: the minimized trace.
        minimal: the search for a shorter one came to its end.
        by_caller: the ideal allocator shows it too.
        interrupted: Ctrl-C ended the search for a shorter trace.
        fingerprint: what makes it distinct.
        seconds: since the campaign began, until it was found.
    """

    seed: int
    calls: int
    kind: str
    finding: Finding | None
    divergence: Divergence | None
    config: SimConfig
    events: tuple[AnyEvent, ...]
    minimal: bool
    by_caller: bool
    fingerprint: str
    seconds: float
    interrupted: bool = False

    @property
    def headline(self) -> str:
        """What it is, in a line."""
        if self.finding is not None:
            return self.finding.headline
        parted = self.divergence
        return (
            "" if parted is None else f"{parted.what} of {parted.op}: {' / '.join(parted.values)}"
        )


def find_of(failed: Play, against: str, seconds: float) -> Find:
    """The find in a trace that has one, minimized.

    Args:
        against: the second allocator, where the two parted.
        seconds: since the campaign began.
    """
    parted = failed.divergence
    if failed.errors:
        finding = _root(failed)
        short, interrupted = _shorter(failed, finding.kind)
        kept = short.finding if short is not None and short.finding is not None else finding
        return Find(
            seed=failed.seed,
            calls=len(failed.entries),
            kind=finding.kind,
            finding=kept,
            divergence=None,
            config=short.config if short is not None else failed.config,
            events=short.events if short is not None else failed.events,
            minimal=short is not None and not short.stopped,
            by_caller=short is not None and short.by_caller,
            fingerprint=kept.fingerprint,
            seconds=seconds,
            interrupted=interrupted,
        )
    assert parted is not None
    judge = _parts_alike(against, parted)
    short, interrupted = _shorter(failed, None, judge)
    events = short.events if short is not None else failed.events
    config = short.config if short is not None else failed.config
    return Find(
        seed=failed.seed,
        calls=len(failed.entries),
        kind=DIVERGENCE,
        finding=None,
        divergence=parting_of(config, against, events) or parted,
        config=config,
        events=events,
        minimal=short is not None and not short.stopped,
        by_caller=False,
        fingerprint=rough_fingerprint(failed),
        seconds=seconds,
        interrupted=interrupted,
    )


def _root(failed: Play) -> Finding:
    """The first error that follows from no other."""
    return next((f for f in failed.errors if f.cause is None), failed.errors[0])


def rough_fingerprint(failed: Play) -> str:
    """What makes a find distinct before it is minimized."""
    if failed.errors:
        return _root(failed).fingerprint
    parted = failed.divergence
    assert parted is not None
    return f"{DIVERGENCE} {parted.op} {parted.what}"


def _shorter(
    failed: Play, kind: str | None, judge: Judge | None = None
) -> tuple[Minimized | None, bool]:
    """The minimized trace, and whether Ctrl-C ended the search for it.

    None where the trace by itself does not show the find again, or nothing shorter was there yet.
    """
    try:
        short = minimize(
            list(failed.events),
            failed.config,
            keep=kind,
            test=judge,
            seed=failed.seed,
            budget_s=MINIMIZE_SECONDS,
        )
    except SwasimError:
        return None, False
    except KeyboardInterrupt:
        return None, True
    return short, short.stopped == "interrupted"


def parting_of(config: SimConfig, against: str, events: tuple[AnyEvent, ...]) -> Divergence | None:
    """Where two allocators part on a trace, if they do."""
    lockstep = Lockstep([config, replace(config, allocator=against)], "")
    for number, event in enumerate(events, 1):
        lockstep.step(Entry(number, number + 1, event))
        if lockstep.first_divergence is not None:
            return lockstep.first_divergence
    return None


def _parts_alike(against: str, parted: Divergence) -> Judge:
    """A judge for `minimize`: the two part in the same thing at the same operation."""

    def judge(config: SimConfig, events: Sequence[AnyEvent]) -> bool:
        try:
            found = parting_of(config, against, tuple(events))
        except SwasimError:
            return False
        return found is not None and (found.op, found.what) == (parted.op, parted.what)

    return judge
