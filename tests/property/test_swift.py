"""The swift way into a pair changes and says what `perform` does, or nothing; and it is taken.

Two pairs get the same calls. One performs them all; the other is asked the swift way first, and
performs what is left over. After each call both hold the same, and say the same.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from swasim.allocator.faults import FAULTS
from swasim.allocator.profile import IDEAL, PROFILES, Profile
from swasim.allocator.registry import profile as registered
from swasim.call import Call, Segment
from swasim.config import SimConfig
from swasim.geometry import Geometry
from swasim.trace.reader import open_trace
from swasim.trace.resolve import Resolver
from tests.support.random_calls import Answer, RandomCalls
from tests.support.two_pairs import TwoPairs
from tests.support.vectors import (
    BENCH,
    Vector,
    golden_vectors,
    recorded_radix,
    recorded_unit,
)

EVERY_PROFILE = [*PROFILES, IDEAL, *(fault.profile for fault in FAULTS if not fault.by_caller)]

MADE_OF_RUNS = {
    "free",
    "free_swa",
    "free_full",
    "free_segment",
    "free_swa_segment",
    "free_full_segment",
    "free_segments",
    "free_full_segments",
    "free_group_begin",
}
"""Releases that can be written by runs; a group of plain frees under its first call."""


@dataclass
class Request:
    """A row of full slots; the first `evicted` of them are out of the window."""

    answer_len: int
    row: list[int] = field(default_factory=list)
    evicted: int = 0


class Server:
    """Calls as a scheduler makes them that asks for room first, and never errs.

    Requests are admitted one or two at a time, sometimes in chunks; they decode together, let go of
    what leaves the window by the page, and are freed when they are done. Where the release has
    segments they are used as often as not; every other step frees in a group, if it frees at all.
    """

    def __init__(self, pairs: TwoPairs, seed: int) -> None:
        self.pairs, self.random = pairs, random.Random(seed)
        self.page = pairs.slow.page_size
        profile = pairs.slow.profile
        self.operations = profile.operations
        self.running: list[Request] = []
        self.window = 4 * self.page + 3
        if self.page == 1 and profile.name == "fault:36723":
            self.window = 1 << 30  # it releases slot 0 for whatever has left the window

    def run(self, steps: int) -> None:
        for _ in range(steps):
            if len(self.running) < 6 and self.random.random() < 0.3:
                self.admit()
            self.decode()
            self.evict()
            self.finish()

    def call(self, op: str, **fields: list[int] | list[Segment] | int) -> list[int]:
        effect = self.pairs.perform(Call(op, **fields))  # type: ignore[arg-type]
        assert effect.raised is None
        return effect.out or []

    def room(self, tokens: int, requests: int) -> bool:
        full, swa = self.pairs.slow.full_attn_allocator, self.pairs.slow.swa_attn_allocator
        most = tokens + requests * self.page
        return most <= min(full.available_size(), swa.available_size())

    def admit(self) -> None:
        arriving = [Request(self.random.randint(1, 40)) for _ in range(self.random.randint(1, 2))]
        lens = [self.random.randint(1, 5 * self.page + 8) for _ in arriving]
        if not self.room(2 * sum(lens), 4):
            return
        self.extend(arriving, lens)
        self.running += arriving
        if self.random.random() < 0.4:
            self.extend(arriving, lens)

    def extend(self, requests: list[Request], grown: list[int]) -> None:
        prefix_lens = [len(request.row) for request in requests]
        if self.page == 1:
            out = self.call("alloc", need_size=sum(grown))
        else:
            out = self.call(
                "alloc_extend",
                prefix_lens=prefix_lens,
                seq_lens=[a + b for a, b in zip(prefix_lens, grown, strict=True)],
                last_loc=[request.row[-1] if request.row else -1 for request in requests],
            )
        for request, count in zip(requests, grown, strict=True):
            request.row += out[:count]
            out = out[count:]

    def decode(self) -> None:
        batch = self.running
        if not batch or not self.room(len(batch), len(batch)):
            return
        if self.page == 1:
            out = self.call("alloc", need_size=len(batch))
        else:
            out = self.call(
                "alloc_decode",
                seq_lens=[len(request.row) + 1 for request in batch],
                last_loc=[request.row[-1] for request in batch],
            )
        for request, slot in zip(batch, out, strict=True):
            request.row.append(slot)

    def release(self, op: str, request: Request, start: int, end: int) -> None:
        """Call `free`, `free_swa` or `free_full`, or a segment form of it."""
        slots = request.row[start:end]
        forms = [form for form in (f"{op}_segment", f"{op}_segments") if form in self.operations]
        form = self.random.choice([op, op, *forms])
        if form.endswith("segments"):
            self.call(form, segments=[Segment(slots, start)])
        elif form.endswith("segment"):
            self.call(form, indices=slots, start_pos=start)
        else:
            self.call(form, indices=slots)

    def evict(self) -> None:
        for request in self.running:
            end = max(len(request.row) - self.window, 0) // self.page * self.page
            if end > request.evicted and self.random.random() < 0.7:
                self.release("free_swa", request, request.evicted, end)
                request.evicted = end

    def finish(self) -> None:
        frees: list[Call] = []
        grouped = self.random.random() < 0.5
        for request in list(self.running):
            done = len(request.row) > request.answer_len or not self.room(1, len(self.running))
            if not done or self.random.random() > 0.2:
                continue
            self.running.remove(request)
            dead = request.evicted if "free_full" in self.operations else 0
            if dead:
                self.release("free_full", request, 0, dead)
            if grouped:
                cut = self.random.randrange(dead, len(request.row) + 1, self.page)
                frees += [Call("free", indices=request.row[dead:cut])]
                frees += [Call("free", indices=request.row[cut:])]
            else:
                self.release("free", request, dead, len(request.row))
        if grouped:
            assert self.pairs.perform_group(frees).raised is None


def page_sizes(profile: Profile) -> tuple[int, ...]:
    return (1, 3, 4, 16, 64) if profile.paged else (1,)


@pytest.mark.parametrize("need_sort", [False, True])
@pytest.mark.parametrize("profile", EVERY_PROFILE, ids=lambda profile: profile.name)
def test_calls_of_a_server_are_answered_as_they_are_performed(
    profile: Profile, need_sort: bool
) -> None:
    for page in page_sizes(profile):
        pairs = TwoPairs(profile, Geometry(page, 160 * page, 120 * page), need_sort)
        server = Server(pairs, seed=page)
        server.run(300)
        for op in pairs.asked:
            least = 0.8 if op.startswith("alloc") else 0.98
            assert pairs.share_of(op) > least, f"page size {page}: {pairs.plain} of {pairs.asked}"
        if server.window < 1 << 30:
            assert profile.operations & MADE_OF_RUNS <= set(pairs.asked), f"page size {page}"


class OddCalls(RandomCalls):
    """Segments of one piece, and of pieces that do not belong together; SWA pages shared by two."""

    def release(self) -> Call:
        call = super().release()
        if call.segments and self.random.random() < 0.5:
            return Call(call.op, segments=call.segments[:1])
        if "segment" in call.op and self.random.random() < self.misuse:
            return Call(call.op, indices=self.piece()[0] + self.piece()[0])
        return call

    def mapping(self) -> Call:
        if self.random.random() < 0.5:
            return super().mapping()
        full, swa = self.page_slots(self.config.kv_size), self.page_slots(self.config.kv_size_swa)
        return Call("set_full_to_swa_mapping", full=full, swa=swa)

    def page_slots(self, size: int) -> list[int]:
        page = self.random.randint(1, size // self.page)
        return list(range(page * self.page, (page + 1) * self.page))

    def frees(self) -> list[Call]:
        """What a group may be around."""
        count = self.random.randint(0, 3)
        return [Call("free", indices=self.piece()[0]) for _ in range(count)]


def odd_calls(profile: Profile, need_sort: bool, seeds: range) -> Counter[str]:
    """Make them; how many of each operation were answered."""
    plain = Counter[str]()
    for page, full, swa in (1, 12, 8), (1, 30, 40), (2, 16, 12), (4, 40, 20), (16, 128, 96):
        if page > 1 and not profile.paged:
            continue
        config = SimConfig(page_size=page, kv_size=full, kv_size_swa=swa, need_sort=need_sort)
        for seed in seeds:
            pairs = TwoPairs(profile, config.geometry, need_sort)
            generator = OddCalls(seed, config)
            for _ in range(100):
                if generator.random.random() < 0.2:
                    pairs.perform_group(generator.frees())
                    continue
                call = generator.next()
                if pairs.refuses(call):
                    generator.follow(call, Answer(refused=True))
                else:
                    effect = pairs.perform(call)
                    generator.follow(call, Answer(refused=False, out=effect.out))
            plain += pairs.plain
    return plain


@pytest.mark.parametrize("need_sort", [False, True])
@pytest.mark.parametrize("profile", EVERY_PROFILE, ids=lambda profile: profile.name)
def test_any_call_is_answered_as_it_is_performed_or_left_alone(
    profile: Profile, need_sort: bool
) -> None:
    plain = odd_calls(profile, need_sort, range(4))
    assert plain.total() > 100
    assert all(plain[op] for op in profile.operations & MADE_OF_RUNS), plain


def invented(seed: int) -> Profile:
    """A release that there never was: how it frees is drawn."""
    draw = random.Random(seed).choice
    return replace(
        IDEAL,
        name=f"invented {seed}",
        free_swa_unit=draw(["tokens", "pages"]),
        free_order=draw(["full_first", "swa_first"]),
        free_queue=draw(["slots", "resolved"]),
        free_swa_queue=draw(["immediate", "slots", "resolved"]),
        group_full_pool=draw([False, True]),
        end_keeps_queue=draw([False, True]),
        nested_begin=draw(["drops", "asserts"]),
        swa_checks=draw([False, True]),
        free_full_reads=draw([False, True]),
        staged_order=draw(["prepend", "append"]),
        filter_page_size_1=draw([False, True]),
        filter_segments=draw([False, True]),
        padding=draw(["slot", "page"]),
        segments=draw(["whole", "pages"]),
        segment_peer=draw(["first", "any"]),
        free_full_peers=draw(["keeps", "releases"]),
    )


@pytest.mark.parametrize("seed", range(80))
def test_what_is_plain_follows_from_the_fields_of_a_profile(seed: int) -> None:
    plain = odd_calls(invented(seed), seed % 2 == 1, range(2))
    assert plain.total() > 100


RECORDED: dict[str, tuple[Callable[[], list[Vector]], float]] = {
    "golden": (golden_vectors, 0.6),
    "radix": (recorded_radix, 1.0),
    "unit": (recorded_unit, 0.8),
}
"""Folder to its vectors, and the share of their calls and groups that is answered at least: those
of the first and the last are made of odd cases."""


def replay(vector: Vector, compare_every: int) -> TwoPairs:
    with open_trace(vector.path) as trace:
        header = trace.header
        assert header is not None
        geometry = Geometry(
            int(header.page_size or 0), int(header.kv_size or 0), int(header.kv_size_swa or 0)
        )
        profile = registered(f"sglang-{vector.release_in_name}")
        pairs, resolver = TwoPairs(profile, geometry, bool(header.need_sort)), Resolver()
        for number, entry in enumerate(trace):
            resolved = resolver.resolve(entry)
            effect = None
            if resolved.call is not None:
                effect = pairs.follow(resolved.call, compared=number % compare_every == 0)
            resolver.commit(entry, resolved, effect.out if effect else None)
        pairs.settle()
        assert pairs.fast.key() == pairs.slow.key()
    return pairs


@pytest.mark.parametrize("folder", RECORDED)
def test_recorded_calls_are_answered_as_they_are_performed(folder: str) -> None:
    vectors, least = RECORDED[folder]
    asked, plain = Counter[str](), Counter[str]()
    for vector in vectors():
        pairs = replay(vector, compare_every=1)
        asked += pairs.asked
        plain += pairs.plain
    assert plain.total() >= least * asked.total(), f"{plain} of {asked}"


def test_a_long_decode_run_is_answered_to_the_last_call() -> None:
    pairs = replay(Vector("0.5.14__bench", BENCH), compare_every=1000)
    assert pairs.asked.total() == 20_000
    assert pairs.share > 0.99
