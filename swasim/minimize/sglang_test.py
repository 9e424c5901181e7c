"""A minimized trace as a unit test of SGLang's own allocator.

What the test expects after every call is what the ideal allocator gives on the same calls: how
much is available in each pool, and which tokens of each request have an SWA peer. So it fails on a
release that has the fault and passes on one that has not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from swasim.call import Call
from swasim.errors import UsageError
from swasim.geometry import NO_LOC, UNMAPPED
from swasim.minimize.draft import items_of
from swasim.minimize.export import trace_lines
from swasim.replayer import Replayer, Step
from swasim.trace import events as ev
from swasim.trace.events import Entry, ReqName, op_of

if TYPE_CHECKING:
    from swasim.minimize.engine import Minimized

_HEAD = '''"""{title}

Found and shrunk by swasim. What is expected is what an allocator without the fault gives.
The trace:

{trace}
"""

import unittest
from unittest.mock import MagicMock

import torch

from sglang.srt.mem_cache.base_swa_memory_pool import BaseSWAKVPool

try:
    from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
except ImportError:  # up to 0.5.13
    from sglang.srt.mem_cache.swa_memory_pool import SWATokenToKVPoolAllocator

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def make_allocator():
    kvcache = MagicMock(spec=BaseSWAKVPool)
    kvcache.swa_req_ring_size = None
    kvcache.register_mapping.side_effect = lambda mapping: setattr(
        kvcache, "full_to_swa_index_mapping", mapping
    )
    kvcache.translate_loc_from_full_to_swa.side_effect = (
        lambda loc: kvcache.full_to_swa_index_mapping[loc]
    )
    return SWATokenToKVPoolAllocator(
        size={kv_size},
        size_swa={kv_size_swa},
        page_size={page_size},
        dtype=torch.bfloat16,
        device=DEVICE,
        kvcache=kvcache,
        need_sort={need_sort},
    )


def on_device(values):
    return torch.tensor(values, dtype=torch.int64, device=DEVICE)

{helpers}
class {cls}(unittest.TestCase):
    def test_{name}(self):
        allocator = make_allocator()

        def mapped(row):
            return [int(slot != 0) for slot in allocator.full_to_swa_index_mapping[row].tolist()]

        def available():
            return allocator.full_available_size(), allocator.swa_available_size()

'''

_EXTEND = """
def extend(allocator, prefix_lens, seq_lens, last_loc):
    return allocator.alloc_extend(
        prefix_lens=on_device(prefix_lens),
        prefix_lens_cpu=torch.tensor(prefix_lens, dtype=torch.int64),
        seq_lens=on_device(seq_lens),
        seq_lens_cpu=torch.tensor(seq_lens, dtype=torch.int64),
        last_loc=on_device(last_loc),
        extend_num_tokens=sum(seq_lens) - sum(prefix_lens),
    )

"""
_TAIL = """
def extend_swa_tail(allocator, prefix_len, seq_len, last_loc, swa_tail_len):
    return allocator.alloc_extend_swa_tail(
        prefix_lens=on_device([prefix_len]),
        prefix_lens_cpu=torch.tensor([prefix_len], dtype=torch.int64),
        seq_lens=on_device([seq_len]),
        seq_lens_cpu=torch.tensor([seq_len], dtype=torch.int64),
        last_loc=on_device([last_loc]),
        extend_num_tokens=seq_len - prefix_len,
        swa_tail_len=swa_tail_len,
    )

"""
_DECODE = """
def decode(allocator, seq_lens, last_loc):
    return allocator.alloc_decode(
        seq_lens=on_device(seq_lens),
        seq_lens_cpu=torch.tensor(seq_lens, dtype=torch.int64),
        last_loc=on_device(last_loc),
    )

