"""Everything in which SGLang releases differ, as data.

A `Profile` is one frozen declaration. The engines ask its fields and nothing else: no code path
knows a version number, and a known fault is a profile with a field changed (`faults.py`).

What releases differ in without anyone being able to see it from calls, results and lists is left
out on purpose: whether a free group clones what it queues, the early return of an empty
`free_swa`, the cast of the mapping to int32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

EARLIEST_OPERATIONS = frozenset(
    {
        "alloc",
        "alloc_extend",
        "alloc_decode",
        "free",
        "free_swa",
        "free_group_begin",
        "free_group_end",
        "set_full_to_swa_mapping",
        "clear_full_to_swa_mapping",
        "backup_state",
        "restore_state",
        "clear",
    }
)
"""What every release answers. `set_full_to_swa_mapping` became a method in 0.5.12 and
`clear_full_to_swa_mapping` in 0.5.19; before that callers wrote the tensor, to the same effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How one range of releases behaves.

    Attributes:
        name: letter of the range, or the registry name of a variant.
        releases: the range in words.
        operations: calls that can be made; another is a UsageError.
        paged: pools may have pages. False: page size 1 only, alloc_extend and alloc_decode raise
            NotImplementedError, and the mapping has kv_size + kv_size_swa + 1 entries without the
            trailing -1 (True: kv_size + page_size entries and -1).
        always_staged: frees are staged and sorted in whatever `need_sort` says.
        clear_ends_group: clear() closes an open free group. False: it empties the queue and
            leaves the group open.
        extend_check: what alloc_extend asks of both pools first. "coarse": room for the tokens
            and one page more per request. "exact": the new pages. "none": nothing.
        decode_check: "each": alloc_decode lets each pool take pages by itself, so that one may
            succeed alone. "joint": both are asked before either takes.
        short_list: what the extend and the decode of a paged pool do when its list is shorter
            than the pages needed. "refuses": return None. "repeats": hand the last page out again.
        tail_clears: what alloc_extend_swa_tail does with the entries of the slots before the
            tail. "never": keeps what they held. "nonempty": zeroes them unless the tail is 0.
            "always": zeroes them.
        free_swa_unit: "tokens": free_swa returns the pages but clears only the entries that were
            named. "pages": it clears every entry of the pages.
        free_order: "full_first": free() returns full pages, then SWA, then checks both.
            "swa_first": it is free_swa() and then free_full(), each with its own check.
        free_queue: what free() in a group queues. "slots": full slots, resolved at the end.
            "resolved": it frees by parts at once, each of which queues what it found.
        free_swa_queue: what free_swa() in a group does. "immediate": the group is ignored.
            "slots": full slots are queued and the mapping is read at the end. "resolved": the
            mapping is read and cleared at once, the SWA slots are queued.
        group_full_pool: the group opens a group of the full pool too, where full-side frees wait
            (calls on that pool alone included). False: they wait in the pair.
        end_keeps_queue: free_group_end leaves free()'s queue in place; a second end frees again.
        nested_begin: "drops": a begin inside a group forgets what was queued. "asserts": it
            raises AssertionError and keeps the queue.
        swa_checks: free_swa, its segment form and free_group_end assert available <= size. False:
            only free() and free_full() do.
        free_full_reads: free_full and free_full_segment read the mapping first, so that a slot
            out of range raises IndexError before anything has changed.
        staged_order: where a paged pool puts freed pages in the staged list.
        filter_page_size_1: free_swa at page size 1 skips entries that read 0.
        filter_segments: segment forms skip entries that read 0.
        padding: what the filters skip. "slot": entries that read 0. "page": every entry that
            lies on the padding page.
        segments: "whole": free_segment is free(), free_segments trims a shared page. "pages":
            one slot stands for its page, in row order, and starts must be aligned.
        segment_peer: which slot of a page tells its SWA page where segments are "pages": the
            "first", or "any" that is mapped.
        free_full_peers: what free_full does with live SWA peers. "keeps": strands them.
            "releases": frees them first.
        backup: "unsupported": backup_state and restore_state raise NotImplementedError.
            "lists": they save the four page lists and not the mapping.
    """

    name: str
    releases: str
    operations: frozenset[str] = EARLIEST_OPERATIONS
    paged: bool = False
    always_staged: bool = False
    clear_ends_group: bool = True
    extend_check: Literal["coarse", "exact", "none"] = "coarse"
    decode_check: Literal["each", "joint"] = "each"
    short_list: Literal["refuses", "repeats"] = "refuses"
    tail_clears: Literal["never", "nonempty", "always"] = "never"
    free_swa_unit: Literal["tokens", "pages"] = "tokens"
    free_order: Literal["full_first", "swa_first"] = "full_first"
    free_queue: Literal["slots", "resolved"] = "slots"
    free_swa_queue: Literal["immediate", "slots", "resolved"] = "immediate"
    group_full_pool: bool = False
    end_keeps_queue: bool = True
    nested_begin: Literal["drops", "asserts"] = "drops"
    swa_checks: bool = False
    free_full_reads: bool = False
    staged_order: Literal["prepend", "append"] = "prepend"
    filter_page_size_1: bool = True
    filter_segments: bool = True
    padding: Literal["slot", "page"] = "slot"
    segments: Literal["whole", "pages"] = "whole"
    segment_peer: Literal["first", "any"] = "first"
    free_full_peers: Literal["keeps", "releases"] = "keeps"
    backup: Literal["unsupported", "lists"] = "unsupported"

    def staged(self, need_sort: bool) -> bool:
        """Whether freed pages wait in the staged list, given the `need_sort` that was asked."""
        return need_sort or self.always_staged

    def mapping_slots(self, kv_size: int, kv_size_swa: int, page_size: int) -> int:
        """Entries of the mapping, trailing -1 included."""
        return kv_size + page_size + 1 if self.paged else kv_size + kv_size_swa + 1


PROFILE_A = Profile(
    name="A",
    releases="0.4.10 to 0.4.10.post2",
    always_staged=True,
    clear_ends_group=False,
)
PROFILE_A1 = replace(PROFILE_A, name="A1", releases="0.5.1 to 0.5.1.post3", always_staged=False)
PROFILE_B0 = replace(PROFILE_A1, name="B0", releases="0.5.2 to 0.5.3", clear_ends_group=True)
PROFILE_B = replace(PROFILE_B0, name="B", releases="0.5.3.post1 to 0.5.7", backup="lists")
PROFILE_C = replace(PROFILE_B, name="C", releases="0.5.8 to 0.5.10.post1", paged=True)
PROFILE_D = replace(PROFILE_C, name="D", releases="0.5.11", extend_check="exact")
PROFILE_E = replace(
    PROFILE_D,
    name="E",
    releases="0.5.12",
    operations=PROFILE_D.operations | {"alloc_extend_swa_tail"},
)
PROFILE_F = replace(
    PROFILE_E, name="F", releases="0.5.12.post1 to 0.5.13.post1", tail_clears="nonempty"
)
PROFILE_G = replace(PROFILE_F, name="G", releases="0.5.14 to 0.5.16", free_swa_unit="pages")
PROFILE_H = replace(
    PROFILE_G,
    name="H",
    releases="0.5.17",
    operations=PROFILE_G.operations - {"backup_state", "restore_state"}
    | {"free_segment", "free_segments"},
)
PROFILE_I = replace(PROFILE_H, name="I", releases="0.5.18", free_swa_queue="slots")
PROFILE_J = replace(
    PROFILE_I,
    name="J",
    releases="0.5.19",
    operations=PROFILE_I.operations | {"free_full"},
    free_swa_queue="resolved",
    end_keeps_queue=False,
)
PROFILE_K = replace(
    PROFILE_J,
    name="K",
    releases="0.5.20 to 0.5.23",
    operations=PROFILE_J.operations
    | {"free_swa_segment", "free_full_segment", "free_full_segments"},
    free_order="swa_first",
    free_queue="resolved",
    group_full_pool=True,
    nested_begin="asserts",
    swa_checks=True,
    free_full_reads=True,
    staged_order="append",
    filter_page_size_1=False,
    filter_segments=False,
    segments="pages",
)

IDEAL = replace(
    PROFILE_K,
    name="ideal",
    releases="no release: 0.5.23 with every known fault repaired",
    decode_check="joint",
    tail_clears="always",
    filter_page_size_1=True,
    filter_segments=True,
    padding="page",
    segment_peer="any",
    free_full_peers="releases",
)

_RELEASES_OF: tuple[tuple[Profile, str], ...] = (
    (PROFILE_A, "0.4.10 0.4.10.post1 0.4.10.post2"),
    (PROFILE_A1, "0.5.1 0.5.1.post1 0.5.1.post2 0.5.1.post3"),
    (PROFILE_B0, "0.5.2 0.5.3"),
    (
        PROFILE_B,
        "0.5.3.post1 0.5.3.post2 0.5.3.post3 0.5.4 0.5.4.post1 0.5.4.post2 0.5.4.post3 "
        "0.5.5 0.5.5.post1 0.5.5.post2 0.5.5.post3 0.5.6 0.5.6.post1 0.5.6.post2 0.5.7",
    ),
    (PROFILE_C, "0.5.8 0.5.8.post1 0.5.9 0.5.10 0.5.10.post1"),
    (PROFILE_D, "0.5.11"),
    (PROFILE_E, "0.5.12"),
    (PROFILE_F, "0.5.12.post1 0.5.13 0.5.13.post1"),
    (PROFILE_G, "0.5.14 0.5.15 0.5.15.post1 0.5.16"),
    (PROFILE_H, "0.5.17"),
    (PROFILE_I, "0.5.18"),
    (PROFILE_J, "0.5.19"),
    (PROFILE_K, "0.5.20 0.5.21 0.5.22 0.5.23"),
)

PROFILES: tuple[Profile, ...] = tuple(profile for profile, _ in _RELEASES_OF)
"""The upstream profiles, oldest first."""

RELEASES: dict[str, Profile] = {
    release: profile for profile, releases in _RELEASES_OF for release in releases.split()
}
"""Profile of every release from 0.4.10 on, oldest first."""
