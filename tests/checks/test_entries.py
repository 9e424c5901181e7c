"""Entries in arrays must say what entries in dicts would, whatever is written."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable

import pytest

from swasim.geometry import Geometry
from swasim.sanitizer.entries import MappingTruth, page_of

EXTREMES = (-(2**63), -9, -8, -1, 10**9, 2**63 - 1)
"""Slots that no table has."""


class Plain:
    """The same in dicts; the order of full pages that point at a page is that of arrival."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.entries: dict[int, int] = {}
        self.pointing: dict[int, dict[int, int]] = {}

    def write(self, slot: int, peer: int) -> None:
        old, page = self.entries.pop(slot, 0), slot // self.size
        if old:
            pages = self.pointing[old // self.size]
            pages[page] -= 1
            if not pages[page]:
                del pages[page]
            if not pages:
                del self.pointing[old // self.size]
        if peer:
            self.entries[slot] = peer
            pages = self.pointing.setdefault(peer // self.size, {})
            pages[page] = pages.get(page, 0) + 1


def same(mapping: MappingTruth, plain: Plain, slots: list[int], pages: list[int]) -> None:
    assert mapping.mapped_slots() == sorted(plain.entries)
    assert mapping.read(slots) == [plain.entries.get(slot, 0) for slot in slots]
    for page in pages:
        pointing = plain.pointing.get(page, {})
        assert list(mapping.pointing_at(page).items()) == list(pointing.items())
        assert mapping.entries_to(page) == sum(pointing.values())
        assert mapping.owners(page) == set(pointing)
        assert mapping.slots_pointing_at(page) == sorted(
            slot for slot, peer in plain.entries.items() if peer // plain.size == page
        )
        mapped = {slot // plain.size for slot in plain.entries}
        assert mapping.is_mapped(page) == (page in mapped)


@pytest.mark.parametrize("again", [lambda m: m, MappingTruth.clone, lambda m: _pickled(m)])
@pytest.mark.parametrize("size", [1, 4])
def test_arrays_and_dicts_agree(size: int, again: Callable[[MappingTruth], MappingTruth]) -> None:
    rng = random.Random(size)
    for _ in range(20):
        mapping, plain = MappingTruth(Geometry(size, 12 * size, 6 * size)), Plain(size)
        slots = [*range(16 * size), *EXTREMES]
        peers = [*range(9 * size), -1, -size, 50 * size]
        pages = sorted({slot // size for slot in slots + peers})
        for _ in range(60):
            roll = rng.random()
            if roll < 0.6:
                slot, peer = rng.choice(slots), rng.choice(peers)
                mapping.write(slot, peer)
                plain.write(slot, peer)
            else:
                named = rng.sample(slots, rng.randint(0, 5))
                if roll < 0.8:
                    named = [slot for slot in named if not plain.entries.get(slot)]
                    values = [rng.randrange(1, 8 * size) for _ in named]
                    mapping.add(named, values)
                else:
                    named = [slot for slot in named if plain.entries.get(slot)]
                    mapping.remove(named, [plain.entries[slot] for slot in named])
                    values = [0] * len(named)
                for slot, value in zip(named, values, strict=True):
                    plain.write(slot, value)
            mapping = again(mapping)
            same(mapping, plain, slots, pages)


def _pickled(mapping: MappingTruth) -> MappingTruth:
    copy: MappingTruth = pickle.loads(pickle.dumps(mapping))
    return copy


@pytest.mark.parametrize("slot", [0, 3, 4, -1, -4, -5, 2**63 - 1, -(2**63)])
def test_pages_of_negative_slots_are_those_of_python(slot: int) -> None:
    assert page_of(slot, 4) == slot // 4


def test_a_copy_changes_on_its_own() -> None:
    mapping = MappingTruth(Geometry(4, 48, 24))
    mapping.write(4, 8)
    copy = mapping.clone()
    copy.write(5, 9)
    mapping.write(4, 0)
    assert (mapping.mapped_slots(), copy.mapped_slots()) == ([], [4, 5])