"""
_HELPERS = {
    "alloc_extend": _EXTEND,
    "alloc_extend_swa_tail": _TAIL,
    "alloc_decode": _DECODE,
}

_SHOWN_TOKENS = 64
"""Longer rows are compared by their first tokens only."""


def as_sglang_test(result: Minimized) -> str:
    """A `unittest` file for SGLang's repository.

    Raises:
        UsageError: the ideal allocator shows the finding too, or no finding was kept: there is
            nothing that a correct allocator would do otherwise.
    """
    finding = result.finding
    if finding is None:
        raise UsageError("--export sglang-test needs a finding; --test keeps none")
    if result.by_caller:
        raise UsageError(
            f"--export sglang-test: the {finding.kind} is the caller's fault, a correct allocator"
            " shows it too; --export pytest keeps it as a test of swasim"
        )
    config = result.config
    ops = dict.fromkeys(op_of(event) for event in result.events)
    kind = finding.kind
    head = _HEAD.format(
        title=f"{kind}: {finding.headline}.".replace('"""', "'''"),
        trace="\n".join(f"    {line}" for line in trace_lines(result)).replace("\\", "\\\\"),
        kv_size=config.kv_size,
        kv_size_swa=config.kv_size_swa,
        page_size=config.page_size,
        need_sort=config.need_sort,
        helpers="".join(_HELPERS[op] for op in ops if op in _HELPERS),
        cls="TestSWA" + kind.title().replace("-", ""),
        name=kind.replace("-", "_"),
    )
    return head + "\n".join(_Body(result).lines()).rstrip() + _FOOT


_FOOT = """


if __name__ == "__main__":
    unittest.main()
"""
_INDENT = " " * 8


