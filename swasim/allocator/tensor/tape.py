"""What calls changed, kept on the device until somebody wants to read it.

The pools and the pair report each change in the moment it happens. Nothing is moved to the host
before `deliver`, which moves all of it at once, of one call or of many: on a GPU every transfer is
a synchronisation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from swasim.call import Effect
from swasim.geometry import UNMAPPED, Pool


@dataclass(slots=True)
class _MappingWrite:
    slots: torch.Tensor
    before: torch.Tensor
    after: torch.Tensor | None


@dataclass(slots=True)
class _Report:
    """The changes of one call, and the effect that waits for them."""

    pages: list[tuple[Pool, bool, torch.Tensor]] = field(default_factory=list)
    writes: list[_MappingWrite] = field(default_factory=list)
    effect: Effect | None = None
    out: torch.Tensor | None = None

    def parts(self) -> list[torch.Tensor]:
        """Everything that has to be moved, in the order of `fill`."""
        parts = [tensor for _, _, tensor in self.pages]
        for write in self.writes:
            parts += [write.slots, write.before]
            if write.after is not None:
                parts.append(write.after)
        if self.out is not None:
            parts.append(self.out)
        return parts

    def fill(self, effect: Effect, rows: Iterator[list[int]], mapping_len: int) -> None:
        """Take the values of `parts` over into the effect."""
        for pool, taken, _ in self.pages:
            _page_list(effect, pool, taken).extend(next(rows))
        for write in self.writes:
            slots, before = next(rows), next(rows)
            after = [UNMAPPED] * len(slots) if write.after is None else next(rows)
            _report_entries(effect, slots, before, after, mapping_len)
        if self.out is not None:
            effect.out = next(rows)


class Tape:
    """Changes in the order in which they happened, call by call."""

    def __init__(self) -> None:
        self._call = _Report()
        self._waiting: list[_Report] = []

    def taken(self, pool: Pool, pages: torch.Tensor) -> None:
        """Note pages that left the free list of `pool`.

        Args:
            pool: whose list.
            pages: [n] int64 on the pool's device, page ids. Must not be written to later.
        """
        self._call.pages.append((pool, True, pages))

    def returned(self, pool: Pool, pages: torch.Tensor) -> None:
        """Note pages that entered the free or staged list of `pool`; as in `taken`."""
        self._call.pages.append((pool, False, pages))

    def mapped(self, slots: torch.Tensor, before: torch.Tensor, after: torch.Tensor | None) -> None:
        """Note a write to the mapping, in order of writing.

        Args:
            slots: [n] int64, full slots.
            before: [n] int64, their entries before the write.
            after: [n] int64, their entries after it; None where all become `UNMAPPED`.
        """
        self._call.writes.append(_MappingWrite(slots, before, after))

    def end_call(self, effect: Effect, out: torch.Tensor | None) -> None:
        """The present call is over; `effect` and `out` wait for `deliver`.

        Args:
            effect: will receive pages, entries and `out`.
            out: [n] int64, slots returned; None where the call returned None. Must not be
                written to later.
        """
        self._call.effect, self._call.out = effect, out
        self._waiting.append(self._call)
        self._call = _Report()

    def deliver(self, mapping_len: int) -> None:
        """Fill the effects of all calls that are over, and forget their changes.

        Args:
            mapping_len: entries of the mapping; a negative slot counts from its end.

        State: empties the tape. One transfer to the host, however many calls.
        """
        waiting, self._waiting = self._waiting, []
        rows = iter(_to_host([part for report in waiting for part in report.parts()]))
        for report in waiting:
            if report.effect is not None:
                report.fill(report.effect, rows, mapping_len)


def _to_host(parts: list[torch.Tensor]) -> list[list[int]]:
    """The values of each part, with a single transfer for all of them."""
    if not parts:
        return []
    flat: list[int] = torch.cat(parts).tolist() if len(parts) > 1 else parts[0].tolist()
    rows: list[list[int]] = []
    start = 0
    for part in parts:
        end = start + part.numel()
        rows.append(flat[start:end])
        start = end
    return rows


def _page_list(effect: Effect, pool: Pool, taken: bool) -> list[int]:
    if pool == "full":
        return effect.full_taken if taken else effect.full_returned
    return effect.swa_taken if taken else effect.swa_returned


def _report_entries(
    effect: Effect, slots: list[int], before: list[int], after: list[int], mapping_len: int
) -> None:
    """Append the entries that changed. An entry written twice changes from its last value."""
    latest: dict[int, int] = {}
    for slot, old, new in zip(slots, before, after, strict=True):
        entry = slot if slot >= 0 else slot + mapping_len
        old = latest.get(entry, old)
        latest[entry] = new
        if old != new:
            effect.mapped_slots.append(entry)
            effect.mapped_from.append(old)
            effect.mapped_to.append(new)
