"""Record the calls of a live allocator as a trace that replays.

    with swasim.record(allocator, "run.jsonl"):
        ...

Nothing here imports torch until a recording begins.
"""

from __future__ import annotations

import os
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from swasim.recorder.recorder import Recording

__all__ = ["MappingCheck", "record"]

MappingCheck = Literal["never", "write", "call"]


def record(
    allocator: Any,
    path: str | PathLike[str],
    *,
    max_bytes: int | None = None,
    ring: int | None = None,
    check_mapping: MappingCheck | None = None,
    force: bool = False,
    note: str | None = None,
) -> Recording:
    """Record every call on `allocator` into the trace at `path`, until it is detached.

    The object is wrapped, not its class: other allocators of the process are left alone, and
    `Recording.detach` (or leaving the `with` block) puts it back as it was. Where the allocator
    is in use already, the trace begins with the calls that rebuild its state.

    Args:
        allocator: an object with `full_attn_allocator`, `swa_attn_allocator` and
            `full_to_swa_index_mapping`: SGLang's SWATokenToKVPoolAllocator of any release.
        path: the trace to write, `.jsonl`. Compressed suffixes are refused: a compressed file
            that is cut off cannot be read to the cut.
        max_bytes: stop recording before the file grows beyond this (with `ring`: keep fewer
            calls instead, so that the two files of the ring stay below it together).
        ring: keep at least the last `ring` calls, at most twice as many, behind the state that
            they began with. `path` is a whole trace at any moment; `path + ".next"` is the half
            that will take its place.
        check_mapping: how writes to the mapping tensor that bypass the allocator are seen.
            "write" intercepts item assignment on `allocator.full_to_swa_index_mapping`; "call"
            compares the whole tensor around every call, through whatever alias it was written,
            and synchronises the device; "never" does neither. Default: "write" for releases
            that have no `clear_full_to_swa_mapping` (before 0.5.19, where SGLang's own callers
            wrote the tensor), otherwise "never".
        force: overwrite an existing file.
        note: free text for the header.

    Raises:
        UsageError: the object is no pair of pools, it is recorded already, a free group is open,
            or the path cannot be written.
    """
    from swasim.recorder.recorder import Recording

    return Recording(
        allocator,
        os.fsdecode(path),
        max_bytes=max_bytes,
        ring=ring,
        check_mapping=check_mapping,
        force=force,
        note=note,
    )
