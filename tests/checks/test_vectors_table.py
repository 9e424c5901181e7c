"""Which errors are right on the traces that real SGLang allocators answered, and why.

Each row was looked at, call by call. Contract-respecting work and the recorded radix caches give
none. In the other scenarios the calls, or the release, do something wrong, and the table says what.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from swasim.collect import Replay
from swasim.replayer import Step
from swasim.run import replay
from tests.support.vectors import Vector, golden_vectors, recorded_radix, recorded_unit

PAGED = "pages"
ONE = "page size 1"

OLD = ("0.5.8", "0.5.12", "0.5.13.post1")
"""Releases with pages, before PR 27779."""
NEW = ("0.5.14", "0.5.18", "0.5.23")


class Right(NamedTuple):
    """What is right for the vectors of one scenario.

    Attributes:
        scenario: last part of the file names.
        releases: those that behave alike here; empty: all.
        pages: `PAGED`, `ONE`, or "" for both.
        sort: with or without need_sort; None for both.
        roots: kinds of the errors that follow from no other. Exactly these.
        follows: kinds that may follow from them; each does in one of the vectors.
        why: what is wrong.
    """

    scenario: str
    releases: tuple[str, ...]
    pages: str
    sort: bool | None
    roots: set[str]
    follows: set[str]
    why: str

    def holds_for(self, vector: Vector) -> bool:
        release, page, sort, scenario = vector.name.split("__")
        return (
            scenario == self.scenario
            and (not self.releases or release in self.releases)
            and self.pages in ("", ONE if page == "p1" else PAGED)
            and self.sort in (None, sort == "sort")
        )


TABLE = (
    Right(
        "work", (), "", None, set(), set(), "callers ask for room first and release what they hold"
    ),
    Right("work_big", (), "", None, set(), set(), "as work, in large pools"),
    Right("work_seg", (), "", None, set(), set(), "as work, by segments"),
    Right(
        "seed27779",
        OLD,
        "",
        None,
        {"stale-mapping"},
        {"accounting-overflow", "double-free", "page-aliased", "stale-mapping"},
        "the release of one token leaves three entries, and all else comes from them",
    ),
    Right(
        "seed27779", NEW, "", None, set(), set(), "the release of one token unmaps the whole page"
    ),
    Right(
        "exhaust_both", (), "", None, set(), set(), "both pools run dry together: no half is left"
    ),
    Right(
        "exhaust_full_short", (), ONE, None, set(), set(), "alloc asks both pools before it takes"
    ),
    Right("exhaust_swa_short", (), ONE, None, set(), set(), "as exhaust_full_short"),
    Right(
        "exhaust_full_short",
        (),
        PAGED,
        None,
        {"half-allocation"},
        set(),
        "each refused alloc_decode keeps the SWA pages that it took (PR 35338)",
    ),
    Right(
        "exhaust_swa_short",
        (),
        PAGED,
        None,
        {"half-allocation"},
        set(),
        "each refused alloc_decode keeps the full pages that it took (PR 35338)",
    ),
    Right(
        "backup",
        (),
        PAGED,
        False,
        {"orphaned-page", "stale-mapping"},
        {"stale-mapping"},
        "restore_state brings free lists back and no mapping: entries of pages that are free again "
        "stay, and pages that are live again have none",
    ),
    Right(
        "backup",
        (),
        PAGED,
        True,
        {"orphaned-page", "stale-mapping"},
        {"orphaned-page", "stale-mapping"},
        "as without need_sort; two pages at a time",
    ),
    Right(
        "backup",
        (),
        ONE,
        None,
        {"orphaned-page", "stale-mapping"},
        {"orphaned-page", "stale-mapping"},
        "as with pages; two slots at a time",
    ),
    Right(
        "group",
        ("0.5.5", "0.5.8"),
        ONE,
        None,
        {"accounting-mismatch", "double-free"},
        {"accounting-mismatch", "double-free"},
        "slot 3 is released twice in one group, a second group end releases again, and a nested "
        "group forgets a release",
    ),
    Right(
        "group",
        ("0.5.8",),
        PAGED,
        None,
        {"accounting-mismatch", "double-free"},
        {"accounting-mismatch"},
        "as at page size 1; a page pool returns a page once however often it is named",
    ),
    Right(
        "group",
        ("0.5.12", "0.5.13.post1", "0.5.14", "0.5.18"),
        ONE,
        None,
        {"accounting-mismatch", "double-free", "mapping-overwritten"},
        {"accounting-mismatch", "double-free", "foreign-free"},
        "as before; and what the group queued was mapped to another page before its end, which "
        "goes instead",
    ),
    Right(
        "group",
        ("0.5.12", "0.5.13.post1", "0.5.14", "0.5.18"),
        PAGED,
        None,
        {"accounting-mismatch", "double-free", "mapping-overwritten"},
        {"accounting-mismatch", "foreign-free"},
        "as at page size 1",
    ),
    Right(
        "group",
        ("0.5.23",),
        ONE,
        None,
        {"double-free", "orphaned-page", "padding-page"},
        {"accounting-overflow", "padding-page"},
        "a slot is released twice in one group and its peer, gone by then, reads 0; the peers that "
        "the group's slots are mapped to before its end stay behind",
    ),
    Right(
        "group",
        ("0.5.23",),
        PAGED,
        None,
        {"double-free", "orphaned-page"},
        set(),
        "a slot is released twice in one group, of which the page pool makes one; the SWA page "
        "that slots in the group are mapped to stays behind when they go",
    ),
    Right(
        "swatail",
        ("0.5.12",),
        PAGED,
        False,
        {"stale-mapping"},
        {"accounting-overflow", "double-free", "foreign-free", "page-aliased"},
        "stale entries of a partial release survive in the head of a tail allocation (PR 25805)",
    ),
    Right(
        "swatail",
        ("0.5.12",),
        PAGED,
        True,
        {"stale-mapping"},
        set(),
        "the partial release leaves stale entries; sorted lists hand other pages out for the tail",
    ),
    Right(
        "swatail",
        ("0.5.13.post1",),
        PAGED,
        False,
        {"orphaned-page", "stale-mapping"},
        set(),
        "the partial release leaves stale entries; the tail allocation clears the only entries of "
        "an SWA page that was mapped from a free full page",
    ),
    Right(
        "swatail",
        NEW,
        PAGED,
        False,
        {"orphaned-page"},
        set(),
        "the tail allocation clears the only entries of an SWA page that was mapped from a free "
        "full page",
    ),
    Right("swatail", NEW, PAGED, True, set(), set(), "that full page is not handed out again"),
    Right(
        "partial",
        OLD,
        PAGED,
        None,
        {"stale-mapping", "use-after-free"},
        {
            "accounting-overflow",
            "double-free",
            "padding-page",
            "page-aliased",
            "stale-mapping",
            "use-after-free",
        },
        "partial releases leave stale entries, and requests decode behind tokens whose peers they "
        "released: such a token lies on the padding page, which goes with it",
    ),
    Right(
        "partial",
        ("0.5.14", "0.5.18"),
        PAGED,
        None,
        {"use-after-free"},
        {"accounting-overflow", "padding-page", "use-after-free"},
        "requests decode behind tokens whose peers they released",
    ),
    Right(
        "partial",
        ("0.5.23",),
        PAGED,
        False,
        {"use-after-free"},
        {"accounting-overflow", "padding-page", "use-after-free"},
        "requests decode behind tokens whose peers they released",
    ),
    Right(
        "partial",
        ("0.5.23",),
        PAGED,
        True,
        {"half-allocation", "use-after-free"},
        {"accounting-overflow", "padding-page", "use-after-free"},
        "free raises between the pools and keeps the full pages: a decode is refused half-way",
    ),
    Right(
        "misuse",
        ("0.4.10", "0.5.8", "0.5.12", "0.5.13.post1", "0.5.14", "0.5.18"),
        ONE,
        None,
        {"double-free", "index-out-of-range", "padding-page"},
        {"accounting-overflow", "double-free"},
        "a slot twice, one never allocated, slot 0, one beyond the pool",
    ),
    Right(
        "misuse",
        ("0.5.23",),
        ONE,
        None,
        {"double-free", "index-out-of-range", "orphaned-page", "padding-page"},
        {"accounting-overflow", "double-free", "padding-page"},
        "as before; a peer that is gone reads 0, which is released (PR 36723), and free_full "
        "strands a live peer",
    ),
    Right(
        "misuse",
        OLD,
        PAGED,
        False,
        {"double-free", "index-out-of-range", "misaligned", "padding-page", "stale-mapping"},
        {
            "accounting-overflow",
            "double-free",
            "half-allocation",
            "index-out-of-range",
            "padding-page",
            "page-aliased",
            "use-after-free",
        },
        "as at page size 1; the page beyond the pool is handed out and the mapping refuses it; a "
        "request grows behind a token that was released; last_loc contradicts its prefix",
    ),
    Right(
        "misuse",
        OLD,
        PAGED,
        True,
        {"double-free", "index-out-of-range", "misaligned", "padding-page", "stale-mapping"},
        {"accounting-overflow", "double-free", "padding-page", "use-after-free"},
        "as without need_sort; the wrong pages are still staged when they would be handed out",
    ),
    Right(
        "misuse",
        ("0.5.14", "0.5.18"),
        PAGED,
        False,
        {"double-free", "index-out-of-range", "misaligned", "padding-page", "use-after-free"},
        {
            "accounting-overflow",
            "half-allocation",
            "index-out-of-range",
            "padding-page",
            "use-after-free",
        },
        "as in the older releases; a partial release leaves no entry, so that the growth behind it "
        "is what comes first",
    ),
    Right(
        "misuse",
        ("0.5.14", "0.5.18"),
        PAGED,
        True,
        {"double-free", "index-out-of-range", "misaligned", "padding-page", "use-after-free"},
        {"accounting-overflow", "padding-page", "use-after-free"},
        "as without need_sort; the wrong pages are still staged",
    ),
    Right(
        "misuse",
        ("0.5.23",),
        PAGED,
        None,
        {
            "double-free",
            "index-out-of-range",
            "misaligned",
            "orphaned-page",
            "padding-page",
            "use-after-free",
        },
        {"accounting-overflow", "padding-page", "use-after-free"},
        "as before; a segment whose peers are gone releases page 0 (PR 38519), free_full strands a "
        "live peer, and a slot out of range is noticed before anything changes",
    ),
)

ROOTS_BY_EVENT = {
    "0.5.12__p4__nosort__seed27779": [(2, "stale-mapping")],
    "0.5.12__p4__nosort__group": [
        (9, "double-free"),
        (26, "mapping-overwritten"),
        (38, "double-free"),
        (43, "accounting-mismatch"),
    ],
    "0.5.18__p4__nosort__group": [
        (9, "double-free"),
        (19, "mapping-overwritten"),
        (26, "mapping-overwritten"),
        (38, "double-free"),
        (43, "accounting-mismatch"),
    ],
    "0.5.23__p4__nosort__group": [(9, "double-free"), (27, "orphaned-page")],
    "0.5.23__p1__nosort__group": [
        (9, "double-free"),
        (15, "padding-page"),
        (27, "orphaned-page"),
    ],
    "0.5.12__p4__nosort__backup": [
        (4, "stale-mapping"),
        (10, "stale-mapping"),
        (11, "stale-mapping"),
        (11, "orphaned-page"),
    ],
    "0.5.12__p4__sort__backup": [
        (4, "stale-mapping"),
        (10, "stale-mapping"),
        (11, "orphaned-page"),
    ],
    "0.5.12__p4__nosort__misuse": [
        (7, "double-free"),
        (12, "padding-page"),
        (14, "double-free"),
        (15, "index-out-of-range"),
        (16, "index-out-of-range"),
        (23, "stale-mapping"),
        (28, "misaligned"),
    ],
    "0.5.12__p4__nosort__swatail": [(11, "stale-mapping"), (18, "stale-mapping")],
    "0.5.23__p4__nosort__swatail": [(18, "orphaned-page")],
}
"""Where the errors begin, for one vector of each row that is worth reading."""

UNIT = {
    "TestBatchedEvictionFrees.test_free_swa_cat_equivalent_to_sequential": (
        {"use-after-free"},
        "the test maps SWA pages that nobody allocated, and releases them",
    ),
    "TestBatchedEvictionFrees.test_full_free_cat_equivalent_to_sequential": (
        {"double-free"},
        "the test releases full pages that nobody allocated",
    ),
    "TestSWAPeerMappedContract.test_free_swa_flags_a_slot_whose_peer_is_already_gone": (
        {"orphaned-page", "padding-page"},
        "the test clears the entries of live pages by hand, and shows that page 0 goes then",
    ),
    "TestSWAPeerMappedContract.test_segment_free_flags_a_page_whose_peer_is_already_gone": (
        {"orphaned-page", "padding-page"},
        "as the test before, by segments",
    ),
    "TestSWA.test_free_group_owns_mapping_at_enqueue_time": (
        {"orphaned-page"},
        "the test maps a slot in the group to another page and shows that it stays: it is lost",
    ),
}
"""Upstream's own tests that provoke something, by name; all others give no error."""


