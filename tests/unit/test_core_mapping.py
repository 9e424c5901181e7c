"""The mapping of the core engine, where it meets the edges of a 64-bit tensor."""

from __future__ import annotations

import pickle

import pytest

from swasim.allocator.core.mapping import CoreMapping
from swasim.call import Effect

MOST = (1 << 63) - 1


def table(*entries: int, page_size: int = 4) -> CoreMapping:
    made = CoreMapping(len(entries), trailing=False, page_size=page_size)
    made.write([*range(len(entries))], [*entries])
    made.effect = Effect()
    return made


def test_negative_slots_count_from_the_end_and_are_reported_from_the_front() -> None:
    mapping = table(0, 7, 8, 0)
    assert mapping.read([-1, -3]) == [0, 7]
    mapping.write([-1], [9])
    assert (mapping.entries.tolist(), mapping.effect.mapped_slots) == ([0, 7, 8, 9], [3])


@pytest.mark.parametrize("slot", [4, -5, 1 << 70])
def test_a_slot_outside_the_table_is_an_index_error_in_the_words_of_a_tensor(slot: int) -> None:
    mapping = table(0, 7, 8, 0)
    text = f"index {slot} is out of bounds for dimension 0 with size 4"
    with pytest.raises(IndexError, match=text):
        mapping.read([1, slot])
    with pytest.raises(IndexError, match=text):
        mapping.write([0, slot, 3], [5, 6, 7])
    assert mapping.entries.tolist() == [5, 7, 8, 0]


@pytest.mark.parametrize("slots", [[0, 1, 2], [2, 0, 1], [0, 1, 3]])
def test_a_value_beyond_64_bits_wraps_as_in_a_tensor(slots: list[int]) -> None:
    mapping = table(0, 0, 0, 0)
    mapping.write(slots, [MOST, MOST + 1, MOST + 2])
    assert mapping.read(slots) == [MOST, -MOST - 1, -MOST]
    assert mapping.effect.mapped_slots == slots
    assert mapping.effect.mapped_from == [0, 0, 0]
    assert mapping.effect.mapped_to == [MOST, -MOST - 1, -MOST]


@pytest.mark.parametrize(
    "slots",
    [
        [4, 5, 6, 7, 12, 13],
        [4, 5, 6, 7, 8, 9, 10],
        [6, 7, 12, 13, 4],
        [4, 5, 6, 8, 9],
        [12, 4, 5],
        [5],
    ],
    ids=["pages", "one run", "back to a page", "a gap", "one by one", "one slot"],
)
def test_fresh_entries_are_written_and_reported_in_order(slots: list[int]) -> None:
    mapping = table(*[0] * 16)
    values = [*range(100, 100 + len(slots))]
    mapping.write(slots, values)
    assert {slot: peer for slot, peer in enumerate(mapping.entries) if peer} == dict(
        zip(slots, values, strict=True)
    )
    effect = mapping.effect
    assert (effect.mapped_slots, effect.mapped_to) == (slots, values)
    assert effect.mapped_from == [0] * len(slots)


@pytest.mark.parametrize("slots", [[4, 5, 6, 5], [4, 5, 6, 7, 4, 5], [0, 4, 0]])
def test_of_two_writes_to_one_entry_the_later_stays_and_both_are_reported(slots: list[int]) -> None:
    mapping = table(*[0] * 8)
    values = [*range(100, 100 + len(slots))]
    mapping.write(slots, values)
    held = dict(zip(slots, values, strict=True))
    assert {slot: peer for slot, peer in enumerate(mapping.entries) if peer} == held
    assert (mapping.effect.mapped_slots, mapping.effect.mapped_to) == (slots, values)
    assert mapping.effect.mapped_from[-1] == values[slots.index(slots[-1])]


def test_a_reset_keeps_the_table_in_place_and_its_trailing_entry() -> None:
    mapping = CoreMapping(5, trailing=True, page_size=4)
    entries = mapping.entries
    mapping.write([1, 2], [7, 8])
    mapping.reset()
    assert mapping.entries is entries
    assert entries.tolist() == [0, 0, 0, 0, -1]


def test_a_copy_of_the_table_shares_nothing_and_goes_through_bytes() -> None:
    mapping = table(0, 7, 8, 0)
    twin, again = mapping.clone(), pickle.loads(pickle.dumps(mapping))
    mapping.clear([1])
    assert twin.entries.tolist() == again.entries.tolist() == [0, 7, 8, 0]
    assert twin.effect.mapped_slots == []
