"""The fast lane leaves behind what the checks would have, and says nothing where they would.

Every trace is replayed twice: with the lane, compiled or not, and without it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swasim import replayer, run
from swasim.allocator.profile import PROFILES, RELEASES
from swasim.allocator.registry import build, known, profile
from swasim.call import AllocatorState, Call
from swasim.collect import Replay
from swasim.config import SimConfig
from swasim.errors import SwasimError
from swasim.lane import Lane
from swasim.replayer import Replayer, Step
from swasim.runs import COMPILED, RunEffect
from swasim.sanitizer.sanitizer import Sanitizer
from swasim.trace import events as ev
from swasim.trace.check import EventError, validate_event
from swasim.trace.events import AnyEvent, Entry, Header, compress
from swasim.trace.reader import from_events, open_trace
from swasim.trace.writer import encode_event, encode_header
from tests.support.random_calls import RandomCalls, answer
from tests.support.truth import knowledge
from tests.support.vectors import BENCH, Vector, all_vectors, golden_vectors

TRACES = Path(__file__).resolve().parents[2] / "traces"
LIMITS: tuple[dict[str, Any], ...] = (
    {},
    {"every": 3},
    {"tail": 4},
    {"stop_at_first": True},
    {"expect_idle": True, "max_findings": 1},
)

NAMES = [info.name for info in known() if not info.name.startswith("sglang-")]
NAMES += [
    "sglang-" + next(release for release, its in RELEASES.items() if its is each)
    for each in PROFILES
]
"""Every known fault, and one release of each profile."""


@dataclass(frozen=True)
class Outcome:
    """All that a replay leaves behind; `error` where it ended in one."""

    result: Replay | None
    error: str
    state: AllocatorState
    truth: dict[str, object]
    available: tuple[int, int]


class Replays:
    """Replays one trace with and without the lane.

    Attributes:
        lanes: replays that had a lane, so far.
        carried: events that it has carried over.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.lanes = self.carried = 0
        self._patch = patch
        self._made: list[Replayer] = []
        made = self._made

        class Kept(Replayer):
            def __init__(self, *args: Any, **fields: Any) -> None:
                super().__init__(*args, **fields)
                made.append(self)

        patch.setattr(run, "Replayer", Kept)

    def once(self, trace: Any, *, uses_lane: bool, **settings: Any) -> Outcome:
        """One replay; without the lane, with nothing but the checks."""
        self._patch.setattr(Sanitizer, "recognises", uses_lane and COMPILED)
        self._patch.setattr(replayer, "USES_LANE", uses_lane)
        self._made.clear()
        result, error = None, ""
        try:
            result = run.replay(trace, **settings)
        except SwasimError as raised:
            error = f"{type(raised).__name__}: {raised}"
        (made,) = self._made or [Replayer(SimConfig())]
        if made._lane is not None:
            self.lanes += 1
            self.carried += made._lane.carried
        return Outcome(
            result, error, made.allocator.state(), knowledge(made.sanitizer), made.available
        )

    def agree(self, trace: Any, **settings: Any) -> Outcome:
        """Replay a trace, which can be read twice, both ways; what both left behind."""
        with_lane = self.once(trace, uses_lane=True, **settings)
        without = self.once(trace, uses_lane=False, **settings)
        assert with_lane.result == without.result
        assert with_lane == without
        return with_lane


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> Replays:
    return Replays(monkeypatch)


def bare_events(path: Path) -> tuple[Header | None, list[AnyEvent]]:
    """The calls of a trace, without what it expects of them: the lane leaves that to the step."""
    with open_trace(path) as trace:
        calls = [entry.event for entry in trace if not isinstance(entry.event, ev.ExpectOnly)]
        bare: list[AnyEvent] = [*(msgspec.structs.replace(event, expect=None) for event in calls)]
        return trace.header, bare


RECORDED = sorted({vector.release_in_name for vector in all_vectors()})


def vectors_of(release: str) -> list[Vector]:
    return [vector for vector in all_vectors() if vector.release_in_name == release]


@pytest.mark.parametrize("release", RECORDED)
def test_recorded_answers_give_the_same_replay(release: str, replays: Replays) -> None:
    for vector in vectors_of(release):
        replays.agree(vector.path)


