"""The formats, on finished records made by hand."""

from __future__ import annotations

import io
import json

import pytest

from swasim.errors import UsageError
from swasim.reporters import FORMATS, Look, reporter
from tests.support import factories

SCREEN_80 = Look(width=80, whole_rows=False)

REPLAY_80 = """\
traces/pr27779.jsonl on buggy
page 4 tokens, full 16 tokens, SWA 16 tokens

event  line  op            what    full      SWA      result
───────────────────────────────────────────────────────────────────
    1     2  alloc_extend  A 0:4     12  -4   12  -4  ok
    2     3  free_swa      A 0:1     12       16  +4  stale-mapping
    3     4  free_swa      A 1:2     12       20  +4  double-free
.. 13    14  alloc_decode  3 reqs    12       20      refused
.. 9 of 13 events not shown (--every N, --tail N)

1. error[stale-mapping] 3 entries still point at SWA page 1 after its release
  at        traces/pr27779.jsonl:3, event 2 free_swa req A,
            swa_radix_cache.evict, t 1.250 s, positions 0:1
  slots     5-7
  allocated event 1 (line 2) alloc_extend req A
  mapped    event 1 (line 2) alloc_extend req A
  SWA page   0   1   2   3   4
    before   -- [A]  .   .   .
    after    -- [.]  .   .   .
            A = event 1 alloc_extend req A
            . free; -- padding; [ ] this page
  pages     free 4 + live 0 = 4 pages
  available 16 of 16 tokens
  note      free_swa cleared the entry of slot 4 only
  go on     swasim inspect traces/pr27779.jsonl --allocator buggy --page swa:1
  led to    error[double-free] SWA page 1 is released, but it is free already
            event 3 (line 4) free_swa req A
            released before by event 2 (line 3) free_swa req A,
            swa_radix_cache.evict, t 1.250 s
            available 20 of 16 tokens, 4 too many

2. warning[partial-page-free] free_swa names 1 of 4 live tokens of page 1; the
   whole page goes
  at        traces/pr27779.jsonl:3, event 2 free_swa req A,
            swa_radix_cache.evict, t 1.250 s

3 findings: 2 errors (1 a consequence), 1 warning; 1 refused of 13 events; \
full 12/16 tokens, SWA 20/16 tokens
"""

COMPARISON_80 = """\
traces/pr27779.jsonl on buggy, fixed
page 4 tokens, full 16 tokens, SWA 16 tokens

                                  buggy                    fixed
event  line  op            what   full  SWA result         full  SWA result
───────────────────────────────────────────────────────────────────────────
    1     2  alloc_extend  A 0:4    12   12                  12   12
  > 2     3  free_swa      A 0:1    12   16 stale-mapping    12   16
    3     4  free_swa      A 1:2    12   20 double-free      12   16

> They part at event 2 (line 3) free_swa, first in mapping:
  buggy slots 5-7 -> SWA 5-7
  fixed every entry 0

buggy  faulty  full 12/16 tokens, SWA 20/16 tokens
               known fault, PR 27779: found at event 2
fixed  clean   full 12/16 tokens, SWA 16/16 tokens

buggy: 2 findings: 2 errors (1 a consequence)
error[stale-mapping] 3 entries still point at SWA page 1 after its release
    at        traces/pr27779.jsonl:3, event 2 free_swa req A,
              swa_radix_cache.evict, t 1.250 s, positions 0:1
  led to    error[double-free] SWA page 1 is released, but it is free already
            event 3 (line 4) free_swa req A
            released before by event 2 (line 3) free_swa req A,
            swa_radix_cache.evict, t 1.250 s
            available 20 of 16 tokens, 4 too many
"""


def replay_text(look: Look = SCREEN_80, name: str = "table", **changes: object) -> str:
    out = io.StringIO()
    reporter(name).write_replay(factories.buggy_replay(**changes), out, look)
    return out.getvalue()


def comparison_text(look: Look = SCREEN_80, name: str = "table") -> str:
    out = io.StringIO()
    reporter(name).write_comparison(factories.comparison(), out, look)
    return out.getvalue()


def test_a_replay_at_width_80() -> None:
    assert replay_text() == REPLAY_80


def test_a_comparison_at_width_80() -> None:
    assert comparison_text() == COMPARISON_80


def test_at_width_200_a_finding_and_its_place_stand_on_one_line_each() -> None:
    lines = replay_text(Look(width=200, whole_rows=False)).splitlines()
    assert (
        "2. warning[partial-page-free] free_swa names 1 of 4 live tokens of page 1; the whole page"
        " goes" in lines
    )
    assert (
        "  at        traces/pr27779.jsonl:3, event 2 free_swa req A, swa_radix_cache.evict,"
        " t 1.250 s, positions 0:1" in lines
    )
    # The free-space table is as wide as its content, not as the screen.
    assert lines[4] == "─" * 67


