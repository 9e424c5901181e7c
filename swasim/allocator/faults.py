"""Known faults as data: the ideal allocator with one thing put back to how it once was.

A fault is a profile, so both engines have it at once. Each comes with the smallest trace that
shows it (`traces/faults/`), and no other allocator of ours gives that finding on that trace, unless
the fault is the caller's (`by_caller`): then every allocator gives it, and the profile is the
ideal one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from swasim.allocator.profile import IDEAL, Profile


@dataclass(frozen=True, slots=True)
class Fault:
    """One public fault.

    Attributes:
        profile: the allocator that has it; its name is the registry name, "fault:" and the number.
        link: where it was reported or repaired.
        finding: kind of the first error on its trace.
        summary: what goes wrong, one sentence.
        by_caller: the allocator does what it was told, and the caller was wrong.
        aliases: names by other reports of the same.
    """

    profile: Profile
    link: str
    finding: str
    summary: str
    by_caller: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def trace(self) -> str:
        """Name of the bundled trace that shows it."""
        return f"faults/{self.profile.name.removeprefix('fault:')}"


def _pull(number: int) -> str:
    return f"https://github.com/sgl-project/sglang/pull/{number}"


def _issue(number: int) -> str:
    return f"https://github.com/sgl-project/sglang/issues/{number}"


FAULTS: tuple[Fault, ...] = (
    Fault(
        replace(IDEAL, name="fault:25805", releases="SGLang 0.5.12", tail_clears="never"),
        _pull(25805),
        "stale-mapping",
        "the tail allocation leaves old entries before the tail, which name other owners' pages",
    ),
    Fault(
        replace(
            IDEAL,
            name="fault:26078",
            releases="SGLang 0.5.12.post1 to 0.5.23",
            tail_clears="nonempty",
        ),
        _pull(26078),
        "stale-mapping",
        "a tail allocation with an empty tail leaves old entries, as all did before PR 25805",
    ),
    Fault(
        replace(IDEAL, name="fault:36081", releases="SGLang 0.5.18", free_swa_queue="slots"),
        _issue(36081),
        "mapping-overwritten",
        "free_swa in a group looks its pages up at the end, after the slots were mapped anew",
    ),
    Fault(
        replace(
            IDEAL,
            name="fault:36646",
            releases="SGLang 0.4.10 to 0.5.19",
            free_queue="slots",
            nested_begin="drops",
        ),
        _pull(36646),
        "accounting-mismatch",
        "free in a group keeps one list of slots: a nested group loses it, a remap misleads it",
    ),
    Fault(
        replace(
            IDEAL,
            name="fault:36646-late-lookup",
            releases="SGLang 0.4.10 to 0.5.19",
            free_queue="slots",
        ),
        _pull(36646),
        "mapping-overwritten",
        "free in a group looks its SWA pages up at the end, after the slots were mapped anew",
    ),
    Fault(
        replace(
            IDEAL,
            name="fault:38159",
            releases="SGLang 0.4.10 to 0.5.19",
            nested_begin="drops",
        ),
        _pull(38159),
        "accounting-mismatch",
        "a group that is begun inside another forgets what the first had queued",
    ),
    Fault(
        replace(
            IDEAL,
            name="fault:38519",
            releases="SGLang 0.5.20 to 0.5.23",
            segment_peer="first",
            filter_segments=False,
        ),
        _pull(38519),
        "padding-page",
        "free_swa_segment of a page without an SWA peer releases SWA page 0",
    ),
    Fault(
        replace(
            IDEAL,
            name="fault:36723",
            releases="SGLang 0.5.20 to 0.5.23",
            filter_page_size_1=False,
        ),
        _pull(36723),
        "padding-page",
        "free_swa at page size 1 of slots whose peers are gone releases SWA slot 0",
    ),
    Fault(
        replace(
            IDEAL,
            name="fault:36723-free-full",
            releases="SGLang 0.5.19 to 0.5.23",
            free_full_peers="keeps",
        ),
        _pull(36723),
        "orphaned-page",
        "free_full of slots whose SWA peers are live strands the peers",
    ),
    Fault(
        replace(
            IDEAL,
            name="fault:35338",
            releases="SGLang 0.5.8 to 0.5.23",
            decode_check="each",
        ),
        _pull(35338),
        "half-allocation",
        "alloc_decode takes pages of one pool, finds the other empty, and gives nothing back",
    ),
    Fault(
        replace(
            IDEAL,
            name="fault:34399",
            releases="the kernels of SGLang up to 0.5.21",
            extend_check="none",
            short_list="repeats",
        ),
        _issue(34399),
        "page-aliased",
        "the extend kernel reads beyond the free list: the last page is handed out twice",
    ),
    Fault(
        replace(IDEAL, name="fault:35501", releases="callers of SGLang 0.5.12 to 0.5.23"),
        _pull(35501),
        "stale-mapping",
        "two full pages are mapped to one SWA page, which goes with the first of them, then again",
        by_caller=True,
    ),
    Fault(
        replace(IDEAL, name="fault:6888", releases="callers of any SGLang release"),
        _issue(6888),
        "double-free",
        "the last page, shared in part with the prefix cache, is freed by both holders",
        by_caller=True,
        aliases=("fault:31616",),
    ),
)
"""Every fault, in the order in which `swasim allocators` lists them."""
