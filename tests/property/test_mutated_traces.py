"""Traces that nobody would write: whatever stands in them is judged or refused, in words."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from swasim import bundled
from swasim.commands.app import run

Event = dict[str, Any]

ODD: tuple[Any, ...] = (
    *(0, -1, 1, 2, 3, 5, 64, 65, 1000, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, -(2**63)),
    *(1.5, 1e300, "", "x", "A", "full", "swa", None, True, False),
    *([], {}, [0], [[0, 4]], [[4, 0]], [-1], [[-4, 4]], ["A"], [None], [[1, 2, 3]], [2**63 - 1]),
)
NUDGES = (-8, -4, -2, -1, 1, 2, 4, 8, 100)
ALLOCATORS = ("fixed", "buggy", "ideal", "sglang-0.4.10", "sglang-0.5.8", "fault:36646")
TRACES = 20
"""Of each seed; about two seconds."""


def events_of(name: str) -> list[Event]:
    lines = bundled.trace_path(name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


BUNDLED = [events_of(name) for name in bundled.list_traces()]
NAMES = sorted({key for events in BUNDLED for event in events for key in event})
OPERATIONS = sorted({event["op"] for events in BUNDLED for event in events if "op" in event})


def mutated(rng: random.Random) -> str:
    """A bundled trace with up to six lines changed, moved, repeated or taken away."""
    events = copy.deepcopy(rng.choice(BUNDLED))
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        at = rng.randrange(len(events))
        change = rng.choice((_change_value, _add_value, _drop_value, _rename, _repeat, _swap))
        change(rng, events, at)
    # Pools of two billion tokens are possible, and take their time.
    for event in events:
        for key in ("kv_size", "kv_size_swa"):
            if isinstance(event.get(key), int) and event[key] > 4096:
                event[key] = 4096
    return "".join(json.dumps(event) + "\n" for event in events)


def _change_value(rng: random.Random, events: list[Event], at: int) -> None:
    event = events[at]
    if not event:
        return
    key = rng.choice(list(event))
    value = event[key]
    if isinstance(value, list) and value and rng.random() < 0.6:
        item = rng.randrange(len(value))
        if isinstance(value[item], int):
            value[item] += rng.choice(NUDGES)
        elif rng.random() < 0.5:
            value.append(copy.deepcopy(value[item]))
        else:
            value[item] = copy.deepcopy(rng.choice(ODD))
    elif isinstance(value, int) and rng.random() < 0.6:
        event[key] = value + rng.choice(NUDGES)
    else:
        event[key] = copy.deepcopy(rng.choice(ODD))


def _add_value(rng: random.Random, events: list[Event], at: int) -> None:
    events[at][rng.choice(NAMES)] = copy.deepcopy(rng.choice(ODD))


def _drop_value(rng: random.Random, events: list[Event], at: int) -> None:
    if events[at]:
        del events[at][rng.choice(list(events[at]))]


def _rename(rng: random.Random, events: list[Event], at: int) -> None:
    events[at]["op"] = rng.choice(OPERATIONS)


def _repeat(rng: random.Random, events: list[Event], at: int) -> None:
    events.insert(rng.randrange(len(events) + 1), copy.deepcopy(events[at]))


def _swap(rng: random.Random, events: list[Event], at: int) -> None:
    other = rng.randrange(len(events))
    events[at], events[other] = events[other], events[at]


def look_at(path: Path, rng: random.Random) -> None:
    """Every verb that reads a trace ends with an exit code for its users."""
    allocator = rng.choice(ALLOCATORS)
    trace, on = str(path), ["--allocator", allocator]
    where = rng.choice((["--at", "2"], ["--page", "swa:1"], ["--slot", "full:5"], ["--req", "A"]))
    for command in (
        ["validate", trace],
        ["replay", trace, *on, "--format", rng.choice(("table", "json", "sarif", "github"))],
        ["replay", trace, *on, "--verbose", "--expect-idle", "--tail", "1"],
        ["inspect", trace, *on, *where],
        ["compare", trace, *on, "--allocator", "sglang-0.5.23"],
        ["minimize", trace, *on, "--output", "-", "--budget", "1"],
    ):
        assert run(command) in (0, 1, 2), command


@pytest.mark.parametrize("seed", range(3))
def test_no_trace_is_a_defect(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(seed)
    path = tmp_path / "trace.jsonl"
    for _ in range(TRACES):
        path.write_text(mutated(rng), encoding="utf-8")
        look_at(path, rng)
        assert "Traceback" not in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 104))
def test_no_trace_is_a_defect_in_thousands(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(seed)
    path = tmp_path / "trace.jsonl"
    for _ in range(15 * TRACES):
        path.write_text(mutated(rng), encoding="utf-8")
        look_at(path, rng)
        assert "Traceback" not in capsys.readouterr().err
