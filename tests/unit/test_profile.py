"""Releases as data: what each range is, and what changed between neighbours."""

from __future__ import annotations

import dataclasses

import pytest

from swasim.allocator.faults import FAULTS
from swasim.allocator.profile import IDEAL, PROFILES, RELEASES, Profile


def changed(older: Profile, newer: Profile) -> set[str]:
    names = {field.name for field in dataclasses.fields(Profile)} - {"name", "releases"}
    return {name for name in names if getattr(older, name) != getattr(newer, name)}


@pytest.mark.parametrize(
    ("release", "letter"),
    [
        ("0.4.10", "A"),
        ("0.4.10.post2", "A"),
        ("0.5.1.post3", "A1"),
        ("0.5.2", "B0"),
        ("0.5.3", "B0"),
        ("0.5.3.post1", "B"),
        ("0.5.5", "B"),
        ("0.5.7", "B"),
        ("0.5.8", "C"),
        ("0.5.10.post1", "C"),
        ("0.5.11", "D"),
        ("0.5.12", "E"),
        ("0.5.12.post1", "F"),
        ("0.5.13.post1", "F"),
        ("0.5.14", "G"),
        ("0.5.15.post1", "G"),
        ("0.5.16", "G"),
        ("0.5.17", "H"),
        ("0.5.18", "I"),
        ("0.5.19", "J"),
        ("0.5.20", "K"),
        ("0.5.23", "K"),
    ],
)
def test_each_release_has_its_profile(release: str, letter: str) -> None:
    assert RELEASES[release].name == letter


def test_ranges_begin_and_end_with_their_releases() -> None:
    for profile in PROFILES:
        mine = [release for release, its in RELEASES.items() if its is profile]
        wanted = mine[0] if len(mine) == 1 else f"{mine[0]} to {mine[-1]}"
        assert profile.releases == wanted


@pytest.mark.parametrize(
    ("older", "newer", "fields"),
    [
        ("0.4.10", "0.5.1", {"always_staged"}),
        ("0.5.1", "0.5.2", {"clear_ends_group"}),
        ("0.5.2", "0.5.5", {"backup"}),
        ("0.5.7", "0.5.8", {"paged"}),
        ("0.5.10", "0.5.11", {"extend_check"}),
        ("0.5.11", "0.5.12", {"operations"}),
        ("0.5.12", "0.5.12.post1", {"tail_clears"}),
        ("0.5.13.post1", "0.5.14", {"free_swa_unit"}),
        ("0.5.16", "0.5.17", {"operations"}),
        ("0.5.17", "0.5.18", {"free_swa_queue"}),
        ("0.5.18", "0.5.19", {"operations", "free_swa_queue", "end_keeps_queue"}),
    ],
)
def test_neighbours_differ_in_what_their_release_notes_say(
    older: str, newer: str, fields: set[str]
) -> None:
    assert changed(RELEASES[older], RELEASES[newer]) == fields


def test_the_ideal_profile_repairs_the_newest_release_and_changes_nothing_else() -> None:
    assert changed(RELEASES["0.5.23"], IDEAL) == {
        "decode_check",
        "tail_clears",
        "filter_page_size_1",
        "filter_segments",
        "padding",
        "segment_peer",
        "free_full_peers",
    }


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("fault:25805", {"tail_clears"}),
        ("fault:26078", {"tail_clears"}),
        ("fault:36081", {"free_swa_queue"}),
        ("fault:36646", {"free_queue", "nested_begin"}),
        ("fault:36646-late-lookup", {"free_queue"}),
        ("fault:38159", {"nested_begin"}),
        ("fault:38519", {"segment_peer", "filter_segments"}),
        ("fault:36723", {"filter_page_size_1"}),
        ("fault:36723-free-full", {"free_full_peers"}),
        ("fault:35338", {"decode_check"}),
        ("fault:34399", {"extend_check", "short_list"}),
        ("fault:35501", set()),
        ("fault:6888", set()),
    ],
)
def test_a_fault_is_the_ideal_profile_with_little_put_back(name: str, fields: set[str]) -> None:
    [fault] = [fault for fault in FAULTS if fault.profile.name == name]
    assert changed(IDEAL, fault.profile) == fields
    assert fault.by_caller is (not fields)


@pytest.mark.parametrize(
    ("release", "op", "there"),
    [
        ("0.5.11", "alloc_extend_swa_tail", False),
        ("0.5.12", "alloc_extend_swa_tail", True),
        ("0.5.16", "backup_state", True),
        ("0.5.17", "backup_state", False),
        ("0.5.16", "free_segment", False),
        ("0.5.17", "free_segments", True),
        ("0.5.18", "free_full", False),
        ("0.5.19", "free_full", True),
        ("0.5.19", "free_swa_segment", False),
        ("0.5.20", "free_full_segments", True),
        ("0.4.10", "set_full_to_swa_mapping", True),
    ],
)
def test_methods_come_and_go_with_releases(release: str, op: str, there: bool) -> None:
    assert (op in RELEASES[release].operations) is there


def test_mapping_has_a_trailing_entry_only_where_there_are_pages() -> None:
    assert RELEASES["0.5.7"].mapping_slots(16, 8, 1) == 25
    assert RELEASES["0.5.8"].mapping_slots(16, 8, 1) == 18
    assert RELEASES["0.5.8"].mapping_slots(16, 8, 4) == 21


def test_the_first_release_stages_whatever_need_sort_says() -> None:
    assert RELEASES["0.4.10"].staged(need_sort=False)
    assert not RELEASES["0.5.1"].staged(need_sort=False)
    assert RELEASES["0.5.1"].staged(need_sort=True)
