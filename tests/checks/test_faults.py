"""Every known fault is found by its kind on its own trace, and only on allocators that have it."""

from __future__ import annotations

import pytest

from swasim.allocator.registry import AllocatorInfo, known, profile
from swasim.bundled import trace_path
from swasim.run import replay

FAULTY = [info for info in known() if info.faulty]

WIDER = {
    # No tail is cleared at all.
    ("fault:26078", "fault:25805"),
    # free() is free_swa() too.
    ("fault:36646-late-lookup", "fault:36081"),
    # The release that PR 36646 repaired looked up late and lost the list of a nested group.
    ("fault:36646-late-lookup", "fault:36646"),
    ("fault:38159", "fault:36646"),
    ("fault:36646", "fault:38159"),
}
"""(fault, another that has it as well)."""


def errors_on(info: AllocatorInfo, allocator: str) -> list[str]:
    found = replay(trace_path(info.trace), allocator=allocator)
    return [finding.kind for finding in found.findings if finding.severity == "error"]


@pytest.mark.parametrize("info", FAULTY, ids=lambda info: info.name)
def test_a_fault_is_found_by_its_kind(info: AllocatorInfo) -> None:
    assert errors_on(info, info.name)[0] == info.finding


@pytest.mark.parametrize("info", FAULTY, ids=lambda info: info.name)
def test_the_ideal_allocator_has_only_what_the_caller_did(info: AllocatorInfo) -> None:
    errors = errors_on(info, "ideal")
    assert errors[:1] == ([info.finding] if info.by_caller else [])


@pytest.mark.parametrize(
    "info", [info for info in FAULTY if not info.by_caller], ids=lambda info: info.name
)
def test_other_variants_do_not_give_the_finding_on_its_trace(info: AllocatorInfo) -> None:
    for other in FAULTY:
        if other is info or not profile(other.name).operations >= profile(info.name).operations:
            continue
        if (info.name, other.name) in WIDER:
            continue
        assert info.finding not in errors_on(info, other.name), other.name