@pytest.mark.parametrize("release", RECORDED)
def test_recorded_calls_without_expectations_give_the_same_replay(
    release: str, replays: Replays
) -> None:
    for at, vector in enumerate(vectors_of(release)):
        header, events = bare_events(vector.path)
        replays.agree([header, *events], **LIMITS[at % len(LIMITS)])
    assert replays.carried > 30


def test_recorded_calls_on_another_allocator_give_the_same_replay(replays: Replays) -> None:
    """Recorded slots are others than those that come back: from the first on, the lane is over."""
    vectors = [vector for vector in golden_vectors() if "__work" in vector.name]
    for at, vector in enumerate(vectors):
        header, events = bare_events(vector.path)
        paged = header is not None and header.page_size != 1
        fitting = [name for name in NAMES if profile(name).paged or not paged]
        replays.agree([header, *events], allocator=fitting[at % len(fitting)])


@pytest.mark.parametrize("path", sorted(TRACES.rglob("*.jsonl")), ids=lambda path: path.stem)
def test_bundled_traces_give_the_same_replay(path: Path, replays: Replays) -> None:
    replays.agree(path)


class Serving:
    """A scheduler that names raw slots: admits, decodes, lets the window go, finishes.

    Args:
        seed: of every choice.
        mistakes: share of events that no scheduler should make.
        recorded: share of allocations that say what they returned.
    """

    def __init__(self, seed: int, config: SimConfig, mistakes: float, recorded: float) -> None:
        self.random = random.Random(seed)
        self.size = config.page_size
        self.config = config
        self.operations = profile(config.allocator).operations
        self.mistakes = mistakes
        self.recorded = recorded
        self.running: list[list[int]] = []
        self.windowless: list[int] = []
        self.queue: list[AnyEvent] = []
        self.done: list[int] = []

    def play(self, length: int) -> list[AnyEvent]:
        """Events as they were answered by the allocator of the configuration."""
        tried = Replayer(self.config)
        events: list[AnyEvent] = []
        for number in range(1, length + 1):
            event = self.queue.pop() if self.queue else self.next_event()
            step = tried.step(Entry(number, number, event))
            out = None if step.effect is None else step.effect.out
            if isinstance(event, ev.Allocation):
                self.took(event, out)
                if self.random.random() < self.recorded:
                    written = None if out is None else self.written(out)
                    event = msgspec.structs.replace(event, out=written)
            events.append(event)
        return events

    def written(self, slots: list[int]) -> ev.IndexList:
        """Slots one by one, in runs, or in runs that go on in the next."""
        roll = self.random.random()
        if roll < 0.3:
            return list(slots)
        runs = compress(slots)
        return [(slot, slot + 1) for slot in slots] if roll < 0.5 else runs

    def next_event(self) -> AnyEvent:
        fields: dict[str, Any] = {}
        if self.random.random() < 0.2:
            fields = {"site": self.random.choice(["scheduler", "cache"]), "t": self.random.random()}
        if self.random.random() < self.mistakes:
            return self.mistake(fields)
        roll = self.random.random()
        if len(self.running) < 3 or (roll < 0.08 and len(self.running) < 9):
            return self.admit(fields)
        if roll < 0.15:
            return self.finish(fields)
        if roll < 0.35:
            row = self.random.choice(self.running)
            pages = len(row) // self.size
            first = self.random.randrange(pages) * self.size if pages else 0
            last = first + self.size * self.random.randint(1, 2)
            return ev.FreeSwa(indices=self.written(row[first:last]), **fields)
        if roll < 0.4 and self.windowless and "free_full" in self.operations:
            row, self.windowless = self.windowless, []
            return ev.FreeFull(indices=self.written(row), **fields)
        if roll < 0.45:
            self.windowless = self.running.pop()
            return ev.FreeSwa(indices=self.written(self.windowless), **fields)
        if self.size == 1:
            return ev.Alloc(need_size=self.random.randint(0, 5), **fields)
        return ev.AllocDecode(
            seq_lens=[len(row) + 1 for row in self.running],
            last_loc=[row[-1] for row in self.running],
            **fields,
        )

    def finish(self, fields: dict[str, Any]) -> AnyEvent:
        """One or two requests are over: at once, by the piece, or in a group."""
        rows = [self.running.pop(self.random.randrange(len(self.running))) for _ in range(2)]
        for row in rows:
            self.done += row
        frees: list[AnyEvent] = [ev.Free(indices=self.written(row), **fields) for row in rows]
        roll = self.random.random()
        if roll < 0.5:
            self.queue = [ev.FreeGroupEnd(**fields), *frees]
            return ev.FreeGroupBegin()
        if roll < 0.7 and "free_segment" in self.operations:
            frees[0] = ev.FreeSegment(indices=self.written(rows[0]), start_pos=None, **fields)
        if roll > 0.8 and "free_segments" in self.operations:
            piece = ev.SegmentItem(indices=self.written(rows[0]), start_pos=0)
            frees[0] = ev.FreeSegments(segments=[piece], **fields)
        self.queue = frees[1:]
        return frees[0]

    def admit(self, fields: dict[str, Any]) -> AnyEvent:
        if self.size == 1:
            return ev.Alloc(need_size=self.random.randint(1, 9), **fields)
        lengths = [self.random.randint(1, 3 * self.size) for _ in range(self.random.randint(1, 2))]
        if self.random.random() < 0.3 and self.running:
            row = self.running.pop()
            self.running.append(row)
            return ev.AllocExtend(
                prefix_lens=[len(row)],
                seq_lens=[len(row) + lengths[0]],
                last_loc=[row[-1]],
                **fields,
            )
        last_loc = None if self.random.random() < 0.3 else [-1] * len(lengths)
        return ev.AllocExtend(
            prefix_lens=[0] * len(lengths), seq_lens=lengths, last_loc=last_loc, **fields
        )

    def mistake(self, fields: dict[str, Any]) -> AnyEvent:
        known_slots = [slot for row in self.running for slot in row] + self.done + [5, 6, 7]
        slots = self.random.choices(known_slots, k=self.random.randint(0, 5))
        kinds: list[type[ev.Free | ev.FreeSwa | ev.FreeFull]] = [ev.Free, ev.FreeSwa]
        if "free_full" in self.operations:
            kinds.append(ev.FreeFull)
        kind = self.random.choice(kinds)
        if self.random.random() < 0.3:
            slots.append(self.random.choice([0, -1, 10**6, 2**62]))
        return kind(indices=self.written(sorted(slots)), **fields)

    def took(self, event: ev.Allocation, out: list[int] | None) -> None:
        if out is None:
            return
        if isinstance(event, ev.Alloc):
            self.running.append(out)
        elif isinstance(event, ev.AllocDecode):
            for row, slot in zip(self.running, out, strict=True):
                row.append(slot)
        elif isinstance(event, ev.AllocExtend):
            at = 0
            for prefix_len, seq_len in zip(event.prefix_lens or (), event.seq_lens, strict=True):
                row = self.running[-1] if prefix_len else []
                row += out[at : at + seq_len - prefix_len]
                at += seq_len - prefix_len
                if not prefix_len:
                    self.running.append(row)


