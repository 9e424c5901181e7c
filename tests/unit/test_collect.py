"""What a replay gathers besides its findings, in bounded memory."""

from __future__ import annotations

import subprocess
import sys

from swasim.replayer import Step
from swasim.run import replay
from swasim.timeline import Timeline

HEADER = {"swasim_trace": 1, "page_size": 4, "kv_size": 16, "kv_size_swa": 16}


def test_twenty_events_of_a_kind_get_a_sentence_and_the_rest_is_counted() -> None:
    raising = [{"op": "alloc", "need_size": 4, "req": number} for number in range(30)]
    skipped = [{"op": "finish", "req": number} for number in range(25)]
    warnings = replay([HEADER, *raising, *skipped]).warnings
    assert len(warnings) == 42
    assert warnings[0] == "<events>:2: alloc raised AssertionError: alloc() is for page size 1"
    assert warnings[20].startswith("<events>:32: skipped: finish: request 0 was never allocated")
    assert warnings[40:] == (
        "<events>: 10 more calls raised what neither the trace nor a finding speaks of",
        "<events>: 5 more events were skipped",
    )


def test_a_long_headline_ends_in_dots() -> None:
    events = [HEADER, {"op": "free", "indices": [2**63 - 1, -(2**63)]}]
    (headline, *_) = [finding.headline for finding in replay(events).findings]
    assert headline == (
        "free names slot 9223372036854775807, -9223372036854775808, the full pool ends..."
    )
    assert len(headline) == 80


def test_torch_without_numpy_is_silent() -> None:
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        "import swasim.run as r\n"
        "r.replay([{'op': 'clear'}], engine='torch')"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert (finished.returncode, finished.stderr) == (0, "")


def test_progress_is_told_the_number_of_the_last_event() -> None:
    told: list[int] = []
    replay([HEADER, *[{"op": "mark", "label": "tick"}] * 3], on_progress=told.append)
    assert told == [1, 2, 3]


def test_a_step_is_handed_over_for_every_event() -> None:
    steps: list[Step] = []
    events = [{"op": "free_swa", "indices": [4]}, {"op": "clear"}, {"op": "mark", "label": "tick"}]
    replay([HEADER, *events], on_step=steps.append)
    assert [(step.entry.number, step.result) for step in steps] == [(1, "ok"), (2, "ok"), (3, "")]


def test_the_next_wanted_row_is_the_first_that_is_wanted() -> None:
    every_fourth = Timeline(every=4)
    assert [every_fourth.next_wanted(event) for event in range(1, 10)] == [1, *[5] * 4, *[9] * 4]
    assert [every_fourth.wants(event) for event in (1, 5, 9)] == [True, True, True]
    assert [Timeline(tail=2).next_wanted(event) for event in (1, 2, 3)] == [1, 2, 3]
