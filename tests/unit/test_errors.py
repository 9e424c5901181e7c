from __future__ import annotations

import pytest

from swasim.errors import (
    ConfigError,
    InternalError,
    SwasimError,
    TraceError,
    UsageError,
    nearest,
    unknown_name,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (ConfigError("x"), 2),
        (TraceError("x"), 2),
        (InternalError("x"), 3),
    ],
    ids=["usage", "config", "trace", "internal"],
)
def test_each_error_knows_its_exit_code(error: SwasimError, code: int) -> None:
    assert error.exit_code == code


@pytest.mark.parametrize(
    ("line", "column", "text"),
    [(0, 0, "a.jsonl: error: x"), (3, 0, "a.jsonl:3: error: x"), (3, 7, "a.jsonl:3:7: error: x")],
)
def test_a_trace_error_leads_with_its_place(line: int, column: int, text: str) -> None:
    assert str(TraceError("x", "a.jsonl", line, column)) == text


def test_a_config_error_without_a_file_is_its_message_alone() -> None:
    assert str(ConfigError("page_size is 0")) == "page_size is 0"
    assert str(ConfigError("page_size is 0", "c.yaml", 2, 5)) == "c.yaml:2:5: error: page_size is 0"


def test_the_nearest_name_is_found_and_a_far_one_is_not_invented() -> None:
    assert nearest("fixd", ["fixed", "buggy"]) == "fixed"
    assert nearest("zzz", ["fixed", "buggy"]) is None


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    assert unknown_name("allocator", "fixd", ["fixed", "buggy"]) == (
        "unknown allocator 'fixd'; did you mean 'fixed'? (known: fixed, buggy)"
    )
    assert unknown_name("allocator", "zzz", ["fixed", "buggy"]) == (
        "unknown allocator 'zzz' (known: fixed, buggy)"
    )
