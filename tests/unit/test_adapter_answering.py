"""An object from outside that answers calls itself, and what goes wrong inside it."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from swasim.allocator import adapter
from swasim.allocator.registry import build as build_known
from swasim.config import SimConfig
from swasim.errors import TraceError, UsageError
from swasim.run import replay

HERE = __name__
EVENTS = [{"op": "alloc", "need_size": 1, "req": "A"}]


class Shouting:
    """Answers as the core does, and prints."""

    def __init__(self, config: SimConfig) -> None:
        self._core = build_known(config)

    def perform(self, call: Any) -> Any:
        sys.stdout.write("noise\n")
        return self._core.perform(call)

    def state(self) -> Any:
        return self._core.state()


class Failing:
    def perform(self, call: Any) -> Any:
        raise ZeroDivisionError("of mine")

    def state(self) -> Any:
        raise SystemExit(0)


class Mute:
    def perform(self, call: Any) -> Any:
        return None


class Unlookable:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


def shouting() -> Shouting:
    return Shouting(SimConfig())


def test_what_it_answers_is_taken_and_what_it_prints_is_no_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = replay(EVENTS, allocator=f"{HERE}:shouting")
    assert (result.findings, result.summary.full_available) == ((), 1023)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "noise\n")


def test_an_exception_that_it_lets_out_is_no_defect_of_swasim() -> None:
    with pytest.raises(TraceError) as caught:
        replay(EVENTS, allocator=f"{HERE}:Failing")
    assert str(caught.value) == (
        f"<events>:1: error: allocator '{HERE}:Failing': perform() gave ZeroDivisionError: of mine"
    )
    with pytest.raises(UsageError, match=r"state\(\) gave SystemExit: 0"):
        adapter.build(f"{HERE}:Failing", SimConfig()).state()


def test_no_effect_is_no_refusal() -> None:
    with pytest.raises(TraceError, match=r"returned NoneType; accepted is swasim\.call\.Effect"):
        replay(EVENTS, allocator=f"{HERE}:Mute")


def test_an_object_that_cannot_be_looked_at_is_refused() -> None:
    with pytest.raises(UsageError, match="looking at Unlookable gave RuntimeError: no "):
        adapter.build(f"{HERE}:Unlookable", SimConfig())
