"""The pair of pools as a whole: what hands slots out, and which method answers which call."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from swasim.allocator.core.pools import CorePool, new_pages, page_starts
from swasim.allocator.core.release import ReleasingPair, Segments
from swasim.allocator.driver import UPSTREAM_ERRORS, note_exception, require_operation
from swasim.call import Call, Effect, Segment
from swasim.geometry import NO_LOC


class CorePair(ReleasingPair):
    """A full and an SWA pool that answer calls as one release of SGLang does.

    Every method mirrors the one of SGLang's SWATokenToKVPoolAllocator of the same name and
    changes state in the same order, so that what an exception leaves behind is the same too.
    Where releases differ, a field of the `Profile` decides.

    Mirrors: sglang SWATokenToKVPoolAllocator.
    """

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
        starts = page_starts(seq_lens, self.page_size)
        if self.profile.decode_check == "joint" and not self._has_pages(len(starts), len(starts)):
            return None
        slots = self.full_attn_allocator.alloc_next(starts, last_loc)
        peers = self.swa_attn_allocator.alloc_next(starts, swa_last_loc)
        if slots is None or peers is None:
            return None
        return self._pair(slots, peers)

    def _require_pages(self, method: str) -> None:
        if not self.profile.paged:
            raise NotImplementedError(f"{method} is only for paged allocator")
        if self.page_size == 1:
            raise AssertionError(f"{method} is for page sizes above 1")

    def _has_pages(self, full_pages: int, swa_pages: int) -> bool:
        return (
            full_pages <= self.full_attn_allocator.available_pages()
            and swa_pages <= self.swa_attn_allocator.available_pages()
        )


def _extend_tokens(prefix_lens: list[int], seq_lens: list[int]) -> int:
    for prefix_len, seq_len in zip(prefix_lens, seq_lens, strict=True):
        if seq_len < prefix_len:
            raise RuntimeError(f"a request of {seq_len} tokens is shorter than its {prefix_len}")
    return sum(seq_lens) - sum(prefix_lens)


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
