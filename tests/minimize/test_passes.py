"""Each pass alone: a start trace, and exactly what the pass leaves of it."""

from __future__ import annotations

from swasim.minimize.draft import Line
from swasim.minimize.passes import FINISH, ROUND, events, lengths, merging, naming, sizes, text
from swasim.minimize.target import Target
from tests.support.shrinking import after, parsed, search_on, small, written

STALE = Target("stale-mapping", "swa", None, allocated=True, first=True)
TWICE = ('{"op":"free","req":"A"}', '{"op":"free","req":"A"}')


def test_events_that_the_finding_does_not_need_are_dropped() -> None:
    assert after(
        events.drop_events,
        [
            '{"op":"alloc_extend","reqs":["B"],"seq_lens":[3]}',
            '{"op":"alloc_extend","reqs":["A"],"seq_lens":[2]}',
            '{"op":"alloc_decode","reqs":["B"]}',
            '{"op":"free_swa","req":"B","start":0,"end":2}',
            TWICE[0],
            '{"op":"finish","req":"B"}',
            TWICE[1],
        ],
    ) == [
        '{"op":"alloc_extend","prefix_lens":[0],"seq_lens":[2],"reqs":["A"]}',
        '{"op":"free","req":"A","start":0,"end":2}',
        '{"op":"free","req":"A","start":0,"end":2}',
    ]


def test_events_behind_the_finding_go_without_a_pass() -> None:
    search = search_on(
        ['{"op":"alloc_extend","reqs":["A"],"seq_lens":[2]}', *TWICE, '{"op":"clear"}']
    )
    assert written(search.events)[-1] == TWICE[1]


def test_a_request_is_dropped_with_everything_about_it() -> None:
    assert after(
        events.drop_requests,
        [
            '{"op":"alloc_extend","reqs":["A","B"],"seq_lens":[2,2]}',
            '{"op":"share","req":"C","from":"B"}',
            '{"op":"free_swa","req":"C"}',
            *TWICE,
        ],
    ) == [
        '{"op":"alloc_extend","prefix_lens":[0],"seq_lens":[2],"reqs":["A"]}',
        '{"op":"free","req":"A","start":0,"end":2}',
        '{"op":"free","req":"A","start":0,"end":2}',
    ]


def test_one_request_of_a_batch_is_dropped() -> None:
    assert after(
        events.drop_items,
        ['{"op":"alloc_extend","reqs":["A","B"],"seq_lens":[2,2]}', *TWICE],
    )[0] == ('{"op":"alloc_extend","prefix_lens":[0],"seq_lens":[2],"reqs":["A"]}')


def test_both_ends_of_a_group_go_together() -> None:
    left = after(
        events.ungroup,
        [
            '{"op":"alloc_extend","reqs":["A"],"seq_lens":[2]}',
            '{"op":"free_group_begin"}',
            TWICE[0],
            '{"op":"free_group_end"}',
            TWICE[1],
        ],
    )
    assert [line[6:20] for line in left] == ['"alloc_extend"', '"free","req":"', '"free","req":"']


def test_lengths_are_cut_and_later_positions_follow() -> None:
    assert after(
        lengths.cut_lengths,
        [
            '{"op":"alloc_extend","reqs":["A"],"seq_lens":[8]}',
            '{"op":"free","req":"A","start":4,"end":6}',
            '{"op":"free","req":"A","start":4,"end":6}',
        ],
    ) == [
        '{"op":"alloc_extend","prefix_lens":[0],"seq_lens":[1],"reqs":["A"]}',
        '{"op":"free","req":"A","start":0,"end":1}',
        '{"op":"free","req":"A","start":0,"end":1}',
    ]


def test_two_growths_become_one() -> None:
    assert after(
        merging.merge,
        [
            '{"op":"alloc_extend","reqs":["A"],"seq_lens":[1]}',
            '{"op":"alloc_decode","reqs":["A"]}',
            '{"op":"free","req":"A","start":0,"end":2}',
            '{"op":"free","req":"A","start":0,"end":2}',
        ],
    )[0] == ('{"op":"alloc_extend","prefix_lens":[0],"seq_lens":[2],"reqs":["A"]}')


def test_two_releases_of_neighbouring_positions_become_one() -> None:
    assert after(
        merging.merge,
        [
            '{"op":"alloc_extend","reqs":["A"],"seq_lens":[4]}',
            '{"op":"free","req":"A","start":0,"end":2}',
            '{"op":"free","req":"A","start":2,"end":4}',
            '{"op":"free","req":"A","start":0,"end":2}',
        ],
    )[1:] == [
        '{"op":"free","req":"A","start":0,"end":2}',
        '{"op":"free","req":"A","start":0,"end":4}',
    ]