def served(seed: int, **settings: Any) -> list[Header | AnyEvent]:
    """A trace of a scheduler on small pools."""
    chance = random.Random(seed)
    paged = profile(settings.setdefault("allocator", "fixed")).paged
    page_size = settings.pop("page_size", None) or chance.choice([1, 2, 4, 16] if paged else [1])
    config = SimConfig(
        page_size=page_size,
        kv_size=40 * page_size,
        kv_size_swa=chance.choice([20, 40]) * page_size,
        need_sort=chance.random() < 0.3,
        **settings,
    )
    header = Header(
        swasim_trace=1,
        page_size=config.page_size,
        kv_size=config.kv_size,
        kv_size_swa=config.kv_size_swa,
        need_sort=config.need_sort,
    )
    mistakes = chance.choice([0.0, 0.0, 0.02, 0.2])
    return [header, *Serving(seed, config, mistakes, chance.choice([0.0, 0.5, 1.0])).play(120)]


@pytest.mark.parametrize("page_size", [1, 4, 64])
def test_served_traces_give_the_same_replay(page_size: int, replays: Replays) -> None:
    for seed in range(30):
        trace = served(seed, page_size=page_size)
        replays.agree(trace, allocator="fixed", **LIMITS[seed % len(LIMITS)])
    assert replays.carried > 800


@pytest.mark.parametrize("name", NAMES)
def test_every_allocator_gives_the_same_replay(name: str, replays: Replays) -> None:
    for seed in range(100, 106):
        replays.agree(served(seed, allocator=name), allocator=name)
    assert replays.carried > 100


