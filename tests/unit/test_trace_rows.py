"""Rows: what a name and a range of positions stand for, and how calls change them."""

from __future__ import annotations

from typing import Any

import pytest

from swasim.call import Call, Segment
from swasim.errors import TraceError
from swasim.trace.events import Entry, RowRange
from swasim.trace.resolve import Resolved, Resolver, RowChange, RowError
from tests.support.events import event_of


class Player:
    """Feeds events to a resolver, with what an allocator would have returned."""

    def __init__(self) -> None:
        self.resolver = Resolver("t.jsonl")
        self.number = 0

    def resolve(self, line: str) -> tuple[Entry, Resolved]:
        self.number += 1
        entry = Entry(self.number, self.number + 1, event_of(line))
        return entry, self.resolver.resolve(entry)

    def play(self, line: str, out: list[int] | None = None) -> tuple[Resolved, Any]:
        entry, resolved = self.resolve(line)
        return resolved, self.resolver.commit(entry, resolved, out)

    def row(self, req: str) -> tuple[list[int], list[int], list[int]]:
        row = self.resolver.rows[req]
        return row.slots, row.births, list(row.held)


@pytest.fixture
def player() -> Player:
    return Player()


def extend(player: Player, req: str, out: list[int]) -> None:
    player.play(f'{{"op":"alloc_extend","reqs":["{req}"],"seq_lens":[{len(out)}]}}', out)


def test_raw_slots_go_to_the_call_as_they_are(player: Player) -> None:
    resolved, changes = player.play('{"op":"free","indices":[8,77,[100,103]]}')
    assert resolved == Resolved(Call(op="free", indices=[8, 77, 100, 101, 102]))
    assert changes == ()


def test_an_extend_defaults_to_the_end_of_each_row(player: Player) -> None:
    extend(player, "A", [4, 5, 6])
    resolved, changes = player.play(
        '{"op":"alloc_extend","reqs":["A","B"],"seq_lens":[5,2]}', [7, 12, 16, 17]
    )
    assert resolved.call == Call(
        op="alloc_extend", prefix_lens=[3, 0], seq_lens=[5, 2], last_loc=[6, -1]
    )
    assert (resolved.reqs, resolved.last_births) == (("A", "B"), [1, 0])
    assert changes == (
        RowChange("A", 3, added_slots=[7, 12], allocated=True),
        RowChange("B", 0, added_slots=[16, 17], allocated=True),
    )
    assert player.row("A") == ([4, 5, 6, 7, 12], [1, 1, 1, 2, 2], [1, 1, 1, 1, 1])


def test_an_extend_truncates_its_row_to_the_prefix_first(player: Player) -> None:
    extend(player, "A", [4, 5, 6, 7])
    resolved, changes = player.play(
        '{"op":"alloc_extend","reqs":["A"],"prefix_lens":[2],"seq_lens":[3]}', [9]
    )
    assert resolved.call is not None
    assert resolved.call.last_loc == [5]
    assert changes == (RowChange("A", 2, [6, 7], [1, 1], added_slots=[9], allocated=True),)
    assert player.row("A")[0] == [4, 5, 9]


def test_a_refused_allocation_changes_no_row_not_even_by_truncation(player: Player) -> None:
    extend(player, "A", [4, 5, 6, 7])
    line = '{"op":"alloc_extend","reqs":["A","B"],"prefix_lens":[2,0],"seq_lens":[9,9]}'
    assert player.play(line, None)[1] == ()
    assert player.row("A")[0] == [4, 5, 6, 7]
    assert list(player.resolver.rows) == ["A"]


def test_a_decode_defaults_to_one_more_token(player: Player) -> None:
    extend(player, "A", [4, 5, 6])
    extend(player, "B", [8])
    resolved, _ = player.play('{"op":"alloc_decode","reqs":["B","A"]}', [9, 7])
    assert resolved.call == Call(op="alloc_decode", seq_lens=[2, 4], last_loc=[8, 6])
    assert resolved.last_births == [2, 1]
    assert player.row("A")[0] == [4, 5, 6, 7]
    assert player.row("B")[0] == [8, 9]