def test_a_sharing_request_is_named_by_the_one_it_shares_with() -> None:
    assert after(
        merging.unshare,
        [
            '{"op":"alloc_extend","reqs":["A"],"seq_lens":[4]}',
            '{"op":"share","req":"B","from":"A","start":2,"end":4}',
            '{"op":"free","req":"A"}',
            '{"op":"free","req":"B"}',
        ],
    )[1:] == [
        '{"op":"free","req":"A","start":0,"end":4}',
        '{"op":"free","req":"A","start":2,"end":4}',
    ]


def test_pools_first_lose_what_nobody_asks_for() -> None:
    search = search_on(
        ['{"op":"alloc_extend","reqs":["A"],"seq_lens":[3]}', *TWICE],
        config=small(kv_size=4096, kv_size_swa=8192),
    )
    sizes.fit_pools(search)
    assert (search.config.kv_size, search.config.kv_size_swa) == (6, 6)


def test_pools_shrink_to_the_pages_that_are_needed() -> None:
    search = search_on(['{"op":"alloc_extend","reqs":["A"],"seq_lens":[3]}', *TWICE])
    sizes.smaller_pools(search)
    assert (search.config.kv_size, search.config.kv_size_swa) == (4, 4)


def test_pages_shrink_and_every_page_keeps_its_first_tokens() -> None:
    search = search_on(
        [
            '{"op":"alloc_extend","reqs":["A"],"seq_lens":[8]}',
            '{"op":"free_swa","req":"A","start":4,"end":5}',
        ],
        target=STALE,
        config=small(page_size=4, kv_size=16, kv_size_swa=16, allocator="buggy"),
    )
    sizes.smaller_pages(search)
    config = search.config
    assert (config.page_size, config.kv_size, config.kv_size_swa) == (2, 8, 8)
    assert written(search.events) == [
        '{"op":"alloc_extend","prefix_lens":[0],"seq_lens":[4],"reqs":["A"]}',
        '{"op":"free_swa","req":"A","start":2,"end":3}',
    ]


def test_pages_of_one_token_are_tried_with_plain_allocations() -> None:
    search = search_on(['{"op":"alloc_extend","reqs":["A"],"seq_lens":[2]}', *TWICE])
    sizes.smaller_pages(search)
    assert search.config.page_size == 1
    assert written(search.events)[0] == '{"op":"alloc","need_size":1,"req":"A"}'


def test_a_window_that_does_not_matter_is_left_out() -> None:
    search = search_on(
        ['{"op":"alloc_extend","reqs":["A"],"seq_lens":[2]}', *TWICE],
        config=small(sliding_window_size=8),
    )
    sizes.smaller_window(search)
    assert search.config.sliding_window_size is None


def test_a_window_that_matters_becomes_as_small_as_it_can() -> None:
    search = search_on(
        [
            '{"op":"alloc_extend","reqs":["A"],"seq_lens":[2]}',
            '{"op":"free_swa","req":"A"}',
            '{"op":"alloc_decode","reqs":["A"]}',
        ],
        target=Target("window-violation", "swa", None, allocated=True, first=True),
        config=small(sliding_window_size=8),
    )
    sizes.smaller_window(search)
    assert search.config.sliding_window_size == 2


def test_sorting_is_left_out() -> None:
    search = search_on(
        ['{"op":"alloc_extend","reqs":["A"],"seq_lens":[2]}', *TWICE],
        config=small(need_sort=True),
    )
    sizes.no_sorting(search)
    assert search.config.need_sort is False


def test_raw_slots_become_rows_and_a_release_is_split_by_row() -> None:
    assert after(
        naming.name_rows,
        [
            '{"op":"alloc_extend","prefix_lens":[0,0],"seq_lens":[2,2],"last_loc":[-1,-1]}',
            '{"op":"alloc_decode","seq_lens":[3],"last_loc":[3]}',
            '{"op":"free","indices":[4,5]}',
            '{"op":"free","indices":[4,5]}',
        ],
    ) == [
        '{"op":"alloc_extend","prefix_lens":[0,0],"seq_lens":[2,2],"reqs":["r1","r2"]}',
        '{"op":"alloc_decode","seq_lens":[3],"reqs":["r1"]}',
        '{"op":"free","req":"r2","start":0,"end":2}',
        '{"op":"free","req":"r2","start":0,"end":2}',
    ]
    lines = search_on(
        [
            '{"op":"alloc_extend","prefix_lens":[0,0],"seq_lens":[2,2],"last_loc":[-1,-1]}',
            '{"op":"free","indices":[[2,6]]}',
            '{"op":"free","indices":[[2,6]]}',
        ]
    ).lines
    named = naming.rows_named(lines, 2)
    assert named is not None
    assert written(line.event for line in named)[1:3] == [
        '{"op":"free","req":"r1","start":0,"end":2}',
        '{"op":"free","req":"r2","start":0,"end":2}',
    ]


