"""What is recognised as a whole must leave the same truth behind as what is checked one by one."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import msgspec
import pytest

from swasim.allocator.core import CorePair
from swasim.allocator.faults import FAULTS
from swasim.allocator.profile import IDEAL, PROFILES, Profile
from swasim.call import Call, Effect
from swasim.config import SimConfig
from swasim.replayer import Replayer
from swasim.runs import (
    COMPILED,
    DECODE,
    FREE_FULL_SEGMENT,
    FREE_GROUP,
    FREE_SEGMENT,
    FREE_SWA_SEGMENT,
    RunCall,
    RunEffect,
)
from swasim.sanitizer.sanitizer import Sanitizer
from swasim.trace.events import Entry, Mark
from swasim.trace.reader import open_trace
from swasim.trace.resolve import Resolved
from tests.support.random_calls import RandomCalls, answer
from tests.support.serving import Serving
from tests.support.truth import knowledge
from tests.support.vectors import BENCH, Vector, golden_vectors, recorded_radix
from tests.support.watching import Twins, event_of, replayed

BENCH_CONFIG = SimConfig(page_size=64, kv_size=262144, kv_size_swa=65536, allocator="fixed")
NEWEST = PROFILES[-1]
EVERY_PROFILE = [*PROFILES, IDEAL, *(fault.profile for fault in FAULTS if not fault.by_caller)]
SIZES = [(1, 40, 30), (3, 60, 60), (4, 64, 48), (4, 40, 80), (16, 256, 160)]
"""Page size, tokens of the full and the SWA pool: small, so that they run short."""


def roomy(page_size: int) -> SimConfig:
    """Pools that never run short."""
    return SimConfig(page_size=page_size, kv_size=900 * page_size, kv_size_swa=800 * page_size)


def pair_for(profile: Profile, config: SimConfig) -> CorePair:
    return CorePair("core", profile, config.geometry, config.need_sort)


def play(
    profile: Profile, config: SimConfig, seed: int, length: int, misuse: float
) -> Counter[str]:
    """Random calls, shown to both; what was recognised."""
    generator, twins = RandomCalls(seed, config, misuse), Twins(config)
    pair = pair_for(profile, config)
    for _ in range(length):
        call = generator.next()
        got = answer(pair, call)
        generator.follow(call, got)
        if got.effect is not None:
            twins.show(call, got.effect)
    twins.agree()
    return Counter(twins.recognised)


@pytest.mark.parametrize("profile", EVERY_PROFILE, ids=lambda profile: profile.name)
def test_random_callers_see_no_difference(profile: Profile) -> None:
    seen: Counter[str] = Counter()
    for page_size, full, swa in SIZES:
        if page_size > 1 and not profile.paged:
            continue
        config = SimConfig(page_size=page_size, kv_size=full, kv_size_swa=swa)
        for seed in range(4):
            for misuse in (0.0, 0.05, 0.4):
                seen += play(profile, config, seed, 40, misuse)
    assert seen["free"] > 3
    assert seen["alloc"] > 3


@pytest.mark.parametrize("vector", golden_vectors()[::3] + recorded_radix(), ids=lambda v: v.name)
def test_recorded_traces_see_no_difference(vector: Vector) -> None:
    with open_trace(vector.path) as trace:
        header, entries = trace.header, list(trace)
    assert header is not None
    config = SimConfig(
        page_size=header.page_size or 1,
        kv_size=header.kv_size or 0,
        kv_size_swa=header.kv_size_swa or 0,
        need_sort=bool(header.need_sort),
        allocator=f"sglang-{vector.release}",
    )
    quick, found = replayed(config, entries, recognises=True)
    slow, expected = replayed(config, entries, recognises=False)
    assert found == expected
    assert knowledge(quick) == knowledge(slow)


def serve(profile: Profile, config: SimConfig, seed: int, calls: int) -> Twins:
    """A careful scheduler that names raw slots."""
    serving, twins = Serving(seed, config.page_size), Twins(config)
    pair = pair_for(profile, config)
    for _ in range(calls):
        call = serving.next()
        effect = pair.perform(call)
        serving.took(effect.out)
        assert twins.show(call, effect) == []
    return twins


@pytest.mark.parametrize("profile", [IDEAL, NEWEST], ids=lambda profile: profile.name)
@pytest.mark.parametrize("page_size", [1, 3, 4, 16])
def test_what_a_careful_scheduler_does_is_recognised(profile: Profile, page_size: int) -> None:
    config = roomy(page_size)
    for seed in range(3):
        twins = serve(profile, config, seed, 250)
        assert len(twins.recognised) == twins.asked
        twins.agree()


def test_a_served_trace_is_recognised_almost_as_a_whole() -> None:
    with open_trace(BENCH) as trace:
        entries = list(islice(trace, 1500))
    replayer = Replayer(BENCH_CONFIG)
    replayer.sanitizer.recognises = True
    foreseen = 0
    for entry in entries:
        resolved = replayer.resolver.resolve(entry)
        assert resolved.call is not None
        effect = replayer.allocator.perform(resolved.call)
        foreseen += replayer.sanitizer.steady.reads(resolved.call, effect)
        assert replayer.sanitizer.observe(entry, resolved, effect) == []
    assert foreseen == len(entries)
    slow, found = replayed(BENCH_CONFIG, entries, recognises=False)
    assert (knowledge(replayer.sanitizer), []) == (knowledge(slow), found)


Spoil = Callable[[random.Random, Effect, int], None]


def spoil_pages(rng: random.Random, effect: Effect, size: int) -> None:
    """A page too many, too few, another one, twice, or in another order; accounts may agree."""
    lists = [effect.full_taken, effect.swa_taken, effect.full_returned, effect.swa_returned]
    at = rng.choice([index for index, pages in enumerate(lists) if pages] or range(4))
    if rng.random() < 0.3:
        at = rng.randrange(4)
    pages, how = lists[at], rng.randrange(6)
    before = len(pages)
    if how == 0 or not pages:
        pages.append(rng.randint(0, 12))
    elif how == 1:
        pages.pop(rng.randrange(len(pages)))
    elif how == 2:
        pages[rng.randrange(len(pages))] = rng.randint(-1, 30)
    elif how == 3:
        pages.append(rng.choice(pages))
    elif how == 4:
        pages[rng.randrange(len(pages))] += 1
    else:
        rng.shuffle(pages)
    if rng.random() < 0.7:
        change = (len(pages) - before) * size * (1 if at >= 2 else -1)
        effect.full_available += change * (at % 2 == 0)
        effect.swa_available += change * (at % 2 == 1)


def spoil_entries(rng: random.Random, effect: Effect, size: int) -> None:
    """An entry too few, another slot or SWA slot, twice, or in another order."""
    if not effect.mapped_slots:
        return
    handed_out = effect.out is not None
    columns = [effect.mapped_slots, effect.mapped_from, effect.mapped_to]
    at, how = rng.randrange(len(effect.mapped_slots)), rng.randrange(6)
    if how == 0:
        for column in columns:
            column.pop(at)
    elif how == 1:
        for column in columns:
            column.append(column[at])
    elif how == 2:
        order = rng.sample(range(len(effect.mapped_slots)), len(effect.mapped_slots))
        for column in columns:
            column[:] = [column[index] for index in order]
    elif how == 3:
        effect.mapped_slots[at] += rng.choice([-1, 1, size, -size])
    elif how == 4:
        (effect.mapped_to if handed_out else effect.mapped_from)[at] += rng.choice([-1, 1, size])
    else:
        rng.choice(columns)[at] = rng.randint(0, 8 * size)
    if handed_out and rng.random() < 0.8:
        effect.out = effect.mapped_slots.copy()


def spoil_accounts(rng: random.Random, effect: Effect, size: int) -> None:
    """More or less available than there is."""
    effect.full_available += rng.choice([0, size, -size, 1])
    effect.swa_available += rng.choice([0, size, -size, 1])


def spoil_beside(rng: random.Random, effect: Effect, size: int) -> None:
    """Peers of some entries on the pages of others: as one column, every value is plausible."""
    column = effect.mapped_to if effect.out is not None else effect.mapped_from
    if len(column) > 1:
        first, second = rng.sample(range(len(column)), 2)
        column[first], column[second] = column[second], column[first]


@pytest.mark.parametrize("spoil", [spoil_pages, spoil_entries, spoil_accounts, spoil_beside])
@pytest.mark.parametrize("page_size", [1, 3, 4, 16])
def test_an_allocator_that_lies_is_not_believed(spoil: Spoil, page_size: int) -> None:
    config = roomy(page_size)
    for seed in range(60):
        rng, serving, twins = random.Random(seed), Serving(seed, page_size), Twins(config)
        pair = pair_for(IDEAL, config)
        for _ in range(rng.randint(5, 60)):
            call = serving.next()
            effect = pair.perform(call)
            serving.took(effect.out)
            twins.show(call, effect)
        for _ in range(6):
            call = serving.next()
            effect = pair.perform(call)
            serving.took(effect.out)
            spoil(rng, effect, page_size)
            twins.show(call, effect)
        twins.agree()


def wrongly(rng: random.Random, call: Call, rows: list[list[int]]) -> Call:
    """A call that names a little more, less or else than a careful one."""
    other = rng.choice(rows) if rows else []
    if call.op == "alloc":
        return msgspec.structs.replace(call, need_size=call.need_size + rng.randint(-1, 1))
    if call.last_loc:
        at = rng.randrange(len(call.last_loc))
        last_loc, seq_lens = call.last_loc.copy(), call.seq_lens.copy()
        how = rng.randrange(4)
        if how == 0:
            last_loc[at] = rng.choice([-1, 0, *other])
        elif how == 1:
            last_loc[at] = rng.choice(last_loc)
        elif how == 2:
            seq_lens[at] += 1
        else:
            last_loc.append(last_loc[at])
            seq_lens.append(seq_lens[at])
            prefix_lens = [*call.prefix_lens, *call.prefix_lens[at : at + 1]]
            call = msgspec.structs.replace(call, prefix_lens=prefix_lens)
        return msgspec.structs.replace(call, last_loc=last_loc, seq_lens=seq_lens)
    slots, how = call.indices, rng.randrange(5)
    if how == 0:
        slots = slots[: rng.randint(0, len(slots))]
    elif how == 1:
        slots = slots[rng.randint(0, len(slots)) :]
    elif how == 2:
        slots = slots + slots[-2:]
    elif how == 3:
        slots = slots + other[: rng.randint(0, len(other))]
    else:
        slots = slots[::-1]
    return msgspec.structs.replace(
        call, op=rng.choice(["free", "free_swa", "free_full"]), indices=slots
    )


@pytest.mark.parametrize("profile", EVERY_PROFILE, ids=lambda profile: profile.name)
@pytest.mark.parametrize("page_size", [1, 4])
def test_a_caller_who_errs_is_not_believed(profile: Profile, page_size: int) -> None:
    if page_size > 1 and not profile.paged:
        return
    config = roomy(page_size)
    for seed in range(25):
        rng, serving, twins = random.Random(seed), Serving(seed, page_size), Twins(config)
        pair = pair_for(profile, config)
        for number in range(rng.randint(5, 60)):
            call = serving.next()
            errs = number > 4 and rng.random() < 0.08
            if errs:
                call = wrongly(rng, call, serving.rows())
            got = answer(pair, call)
            serving.took(None if errs else got.out)
            if got.effect is not None:
                twins.show(call, got.effect)
        twins.agree()


def test_the_entry_for_a_loop_leaves_the_same_as_observing() -> None:
    """`step` instead of `observe`, with a mistake at the end that only the checks can judge."""
    config = SimConfig(page_size=4, kv_size=1600, kv_size_swa=1200)
    for seed in range(10):
        serving, pair = Serving(seed, 4), pair_for(IDEAL, config)
        stepped, observed = Sanitizer(config, {}), Sanitizer(config, {})
        run_call, run_effect = RunCall(), RunEffect()
        for number in range(1, 120):
            call = serving.next()
            effect = pair.perform(call)
            serving.took(effect.out)
            assert run_call.read(call)
            assert run_effect.read(effect, allocated=run_call.op <= DECODE)
            assert stepped.steady.step(
                run_call, run_effect, number, number + 1, call.op, "here", 0.5
            )
            entry = Entry(number, number + 1, event_of(call, "here", 0.5))
            assert observed.observe(entry, Resolved(call), effect) == []
            if number % 40 == 0:
                assert knowledge(stepped) == knowledge(observed)
        assert knowledge(pickle.loads(pickle.dumps(stepped))) == knowledge(observed)
        wrong = Call(op="free", indices=[5, 6])
        effect = pair.perform(wrong)
        entry = Entry(200, 201, event_of(wrong, "there"))
        copies = [twin.clone({}) for twin in (stepped, observed)]
        found = [twin.observe(entry, Resolved(wrong), effect) for twin in (stepped, observed)]
        assert found[0] == found[1] != []
        assert knowledge(stepped) == knowledge(observed)
        ends = [twin.declare_idle() for twin in copies]
        assert ends[0] == ends[1] != []
        assert ends[0][0].at.event == 119


def named_by(op: int, slots: list[int]) -> RunCall:
    """A release by runs."""
    call = RunCall()
    call.op = op
    call.name_none()
    for slot in slots:
        call.name(slot, 1)
    return call


SEGMENT_FORMS = {
    "free_segment": ("free", FREE_SEGMENT),
    "free_swa_segment": ("free_swa", FREE_SWA_SEGMENT),
    "free_full_segment": ("free_full", FREE_FULL_SEGMENT),
}


@pytest.mark.parametrize("page_size", [1, 3, 4])
def test_segments_leave_the_same_as_observing(page_size: int) -> None:
    config, taken_over = roomy(page_size), 0
    for seed in range(20):
        serving, pair = Serving(seed, page_size), pair_for(IDEAL, config)
        quick, slow = Sanitizer(config, {}), Sanitizer(config, {})
        for number in range(1, 80):
            call = serving.next()
            form = {plain: (op, runs) for op, (plain, runs) in SEGMENT_FORMS.items()}.get(call.op)
            start = seed % 3 if form else 0
            if form:
                # Some do not start where a page does: then only the checks may speak.
                call = Call(op=form[0], indices=call.indices[start:], start_pos=0)
            effect = pair.perform(call)
            serving.took(effect.out)
            entry, resolved = Entry(number, number, Mark(label=call.op)), Resolved(call)
            found = slow.observe(entry, resolved, effect)
            run_effect = RunEffect()
            if form and run_effect.read(effect, allocated=False):
                named = named_by(form[1], call.indices)
                if quick.steady.step(named, run_effect, number, number, "mark", "", None):
                    taken_over += 1
                    assert found == []
                    continue
            assert quick.observe(entry, resolved, effect) == found
            assert start % page_size or not form
        assert knowledge(quick) == knowledge(slow)
    assert taken_over > 100


def together(effects: list[Effect]) -> Effect:
    """What several calls changed that handed nothing out."""
    joined = Effect(
        full_available=effects[-1].full_available, swa_available=effects[-1].swa_available
    )
    for effect in effects:
        joined.full_returned += effect.full_returned
        joined.swa_returned += effect.swa_returned
        joined.mapped_slots += effect.mapped_slots
        joined.mapped_from += effect.mapped_from
        joined.mapped_to += effect.mapped_to
    return joined


@pytest.mark.parametrize("profile", [IDEAL, NEWEST], ids=lambda profile: profile.name)
@pytest.mark.parametrize("page_size", [1, 3, 4])
def test_a_free_group_leaves_the_same_as_observing(profile: Profile, page_size: int) -> None:
    config, taken_over = roomy(page_size), 0
    for seed in range(20):
        serving, pair = Serving(seed, page_size), pair_for(profile, config)
        quick, slow = Sanitizer(config, {}), Sanitizer(config, {})
        number = 0
        for _ in range(60):
            call = serving.next()
            calls, cut = [call], len(call.indices) // 2 // page_size * page_size
            if call.op == "free":
                halves = call.indices[:cut], call.indices[cut:]
                frees = [Call(op="free", indices=slots) for slots in halves]
                calls = [Call(op="free_group_begin"), *frees, Call(op="free_group_end")]
            effects = [pair.perform(each) for each in calls]
            serving.took(effects[0].out)
            for each, effect in zip(calls, effects, strict=True):
                number += 1
                entry, resolved = Entry(number, number, Mark(label="")), Resolved(each)
                assert slow.observe(entry, resolved, effect) == []
                if each is call:
                    assert quick.observe(entry, resolved, effect) == []
            if call.op == "free":
                run_effect = RunEffect()
                assert run_effect.read(together(effects), allocated=False)
                named = named_by(FREE_GROUP, call.indices)
                assert quick.steady.step(named, run_effect, number, number, "mark", "", None)
                taken_over += 1
        assert knowledge(quick) == knowledge(slow)
        assert quick.declare_idle() == slow.declare_idle()
    assert taken_over > 50


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled: the tests above were about this")
def test_the_sources_as_they_stand_see_no_difference_either() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.as_they_stand"]
    chosen = "scheduler or (lies and 4-spoil) or (errs and 4-K) or group or segments or entry_for"
    finished = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-k", chosen, __file__],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": ".", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout[-3000:]
    assert "skipped" not in finished.stdout
    assert " passed" in finished.stdout