def random_trace(seed: int, config: SimConfig) -> list[AnyEvent]:
    """Calls of all operations, as they were answered."""
    calls = RandomCalls(seed, config)
    allocator = build(config)
    events: list[AnyEvent] = []
    for _ in range(100):
        call = calls.next()
        got = answer(allocator, call)
        if got.refused:
            continue
        calls.follow(call, got)
        events.append(event_of(call, got.out, calls.random))
    return events


def event_of(call: Call, out: list[int] | None, chance: random.Random) -> AnyEvent:
    """The event that a recorder writes of a call."""
    cls = ev.OPS[call.op]
    fields: dict[str, Any] = {
        name: getattr(call, name)
        for name in cls.__struct_fields__
        if name
        in ("need_size", "prefix_lens", "seq_lens", "last_loc", "pool", "full", "swa", "slot")
    }
    if issubclass(cls, ev.AllocExtendSwaTail):
        fields = {name.removesuffix("s"): value[0] for name, value in fields.items() if value}
        fields |= {"prefix_len": call.prefix_lens[0], "seq_len": call.seq_lens[0]}
        fields |= {"last_loc": call.last_loc[0], "swa_tail_len": call.swa_tail_len}
    if "indices" in cls.__struct_fields__:
        fields["indices"] = compress(call.indices)
    if "start_pos" in cls.__struct_fields__:
        fields["start_pos"] = call.start_pos
    if "segments" in cls.__struct_fields__:
        fields["segments"] = [
            ev.SegmentItem(indices=compress(each.indices), start_pos=each.start_pos)
            for each in call.segments
        ]
    if issubclass(cls, ev.Allocation) and chance.random() < 0.5:
        fields["out"] = None if out is None else compress(out)
    return cls(**fields)


@pytest.mark.parametrize("name", NAMES)
def test_calls_of_all_operations_give_the_same_replay(name: str, replays: Replays) -> None:
    for seed in range(8):
        config = SimConfig(
            page_size=[1, 2, 4][seed % 3] if profile(name).paged else 1,
            kv_size=48,
            kv_size_swa=[24, 48][seed % 2],
            need_sort=seed % 4 == 1,
            allocator=name,
        )
        replays.agree(random_trace(seed, config), config=config)


def test_steps_are_those_of_the_checks(replays: Replays) -> None:
    for seed in range(20):
        trace = served(seed)
        steps: tuple[list[Step], list[Step]] = ([], [])
        for uses_lane in (False, True):
            replays.once(
                trace, allocator="fixed", uses_lane=uses_lane, on_step=steps[uses_lane].append
            )
        assert steps[0] == steps[1]
    assert replays.carried > 500


def lines(events: Iterable[Header | AnyEvent]) -> Iterator[bytes]:
    for event in events:
        yield (encode_header(event) if isinstance(event, Header) else encode_event(event)) + b"\n"


SPOILED = {
    "comments": [b"# here\n", b"\n", b"  # there\n"],
    "no JSON": [b"{\n"],
    "wrong type": [b'{"op":"free_swa","indices":[true]}\n'],
    "run backwards": [b'{"op":"free_swa","indices":[[9,4]]}\n'],
    "run backwards in what was returned": [b'{"op":"alloc","need_size":1,"out":[[9,4]]}\n'],
    "target twice": [b'{"op":"free","indices":[4],"end":3}\n'],
    "no target": [b'{"op":"free"}\n'],
    "lists of different length": [b'{"op":"alloc_decode","seq_lens":[5],"last_loc":[]}\n'],
    "shrinking": [b'{"op":"alloc_extend","prefix_lens":[4],"seq_lens":[3],"last_loc":[4]}\n'],
    "prefix from nowhere": [b'{"op":"alloc_extend","prefix_lens":[4],"seq_lens":[5]}\n'],
    "slot beyond 64 bits": [b'{"op":"free","indices":[18446744073709551616]}\n'],
    "row": [b'{"op":"alloc_extend","reqs":["A"],"seq_lens":[5]}\n', b'{"op":"finish","req":"A"}\n'],
}


@pytest.mark.parametrize("spoiling", SPOILED.values(), ids=SPOILED.keys())
def test_a_line_that_is_no_plain_call_is_treated_alike_wherever_it_stands(
    spoiling: list[bytes], replays: Replays, tmp_path: Path
) -> None:
    good = list(lines(served(3, page_size=4)))
    for at in (1, 2, 60, len(good)):
        path = tmp_path / f"{at}.jsonl"
        path.write_bytes(b"".join([*good[:at], *spoiling, *good[at:]]))
        replays.agree(path, allocator="fixed")