def test_colour_changes_no_character_that_is_read() -> None:
    plain = replay_text()
    coloured = replay_text(Look(width=80, whole_rows=False, color=True))
    assert "\x1b[1;31merror[stale-mapping]" in coloured
    without = "".join(part.split("m", 1)[1] for part in ("\x1b[m" + coloured).split("\x1b[")[1:])
    assert [line.rstrip() for line in without.splitlines()] == plain.splitlines()


def test_a_narrow_screen_folds_rows_and_loses_nothing() -> None:
    text = replay_text(Look(width=50, whole_rows=False))
    table = text.split("\n\n")[1]
    assert max(map(len, table.splitlines())) <= 50
    folded = "".join("".join(line[50 - 10 :].split()) for line in table.splitlines())
    assert "stale" in folded


def test_without_a_screen_every_row_is_one_line() -> None:
    lines = replay_text(Look(width=40, whole_rows=True)).splitlines()
    assert "    2     3  free_swa      A 0:1     12       16  +4  stale-mapping" in lines


def test_quiet_leaves_findings_and_summary() -> None:
    text = replay_text(Look(width=80, quiet=True))
    assert text.startswith("1. error[stale-mapping]")
    assert text.endswith("SWA 20/16 tokens\n")


def test_verbose_shows_a_consequence_in_full_with_its_cause() -> None:
    text = replay_text(Look(verbose=True))
    assert "3. error[double-free] SWA page 1 is released, but it is free already\n" in text
    assert "  because   stale-mapping at event 2; this one follows from it\n" in text
    assert "    after     --  [.x2]   .     .     .\n" in text
    assert "  pages     free 5 + live 0 = 5 of 4 pages, 1 too many\n" in text
    assert "  available 20 of 16 tokens, 4 too many\n" in text


def test_a_clean_replay_ends_with_one_line() -> None:
    out = io.StringIO()
    reporter("table").write_replay(factories.clean_replay(), out, Look(quiet=True))
    assert out.getvalue() == "no findings; full 12/16 tokens, SWA 16/16 tokens\n"


def test_control_characters_of_a_trace_never_reach_the_screen() -> None:
    text = replay_text(trace="bad\x1b[2Jname\n.jsonl")
    assert "\x1b" not in text
    assert text.startswith("bad\\x1b[2Jname\\n.jsonl on buggy\n")


def test_concise_is_one_line_a_finding() -> None:
    assert replay_text(name="concise").splitlines() == [
        "traces/pr27779.jsonl:3: error[stale-mapping] 3 entries still point at SWA page 1 after"
        " its release",
        "traces/pr27779.jsonl:3: warning[partial-page-free] free_swa names 1 of 4 live tokens of"
        " page 1; the whole page goes",
        "traces/pr27779.jsonl:4: error[double-free] SWA page 1 is released, but it is free already",
    ]
    assert comparison_text(name="concise").splitlines()[1].endswith("is free already (buggy)")


def test_json_has_the_agreed_shape() -> None:
    document = json.loads(replay_text(name="json"))
    assert list(document)[:6] == ["swasim", "schema", "trace", "config", "allocator", "findings"]
    assert document["schema"] == 1
    assert document["allocator"] == "buggy"
    assert document["config"]["page_size"] == 4
    assert document["summary"]["events"] == 13
    assert document["summary"]["swa_available"] == 20
    first = document["findings"][0]
    agreed = ("kind", "severity", "pool", "page", "event", "line", "op", "req", "headline")
    assert {name: first[name] for name in agreed} == {
        "kind": "stale-mapping",
        "severity": "error",
        "pool": "swa",
        "page": 1,
        "event": 2,
        "line": 3,
        "op": "free_swa",
        "req": "A",
        "headline": "3 entries still point at SWA page 1 after its release",
    }
    assert first["allocated"]["event"] == 1
    assert document["findings"][2]["cause"] == first["fingerprint"]
    assert document["findings"][2]["cause_event"] == 2


def test_json_of_a_comparison_holds_the_runs_and_where_they_part() -> None:
    document = json.loads(comparison_text(name="json"))
    assert [run["allocator"] for run in document["runs"]] == ["buggy", "fixed"]
    assert document["first_divergence"]["event"] == 2
    assert [verdict["clean"] for verdict in document["verdicts"]] == [False, True]
    assert document["rows"][1]["parted"] is True


def test_jsonl_is_a_stream_of_typed_records() -> None:
    records = [json.loads(line) for line in replay_text(name="jsonl").splitlines()]
    assert [record["type"] for record in records] == [
        "run",
        *["event"] * 4,
        *["finding"] * 3,
        "summary",
    ]
    records = [json.loads(line) for line in comparison_text(name="jsonl").splitlines()]
    assert [record["type"] for record in records][-3:] == ["divergence", "verdict", "verdict"]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_writes_a_replay_and_a_comparison(name: str) -> None:
    assert replay_text(name=name)
    assert comparison_text(name=name)


def test_an_unknown_format_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown format 'jsno'; did you mean 'json'\?"):
        reporter("jsno")