def played(vector: Vector) -> Replay:
    return replay(vector.path, allocator=f"sglang-{vector.release_in_name}", max_findings=10_000)


def kinds(result: Replay) -> tuple[set[str], set[str]]:
    """Kinds of the errors that are roots, and of those that follow."""
    wrong = [f for f in result.findings if f.severity == "error"]
    return {f.kind for f in wrong if f.cause is None}, {f.kind for f in wrong if f.cause}


def rows_of(vector: Vector) -> Iterator[Right]:
    return (row for row in TABLE if row.holds_for(vector))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: "-".join([row.scenario, *row.releases[:1]]))
def test_each_vector_of_a_row_gives_its_errors_and_no_other(row: Right) -> None:
    vectors = [vector for vector in golden_vectors() if row.holds_for(vector)]
    assert vectors
    seen: set[str] = set()
    for vector in vectors:
        roots, follows = kinds(played(vector))
        assert roots == row.roots, vector.name
        assert follows <= row.follows, vector.name
        seen |= follows
    assert seen == row.follows


def test_each_vector_has_one_row() -> None:
    for vector in golden_vectors():
        assert len(list(rows_of(vector))) == 1, vector.name


@pytest.mark.parametrize("name", ROOTS_BY_EVENT)
def test_errors_begin_at_the_call_that_does_it(name: str) -> None:
    [vector] = [vector for vector in golden_vectors() if vector.name == name]
    found = played(vector).findings
    roots = [(f.at.event, f.kind) for f in found if f.severity == "error" and f.cause is None]
    assert roots == ROOTS_BY_EVENT[name]