def test_a_decode_to_a_shorter_length_rolls_the_row_back(player: Player) -> None:
    extend(player, "A", [4, 5, 6, 7])
    resolved, _ = player.play('{"op":"alloc_decode","reqs":["A"],"seq_lens":[3]}', [6])
    assert resolved.call == Call(op="alloc_decode", seq_lens=[3], last_loc=[5])
    assert player.row("A")[:2] == ([4, 5, 6], [1, 1, 2])


def test_a_tail_extend_defaults_to_the_end_of_the_row(player: Player) -> None:
    line = '{"op":"alloc_extend_swa_tail","req":"A","seq_len":4,"swa_tail_len":2}'
    resolved, _ = player.play(line, [4, 5, 6, 7])
    assert resolved.call == Call(
        op="alloc_extend_swa_tail", prefix_lens=[0], seq_lens=[4], last_loc=[-1], swa_tail_len=2
    )
    assert player.row("A")[0] == [4, 5, 6, 7]


def test_a_plain_alloc_appends_to_its_row(player: Player) -> None:
    player.play('{"op":"alloc","need_size":2,"req":"A"}', [1, 2])
    resolved, changes = player.play('{"op":"alloc","need_size":1,"req":"A","pool":"full"}', [5])
    assert resolved == Resolved(Call(op="alloc", pool="full", need_size=1), ("A",))
    assert changes == (RowChange("A", 2, added_slots=[5], allocated=True),)


def test_a_last_loc_that_the_event_gives_is_used_and_has_no_birth(player: Player) -> None:
    extend(player, "A", [4, 5])
    resolved, _ = player.play('{"op":"alloc_decode","reqs":["A"],"last_loc":[31]}', [6])
    assert resolved.call is not None
    assert (resolved.call.last_loc, resolved.last_births) == ([31], None)


def test_raw_allocations_without_last_loc_start_from_nothing(player: Player) -> None:
    resolved, _ = player.play('{"op":"alloc_extend","prefix_lens":[0,0],"seq_lens":[1,1]}', [4, 8])
    assert resolved.call is not None
    assert (resolved.call.last_loc, resolved.last_births) == ([-1, -1], None)


@pytest.mark.parametrize(
    ("target", "slots", "positions"),
    [
        ('"start":1,"end":3', [5, 6], (1, 3)),
        ('"start":3', [7], (3, 4)),
        ('"end":1', [4], (0, 1)),
        ('"start":2,"end":2', [], (2, 2)),
        ("", [4, 5, 6, 7], (0, 4)),
    ],
)
def test_a_release_names_positions_half_open(
    player: Player, target: str, slots: list[int], positions: tuple[int, int]
) -> None:
    extend(player, "A", [4, 5, 6, 7])
    line = '{"op":"free_swa","req":"A",' + target + "}"
    resolved, changes = player.play(line.replace(",}", "}"))
    assert resolved == Resolved(
        Call(op="free_swa", indices=slots), ("A",), positions, [1] * len(slots)
    )
    assert changes == ()


def test_a_segment_starts_at_its_first_position_unless_told(player: Player) -> None:
    extend(player, "A", [4, 5, 6, 7])
    for line, start_pos in [
        ('{"op":"free_segment","req":"A","start":2}', 2),
        ('{"op":"free_swa_segment","req":"A"}', 0),
        ('{"op":"free_full_segment","req":"A","start":2,"start_pos":1}', 1),
        ('{"op":"free_segment","indices":[4]}', 0),
        ('{"op":"free_segment","indices":[4],"start_pos":3}', 3),
        ('{"op":"free_swa","req":"A","start":2}', 0),
    ]:
        call = player.play(line)[0].call
        assert call is not None
        assert call.start_pos == start_pos


def test_several_segments_become_one_call(player: Player) -> None:
    resolved, _ = player.play(
        '{"op":"free_segments","segments":[{"indices":[[4,6]],"start_pos":0},'
        '{"indices":[9],"start_pos":4}]}'
    )
    assert resolved.call == Call(op="free_segments", segments=[Segment([4, 5], 0), Segment([9], 4)])


