"""Two allocators part where their lists do, not where one tells returns in another order."""

from __future__ import annotations

import pytest

from swasim.allocator.core import CorePair
from swasim.allocator.profile import IDEAL
from swasim.call import Call, Effect
from swasim.config import SimConfig
from swasim.lockstep import Lockstep
from swasim.trace import events as ev
from swasim.trace.events import Entry

EVENTS: tuple[ev.AnyEvent, ...] = (
    ev.AllocExtend(reqs=["A"], seq_lens=[4]),
    ev.FreeSwa(req="A"),
    ev.Finish(req="A"),
)


class Backwards(CorePair):
    """Tells the returned pages from last to first; `really`: its free list has them so too."""

    really = False

    def perform(self, call: Call) -> Effect:
        effect = super().perform(call)
        count = len(effect.full_returned)
        effect.full_returned.reverse()
        if self.really and count:
            pages = self.full_attn_allocator.free_pages
            pages.put_front(pages.take(count)[::-1])
        return effect


@pytest.mark.parametrize("really", [False, True])
def test_the_order_of_returned_pages_counts_where_the_lists_have_it(really: bool) -> None:
    config = SimConfig(page_size=2, kv_size=8, kv_size_swa=8, allocator="ideal")
    lockstep = Lockstep([config, config], "")
    second = Backwards("backwards", IDEAL, config.geometry, need_sort=False)
    second.really = really
    lockstep.replayers[1].allocator = second
    for number, event in enumerate(EVENTS, 1):
        lockstep.step(Entry(number, number + 1, event))
    parted = lockstep.first_divergence
    assert (parted is not None) == really
    assert parted is None or (parted.event, parted.what) == (3, "full_free")