@pytest.mark.parametrize("scenario", ["exhaust_full_short", "exhaust_swa_short"])
def test_every_refused_decode_is_a_half_allocation_and_nothing_else_is(scenario: str) -> None:
    for vector in golden_vectors():
        if not vector.name.endswith(scenario) or "__p1__" in vector.name:
            continue
        refused: list[int] = []

        def note(step: Step, refused: list[int] = refused) -> None:
            if step.call and step.call.op == "alloc_decode" and step.result == "refused":
                refused.append(step.entry.number)

        found = replay(
            vector.path, allocator=f"sglang-{vector.release_in_name}", on_step=note
        ).findings
        assert [f.at.event for f in found if f.severity == "error"] == refused, vector.name
        assert refused


@pytest.mark.parametrize("vector", recorded_radix(), ids=lambda vector: vector.name)
def test_a_radix_cache_that_served_well_gives_no_error(vector: Vector) -> None:
    assert kinds(played(vector)) == (set(), set())


@pytest.mark.parametrize("vector", recorded_unit(), ids=lambda vector: vector.name)
def test_upstreams_own_tests_give_what_they_provoke(vector: Vector) -> None:
    _, name, _ = vector.name.split("__")
    wanted, _ = UNIT.get(name, (set(), ""))
    assert kinds(played(vector))[0] == wanted