def test_a_trace_that_is_cut_off_is_treated_alike(replays: Replays, tmp_path: Path) -> None:
    data = b"".join(lines(served(5, page_size=4)))
    path = tmp_path / "cut.jsonl"
    for length in range(len(data) // 2, len(data) // 2 + 90, 7):
        path.write_bytes(data[:length])
        outcome = replays.agree(path, allocator="fixed")
        assert outcome.result is not None


MALFORMED = [
    ev.Free(indices=[(4, 2)]),
    ev.Free(indices=[4], req="A"),
    ev.Free(indices=[4], start=0),
    ev.FreeSwa(indices=[4], end=1),
    ev.FreeFull(),
    ev.Free(indices=[2**64]),
    ev.AllocDecode(seq_lens=[2, 3], last_loc=[4]),
    ev.AllocDecode(seq_lens=[2]),
    ev.AllocExtend(prefix_lens=[0, 0], seq_lens=[4], last_loc=[-1]),
    ev.AllocExtend(prefix_lens=[0], seq_lens=[4], last_loc=[-1, -1]),
    ev.AllocExtend(prefix_lens=[3], seq_lens=[2], last_loc=[4]),
    ev.AllocExtend(prefix_lens=[3], seq_lens=[4]),
    ev.AllocExtend(seq_lens=[4]),
    ev.AllocExtend(prefix_lens=[0], seq_lens=[4], out=[(8, 4)]),
    ev.AllocExtend(prefix_lens=[0], seq_lens=[4], out=[(0, 2**40)]),
    ev.FreeSegment(indices=[(4, 2)], start_pos=0),
    ev.FreeSwaSegment(indices=[4], end=3),
    ev.FreeFullSegment(start_pos=4),
    ev.FreeSegments(segments=[ev.SegmentItem(indices=[(8, 4)], start_pos=0)]),
]


def lane_of(replay: Replayer) -> Lane:
    lane = replay._open_lane(ev.Clear())
    assert lane is not None
    return lane


@pytest.mark.parametrize("event", MALFORMED, ids=repr)
def test_what_the_reader_refuses_is_not_answered_in_the_lane(
    event: AnyEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replayer, "USES_LANE", True)
    with pytest.raises(EventError):
        validate_event(event)
    replay = Replayer(SimConfig(page_size=4, kv_size=64, kv_size_swa=64))
    before = replay.allocator.state()
    lane = lane_of(replay)
    assert lane.run([event], 1, 1, 0, 1, 1) == 0
    assert lane.take_left() is None
    assert replay.allocator.state() == before


def test_a_group_in_which_a_free_is_malformed_is_not_answered_in_the_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replayer, "USES_LANE", True)
    lane = lane_of(Replayer(SimConfig(page_size=4, kv_size=64, kv_size_swa=64)))
    frees: list[AnyEvent] = [ev.Free(indices=[]), ev.Free(indices=[(4, 2)])]
    assert lane.run([ev.FreeGroupBegin(), *frees, ev.FreeGroupEnd()], 1, 1, 0, 4, 9) == 0


@pytest.mark.parametrize("wanted", range(4))
def test_a_group_with_an_event_that_somebody_wants_to_look_at_is_stepped(
    wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replayer, "USES_LANE", True)
    config = SimConfig(page_size=4, kv_size=64, kv_size_swa=64, allocator="fixed")
    extend = ev.AllocExtend(prefix_lens=[0], seq_lens=[8], last_loc=[-1])
    frees: list[AnyEvent] = [ev.Free(indices=[(4, 8)]), ev.Free(indices=[(8, 12)])]
    events = [extend, ev.FreeGroupBegin(), *frees, ev.FreeGroupEnd(), extend]
    lane = lane_of(Replayer(config))
    assert lane.run(events, 1, 1, 0, 6, 1 + wanted) == 1
    assert lane.take_left() is None
    assert lane_of(Replayer(config)).run(events, 1, 1, 0, 6, 5) == 6


TWICE_FREED: list[AnyEvent] = [
    ev.AllocExtend(prefix_lens=[0, 0], seq_lens=[8, 8], last_loc=[-1, -1]),
    ev.Free(indices=[(4, 8)]),
    ev.FreeGroupBegin(),
    ev.Free(indices=[(12, 20)]),
    ev.Free(indices=[(4, 8)]),
    ev.FreeGroupEnd(),
]
"""The allocator answers as if nothing were wrong; the truth knows that the page is free."""