def test_a_raw_extend_from_inside_a_row_shares_up_to_it() -> None:
    lines = search_on(
        [
            '{"op":"alloc_extend","prefix_lens":[0],"seq_lens":[3],"last_loc":[-1]}',
            '{"op":"alloc_decode","seq_lens":[4],"last_loc":[4]}',
            '{"op":"alloc_extend","prefix_lens":[3],"seq_lens":[4],"last_loc":[4]}',
            '{"op":"free","indices":[2]}',
            '{"op":"free","indices":[2]}',
        ]
    ).lines
    named = naming.rows_named(lines, 2)
    assert named is not None
    assert written(line.event for line in named)[2:4] == [
        '{"op":"share","req":"r2","from":"r1","start":0,"end":3}',
        '{"op":"alloc_extend","prefix_lens":[3],"seq_lens":[4],"reqs":["r2"]}',
    ]


def test_a_special_release_is_written_as_the_plain_one() -> None:
    assert after(
        text.plain_forms,
        [
            '{"op":"alloc_extend","reqs":["A"],"prefix_lens":[0],"seq_lens":[2]}',
            '{"op":"free_segment","req":"A","start":0,"end":2}',
            '{"op":"free_segment","req":"A","start":0,"end":2}',
        ],
        config=small(allocator="ideal"),
    )[1:] == [
        '{"op":"free","req":"A","start":0,"end":2}',
        '{"op":"free","req":"A","start":0,"end":2}',
    ]


def test_requests_are_called_by_letters() -> None:
    assert after(
        text.rename,
        [
            '{"op":"alloc_extend","reqs":["request-77",4],"seq_lens":[2,1]}',
            '{"op":"free","req":4}',
            '{"op":"free","req":4}',
        ],
    ) == [
        '{"op":"alloc_extend","seq_lens":[2,1],"reqs":["A","B"]}',
        '{"op":"free","req":"B"}',
        '{"op":"free","req":"B"}',
    ]
    assert [text.letters(at) for at in (0, 25, 26, 27, 701, 702)] == [
        *("A", "Z", "AA", "AB", "ZZ", "AAA")
    ]


def test_fields_that_rows_imply_are_left_out() -> None:
    assert after(
        text.drop_fields,
        [
            '{"op":"alloc_extend","reqs":["A"],"prefix_lens":[0],"seq_lens":[2],"last_loc":[-1]}',
            '{"op":"free","req":"A","start":0,"end":2,"expect":{"full_available":12}}',
            '{"op":"free","req":"A","start":0,"end":1}',
        ],
    ) == [
        '{"op":"alloc_extend","seq_lens":[2],"reqs":["A"]}',
        '{"op":"free","req":"A"}',
        '{"op":"free","req":"A"}',
    ]


def test_two_events_that_only_go_together_go_together() -> None:
    # Without its release the second request does not fit; without the request there is none.
    assert (
        len(
            after(
                events.drop_pairs,
                [
                    '{"op":"alloc_extend","reqs":["A"],"seq_lens":[2]}',
                    '{"op":"free_group_begin"}',
                    '{"op":"free_group_end"}',
                    *TWICE,
                ],
            )
        )
        == 3
    )


def test_the_gate_refuses_what_is_not_smaller() -> None:
    search = search_on(['{"op":"alloc_extend","reqs":["A"],"seq_lens":[2]}', *TWICE])
    assert not search.offer_events(
        parsed('{"op":"alloc_extend","reqs":["A"],"seq_lens":[3]}', *TWICE)
    )
    assert not search.offer_events(search.events)


def test_the_gate_refuses_what_is_no_trace_or_shows_something_else() -> None:
    search = search_on(['{"op":"alloc_extend","reqs":["A"],"seq_lens":[2]}', *TWICE])
    assert not search.offer_events(parsed(*TWICE))
    assert not search.offer([Line(event) for event in parsed(TWICE[0])])
    assert not search.offer_events(parsed('{"op":"free","indices":[2]}'), small(page_size=1))


def test_every_pass_says_what_it_does() -> None:
    names = [step.name for step in (*ROUND, *FINISH)]
    assert len(set(names)) == len(names)
    assert all(step.does for step in (*ROUND, *FINISH))
