"""A pair of pools of the fast engine, with calls written short."""

from __future__ import annotations

from typing import Any

from swasim.allocator.core import CorePair
from swasim.allocator.registry import profile
from swasim.call import Call, Effect
from swasim.geometry import Geometry


class Pair:
    """A pair with calls written short; `effect` is that of the last one."""

    def __init__(
        self,
        name: str,
        page_size: int = 4,
        full: int = 16,
        swa: int = 16,
        need_sort: bool = False,
    ) -> None:
        self.core = CorePair(name, profile(name), Geometry(page_size, full, swa), need_sort)
        self.effect = Effect()

    def __call__(self, op: str, **fields: Any) -> list[int] | None:
        self.effect = self.core.perform(Call(op, **fields))
        return self.effect.out

    def extend(self, seq_len: int, prefix_len: int = 0, last: int = -1) -> list[int] | None:
        return self("alloc_extend", seq_lens=[seq_len], prefix_lens=[prefix_len], last_loc=[last])

    @property
    def free(self) -> tuple[list[int], list[int]]:
        state = self.core.state()
        return state.full_free, state.swa_free

    @property
    def mapped(self) -> dict[int, int]:
        mapping = self.core.state().mapping[:-1]
        return {slot: peer for slot, peer in enumerate(mapping) if peer}