@pytest.mark.parametrize("allocator", ["fixed", "sglang-0.5.12", "sglang-0.5.19"])
def test_a_group_that_the_truth_refuses_is_taken_back(
    allocator: str, replays: Replays, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SimConfig(allocator=allocator, page_size=4, kv_size=64, kv_size_swa=64)
    outcome = replays.agree(TWICE_FREED, config=config, stop_at_first=True)
    assert outcome.result is not None
    assert [finding.kind for finding in outcome.result.findings] == ["double-free"]
    monkeypatch.setattr(replayer, "USES_LANE", True)
    replay = Replayer(config)
    lane = lane_of(replay)
    assert lane.run(TWICE_FREED, 1, 1, 0, 2, 9) == 2
    before = replay.allocator.state()
    assert lane.run(TWICE_FREED, 1, 1, 2, 6, 9) == 2
    assert lane.take_left() is None
    assert replay.allocator.state() == before


ODD: list[Any] = [
    ev.AllocDecode(seq_lens=(5,), last_loc=[4]),  # type: ignore[arg-type]
    ev.AllocDecode(seq_lens=["5"], last_loc=[4]),  # type: ignore[list-item]
    ev.Free(indices="4"),  # type: ignore[arg-type]
    ev.Free(indices=[(4, 5, 6)]),  # type: ignore[list-item]
    ev.Free(indices=[None]),  # type: ignore[list-item]
    ev.Alloc(need_size="1"),  # type: ignore[arg-type]
    ev.Free(indices=[], site=5),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("event", ODD, ids=repr)
def test_records_that_hold_other_types_than_they_say_stay_out_of_the_lane(
    event: AnyEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replayer, "USES_LANE", True)
    lane = lane_of(Replayer(SimConfig(page_size=4, kv_size=64, kv_size_swa=64)))
    assert lane.run([event], 1, 1, 0, 1, 1) == 0


def test_a_replay_whose_events_name_rows_makes_no_lane(replays: Replays) -> None:
    replays.once(TRACES / "pr27779.jsonl", uses_lane=True)
    assert replays.lanes == 0


def test_nearly_all_of_a_served_trace_is_carried_over(replays: Replays) -> None:
    outcome = replays.once(BENCH, uses_lane=True, allocator="fixed")
    assert outcome.result is not None
    assert outcome.result.summary.errors == 0
    assert replays.carried >= 0.99 * outcome.result.summary.events


def test_the_front_of_a_served_trace_gives_the_same_replay(replays: Replays) -> None:
    with open_trace(BENCH) as trace:
        header, events = trace.header, [next(iter(trace)).event for _ in range(2500)]
    replays.agree([header, *events], allocator="fixed")


def test_a_replay_that_is_copied_goes_on_in_a_lane_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replayer, "USES_LANE", True)
    _, *events = served(7, page_size=4, allocator="fixed")
    config = SimConfig(page_size=4, kv_size=160, kv_size_swa=160, allocator="fixed")
    first = Replayer(config)
    entries = list(from_events(events))
    for entry in entries[:60]:
        first.step(entry)
    twin = first.clone()
    steps = [first.step(entry) for entry in entries[60:]]
    assert [twin.step(entry) for entry in entries[60:]] == steps
    assert twin.allocator.state() == first.allocator.state()
    assert knowledge(twin.sanitizer) == knowledge(first.sanitizer)


def test_an_effect_by_runs_says_the_same_slot_by_slot() -> None:
    effect = RunEffect()
    effect.entry_run(8, 40, 2)
    effect.entry_run(10, 42, 1)
    effect.entry_run(4, 60, 1)
    effect.full_returned.push(2)
    release = effect.to_effect(allocated=False)
    assert (release.out, release.full_returned) == (None, [2])
    assert release.mapped_slots == [8, 9, 10, 4]
    assert release.mapped_from == [40, 41, 42, 60]
    assert release.mapped_to == [0, 0, 0, 0]
    allocation = effect.to_effect(allocated=True)
    assert allocation.out == allocation.mapped_slots == [8, 9, 10, 4]
    assert allocation.mapped_from == [0, 0, 0, 0]
    assert allocation.mapped_to == [40, 41, 42, 60]
