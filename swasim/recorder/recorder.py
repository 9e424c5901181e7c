"""The recorder: wraps one allocator object and writes what is asked of it.

While the server waits, a call costs the copies of its index tensors and one append; the
`Journal` behind turns them into lines. Whatever goes wrong here ends the recording with one log
line and never reaches the server.
"""

from __future__ import annotations

import atexit
import functools
import time
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, get_args

import torch

from swasim.errors import UsageError
from swasim.recorder import MappingCheck, forks
from swasim.recorder import mapping as mapping_writes
from swasim.recorder.calls import (
    Arguments,
    Method,
    set_mapping,
)
from swasim.recorder.intercept import Interceptor, pools_of
from swasim.recorder.journal import Journal, NewState, WaitingCall
from swasim.recorder.site import Sites, source_of
from swasim.recorder.snapshot import take
from swasim.recorder.special import Backups
from swasim.recorder.tensors import keep, marker
from swasim.trace.events import TRACE_VERSION, Header


class Recording:
    """A recording in progress; `swasim.record` makes them.

    Attributes:
        path: the trace.
        calls: calls recorded so far.
    """

    def __init__(
        self,
        allocator: Any,
        path: str,
        *,
        max_bytes: int | None,
        ring: int | None,
        check_mapping: MappingCheck | None,
        force: bool,
        note: str | None,
    ) -> None:
        """Wrap `allocator`; arguments and errors are those of `swasim.record`."""
        _require_recordable(allocator, path, max_bytes, ring, check_mapping)
        self.path = path
        self.calls = 0
        self._allocator = allocator
        self._note = None if note is None else str(note)
        self._ring = ring
        self._calls_in_part = 0
        self._device_type = allocator.full_to_swa_index_mapping.device.type
        self._sites = Sites(allocator, *(pool for _, pool in pools_of(allocator)))
        self._group_open = False
        self._state_wanted = ""
        self._check = check_mapping or _default_check(allocator)
        self._seen: torch.Tensor | None = None
        self._start = time.perf_counter()
        self._journal = Journal(
            path, self._header(), ring=ring is not None, max_bytes=max_bytes, force=force
        )
        watch_writes = self._check == "write"
        self._interceptor = Interceptor(allocator, self, watch_writes=watch_writes)
        self._journal.on_end = self._interceptor.undo
        self._journal.add(self._state(fresh=True))
        self._journal.start()
        forks.ACTIVE.add(self)
        atexit.register(_detach_weakly, weakref.ref(self))

    @property
    def stopped(self) -> str | None:
        """Why the recording ended ("detached", a full disk, max_bytes); None while it goes on."""
        return self._journal.ended

    def flush(self) -> None:
        """Write everything that is waiting, and wait for the device where copies are under way.

        The ring's file at `path` is then the last calls up to now.
        """
        if self.stopped is None and not self._interceptor.nested:
            self._compare_mapping()
        self._journal.drain()

    def detach(self) -> None:
        """Write what is waiting, put the allocator back as it was, and close the file."""
        self.flush()
        self._interceptor.undo()
        self._journal.close()
        forks.ACTIVE.discard(self)

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.detach()

    def is_recording(self, allocator: Any) -> bool:
        """Whether this recording is of that very object."""
        return self._allocator is allocator

    def before_fork(self) -> None:
        """Let the writer finish its batch, so that the child inherits no half-written line."""
        self._journal.lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._journal.lock.release()

    def after_fork_in_child(self) -> None:
        """Stop here: two processes must not write one file. The parent goes on."""
        self._interceptor.undo()
        self._journal.abandon("the process forked; only the parent is recorded")

    # ── what the interceptor tells ──────────────────────────────────────────────────────────

    @property
    def listening(self) -> bool:
        """Whether calls are recorded."""
        return self._journal.ended is None

    def on_call(
        self, name: str, original: Callable[..., Any], method: Method, arguments: Arguments
    ) -> Any:
        """Record one call, and make it."""
        site = self._guarded(self._sites.caller, 3) or ""
        if self._seen is not None:
            self._guarded(self._compare_mapping)
        t = self._now()
        kept = self._guarded(method.keep, arguments)
        try:
            result = self._interceptor.run(original, arguments)
        except BaseException as error:
            self._guarded(self._append, method, kept, t, site, type(error).__name__, None, name)
            raise
        self._guarded(self._append, method, kept, t, site, None, result, name)
        return result

    def on_wordless(self, label: str) -> None:
        """Write the state anew, at once or when the free group ends."""
        self._guarded(self._want_state, label)

    def on_direct_write(self, key: Any, write: Callable[[], object]) -> None:
        """Record an assignment to the mapping as the operation that would have done it."""
        write()
        caller = self._guarded(self._sites.caller, 4)
        self._guarded(self._append_write, key, f"{mapping_writes.SITE} ({caller})")

    def _append(
        self,
        method: Method,
        kept: Any,
        t: float,
        site: str,
        raised: str | None,
        result: Any,
        name: str,
    ) -> None:
        returned = (keep(result),) if method.returns and raised is None else None
        if method.after is not None and raised is None:
            kept = method.after(kept, result)
        self.calls += 1
        mark = marker(self._device_type)
        self._journal.add(WaitingCall(method.build, kept, t, site, raised, returned, mark))
        if self._check == "call":
            self._seen = self._allocator.full_to_swa_index_mapping.clone()
        if kept is Backups.UNKNOWN:
            self._state_wanted = "restore_state of a state that this file does not have"
        self._between_calls(name)

    def _between_calls(self, name: str) -> None:
        if name == "free_group_begin":
            self._group_open = True
        elif name in ("free_group_end", "clear"):
            self._group_open = False
        self._calls_in_part += 1
        if self._group_open:
            return
        if self._state_wanted:
            label, self._state_wanted = self._state_wanted, ""
            self._journal.add(self._state(label=label))
        elif self._ring is not None and (
            self._calls_in_part >= self._ring or self._journal.crowded
        ):
            self._journal.add(self._state(restart=True))

    def _want_state(self, label: str) -> None:
        if label == "resize":
            self._group_open = False
            self._journal.add(self._state(other_header=self._header()))
            return
        self._state_wanted = label
        self._between_calls("")

    def _state(
        self,
        *,
        label: str = "",
        fresh: bool = False,
        restart: bool = False,
        other_header: Header | None = None,
    ) -> NewState:
        """The state as it is now; names of backups do not outlive a new beginning."""
        self._interceptor.backups.forget()
        self._calls_in_part = 0
        snapshot = take(self._allocator)
        if self._check == "call":
            self._seen = self._allocator.full_to_swa_index_mapping.clone()
        mark = marker(self._device_type)
        return NewState(snapshot, self._now(), mark, label, fresh, restart, other_header)

    # ── writes that bypass the methods ──────────────────────────────────────────────────────

    def _append_write(self, key: Any, site: str) -> None:
        mapping = self._allocator.full_to_swa_index_mapping
        self._add_write(mapping_writes.written(mapping, key), mapping.numel(), site)

    def _compare_mapping(self) -> None:
        if self._seen is None:
            return
        mapping = self._allocator.full_to_swa_index_mapping
        changed = mapping_writes.differing(mapping, self._seen)
        if changed is not None:
            self._seen = mapping.clone()
            self._add_write(changed, mapping.numel(), mapping_writes.SITE)

    def _add_write(self, changed: tuple[Any, Any], entries: int, site: str) -> None:
        build = functools.partial(set_mapping, entries)
        mark = marker(self._device_type)
        self.calls += 1
        self._journal.add(WaitingCall(build, changed, self._now(), site, None, None, mark))

    # ── odds and ends ───────────────────────────────────────────────────────────────────────

    def _now(self) -> float:
        return round(time.perf_counter() - self._start, 6)

    def _guarded(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run our own part; a defect here must not reach the server."""
        if self.stopped is not None:
            return None
        try:
            return function(*args)
        except Exception as error:
            self._journal.end(f"the recorder failed: {type(error).__name__}: {error}")
            return None

    def _header(self) -> Header:
        pair = self._allocator
        return Header(
            swasim_trace=TRACE_VERSION,
            page_size=int(pair.page_size),
            kv_size=int(pair.full_attn_allocator.size),
            kv_size_swa=int(pair.swa_attn_allocator.size),
            need_sort=bool(getattr(pair.full_attn_allocator, "need_sort", True)),
            source=source_of(type(pair)),
            note=self._note,
        )


def _detach_weakly(reference: weakref.ref[Recording]) -> None:
    recording = reference()
    if recording is not None:
        recording.detach()


def _default_check(allocator: Any) -> MappingCheck:
    """SGLang's callers stopped writing the tensor with the release that got this method."""
    own = mapping_writes.ATTRIBUTE in vars(allocator)
    return "write" if own and not hasattr(allocator, "clear_full_to_swa_mapping") else "never"


def _in_free_group(allocator: Any) -> bool:
    """The flag has had two names; from 0.5.20 on the list itself says it by not being None."""
    if hasattr(allocator, "is_not_in_free_group"):
        return not allocator.is_not_in_free_group
    if hasattr(allocator, "in_free_group"):
        return bool(allocator.in_free_group)
    return getattr(allocator, "free_group", None) is not None


def _require_recordable(
    allocator: Any,
    path: str,
    max_bytes: int | None,
    ring: int | None,
    check_mapping: MappingCheck | None,
) -> None:
    name = type(allocator).__qualname__
    needed = ("full_attn_allocator", "swa_attn_allocator", "full_to_swa_index_mapping")
    missing = [attribute for attribute in needed if not hasattr(allocator, attribute)]
    if missing:
        raise UsageError(f"{name} is no pair of full and SWA pools: it has no {missing[0]}")
    if allocator.full_attn_allocator is allocator.swa_attn_allocator:
        raise UsageError(f"{name} has one pool for both sides; a trace needs two")
    lists = ("free_pages", "size")
    if not all(hasattr(pool, item) for _, pool in pools_of(allocator) for item in lists):
        raise UsageError(f"{name} keeps no free lists of pages in its pools; it cannot be recorded")
    if getattr(allocator, "swa_req_ring", False):
        raise UsageError(f"{name} runs in its per-request ring mode, where no SWA page is lent")
    if _in_free_group(allocator):
        raise UsageError(f"{name} has a free group open; attach between two groups")
    if any(recording.is_recording(allocator) for recording in forks.ACTIVE):
        raise UsageError(f"this {name} is being recorded already")
    if path.endswith((".gz", ".zst")):
        raise UsageError(f"{path}: record without compression, so that a cut file can be read")
    if check_mapping == "write" and mapping_writes.ATTRIBUTE not in vars(allocator):
        raise UsageError(f"{name} computes its mapping attribute; use check_mapping='call'")
    if check_mapping not in (None, *get_args(MappingCheck)):
        accepted = ", ".join(get_args(MappingCheck))
        raise UsageError(f"check_mapping is {check_mapping!r}; accepted are {accepted}")
    for option, value in (("max_bytes", max_bytes), ("ring", ring)):
        if value is not None and (type(value) is not int or value < 1):
            raise UsageError(f"{option} is {value!r}; accepted is a whole number from 1 on")
