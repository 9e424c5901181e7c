"""What keeps two situations apart: a merged one would hide what only the other leads to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from swasim.config import SimConfig
from swasim.explore.key import digest
from swasim.explore.ledger import Ledger
from swasim.replayer import Replayer
from swasim.sanitizer.shadow import FreeGroup
from swasim.trace.events import Entry
from tests.support.events import event_of

LINES = (
    '{"op":"alloc_extend","reqs":["A"],"seq_lens":[4]}',
    '{"op":"free_group_begin"}',
    '{"op":"free","req":"A","start":0,"end":1}',
)
"""Of two pages with two tokens each, one slot waits in an open group."""

SLOT, OTHER_SLOT, PAGE, OTHER_PAGE = 2, 5, 1, 2
CONFIG = SimConfig(page_size=2, kv_size=8, kv_size_swa=8, allocator="ideal")


@pytest.fixture
def replayer() -> Replayer:
    result = Replayer(CONFIG)
    for number, line in enumerate(LINES, 1):
        assert result.step(Entry(number, number + 1, event_of(line))).findings == ()
    return result


def group_of(replayer: Replayer) -> FreeGroup:
    group = replayer.sanitizer.truth.group
    assert group is not None
    return group


def key(replayer: Replayer) -> bytes:
    return digest([replayer], Ledger(CONFIG.geometry), ["A"])


def test_a_copy_is_the_same_situation(replayer: Replayer) -> None:
    assert (SLOT in group_of(replayer).full_slots, PAGE in group_of(replayer).queued["full"]) == (
        True,
        True,
    )
    assert key(replayer.clone()) == key(replayer)


@pytest.mark.parametrize(
    "change",
    [
        lambda group: group.slots.add(OTHER_SLOT),
        lambda group: group.full_slots.add(OTHER_SLOT),
        lambda group: group.full_slots.remove(SLOT),
        lambda group: group.doubled.update({PAGE: None}),
        lambda group: group.peers.add(OTHER_PAGE),
        lambda group: group.overwritten.update({PAGE: None}),
        lambda group: group.queued["full"].update({OTHER_PAGE: [group.opened]}),
        lambda group: group.queued["full"][PAGE].append(group.opened),
        lambda group: group.queued["swa"].update({OTHER_PAGE: [group.opened]}),
    ],
    ids=[
        "a slot named",
        "a slot more whose full side waits",
        "a slot less whose full side waits",
        "a page of which a slot was released twice",
        "a peer that may come back",
        "a page whose last entry was rewritten",
        "a full page queued",
        "a full page queued twice",
        "an SWA page queued",
    ],
)
def test_what_an_open_group_knows_keeps_situations_apart(
    change: Callable[[FreeGroup], object], replayer: Replayer
) -> None:
    twin = replayer.clone()
    change(group_of(twin))
    assert key(twin) != key(replayer)


def test_a_closed_group_is_another_situation(replayer: Replayer) -> None:
    twin = replayer.clone()
    twin.step(Entry(4, 5, event_of('{"op":"free_group_end"}')))
    assert key(twin) != key(replayer)
