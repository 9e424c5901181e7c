"""Recorded slots on an allocator that returns others."""

from __future__ import annotations

from swasim.call import Call, Segment
from swasim.trace.events import Entry
from swasim.trace.resolve import Resolver
from tests.support.events import event_of


def play(resolver: Resolver, line: str, out: list[int] | None = None) -> Call | None:
    entry = Entry(1, 1, event_of(line))
    resolved = resolver.resolve(entry)
    resolver.commit(entry, resolved, out)
    return resolved.call


def indices(call: Call | None) -> list[int]:
    assert call is not None
    return call.indices


def test_equal_slots_are_no_divergence_and_mean_themselves() -> None:
    resolver = Resolver()
    play(resolver, '{"op":"alloc","need_size":4,"out":[[4,8]]}', [4, 5, 6, 7])
    assert not resolver.diverged
    assert indices(play(resolver, '{"op":"free","indices":[[4,8]]}')) == [4, 5, 6, 7]


def test_a_trace_without_recorded_slots_never_diverges() -> None:
    resolver = Resolver()
    play(resolver, '{"op":"alloc","need_size":4}', [8, 9, 10, 11])
    play(resolver, '{"op":"alloc","need_size":4}', None)
    assert not resolver.diverged


def test_after_the_first_difference_the_nth_slot_stands_for_the_nth() -> None:
    resolver = Resolver()
    play(resolver, '{"op":"alloc","need_size":4,"out":[[4,8]]}', [11, 10, 9, 8])
    assert resolver.diverged
    assert indices(play(resolver, '{"op":"free","indices":[5,7,30]}')) == [10, 8, 30]


def test_every_place_that_holds_full_slots_is_translated() -> None:
    resolver = Resolver()
    play(resolver, '{"op":"alloc","need_size":2,"out":[4,5]}', [8, 9])
    assert play(resolver, '{"op":"alloc_decode","seq_lens":[3],"last_loc":[5]}') == Call(
        op="alloc_decode", seq_lens=[3], last_loc=[9]
    )
    assert play(
        resolver, '{"op":"free_segments","segments":[{"indices":[4],"start_pos":0}]}'
    ) == Call(op="free_segments", segments=[Segment([8], 0)])
    assert play(resolver, '{"op":"set_full_to_swa_mapping","full":[5],"swa":[5]}') == Call(
        op="set_full_to_swa_mapping", full=[9], swa=[5]
    )
    assert resolver.slots_of([4, 5, 6]) == [8, 9, 6]


def test_swa_slots_have_a_translation_of_their_own() -> None:
    resolver = Resolver()
    play(resolver, '{"op":"alloc","need_size":2,"pool":"full","out":[4,5]}', [4, 5])
    play(resolver, '{"op":"alloc","need_size":2,"pool":"swa","out":[4,5]}', [6, 7])
    assert play(resolver, '{"op":"set_full_to_swa_mapping","full":[4],"swa":[4]}') == Call(
        op="set_full_to_swa_mapping", full=[4], swa=[6]
    )
    assert indices(play(resolver, '{"op":"free","pool":"swa","indices":[5]}')) == [7]
    assert indices(play(resolver, '{"op":"free","indices":[5]}')) == [5]


def test_a_slot_handed_out_again_gets_its_new_meaning() -> None:
    resolver = Resolver()
    play(resolver, '{"op":"alloc","need_size":1,"out":[4]}', [8])
    play(resolver, '{"op":"alloc","need_size":1,"out":[4]}', [9])
    assert indices(play(resolver, '{"op":"free","indices":[4]}')) == [9]
    play(resolver, '{"op":"alloc","need_size":1,"out":[4]}', [4])
    assert indices(play(resolver, '{"op":"free","indices":[4]}')) == [4]
    assert resolver.diverged


def test_a_refusal_on_both_sides_is_no_divergence() -> None:
    resolver = Resolver()
    play(resolver, '{"op":"alloc","need_size":1,"out":null}', None)
    assert not resolver.diverged


def test_a_refusal_on_one_side_only_is_a_divergence() -> None:
    resolver = Resolver()
    play(resolver, '{"op":"alloc","need_size":1,"out":null}', [4])
    assert resolver.diverged
    resolver = Resolver()
    play(resolver, '{"op":"alloc","need_size":2,"out":[4,5]}', None)
    assert resolver.diverged
    assert indices(play(resolver, '{"op":"free","indices":[4,5]}')) == [4, 5]


def test_fewer_slots_than_recorded_leave_the_rest_as_they_are() -> None:
    resolver = Resolver()
    play(resolver, '{"op":"alloc","need_size":2,"out":[4,5]}', [8])
    assert indices(play(resolver, '{"op":"free","indices":[4,5]}')) == [8, 5]


def test_rows_hold_what_the_replay_returned_whatever_was_recorded() -> None:
    resolver = Resolver()
    play(resolver, '{"op":"alloc_extend","reqs":["A"],"seq_lens":[2],"out":[4,5]}', [8, 9])
    assert resolver.rows["A"].slots == [8, 9]
    assert indices(play(resolver, '{"op":"free","req":"A"}')) == [8, 9]
    assert indices(play(resolver, '{"op":"free","indices":[4]}')) == [8]


def test_clear_ends_every_translation_but_not_the_divergence() -> None:
    resolver = Resolver()
    play(resolver, '{"op":"alloc","need_size":1,"out":[4]}', [8])
    play(resolver, '{"op":"clear"}')
    assert indices(play(resolver, '{"op":"free","indices":[4]}')) == [4]
    assert resolver.diverged