def test_a_release_leaves_the_row_so_that_it_can_be_written_twice(player: Player) -> None:
    extend(player, "A", [4, 5, 6, 7])
    first = player.play('{"op":"free","req":"A","start":0,"end":2}')[0]
    second = player.play('{"op":"free","req":"A","start":0,"end":2}')[0]
    assert first.call == second.call == Call(op="free", indices=[4, 5])
    assert player.row("A") == ([4, 5, 6, 7], [1, 1, 1, 1], [0, 0, 1, 1])


def test_finish_frees_what_the_row_still_holds_and_forgets_it(player: Player) -> None:
    extend(player, "A", [4, 5, 6, 7, 8, 9])
    player.play('{"op":"free","req":"A","start":1,"end":2}')
    player.play('{"op":"free_full_segment","req":"A","start":3,"end":4}')
    player.play('{"op":"free_swa","req":"A"}')
    player.play('{"op":"clear_full_to_swa_mapping","req":"A"}')
    resolved, changes = player.play('{"op":"finish","req":"A"}')
    assert resolved == Resolved(Call(op="free", indices=[4, 6, 8, 9]), ("A",), (0, 6), [1] * 4)
    assert changes == (RowChange("A", 0, [4, 5, 6, 7, 8, 9], [1] * 6, forgotten=True),)
    assert player.resolver.rows == {}


def test_finish_of_an_untouched_row_frees_all_of_it(player: Player) -> None:
    extend(player, "A", [4, 5])
    assert player.play('{"op":"finish","req":"A"}')[0].call == Call(op="free", indices=[4, 5])


def test_a_name_can_be_used_again_after_finish(player: Player) -> None:
    extend(player, "A", [4, 5])
    player.play('{"op":"finish","req":"A"}')
    extend(player, "A", [8])
    assert player.row("A") == ([8], [3], [1])


def test_share_copies_slots_with_their_births_and_both_rows_hold_them(player: Player) -> None:
    extend(player, "cache", [4, 5, 6, 7])
    player.play('{"op":"free","req":"cache","start":0,"end":1}')
    resolved, changes = player.play('{"op":"share","req":"B","from":"cache","end":3}')
    assert resolved == Resolved(None, ("B",), (0, 3))
    assert changes == (RowChange("B", 0, added_slots=[4, 5, 6]),)
    assert player.row("B") == ([4, 5, 6], [1, 1, 1], [1, 1, 1])
    player.play('{"op":"alloc_extend","reqs":["B"],"seq_lens":[4]}', [9])
    player.play('{"op":"finish","req":"cache"}')
    assert player.row("B") == ([4, 5, 6, 9], [1, 1, 1, 4], [1, 1, 1, 1])


def test_clear_forgets_every_row(player: Player) -> None:
    extend(player, "A", [4])
    extend(player, "B", [8])
    resolved, changes = player.play('{"op":"clear"}')
    assert resolved == Resolved(Call(op="clear"))
    assert [(change.req, change.forgotten) for change in changes] == [("A", True), ("B", True)]
    assert player.resolver.rows == {}


@pytest.mark.parametrize("line", ['{"op":"mark","label":"m"}', '{"op":"expect","idle":true}'])
def test_marks_and_checks_call_nothing(player: Player, line: str) -> None:
    assert player.play(line) == (Resolved(None), ())


def test_other_operations_become_calls_of_their_own_name(player: Player) -> None:
    for line, call in [
        ('{"op":"free_group_begin"}', Call(op="free_group_begin")),
        ('{"op":"free_group_end"}', Call(op="free_group_end")),
        ('{"op":"backup_state","slot":"s"}', Call(op="backup_state", slot="s")),
        ('{"op":"restore_state","slot":"s"}', Call(op="restore_state", slot="s")),
        (
            '{"op":"set_full_to_swa_mapping","full":[[4,6]],"swa":[9,8]}',
            Call(op="set_full_to_swa_mapping", full=[4, 5], swa=[9, 8]),
        ),
    ]:
        assert player.play(line)[0] == Resolved(call)


