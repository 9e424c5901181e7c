"""Findings to an exit code."""

from __future__ import annotations

from collections.abc import Iterable

from swasim.collect import Replay
from swasim.commands.options import CheckOptions
from swasim.errors import UsageError, unknown_name
from swasim.lockstep import Comparison
from swasim.sanitizer.kinds import KINDS

FINDINGS_EXIT = 1
SEVERITIES = ("error", "warning", "note")


def failing_words(options: CheckOptions) -> frozenset[str]:
    """Kinds and severities that make the command fail.

    Raises:
        UsageError: a word of --fail-on is neither.
    """
    if options.fail_on is None:
        return frozenset({"error"})
    words = [word.strip() for word in options.fail_on.split(",") if word.strip()]
    if not words:
        raise UsageError(f"--fail-on is empty; expected {', '.join([*SEVERITIES, *KINDS])}")
    for word in words:
        if word not in KINDS and word not in SEVERITIES:
            raise UsageError("--fail-on: " + unknown_name("kind", word, [*SEVERITIES, *KINDS]))
    # A severity stands for itself and everything worse.
    worse = {SEVERITIES[i] for word in words if word in SEVERITIES for i in _up_to(word)}
    return frozenset(words) | worse


def _up_to(severity: str) -> range:
    return range(SEVERITIES.index(severity) + 1)


def exit_code(replays: Iterable[Replay], options: CheckOptions) -> int:
    """0, or 1 where a replay holds a finding that --fail-on names.

    Raises:
        UsageError: an allocator answered no call at all, so that nothing was judged.
    """
    replays = list(replays)
    for replay in replays:
        _require_an_answer(replay)
    if options.exit_zero:
        return 0
    words = failing_words(options)
    return FINDINGS_EXIT if any(_fails(replay, words) for replay in replays) else 0


def judged(comparison: Comparison) -> list[Replay]:
    """The runs that should be clean: a known fault's findings are what it is there to show."""
    pairs = zip(comparison.runs, comparison.verdicts, strict=True)
    return [run for run, verdict in pairs if not verdict.expected_faulty]


def _require_an_answer(replay: Replay) -> None:
    summary = replay.summary
    if summary.calls and summary.unexplained == summary.calls:
        raise UsageError(
            f"{replay.trace}: nothing was judged, {replay.allocator} raised at every call; "
            f"is page_size {replay.config.page_size} the one that the trace was made for?"
        )


def _fails(replay: Replay, words: frozenset[str]) -> bool:
    # The counts cover findings that --max-findings hid; the list does not.
    summary = replay.summary
    counts = dict(summary.by_kind) | {
        "error": summary.errors,
        "warning": summary.warnings,
        "note": summary.notes,
    }
    return any(counts.get(word) for word in words)
