"""The reference of the format names everything, and its examples work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from swasim.errors import TraceError
from swasim.trace.check import MAX_SLOTS
from swasim.trace.events import ALL_EVENTS, OPS, Expect, Header, RowRange, SegmentItem, fields_of
from swasim.trace.reader import from_events
from swasim.trace.source import MAX_LINE_BYTES
from swasim.trace.validate import validate_trace

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "trace-format.md").read_text()
EXAMPLES = re.findall(r"```jsonl\n(.*?)```", PAGE, re.DOTALL)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_example_is_a_sound_trace(tmp_path: Path, example: str) -> None:
    path = tmp_path / "example.jsonl"
    path.write_text(example)
    assert validate_trace(path).problems == ()


def test_every_operation_is_described() -> None:
    assert [op for op in OPS if f"`{op}`" not in PAGE] == []


@pytest.mark.parametrize("record", [*ALL_EVENTS, Expect, Header, RowRange, SegmentItem])
def test_every_field_is_described(record: type) -> None:
    names = fields_of(record)
    assert [name for name in names if f"`{name}`" not in PAGE and f'"{name}"' not in PAGE] == []


def test_the_limits_are_the_real_ones() -> None:
    assert f"{MAX_SLOTS:,} slots" in PAGE
    assert f"up to {MAX_LINE_BYTES >> 20} MiB" in PAGE


def test_the_error_that_is_shown_is_the_real_one() -> None:
    items = ['{"op":"clear"}'] * 6 + ['{"op":"free","indicies":[8]}']
    with pytest.raises(TraceError) as caught:
        list(from_events(items, "t.jsonl"))
    assert f"```text\n{caught.value}\n```" in PAGE