def test_expected_targets_are_slots_or_row_ranges(player: Player) -> None:
    extend(player, "A", [4, 5, 6])
    assert player.resolver.slots_of([9, (1, 3)]) == [9, 1, 2]
    assert player.resolver.slots_of(RowRange("A", start=1)) == [5, 6]
    with pytest.raises(RowError, match="end is 4, beyond row 'A', which holds 3 tokens"):
        player.resolver.slots_of(RowRange("A", end=4))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"op":"free","req":"B"}',
            "free: request 'B' was never allocated (rows at this point: 'A')",
        ),
        ('{"op":"finish","req":"B"}', "finish: request 'B' was never allocated"),
        ('{"op":"alloc_decode","reqs":["B"]}', "alloc_decode: request 'B' was never allocated"),
        ('{"op":"share","req":"A","from":"B"}', "share: request 'B' was never allocated"),
        (
            '{"op":"alloc_extend","reqs":["B"],"prefix_lens":[1],"seq_lens":[2]}',
            "alloc_extend: request 'B' was never allocated",
        ),
        (
            '{"op":"free","req":"A","end":5}',
            "free: end is 5, beyond row 'A', which holds 4 tokens",
        ),
        (
            '{"op":"free","req":"A","start":5}',
            "free: start is 5, beyond row 'A', which holds 4 tokens",
        ),
        (
            '{"op":"alloc_extend","reqs":["A"],"prefix_lens":[5],"seq_lens":[6]}',
            "alloc_extend: the prefix of 5 tokens is beyond row 'A', which holds 4 tokens",
        ),
        (
            '{"op":"alloc_decode","reqs":["A"],"seq_lens":[6]}',
            "alloc_decode: the prefix of 5 tokens is beyond row 'A', which holds 4 tokens",
        ),
        (
            '{"op":"alloc_extend","reqs":["A"],"seq_lens":[3]}',
            "alloc_extend: seq_len 3 of request 'A' is less than its prefix of 4 tokens",
        ),
        (
            '{"op":"alloc_extend_swa_tail","req":"A","seq_len":3,"swa_tail_len":0}',
            "alloc_extend_swa_tail: seq_len 3 of request 'A' is less than its prefix of 4 tokens",
        ),
        (
            '{"op":"restore_state","slot":"s"}',
            "restore_state: no state was saved as 's' (saved: none)",
        ),
    ],
)
def test_an_impossible_reference_is_an_error_that_names_the_line(
    player: Player, line: str, message: str
) -> None:
    extend(player, "A", [4, 5, 6, 7])
    before = player.row("A")
    with pytest.raises(TraceError) as caught:
        player.resolve(line)
    assert str(caught.value).startswith(f"t.jsonl:3: error: {message}")
    assert player.row("A") == before


def test_a_row_that_is_over_says_since_when(player: Player) -> None:
    extend(player, "A", [4])
    player.play('{"op":"finish","req":"A"}')
    with pytest.raises(RowError, match="request 'A' is over since event 2"):
        player.resolve('{"op":"free","req":"A"}')


def test_an_error_that_follows_from_a_refusal_says_so(player: Player) -> None:
    player.play('{"op":"alloc_extend","reqs":["A"],"seq_lens":[4]}', None)
    with pytest.raises(RowError, match="the allocation for it at event 1 was refused") as caught:
        player.resolve('{"op":"free","req":"A"}')
    assert caught.value.refused_event == 1


def test_what_was_shared_from_a_refused_request_follows_from_the_refusal_too(
    player: Player,
) -> None:
    player.play('{"op":"alloc_extend","reqs":["A"],"seq_lens":[4]}', None)
    with pytest.raises(RowError):
        player.resolve('{"op":"share","req":"cache","from":"A"}')
    with pytest.raises(RowError, match="request 'cache' was never allocated") as caught:
        player.resolve('{"op":"free","req":"cache"}')
    assert caught.value.refused_event == 1


def test_names_may_be_numbers_and_a_number_is_no_string(player: Player) -> None:
    player.play('{"op":"alloc_extend","reqs":[7,"7"],"seq_lens":[1,1]}', [4, 8])
    assert player.play('{"op":"free","req":7}')[0].call == Call(op="free", indices=[4])
    assert player.play('{"op":"free","req":"7"}')[0].call == Call(op="free", indices=[8])


def test_an_allocator_that_returns_too_few_slots_leaves_short_rows(player: Player) -> None:
    player.play('{"op":"alloc_extend","reqs":["A","B"],"seq_lens":[3,2]}', [4, 5, 6, 7])
    assert (player.row("A")[0], player.row("B")[0]) == ([4, 5, 6], [7])
