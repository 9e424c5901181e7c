"""The Python API, called wrongly: an answer in words, never an empty result."""

from __future__ import annotations

from typing import Any

import pytest

import swasim
from swasim.bundled import trace_path
from swasim.errors import UsageError
from swasim.trace.reader import open_trace

EVENTS = [{"op": "alloc_extend", "reqs": ["A"], "seq_lens": [4]}, {"op": "free", "req": "A"}]


@pytest.mark.parametrize(
    ("trace", "settings", "message"),
    [
        (None, {}, "a trace is a path, an open TraceReader, or a list of events, not NoneType"),
        (b"{}", {}, "a list of events, not bytes"),
        (EVENTS[0], {}, "a list of events, not dict"),
        (EVENTS, {"config": {"page_size": 4}}, "config is of type dict; accepted is a SimConfig"),
        (EVENTS, {"allocator": 3}, "an allocator of type int answers no calls"),
        (EVENTS, {"max_findings": -1}, "max_findings is -1; accepted is a number, 0 or more"),
        (EVENTS, {"every": 0}, "every is 0; accepted is a number, 1 or more"),
        (EVENTS, {"tail": "x"}, "tail is 'x'; accepted is a number, 0 or more"),
    ],
)
def test_a_wrong_argument_is_answered_with_what_is_accepted(
    trace: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        swasim.replay(trace, **settings)


def test_one_name_is_no_list_of_allocators() -> None:
    with pytest.raises(UsageError, match="allocators is the text 'buggy'; accepted is a list"):
        swasim.compare(EVENTS, allocators="buggy")


def test_a_trace_that_was_read_is_not_an_empty_one() -> None:
    with open_trace(trace_path("pr27779")) as reader:
        assert swasim.replay(reader).summary.events == 3
        with pytest.raises(UsageError, match="was read to its end; open it again"):
            swasim.replay(reader)
