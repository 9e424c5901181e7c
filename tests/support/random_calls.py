"""Random calls, sound and unsound ones, and two allocators compared after each."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from swasim.allocator.base import Allocator
from swasim.call import AllocatorState, Call, Effect, Segment
from swasim.config import SimConfig
from swasim.errors import UsageError
from swasim.geometry import Pool

Make = Callable[[], Allocator]


@dataclass(frozen=True)
class Answer:
    """What is compared after a call.

    Attributes:
        refused: the allocator has no such method.
        effect: as it was reported; `differences` leaves it out, since an effect that was derived
            from outside cannot know what came and went within one call.
    """

    refused: bool
    out: list[int] | None = None
    raised: str | None = None
    available: tuple[int, int] = (0, 0)
    state: AllocatorState | None = None
    effect: Effect | None = None

    def differences(self, other: Answer) -> str:
        """Each part that differs, both sides; "" when the answers are equal."""
        parts = []
        for name in ("refused", "out", "raised", "available"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                parts.append(f"{name}: {mine} / {theirs}")
        if self.state is not None and other.state is not None:
            for name in ("full_free", "full_staged", "swa_free", "swa_staged", "mapping"):
                mine, theirs = getattr(self.state, name), getattr(other.state, name)
                if mine != theirs:
                    parts.append(f"{name}: {mine} / {theirs}")
        return "\n".join(parts)


def answer(allocator: Allocator, call: Call) -> Answer:
    try:
        effect: Effect = allocator.perform(call)
    except UsageError:
        return Answer(refused=True, state=allocator.state())
    return Answer(
        refused=False,
        out=effect.out,
        raised=effect.raised,
        available=(effect.full_available, effect.swa_available),
        state=allocator.state(),
        effect=effect,
    )


def first_difference(left: Make, right: Make, calls: Sequence[Call]) -> tuple[int, str] | None:
    """Number of the first call after which two allocators differ, and in what."""
    a, b = left(), right()
    for number, call in enumerate(calls):
        text = answer(a, call).differences(answer(b, call))
        if text:
            return number, text
    return None


def shrink(left: Make, right: Make, calls: Sequence[Call]) -> list[Call]:
    """A subsequence that still ends in a difference, from which no single call can be left out."""
    found = first_difference(left, right, calls)
    assert found is not None
    kept = list(calls[: found[0] + 1])
    position = len(kept) - 2
    while position >= 0:
        shorter = kept[:position] + kept[position + 1 :]
        again = first_difference(left, right, shorter)
        if again is not None:
            kept = shorter[: again[0] + 1]
            position = min(position, len(kept) - 1)
        position -= 1
    return kept


class RandomCalls:
    """Calls as a scheduler makes them, with a share of calls that no scheduler should make.

    The generator follows what one allocator returns, so that later calls name slots that exist.

    Args:
        seed: of every choice.
        config: sizes of the pools.
        misuse: share of releases that name what they should not; drawn where it is not given.
    """

    def __init__(self, seed: int, config: SimConfig, misuse: float | None = None) -> None:
        self.random = random.Random(seed)
        self.config = config
        self.page = config.page_size
        self.limit = config.kv_size + config.page_size
        self.rows: list[list[int]] = []
        self.dead: list[int] = []
        self.saved = False
        self.misuse = self.random.choice([0.0, 0.1, 0.4]) if misuse is None else misuse

    def run(self, left: Make, right: Make, length: int) -> tuple[list[Call], str]:
        """Make `length` calls on both; the calls up to the first difference, and what differs."""
        a, b = left(), right()
        calls: list[Call] = []
        for _ in range(length):
            call = self.next()
            calls.append(call)
            got = answer(a, call)
            text = got.differences(answer(b, call))
            if text:
                return calls, text
            self.follow(call, got)
        return calls, ""

    def next(self) -> Call:
        """The next call."""
        roll = self.random.random()
        if roll < 0.4:
            return self.allocate()
        if roll < 0.85:
            return self.release()
        return self.random.choice(
            [self.group, self.group, self.mapping, self.pool_call, self.backup, self.rare]
        )()

    def allocate(self) -> Call:
        if self.page == 1 or self.random.random() < 0.03:
            return Call(op="alloc", need_size=self.random.randint(1, 6) * self.page)
        if self.rows and self.random.random() < 0.5:
            rows = self.random.sample(self.rows, min(len(self.rows), self.random.randint(1, 3)))
            rows = [row for row in rows if row]
            if rows:
                self.growing = rows
                return Call(
                    op="alloc_decode",
                    seq_lens=[len(row) + 1 for row in rows],
                    last_loc=[self.last(row) for row in rows],
                )
        batch: list[list[int]] = []
        for _ in range(self.random.randint(1, 2)):
            old = self.random.random() < 0.4 and bool(self.rows)
            row = self.random.choice(self.rows) if old else []
            if all(row is not other for other in batch):
                batch.append(row)
        prefix_lens = [len(row) for row in batch]
        seq_lens = [n + self.random.randint(1, 3 * self.page) for n in prefix_lens]
        last_loc = [self.last(row) for row in batch]
        self.growing = batch
        if self.random.random() < 0.25:
            grown = seq_lens[0] - prefix_lens[0]
            self.growing = batch[:1]
            return Call(
                op="alloc_extend_swa_tail",
                seq_lens=seq_lens[:1],
                prefix_lens=prefix_lens[:1],
                last_loc=last_loc[:1],
                swa_tail_len=self.random.randint(0, grown),
            )
        return Call(
            op="alloc_extend", seq_lens=seq_lens, prefix_lens=prefix_lens, last_loc=last_loc
        )

    def last(self, row: list[int]) -> int:
        if self.random.random() < self.misuse / 4:
            return self.random.randint(-1, self.limit - 1)
        return row[-1] if row else -1

    def release(self) -> Call:
        op = self.random.choice(
            [
                "free",
                "free",
                "free_swa",
                "free_swa",
                "free_full",
                "free_segment",
                "free_swa_segment",
                "free_full_segment",
                "free_segments",
                "free_full_segments",
            ]
        )
        indices, start = self.piece()
        if op in ("free", "free_swa", "free_full"):
            return Call(op=op, indices=indices)
        if op.endswith("segments"):
            cut = self.random.randint(0, len(indices))
            cut -= cut % self.page if self.random.random() > self.misuse else 0
            return Call(
                op=op,
                segments=[Segment(indices[:cut], start), Segment(indices[cut:], start + cut)],
            )
        return Call(op=op, indices=indices, start_pos=start)

    def piece(self) -> tuple[list[int], int]:
        """Slots to release, and the position of the first in its row."""
        if self.random.random() < self.misuse:
            return self.nonsense(), self.random.choice([0, self.page, 1])
        if not self.rows:
            return [], 0
        row = self.random.choice(self.rows)
        if not row or self.random.random() < 0.3:
            self.rows = [other for other in self.rows if other is not row]
            self.dead += row
            return row, 0
        start = self.random.randrange(0, len(row))
        if self.random.random() < 0.7:
            start -= start % self.page
        end = self.random.randint(start, len(row))
        return row[start:end], start

    def nonsense(self) -> list[int]:
        kind = self.random.randint(0, 5)
        count = self.random.randint(1, 4)
        if kind == 0 and self.dead:
            return self.random.choices(self.dead, k=count)
        if kind == 1:
            return [self.random.randrange(0, self.page)]
        if kind == 2:
            return [self.random.randint(self.limit - 1, self.limit + 2)]
        if kind == 4:
            return [-self.random.randint(1, self.page)]
        if kind == 3 and self.rows and self.rows[0]:
            return self.random.choices(self.rows[0], k=count)
        return [self.random.randrange(0, self.limit) for _ in range(count)]

    def group(self) -> Call:
        return Call(op=self.random.choice(["free_group_begin", "free_group_end"]))

    def mapping(self) -> Call:
        slots = self.random.sample(range(1, self.limit), self.random.randint(1, 3))
        if self.random.random() < 0.5:
            return Call(op="clear_full_to_swa_mapping", indices=slots)
        swa = [self.random.randrange(0, self.config.kv_size_swa + self.page) for _ in slots]
        return Call(op="set_full_to_swa_mapping", full=slots, swa=swa)

    def pool_call(self) -> Call:
        pool: Pool = self.random.choice(["full", "swa"])
        if self.random.random() < 0.5:
            return Call(op="alloc", pool=pool, need_size=self.random.randint(1, 3) * self.page)
        return Call(op="free", pool=pool, indices=self.piece()[0])

    def backup(self) -> Call:
        if self.saved and self.random.random() < 0.5:
            return Call(op="restore_state", slot="s")
        self.saved = True
        return Call(op="backup_state", slot="s")

    def rare(self) -> Call:
        if self.random.random() < 0.3:
            return Call(op="clear")
        return Call(op=self.random.choice(["free", "free_swa"]), indices=[])

    def follow(self, call: Call, got: Answer) -> None:
        """Keep the rows of the generator in step with what was returned."""
        if call.op == "clear":
            self.rows.clear()
        if got.refused and call.op == "backup_state":
            self.saved = False
        if got.out is None or call.pool is not None:
            return
        if call.op == "alloc":
            self.rows.append(list(got.out))
            return
        if not call.op.startswith("alloc_"):
            return
        grown = [1] * len(call.seq_lens)
        if call.op != "alloc_decode":
            grown = [s - p for s, p in zip(call.seq_lens, call.prefix_lens, strict=True)]
        taken = 0
        for row, count in zip(self.growing, grown, strict=True):
            row += got.out[taken : taken + count]
            taken += count
            if all(row is not other for other in self.rows):
                self.rows.append(row)
