"""What to run after a triage: how to get the trace that names the page, the call and the owner."""

from __future__ import annotations

from collections.abc import Sequence

from swasim.triage.report import Fault, PageGuess, Step, Unread

_LAUNCH = "python -m sglang.launch_server …"


def next_steps(
    faults: Sequence[Fault], page: PageGuess, unread: Unread | None = None
) -> tuple[Step, ...]:
    """Commands in the order in which they help; empty where the log shows nothing."""
    if not faults and unread is None:
        return ()
    steps = [
        Step(
            f"SWASIM_RECORD=traces/ {_LAUNCH}",
            "records every allocator call of every rank; the log says that, the trace says which",
        ),
        Step(f"swasim record -- {_LAUNCH}", "the same, as one command"),
        Step("swasim replay TRACE --expect-idle", "the first event at which the accounts part"),
        Step(
            f"SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY=1 {_LAUNCH}",
            "checks each busy iteration, so that the server stops near the cause",
        ),
    ]
    kinds = {family.kind for fault in faults for family in fault.families}
    if kinds & {"double-free", "page-aliased", "use-after-free"}:
        steps.append(
            Step(
                f"SGLANG_CHECK_KV_PAGE_INVARIANTS=1 {_LAUNCH}",
                "with the busy check: repeats in free lists, rows that name free pages",
            )
        )
    if page.size_tokens != 1 and not any(fault.pool == "swa" for fault in faults):
        steps.append(
            Step(
                f"SGLANG_DEBUG_MEMORY_POOL=1 {_LAUNCH}",
                "duplicate and alignment checks; silent for page size 1 and hybrid SWA",
            )
        )
    if kinds & {"use-after-free", "mapping-overwritten", "page-aliased", "stale-mapping"}:
        steps.append(
            Step(f"{_LAUNCH} --kv-canary log", "names slots that were overwritten, with position")
        )
    if any(fault.shape == "retraction" for fault in faults):
        steps.append(
            Step(f"SGLANG_TEST_RETRACT=1 {_LAUNCH}", "forces retractions, to provoke the loss soon")
        )
    kind = next((family.kind for fault in faults for family in fault.families), "")
    if kind:
        steps.append(Step(f"swasim explain {kind}", "what that family means, with a small trace"))
    return tuple(steps)
