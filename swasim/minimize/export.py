"""A minimized trace as a file: commented, as a test of swasim.

The test for SGLang itself is in `swasim.minimize.sglang_test`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from swasim.finds import header_of
from swasim.trace.writer import encode_event, encode_header

if TYPE_CHECKING:
    from swasim.minimize.engine import Minimized


def trace_lines(result: Minimized) -> Iterator[str]:
    """Header and events, a line each."""
    yield encode_header(header_of(result.config)).decode()
    for event in result.events:
        yield encode_event(event).decode()


def as_trace(result: Minimized, path: str) -> str:
    """The commented trace.

    Args:
        path: where it will lie, for the command that replays it.
    """
    comments = [
        f"Shrunk by `swasim minimize` from {result.trace}: "
        f"{result.events_before} events up to the finding, {len(result.events)} now.",
        *_about(result),
        "",
        f"  {replay_command(result, path)}",
    ]
    lines = [f"# {text}".rstrip() for comment in comments for text in comment.splitlines() or [""]]
    return "\n".join([*lines, *trace_lines(result)]) + "\n"


def replay_command(result: Minimized, path: str) -> str:
    """The command that shows the finding."""
    config = result.config
    command = f"swasim replay {shlex.quote(path)} --allocator {shlex.quote(config.allocator)}"
    if config.engine != "core":
        command += f" --engine {config.engine} --device {config.device}"
    return command


def _about(result: Minimized) -> Iterator[str]:
    finding = result.finding
    if finding is None:
        yield "An outside judge finds it interesting."
        return
    yield f"Event {finding.at.event}: {finding.kind}: {finding.headline}."
    if result.by_caller:
        yield "The ideal allocator shows it too: the calls are wrong, not the allocator."
    else:
        yield f"The allocator {result.config.allocator} is to blame: the ideal one is clean here."


def as_pytest(result: Minimized) -> str:
    """A test that replays the trace with swasim and asserts on the finding.

    Raises:
        ValueError: there is no finding to assert on.
    """
    finding = result.finding
    if finding is None or result.target is None:
        raise ValueError("an outside judge leaves no finding to assert on")
    trace = "\n".join(trace_lines(result))
    about = "\n".join(_about(result))
    name = finding.kind.replace("-", "_")
    allocator = result.config.allocator
    return f'''"""Shrunk by `swasim minimize`: {finding.kind} on the allocator {allocator}.

{_docstring(about)}
"""

import swasim

TRACE = r"""
{trace}
"""


def test_trace_shows_{name}() -> None:
    result = swasim.replay(TRACE.split("\\n")[1:-1], allocator={_quoted(allocator)})
    found = [(f.kind, f.pool, f.at.event) for f in result.findings]
    assert ({_quoted(finding.kind)}, {_quoted(finding.pool)}, {finding.at.event}) in found
'''


def _quoted(text: str | None) -> str:
    """As a Python formatter would leave it."""
    return "None" if text is None else json.dumps(text)


def _docstring(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''")
