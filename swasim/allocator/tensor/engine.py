"""Calls on the torch pair, and what they changed: the `Allocator` that a replay drives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from swasim.allocator.driver import (
    UPSTREAM_ERRORS,
    list_difference,
    note_exception,
    require_operation,
    unknown_backup,
)
from swasim.allocator.tensor.base import PagePool, PoolState, Segments
from swasim.allocator.tensor.tape import Tape
from swasim.call import AllocatorState, Call, Effect
from swasim.geometry import Geometry

if TYPE_CHECKING:
    from swasim.allocator.tensor.swa import SWATokenToKVPoolAllocator


class TensorEngine:
    """A torch pair that answers calls.

    Attributes:
        name: registry name.
        geometry: sizes of the pools.
        pair: the allocator itself.
        waits_to_be_read: one `perform_all` is cheaper than many `perform`: the values of tensors
            have to be waited for.
    """

    def __init__(
        self, name: str, geometry: Geometry, pair: SWATokenToKVPoolAllocator, tape: Tape
    ) -> None:
        self.name = name
        self.geometry = geometry
        self.pair = pair
        self._tape = tape
        self._backups: dict[str, list[PoolState]] = {}
        self._methods: Mapping[str, Callable[[Call], torch.Tensor | None]] = {
            "alloc": self._alloc,
            "alloc_extend": self._alloc_extend,
            "alloc_decode": self._alloc_decode,
            "alloc_extend_swa_tail": self._alloc_extend_swa_tail,
            "free": self._release,
            "free_swa": self._release,
            "free_full": self._release,
            "clear_full_to_swa_mapping": self._release,
            "free_segment": self._release_segment,
            "free_swa_segment": self._release_segment,
            "free_full_segment": self._release_segment,
            "free_segments": self._release_segments,
            "free_full_segments": self._release_segments,
            "free_group_begin": self._plain,
            "free_group_end": self._plain,
            "clear": self._plain,
            "set_full_to_swa_mapping": self._set_mapping,
            "backup_state": self._backup,
            "restore_state": self._restore,
        }
        self.waits_to_be_read = pair.device.type != "cpu"
        if self.waits_to_be_read:
            pair.check_range = False

    def perform(self, call: Call) -> Effect:
        """Carry out one call and report what changed; see `swasim.allocator.base`.

        Raises:
            UsageError: the profile has no such method, or nothing was saved under that name.

        Cost: one transfer to the host for everything in the effect.
        """
        return self.perform_all([call])[0]

    def perform_all(self, calls: Sequence[Call]) -> list[Effect]:
        """Carry out calls of which none depends on what an earlier one of them returned.

        Raises:
            UsageError: as `perform`; where the profile lacks a method, nothing was carried out.

        Cost: one transfer to the host for everything in all effects. On a GPU the calls that
            have to wait for it besides are releases, whose pages are found on the device.
        """
        for call in calls:
            require_operation(self.pair.profile, call)
        try:
            return [self._carry_out(call) for call in calls]
        finally:
            self._tape.deliver(len(self.pair.full_to_swa_index_mapping))

    def _carry_out(self, call: Call) -> Effect:
        """One call; its effect lacks what the tape has to deliver."""
        if not self.pair.check_range and not self._stays_inside(call):
            self.pair.check_range = True
        effect = Effect()
        lists = self._lists() if call.op == "restore_state" else []
        out = None
        try:
            out = self._methods[call.op](call)
        except UPSTREAM_ERRORS as error:
            note_exception(effect, error)
        self._tape.end_call(effect, out)
        if lists:
            full, swa = zip(lists, self._lists(), strict=True)
            effect.full_taken, effect.full_returned = list_difference(full[0], full[1])
            effect.swa_taken, effect.swa_returned = list_difference(swa[0], swa[1])
        effect.full_available = self.pair.full_available_size()
        effect.swa_available = self.pair.swa_available_size()
        return effect

    def state(self) -> AllocatorState:
        """Both lists of both pools and the mapping, as plain values."""
        full, swa = self.pair.full_attn_allocator, self.pair.swa_attn_allocator
        return AllocatorState(
            full_free=full.free_pages.tolist(),
            swa_free=swa.free_pages.tolist(),
            full_staged=full.release_pages.tolist(),
            swa_staged=swa.release_pages.tolist(),
            mapping=self.pair.full_to_swa_index_mapping.tolist(),
        )

    def _lists(self) -> list[list[int]]:
        """Free and staged pages of the full pool, then of the SWA pool."""
        pools = (self.pair.full_attn_allocator, self.pair.swa_attn_allocator)
        return [torch.cat((pool.free_pages, pool.release_pages)).tolist() for pool in pools]

    def _owner(self, call: Call) -> SWATokenToKVPoolAllocator | PagePool:
        if call.pool is None:
            return self.pair
        return (
            self.pair.full_attn_allocator if call.pool == "full" else self.pair.swa_attn_allocator
        )

    def _slots(self, values: list[int]) -> torch.Tensor:
        on_cpu = torch.tensor(values, dtype=torch.int64)
        return on_cpu.to(self.pair.device, non_blocking=True)

    def _batch(self, *rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """The same [rows, batch] int64 values on the CPU and on the device."""
        on_cpu = torch.tensor(rows, dtype=torch.int64)
        return on_cpu, on_cpu.to(self.pair.device, non_blocking=True)

    def _alloc(self, call: Call) -> torch.Tensor | None:
        return self._owner(call).alloc(call.need_size)

    def _alloc_extend(self, call: Call) -> torch.Tensor | None:
        cpu, device = self._batch(call.prefix_lens, call.seq_lens, call.last_loc)
        tokens = sum(call.seq_lens) - sum(call.prefix_lens)
        return self.pair.alloc_extend(device[0], cpu[0], device[1], cpu[1], device[2], tokens)

    def _alloc_extend_swa_tail(self, call: Call) -> torch.Tensor | None:
        cpu, device = self._batch(call.prefix_lens, call.seq_lens, call.last_loc)
        tokens = sum(call.seq_lens) - sum(call.prefix_lens)
        return self.pair.alloc_extend_swa_tail(
            device[0], cpu[0], device[1], cpu[1], device[2], tokens, call.swa_tail_len
        )

    def _alloc_decode(self, call: Call) -> torch.Tensor | None:
        cpu, device = self._batch(call.seq_lens, call.last_loc)
        return self.pair.alloc_decode(device[0], cpu[0], device[1])

    def _release(self, call: Call) -> None:
        getattr(self._owner(call), call.op)(self._slots(call.indices))

    def _release_segment(self, call: Call) -> None:
        method = getattr(self._owner(call), call.op)
        method(self._slots(call.indices), start_pos=call.start_pos)

    def _release_segments(self, call: Call) -> None:
        pieces: Segments = [(self._slots(s.indices), s.start_pos) for s in call.segments]
        getattr(self.pair, call.op)(pieces)

    def _plain(self, call: Call) -> None:
        getattr(self.pair, call.op)()

    def _set_mapping(self, call: Call) -> None:
        self.pair.set_full_to_swa_mapping(self._slots(call.full), self._slots(call.swa))

    def _backup(self, call: Call) -> None:
        self._backups[call.slot] = self.pair.backup_state()

    def _restore(self, call: Call) -> None:
        if call.slot not in self._backups and self.pair.profile.backup == "lists":
            raise unknown_backup(call.slot, self._backups)
        self.pair.restore_state(self._backups.get(call.slot, []))

    def _stays_inside(self, call: Call) -> bool:
        """Whether no full slot that this call can lead to lies outside the pool.

        As long as this holds for every call, nothing on the device has to be looked at before
        it is used as an index.
        """
        limit = self.geometry.slot_limit("full")
        return all(0 <= slot < limit for slot in self._full_slots(call))

    def _full_slots(self, call: Call) -> Iterator[int]:
        if call.pool != "swa":
            yield from call.indices
        for segment in call.segments:
            yield from segment.indices
        yield from call.full
        prefix_lens = call.prefix_lens or [length - 1 for length in call.seq_lens]
        for prefix_len, seq_len, last in zip(
            prefix_lens, call.seq_lens, call.last_loc, strict=False
        ):
            yield max(last, 0)
            rest = min(-prefix_len % self.geometry.page_size, seq_len - prefix_len)
            yield max(last, 0) + rest
