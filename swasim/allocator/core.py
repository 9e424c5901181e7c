"""The fast engine: the pair of pools in plain integers, without torch.

Every method mirrors the one of SGLang's SWATokenToKVPoolAllocator of the same name and changes
state in the same order, so that what an exception leaves behind is the same too. Where releases
differ, a field of the `Profile` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from swasim.allocator.driver import (
    UPSTREAM_ERRORS,
    list_difference,
    note_exception,
    require_operation,
    unknown_backup,
)
from swasim.allocator.mapping import CoreMapping
from swasim.allocator.pools import (
    CorePool,
    PagedPool,
    PoolLists,
    TokenPool,
    decode_pages,
    new_pages,
    page_disjoint,
    require_aligned,
)
from swasim.allocator.profile import Profile
from swasim.call import AllocatorState, Call, Effect, Segment
from swasim.geometry import NO_LOC, Geometry

Segments = list[tuple[list[int], int]]


class _Backup(NamedTuple):
    full: PoolLists
    swa: PoolLists


class CorePair:
    """A full and an SWA pool that answer calls as one release of SGLang does.

    Args:
        name: registry name, for reports.
        profile: the release.
        geometry: sizes of the pools.
        need_sort: freed pages are staged and merged in order when an allocation runs short.

    Mirrors: sglang SWATokenToKVPoolAllocator.
    """

    def __init__(self, name: str, profile: Profile, geometry: Geometry, need_sort: bool) -> None:
        self.name = name
        self.profile = profile
        self.geometry = geometry
        self.page_size = geometry.page_size
        pool: type[PagedPool] | type[TokenPool] = PagedPool if self.page_size > 1 else TokenPool
        self.full_attn_allocator: CorePool = pool(
            geometry.kv_size, self.page_size, need_sort, profile
        )
        self.swa_attn_allocator: CorePool = pool(
            geometry.kv_size_swa, self.page_size, need_sort, profile
        )
        self.mapping = CoreMapping(
            profile.mapping_slots(geometry.kv_size, geometry.kv_size_swa, self.page_size),
            trailing=profile.paged,
        )
        self.least_mapped = self.page_size if profile.padding == "page" else 1
        self.backups: dict[str, _Backup] = {}
        self.in_group = False
        self._empty_queues()

    def _empty_queues(self) -> None:
        self.queue: list[int] = []
        """Slots that free() left for the end of the group."""
        self.swa_slot_queue: list[int] = []
        """Full slots whose peers free_swa() will look up at the end."""
        self.swa_page_queue: list[int] = []
        """SWA pages that segment forms have looked up already."""
        self.swa_queue: list[int] = []
        """SWA slots that free_swa() has looked up already, unmapped ones among them."""
        self.full_queue: list[int] = []
        """Slots that free_full() left for the end, where the pair keeps them itself."""

    def perform(self, call: Call) -> Effect:
        """Answer one call; see `swasim.allocator.base.Allocator`.

        Raises:
            UsageError: the profile has no such method.
        """
        require_operation(self.profile, call)
        effect = Effect()
        full, swa = self.full_attn_allocator, self.swa_attn_allocator
        full.taken, full.returned = effect.full_taken, effect.full_returned
        swa.taken, swa.returned = effect.swa_taken, effect.swa_returned
        self.mapping.effect = effect
        try:
            effect.out = _ANSWERS[call.op](self, call)
        except UPSTREAM_ERRORS as error:
            note_exception(effect, error)
        effect.full_available, effect.swa_available = full.available_size(), swa.available_size()
        return effect

    def state(self) -> AllocatorState:
        """Everything the pair holds, as plain values."""
        return AllocatorState(
            full_free=list(self.full_attn_allocator.free_pages),
            swa_free=list(self.swa_attn_allocator.free_pages),
            full_staged=list(self.full_attn_allocator.staged_pages),
            swa_staged=list(self.swa_attn_allocator.staged_pages),
            mapping=self.mapping.entries.copy(),
        )

    def clone(self) -> CorePair:
        """A pair in the same state, open group and saved states included, that shares nothing."""
        twin = object.__new__(CorePair)
        twin.__dict__.update(self.__dict__)
        twin.full_attn_allocator = self.full_attn_allocator.clone()
        twin.swa_attn_allocator = self.swa_attn_allocator.clone()
        twin.mapping = self.mapping.clone()
        twin.backups = self.backups.copy()
        for queue in _QUEUES:
            setattr(twin, queue, list(getattr(self, queue)))
        return twin

    def key(self) -> tuple[object, ...]:
        """Hashable; two pairs of one profile with equal keys answer every call alike."""
        return (
            self.full_attn_allocator.key(),
            self.swa_attn_allocator.key(),
            tuple(self.mapping.entries),
            self.in_group,
            *(tuple(getattr(self, queue)) for queue in _QUEUES),
            tuple(sorted(self.backups.items())),
        )

    def alloc(self, need_size: int) -> list[int] | None:
        """Slots in both pools, paired; None where one is short.

        Raises:
            AssertionError: the pools have pages.
        """
        if self.page_size != 1:
            raise AssertionError("alloc() is for page size 1")
        full, swa = self.full_attn_allocator, self.swa_attn_allocator
        if need_size > full.available_size() or need_size > swa.available_size():
            return None
        return self._pair(full.alloc(need_size), swa.alloc(need_size))

    def alloc_extend(
        self, prefix_lens: list[int], seq_lens: list[int], last_loc: list[int]
    ) -> list[int] | None:
        """Grow each request to `seq_lens` tokens in both pools; None where one is short.

        Raises:
            NotImplementedError: a release without pages.
            AssertionError: page size 1.
            IndexError: a `last_loc` outside the table, or a slot behind it.
        """
        self._require_pages("alloc_extend")
        tokens = _extend_tokens(prefix_lens, seq_lens)
        count = new_pages(prefix_lens, seq_lens, self.page_size)
        if self.profile.extend_check == "coarse":
            most = tokens + len(seq_lens) * self.page_size
            if most > self.full_attn_allocator.available_size():
                return None
            if most > self.swa_attn_allocator.available_size():
                return None
        elif self.profile.extend_check == "exact" and not self._has_pages(count, count):
            return None
        swa_last_loc = self.mapping.read(last_loc)
        return self._pair(
            self.full_attn_allocator.alloc_extend(prefix_lens, seq_lens, last_loc, tokens, count),
            self.swa_attn_allocator.alloc_extend(
                prefix_lens, seq_lens, swa_last_loc, tokens, count
            ),
        )

    def alloc_extend_swa_tail(
        self,
        prefix_lens: list[int],
        seq_lens: list[int],
        last_loc: list[int],
        swa_tail_len: int,
    ) -> list[int] | None:
        """Full slots for the whole extend, SWA slots for its last `swa_tail_len` tokens.

        Raises:
            AssertionError: page size 1, more than one request, or a tail that does not fit.
        """
        self._require_pages("alloc_extend_swa_tail")
        if len(seq_lens) != 1:
            raise AssertionError("the tail allocation takes one request")
        tokens = _extend_tokens(prefix_lens, seq_lens)
        if not 0 <= swa_tail_len <= tokens:
            raise AssertionError(f"an SWA tail of {swa_tail_len} tokens in an extend of {tokens}")
        full_pages = new_pages(prefix_lens, seq_lens, self.page_size)
        swa_pages = -(-swa_tail_len // self.page_size)
        if not self._has_pages(full_pages, swa_pages):
            return None
        slots = self.full_attn_allocator.alloc_extend(
            prefix_lens, seq_lens, last_loc, tokens, full_pages
        )
        if slots is None:
            raise AssertionError("the full pool refused pages that it said it had")
        head, tail = slots[: tokens - swa_tail_len], slots[tokens - swa_tail_len :]
        if tail:
            peers = self.swa_attn_allocator.alloc_extend(
                [0], [swa_tail_len], [NO_LOC], swa_tail_len, swa_pages
            )
            self._pair(tail, peers)
        if self.profile.tail_clears == "always" or (
            self.profile.tail_clears == "nonempty" and tail
        ):
            self.mapping.clear(head)
        return slots

    def alloc_decode(self, seq_lens: list[int], last_loc: list[int]) -> list[int] | None:
        """One slot for each request in both pools.

        None where a pool is short; unless both are asked first, the other keeps what it took.
        """
        self._require_pages("alloc_decode")
        swa_last_loc = self.mapping.read(last_loc)
        if self.profile.decode_check == "joint":
            count = decode_pages(seq_lens, self.page_size)
            if not self._has_pages(count, count):
                return None
        slots = self.full_attn_allocator.alloc_decode(seq_lens, last_loc)
        peers = self.swa_attn_allocator.alloc_decode(seq_lens, swa_last_loc)
        if slots is None or peers is None:
            return None
        return self._pair(slots, peers)

    def free(self, slots: list[int]) -> None:
        """Return full pages and their SWA peers.

        Raises:
            AssertionError: more is available than there is; the state has changed.
            IndexError: a slot outside the table.
        """
        if not slots:
            return
        queued = self.in_group and self.profile.free_queue == "slots"
        if queued:
            self.queue += slots
        if self.profile.free_order == "swa_first":
            if not queued:
                self.free_swa(slots)
                self.free_full(slots)
            return
        if not queued:
            self.full_attn_allocator.free(slots)
            self.free_swa(slots)
        self.full_attn_allocator.check_available("full")
        self.swa_attn_allocator.check_available("swa")

    def free_swa(self, slots: list[int]) -> None:
        """Return the SWA peers of slots and unmap the slots."""
        if not slots:
            return
        if self.in_group and self.profile.free_swa_queue == "slots":
            self.swa_slot_queue += slots
            return
        if self.page_size == 1 and self.profile.segments == "pages":
            self._free_swa_pages(slots, self.profile.filter_page_size_1)
            return
        whole = self.page_size > 1 and self.profile.free_swa_unit == "pages"
        named = slots
        if whole:
            named = self._slots_of(sorted({slot // self.page_size for slot in slots}))
        peers = self.mapping.read(named)
        self.mapping.clear(named)
        if self.in_group and self.profile.free_swa_queue == "resolved":
            self.swa_queue += peers
            return
        self._release_swa(peers)

    def free_swa_segment(self, slots: list[int], start_pos: int) -> None:
        """`free_swa` of a piece of a row, one slot standing for its page.

        Raises:
            AssertionError: `start_pos` lies inside a page, or the SWA pool is overfull.
        """
        if not slots:
            return
        require_aligned(start_pos, self.page_size)
        if self.profile.segment_peer == "any":
            self.free_swa(slots)
        else:
            self._free_swa_pages(slots, self.profile.filter_segments)

    def free_full(self, slots: list[int]) -> None:
        """Return full pages whose SWA peers are gone."""
        if not slots:
            return
        self._before_free_full(slots)
        if self.in_group and not self.profile.group_full_pool:
            self.full_queue += slots
        else:
            self.full_attn_allocator.free(slots)
        self.full_attn_allocator.check_available("full")

    def free_segment(self, slots: list[int], start_pos: int) -> None:
        """`free` of a piece of a row."""
        if self.profile.segments == "whole":
            self.free(slots)
        elif slots:
            self.free_swa_segment(slots, start_pos)
            self.full_attn_allocator.free_segment(slots, start_pos)

    def free_full_segment(self, slots: list[int], start_pos: int) -> None:
        """`free_full` of a piece of a row."""
        if slots:
            self._before_free_full(slots)
            self.full_attn_allocator.free_segment(slots, start_pos)

    def free_segments(self, segments: Segments) -> None:
        """`free_segment` of several pieces of one row."""
        for slots, start_pos in page_disjoint(segments, self.page_size, self.profile):
            self.free_segment(slots, start_pos)

    def free_full_segments(self, segments: Segments) -> None:
        """`free_full_segment` of several pieces of one row."""
        for slots, start_pos in page_disjoint(segments, self.page_size, self.profile):
            self.free_full_segment(slots, start_pos)

    def free_group_begin(self) -> None:
        """Let releases wait for `free_group_end`.

        Raises:
            AssertionError: a group is open, in releases that refuse to nest.
        """
        if self.in_group and self.profile.nested_begin == "asserts":
            raise AssertionError("free groups cannot be nested")
        self.in_group = True
        self._empty_queues()
        if self.profile.group_full_pool:
            self.full_attn_allocator.free_group_begin()

    def free_group_end(self) -> None:
        """Carry out what waited, in the order of the releases: free, SWA side, full side."""
        self.in_group = False
        pending = self.queue
        if not self.profile.end_keeps_queue:
            self.queue = []
        self.free(pending)
        pending, self.swa_slot_queue = self.swa_slot_queue, []
        self.free_swa(pending)
        pending, self.swa_page_queue = self.swa_page_queue, []
        self.swa_attn_allocator.free_page_ids(pending)
        if self.swa_queue:
            pending, self.swa_queue = self.swa_queue, []
            self._release_swa(pending)
        pending, self.full_queue = self.full_queue, []
        self.free_full(pending)
        if self.profile.group_full_pool:
            self.full_attn_allocator.free_group_end()
        if self.profile.swa_checks:
            self.full_attn_allocator.check_available("full")
            self.swa_attn_allocator.check_available("swa")

    def set_full_to_swa_mapping(self, full: list[int], swa: list[int]) -> None:
        """Point full slots at SWA slots.

        Raises:
            AssertionError: lists of unequal length.
            IndexError: a full slot outside the table; those before it have been written.
        """
        if full and len(full) != len(swa):
            raise AssertionError(f"{len(full)} full slots and {len(swa)} SWA slots")
        self.mapping.write(full, swa)

    def backup_state(self, slot: str) -> None:
        """Save the four page lists under a name; the mapping is not saved.

        Raises:
            NotImplementedError: releases whose pair did not have it yet.
        """
        self._require_backup("backup_state")
        self.backups[slot] = _Backup(
            self.full_attn_allocator.lists(), self.swa_attn_allocator.lists()
        )

    def restore_state(self, slot: str) -> None:
        """Bring four page lists back.

        Raises:
            NotImplementedError: as `backup_state`.
            UsageError: nothing was saved under this name.
        """
        self._require_backup("restore_state")
        if slot not in self.backups:
            raise unknown_backup(slot, self.backups)
        saved = self.backups[slot]
        _replace_lists(self.full_attn_allocator, saved.full)
        _replace_lists(self.swa_attn_allocator, saved.swa)

    def clear(self) -> None:
        """Empty pools and table, nothing queued; an open group is closed (see the profile)."""
        self.swa_attn_allocator.clear()
        self.full_attn_allocator.clear()
        self.mapping.reset()
        self._empty_queues()
        if self.profile.clear_ends_group:
            self.in_group = False

    def _require_pages(self, method: str) -> None:
        if not self.profile.paged:
            raise NotImplementedError(f"{method} is only for paged allocator")
        if self.page_size == 1:
            raise AssertionError(f"{method} is for page sizes above 1")

    def _require_backup(self, method: str) -> None:
        if self.profile.backup == "unsupported":
            raise NotImplementedError(method)

    def _has_pages(self, full_pages: int, swa_pages: int) -> bool:
        return (
            full_pages <= self.full_attn_allocator.available_pages()
            and swa_pages <= self.swa_attn_allocator.available_pages()
        )

    def _pair(self, slots: list[int] | None, peers: list[int] | None) -> list[int]:
        if slots is None or peers is None:
            raise AssertionError("a pool refused pages that it said it had")
        self.mapping.write(slots, peers)
        return slots

    def _slots_of(self, pages: Iterable[int]) -> list[int]:
        page_size = self.page_size
        return [slot for page in pages for slot in range(page * page_size, (page + 1) * page_size)]

    def _free_swa_pages(self, slots: list[int], skips_unmapped: bool) -> None:
        page_size = self.page_size
        leads = slots[::page_size]
        peers = self.mapping.read(leads)
        self.mapping.clear(self._slots_of(lead // page_size for lead in leads))
        if skips_unmapped:
            peers = [peer for peer in peers if peer >= self.least_mapped]
        pages = [peer // page_size for peer in peers]
        if self.in_group:
            self.swa_page_queue += pages
            return
        self.swa_attn_allocator.free_page_ids(pages)
        self.swa_attn_allocator.check_available("swa")

    def _release_swa(self, peers: list[int]) -> None:
        self.swa_attn_allocator.free([peer for peer in peers if peer >= self.least_mapped])
        if self.profile.swa_checks:
            self.swa_attn_allocator.check_available("swa")

    def _before_free_full(self, slots: list[int]) -> None:
        if self.profile.free_full_reads:
            self.mapping.read(slots)
        if self.profile.free_full_peers == "releases":
            self.free_swa(slots)


_QUEUES = ("queue", "swa_slot_queue", "swa_page_queue", "swa_queue", "full_queue")


def _extend_tokens(prefix_lens: list[int], seq_lens: list[int]) -> int:
    for prefix_len, seq_len in zip(prefix_lens, seq_lens, strict=True):
        if seq_len < prefix_len:
            raise RuntimeError(f"a request of {seq_len} tokens is shorter than its {prefix_len}")
    return sum(seq_lens) - sum(prefix_lens)


def _replace_lists(pool: CorePool, lists: PoolLists) -> None:
    before = [page for part in pool.lists() for page in part]
    pool.replace_lists(lists)
    taken, returned = list_difference(before, [page for part in lists for page in part])
    pool.taken += taken
    pool.returned += returned


def _target(pair: CorePair, call: Call) -> CorePair | CorePool:
    if call.pool is None:
        return pair
    return pair.full_attn_allocator if call.pool == "full" else pair.swa_attn_allocator


def _pieces(segments: list[Segment]) -> Segments:
    return [(segment.indices, segment.start_pos) for segment in segments]


_ANSWERS: Mapping[str, Callable[[CorePair, Call], list[int] | None]] = {
    "alloc": lambda pair, call: _target(pair, call).alloc(call.need_size),
    "alloc_extend": lambda pair, call: pair.alloc_extend(
        call.prefix_lens, call.seq_lens, call.last_loc
    ),
    "alloc_decode": lambda pair, call: pair.alloc_decode(call.seq_lens, call.last_loc),
    "alloc_extend_swa_tail": lambda pair, call: pair.alloc_extend_swa_tail(
        call.prefix_lens, call.seq_lens, call.last_loc, call.swa_tail_len
    ),
    "free": lambda pair, call: _target(pair, call).free(call.indices),
    "free_swa": lambda pair, call: pair.free_swa(call.indices),
    "free_full": lambda pair, call: _target(pair, call).free_full(call.indices),
    "free_segment": lambda pair, call: _target(pair, call).free_segment(
        call.indices, call.start_pos
    ),
    "free_swa_segment": lambda pair, call: pair.free_swa_segment(call.indices, call.start_pos),
    "free_full_segment": lambda pair, call: _target(pair, call).free_full_segment(
        call.indices, call.start_pos
    ),
    "free_segments": lambda pair, call: pair.free_segments(_pieces(call.segments)),
    "free_full_segments": lambda pair, call: pair.free_full_segments(_pieces(call.segments)),
    "free_group_begin": lambda pair, _: pair.free_group_begin(),
    "free_group_end": lambda pair, _: pair.free_group_end(),
    "set_full_to_swa_mapping": lambda pair, call: pair.set_full_to_swa_mapping(call.full, call.swa),
    "clear_full_to_swa_mapping": lambda pair, call: pair.mapping.clear(call.indices),
    "backup_state": lambda pair, call: pair.backup_state(call.slot),
    "restore_state": lambda pair, call: pair.restore_state(call.slot),
    "clear": lambda pair, _: pair.clear(),
}
