"""The tensor that sends full slots to SWA slots, with reads and writes that are reported."""

from __future__ import annotations

import torch

from swasim.allocator.tensor.tape import Tape
from swasim.geometry import NO_LOC, UNMAPPED

_SERIAL_SLOTS = 32768
"""Longest write that torch carries out in order on a CPU."""


class SlotMapping:
    """Entries of the mapping, one per full slot.

    Attributes:
        entries: [slots] int64 on the device; with `trailing`, the last one starts as -1, so that
            a `last_loc` of -1 reads -1.
        check_range: look for slots out of range before every access, at the cost of one
            synchronisation. On a CPU torch looks by itself, so there it is True and free.
    """

    def __init__(
        self, slots: int, trailing: bool, device: torch.device, tape: Tape | None = None
    ) -> None:
        self.entries = torch.zeros(slots, dtype=torch.int64, device=device)
        self.check_range = True
        self._trailing = trailing
        self._on_cpu = device.type == "cpu"
        self._tape = tape
        if trailing:
            self.entries[-1] = NO_LOC

    def clear(self) -> None:
        """Make every slot unmapped. A trailing entry stays as it is, whatever it holds by now."""
        (self.entries[:-1] if self._trailing else self.entries).fill_(UNMAPPED)

    def read(self, slots: torch.Tensor) -> torch.Tensor:
        """Entries of some slots.

        Args:
            slots: [n] int64 on the device; a negative one counts from the end.

        Returns:
            [n] int64. Fresh storage.

        Raises:
            IndexError: a slot lies outside the mapping.
        """
        if self.check_range and not self._on_cpu:
            place = self._first_outside(slots)
            if place < len(slots):
                raise IndexError(
                    f"index {int(slots[place])} is out of bounds for dimension 0"
                    f" with size {len(self.entries)}"
                )
        return self.entries[slots]

    def write(self, slots: torch.Tensor, values: torch.Tensor | None) -> None:
        """Set entries in order; where a slot is named twice the last value stays.

        Args:
            slots: [n] int64 on the device.
            values: [n] int64 on the device; None makes all of them unmapped.

        Raises:
            IndexError: a slot lies outside the mapping. The slots before it are written.
        """
        if slots.numel() == 0:
            return
        try:
            before = self.read(slots)
        except IndexError:
            place = self._first_outside(slots)
            self.write(slots[:place], None if values is None else values[:place])
            raise
        if self._tape is not None:
            self._tape.mapped(slots, before, values)
        if values is None:
            self.entries.index_fill_(0, slots, UNMAPPED)
        elif self._on_cpu and slots.numel() <= _SERIAL_SLOTS:
            self.entries[slots] = values
        else:
            slots, values = self._last_wins(slots, values)
            self.entries[slots] = values

    def _last_wins(
        self, slots: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The same write in an order that does not matter: equal slots get equal values."""
        slots, order = torch.sort(slots.remainder(len(self.entries)), stable=True)
        last = torch.searchsorted(slots, slots, right=True) - 1
        return slots, values[order][last]

    def _first_outside(self, slots: torch.Tensor) -> int:
        """Place of the first slot outside the mapping; len(slots) where there is none."""
        limit = len(self.entries)
        outside = torch.nonzero((slots < -limit) | (slots >= limit))
        return int(outside[0, 0]) if outside.numel() else len(slots)
