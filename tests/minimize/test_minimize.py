"""From a whole trace to its shortest form: the result, and what is promised of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from swasim import bundled
from swasim.allocator import registry
from swasim.config import SimConfig
from swasim.errors import TraceError, UsageError
from swasim.minimize import Minimized, Progress, minimize
from swasim.sanitizer.kinds import KINDS
from swasim.trace import events as ev
from swasim.trace.events import AnyEvent
from swasim.trace.reader import open_trace
from tests.support.shrinking import BURIED, FREE, parsed, small, workload, written

CASES = {info.trace: info.name for info in registry.known() if info.trace} | {
    kind.trace: kind.allocator for kind in KINDS.values()
}
LESS_THAN_AN_ERROR = {kind.trace for kind in KINDS.values() if kind.severity != "error"} - {
    "kinds/false-exhaustion.jsonl"
}
"""Their traces have no error at all; false-exhaustion follows from one."""


def shrunk(trace: str) -> Minimized:
    keep = trace.split("/")[1].removesuffix(".jsonl") if trace in LESS_THAN_AN_ERROR else None
    return minimize(bundled.trace_path(trace), allocator=CASES[trace], keep=keep)


@pytest.mark.parametrize("trace", CASES)
def test_a_bundled_trace_is_1_minimal_and_shows_the_same(trace: str) -> None:
    result = shrunk(trace)
    assert len(result.events) <= result.events_before
    assert result.shown_by(result.events)
    for at in range(len(result.events)):
        rest = [*result.events[:at], *result.events[at + 1 :]]
        assert not result.shown_by(rest), written(rest)


def test_regression_of_pr_27779_in_two_calls_on_one_page() -> None:
    result = shrunk("pr27779")
    assert written(result.events) == [
        '{"op":"alloc_extend","seq_lens":[2],"reqs":["A"]}',
        '{"op":"free_swa","req":"A","end":1}',
    ]
    assert (result.config.page_size, result.config.kv_size, result.config.kv_size_swa) == (2, 2, 2)
    assert not result.by_caller
    assert result.stopped == ""


def test_keep_follows_another_kind_and_its_cause() -> None:
    result = minimize(bundled.trace_path("pr27779"), allocator="buggy", keep="double-free")
    assert str(result.target) == "double-free, swa pool, caused by stale-mapping"
    assert written(result.events) == [
        '{"op":"alloc_extend","seq_lens":[2],"reqs":["A"]}',
        '{"op":"free_swa","req":"A","end":1}',
        '{"op":"free_swa","req":"A"}',
    ]


def test_a_fault_of_the_allocator_is_not_shrunk_to_a_mistake_of_its_caller() -> None:
    # `set_full_to_swa_mapping` of one page to two full pages would leave a stale entry anywhere.
    events = parsed(
        '{"op":"alloc_extend","reqs":["A","B"],"seq_lens":[4,4]}',
        '{"op":"free_swa","req":"A","start":0,"end":1}',
    )
    result = minimize(events, small(page_size=4, allocator="buggy"))
    assert not result.by_caller
    assert result.config.page_size == 2


def test_a_mistake_of_the_caller_is_named_as_such() -> None:
    result = shrunk("kinds/double-free.jsonl")
    assert result.by_caller


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", BURIED)
def test_a_fault_in_the_middle_of_generated_work_is_found_in_its_smallest_form(
    name: str, seed: int
) -> None:
    allocator, fault, smallest = BURIED[name]
    config, events = workload(600, allocator, seed, fault)
    result = minimize(events, config)
    assert len(result.events) <= smallest
    assert result.slice_events < 40


@pytest.mark.slow
def test_the_effort_does_not_grow_with_the_trace() -> None:
    results = []
    for count in (500, 5000):
        config, events = workload(count, "fixed", 1, (FREE, FREE))
        results.append(minimize(events, config))
    short, long = results
    assert short.events == long.events
    assert abs(short.replays - long.replays) < 30


def test_equal_input_and_seed_give_an_equal_result() -> None:
    config, events = workload(400, "fixed", 5, (FREE, FREE))
    first, second = (minimize(events, config, seed=3) for _ in range(2))
    assert first.events == second.events
    assert first.config == second.config
    assert first.replays == second.replays
    assert first.helped == second.helped


RADIX = ("0.5.12__p1__s2", "0.5.12__p4__s1", "0.5.12__p16__s3")


@pytest.mark.parametrize("name", RADIX)
def test_a_release_repeated_in_a_recorded_radix_trace_is_three_events_with_rows(
    name: str,
) -> None:
    with open_trace(f"tests/data/recorded/radix/{name}.jsonl.zst") as reader:
        header, events = reader.header, [entry.event for entry in reader]
    at = middle_release(events)
    result = minimize([header, *events[: at + 1], bare(events[at]), *events[at + 1 :]])
    assert result.config.allocator == "sglang-0.5.12"
    assert written(result.events) == [
        '{"op":"alloc","need_size":1,"req":"A"}',
        '{"op":"free","req":"A"}',
        '{"op":"free","req":"A"}',
    ]


def middle_release(events: list[AnyEvent]) -> int:
    """Index of a release outside of any group, half-way."""
    found = []
    grouped = False
    for at, event in enumerate(events):
        if isinstance(event, ev.FreeGroupBegin | ev.FreeGroupEnd):
            grouped = isinstance(event, ev.FreeGroupBegin)
        elif isinstance(event, ev.Free) and event.indices and not grouped:
            found.append(at)
    return found[len(found) // 2]


def bare(event: AnyEvent) -> ev.Free:
    assert isinstance(event, ev.Free)
    return ev.Free(indices=event.indices)


@pytest.mark.parametrize("raw", [True, False], ids=["slots", "rows"])
def test_recorded_slots_become_rows_where_rows_can_say_it(raw: bool) -> None:
    target = '"indices":[[4,8]]' if raw else '"req":"A","start":0,"end":4'
    grow = '"last_loc":[-1],"prefix_lens":[0]' if raw else '"reqs":["A"]'
    events = parsed(
        f'{{"op":"alloc_extend",{grow},"seq_lens":[4]}}',
        f'{{"op":"free",{target}}}',
        f'{{"op":"free",{target}}}',
    )
    result = minimize(events, small(page_size=4))
    assert written(result.events)[1:] == ['{"op":"free","req":"A"}'] * 2


def test_a_trace_without_an_error_is_refused_with_what_there_is() -> None:
    with pytest.raises(UsageError, match="no finding of severity error; found: partial-page-free"):
        minimize(bundled.trace_path("kinds/partial-page-free"), allocator="fixed")


@pytest.mark.parametrize(
    "event",
    [
        '{"op":"alloc","need_size":2147483648,"pool":"swa"}',
        '{"op":"alloc_extend","reqs":["A"],"seq_lens":[4611686018427387904]}',
    ],
)
def test_a_request_for_more_tokens_than_can_be_followed_is_refused(event: str) -> None:
    with pytest.raises(TraceError, match=r"^<events>:1: error: asks for \d+ tokens; minimize foll"):
        minimize(parsed(event, '{"op":"free","indices":[4]}'), small(page_size=4))


def test_an_unknown_kind_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'double-free'"):
        minimize(bundled.trace_path("pr27779"), keep="doublefree")


def test_a_spent_budget_hands_back_the_slice() -> None:
    config, events = workload(400, "fixed", 2, (FREE, FREE))
    result = minimize(events, config, budget_s=0.0)
    assert result.stopped == "budget"
    assert result.shown_by(result.events)
    assert len(result.events) == result.slice_events


def test_an_interrupt_hands_back_the_best_trace_so_far() -> None:
    config, events = workload(400, "fixed", 2, (FREE, FREE))

    def interrupt(progress: Progress) -> None:
        if progress.doing == "smaller pools":
            raise KeyboardInterrupt

    result = minimize(events, config, progress=interrupt)
    assert result.stopped == "interrupted"
    assert result.shown_by(result.events)
    assert len(result.events) < 10


def test_an_interrupt_before_there_is_anything_is_passed_on() -> None:
    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        minimize(bundled.trace_path("pr27779"), allocator="buggy", progress=interrupt)


def test_an_outside_judge_decides_alone() -> None:
    def frees_swa(config: SimConfig, events: Sequence[AnyEvent]) -> bool:
        return any(isinstance(event, ev.FreeSwa) for event in events)

    result = minimize(bundled.trace_path("pr27779"), test=frees_swa)
    assert result.finding is None
    assert written(result.events) == [
        '{"op":"alloc","need_size":1,"req":"A"}',
        '{"op":"free_swa","req":"A"}',
    ]


def test_a_judge_that_does_not_care_for_the_trace_is_an_error() -> None:
    with pytest.raises(UsageError, match="does not find the trace itself interesting"):
        minimize(bundled.trace_path("pr27779"), test=lambda config, events: False)


def test_idle_pools_that_are_asked_for_stand_in_the_result() -> None:
    events = parsed('{"op":"alloc_extend","reqs":["A"],"seq_lens":[4]}')
    result = minimize(events, small(), expect_idle=True)
    assert written(result.events) == [
        '{"op":"alloc","need_size":1,"req":"A"}',
        '{"op":"expect","expect":{"idle":true}}',
    ]


def test_an_expectation_that_fails_is_kept() -> None:
    result = shrunk("kinds/expectation-failed.jsonl")
    assert written(result.events) == [
        '{"op":"alloc","need_size":1,"req":"A","expect":{"full_available":16}}'
    ]


def test_an_allocator_that_nobody_here_wrote_is_shrunk_on_too() -> None:
    events = parsed(
        '{"op":"alloc","req":"A","need_size":3}',
        '{"op":"alloc","req":"B","need_size":2}',
        '{"op":"free","req":"A","start":1,"end":2}',
        '{"op":"free","req":"B"}',
        '{"op":"free","req":"A"}',
    )
    name = "tests.support.tiny_allocator:TinyAllocator"
    result = minimize(events, small(page_size=1, allocator=name))
    assert result.config.allocator == name
    assert written(result.events) == [
        '{"op":"alloc","need_size":1,"req":"A"}',
        '{"op":"free","req":"A"}',
        '{"op":"free","req":"A"}',
    ]


def test_the_torch_engine_shrinks_to_the_same() -> None:
    path = bundled.trace_path("pr27779")
    core, torch = (minimize(path, allocator="buggy", engine=name) for name in ("core", "torch"))
    assert torch.events == core.events
    assert torch.command("x.jsonl").endswith("--allocator buggy --engine torch --device cpu")