class _Body:
    """The statements of the test: each call, and what holds after it."""

    def __init__(self, result: Minimized) -> None:
        self._events = result.events
        self._replayer = Replayer(
            replace(result.config, allocator="ideal", engine="core", device="cpu")
        )
        self._names: dict[ReqName, str] = {}
        self._mapped: dict[str, list[int]] = {}

    def lines(self) -> Iterator[str]:
        for number, event in enumerate(self._events, 1):
            if isinstance(event, ev.ExpectOnly | ev.Mark):
                continue
            before = {req: len(row) for req, row in self._replayer.resolver.rows.items()}
            step = self._replayer.step(Entry(number, number, event))
            for line in (*self._statements(event, step, before), *self._asserts(step)):
                yield _INDENT + line if line else ""
            yield ""

    def _row(self, req: ReqName) -> str:
        return self._names.setdefault(req, f"row_{_plain(req, len(self._names))}")

    def _statements(
        self, event: ev.AnyEvent, step: Step, before: dict[ReqName, int]
    ) -> Iterator[str]:
        call = step.call
        if isinstance(event, ev.Share):
            target, source = self._row(event.req), self._row(event.from_)
            start, end = step.resolved.positions or (0, 0)
            piece = f"{source}[{start}:{end}]"
            known = event.req in before
            yield f"{target} = torch.cat(({target}, {piece}))" if known else f"{target} = {piece}"
            return
        assert call is not None
        raised = step.effect.raised if step.effect is not None else None
        if isinstance(event, ev.Allocation):
            yield f"out = {self._allocation(event, call)}"
            if step.effect is None or step.effect.out is None:
                yield "self.assertIsNone(out)"
            else:
                yield from self._taken(event, call, before)
            return
        line = self._other(event, call, step)
        if raised is not None:
            yield f"with self.assertRaises({raised}):"
            line = f"    {line}"
        yield line

    def _allocation(self, event: ev.Allocation, call: Call) -> str:
        if isinstance(event, ev.Alloc):
            owner = "allocator" if call.pool is None else f"allocator.{call.pool}_attn_allocator"
            return f"{owner}.alloc({call.need_size})"
        last = f"[{', '.join(self._last(event, call))}]"
        if isinstance(event, ev.AllocExtendSwaTail):
            return (
                f"extend_swa_tail(allocator, {call.prefix_lens[0]}, {call.seq_lens[0]}, "
                f"{last[1:-1]}, {call.swa_tail_len})"
            )
        if isinstance(event, ev.AllocDecode):
            return f"decode(allocator, {call.seq_lens}, {last})"
        return f"extend(allocator, {call.prefix_lens}, {call.seq_lens}, {last})"

    def _last(self, event: Any, call: Call) -> Iterator[str]:
        reqs = [req for req, _, _ in items_of(_explicit(event, call))]
        prefix_lens = call.prefix_lens or [n - 1 for n in call.seq_lens]
        for req, prefix_len, slot in zip(reqs, prefix_lens, call.last_loc, strict=True):
            if slot == NO_LOC or req is None or event.last_loc is not None:
                yield str(slot)
            else:
                yield f"{self._row(req)}[{prefix_len - 1}].item()"

    def _taken(self, event: Any, call: Call, before: dict[ReqName, int]) -> Iterator[str]:
        yield "self.assertIsNotNone(out)"
        at = 0
        for req, prefix_len, seq_len in items_of(_explicit(event, call)):
            count = seq_len - prefix_len
            if req is not None:
                row = self._row(req)
                kept = before.get(req, 0) if prefix_len < 0 else prefix_len
                piece = f"out[{at}:{at + count}]"
                yield (
                    f"{row} = torch.cat(({row}[:{kept}], {piece}))" if kept else f"{row} = {piece}"
                )
            at += count

    def _other(self, event: ev.AnyEvent, call: Call, step: Step) -> str:
        owner = "allocator" if call.pool is None else f"allocator.{call.pool}_attn_allocator"
        if isinstance(event, ev.SetFullToSwaMapping):
            return (
                f"allocator.full_to_swa_index_mapping[on_device({call.full})] = "
                f"on_device({call.swa})"
            )
        slots = self._slots(event, call, step)
        if isinstance(event, ev.ClearFullToSwaMapping):
            return f"allocator.full_to_swa_index_mapping[{slots}] = 0"
        if isinstance(event, ev.SegmentRelease):
            return f"{owner}.{call.op}({slots}, start_pos={call.start_pos})"
        if isinstance(event, ev.Release | ev.Finish):
            return f"{owner}.{call.op}({slots})"
        if isinstance(event, ev.FreeSegments | ev.FreeFullSegments):
            pieces = ", ".join(
                f"(on_device({piece.indices}), {piece.start_pos})" for piece in call.segments
            )
            return f"allocator.{call.op}([{pieces}])"
        if isinstance(event, ev.BackupState):
            return f"saved_{_plain(event.slot, 0)} = allocator.backup_state()"
        if isinstance(event, ev.RestoreState):
            return f"allocator.restore_state(saved_{_plain(event.slot, 0)})"
        return f"allocator.{call.op}()"

    def _slots(self, event: Any, call: Call, step: Step) -> str:
        req = getattr(event, "req", None)
        if req is None or isinstance(event, ev.Finish):
            # What a request still holds at its end is known here, not to the test.
            return f"on_device({call.indices})"
        start, end = step.resolved.positions or (0, 0)
        row = self._row(req)
        whole = (start, end) == (0, len(self._replayer.resolver.rows[req]))
        return row if whole else f"{row}[{start}:{end}]"

    def _asserts(self, step: Step) -> Iterator[str]:
        if step.effect is None:
            return
        yield f"self.assertEqual(available(), ({step.full_available}, {step.swa_available}))"
        mapping = self._replayer.allocator.state().mapping
        for req, row in self._replayer.resolver.rows.items():
            name = self._row(req)
            slots = row.slots[:_SHOWN_TOKENS]
            mapped = [int(mapping[slot] != UNMAPPED) for slot in slots]
            if self._mapped.get(name) != mapped:
                cut = "" if len(slots) == len(row) else f"[:{_SHOWN_TOKENS}]"
                yield f"self.assertEqual(mapped({name}{cut}), {mapped})"
                self._mapped[name] = mapped


def _explicit(event: Any, call: Call) -> ev.AnyEvent:
    """The allocation with its lengths, as the replay resolved them."""
    if isinstance(event, ev.Alloc):
        return event
    if isinstance(event, ev.AllocExtendSwaTail):
        return ev.AllocExtendSwaTail(
            req=event.req,
            prefix_len=call.prefix_lens[0],
            seq_len=call.seq_lens[0],
            swa_tail_len=call.swa_tail_len,
        )
    if isinstance(event, ev.AllocDecode):
        return ev.AllocDecode(reqs=event.reqs, seq_lens=call.seq_lens)
    assert isinstance(event, ev.AllocExtend), event
    return ev.AllocExtend(reqs=event.reqs, prefix_lens=call.prefix_lens, seq_lens=call.seq_lens)


def _plain(name: ReqName, at: int) -> str:
    """A name that Python takes."""
    text = str(name).lower()
    return text if text.isidentifier() and text.isascii() else f"{at}"
