"""What the pair holds, and what changes it without taking or returning a page."""

from __future__ import annotations

from typing import NamedTuple, Self

from swasim.allocator.core.mapping import CoreMapping
from swasim.allocator.core.pools import CorePool, PagedPool, PoolLists, TokenPool
from swasim.allocator.driver import list_difference, unknown_backup
from swasim.allocator.profile import Profile
from swasim.call import AllocatorState
from swasim.geometry import Geometry


class _Backup(NamedTuple):
    full: PoolLists
    swa: PoolLists


class PairState:
    """Two pools, the table between them, and what an open free group has queued.

    Args:
        name: registry name, for reports.
        profile: the release.
        geometry: sizes of the pools.
        need_sort: freed pages are staged and merged in order when an allocation runs short.
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
            profile.paged,
            self.page_size,
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

    def state(self) -> AllocatorState:
        """Everything the pair holds, as plain values."""
        return AllocatorState(
            full_free=self.full_attn_allocator.free_pages.tolist(),
            swa_free=self.swa_attn_allocator.free_pages.tolist(),
            full_staged=self.full_attn_allocator.staged_pages.tolist(),
            swa_staged=self.swa_attn_allocator.staged_pages.tolist(),
            mapping=self.mapping.entries.tolist(),
        )

    def clone(self) -> Self:
        """A pair in the same state, open group and saved states included, that shares nothing."""
        twin = object.__new__(type(self))
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
            self.mapping.entries.tobytes(),
            self.in_group,
            *(tuple(getattr(self, queue)) for queue in _QUEUES),
            tuple(sorted(self.backups.items())),
        )

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

    def _require_backup(self, method: str) -> None:
        if self.profile.backup == "unsupported":
            raise NotImplementedError(method)

    def _pair(self, slots: list[int] | None, peers: list[int] | None) -> list[int]:
        if slots is None or peers is None:
            raise AssertionError("a pool refused pages that it said it had")
        self.mapping.write(slots, peers)
        return slots


_QUEUES = ("queue", "swa_slot_queue", "swa_page_queue", "swa_queue", "full_queue")


def _replace_lists(pool: CorePool, lists: PoolLists) -> None:
    before = [page for part in pool.lists() for page in part]
    pool.replace_lists(lists)
    taken, returned = list_difference(before, [page for part in lists for page in part])
    pool.taken += taken
    pool.returned += returned
