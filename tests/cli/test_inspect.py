"""`swasim inspect`: screens, formats, and one line for every wrong question."""

from __future__ import annotations

import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from swasim import bundled
from swasim.commands.app import run
from swasim.config import SimConfig
from swasim.inspect import Inspector
from swasim.inspect.records import CellRun, Inspection, Owner, PoolView, StateView
from swasim.reporters import Look
from swasim.reporters.inspect import write_table
from swasim.sanitizer.findings import Moment
from tests.support.vectors import DATA

RECORDED = str(DATA / "recorded" / "radix" / "0.5.23__p64__s7.jsonl.zst")
SCREEN_80 = Look(width=80, whole_rows=False)

MOMENT = """\
after event 3 (line 21) free_swa req A, 1:2
  error[double-free] SWA page 1 is released again while it is free
  error[accounting-overflow] SWA pool: 20 tokens available of 16

full pool  free 3 + live 1 = 4 pages; 12 of 16 tokens available
        1  A...
free list  2-4 (3 pages, in order)

SWA pool   free 5 + live 0 = 5 of 4 pages, 1 too many; 20 of 16 tokens available, 4 too many
        1  2...
free list  1, 1-4 (5 pages, in order)

  A req A (1 full)
  . free; 2 to 9: that often in the free list

mapping    2 entries: full slots -> SWA slots
           6-7 -> 6-7 stale
           stale: the SWA page was released, the entry stayed
"""


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["inspect", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def on_screen(trace: str, look: Look, **asked: Any) -> str:
    """What a terminal shows of one view: `at=N`, `page=("swa", 7)` or `req="A"`."""
    inspector = Inspector(trace)
    view: Any
    if "at" in asked:
        view = inspector.at(asked["at"])
    elif "req" in asked:
        view = inspector.row(asked["req"])
    else:
        view = inspector.page(*asked["page"])
    out = io.StringIO()
    write_table(Inspection("t.jsonl", inspector.config, (view,)), out, look)
    return out.getvalue()


def test_a_moment_reads_from_the_event_down_to_the_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = shown(capsys, "pr27779", "-a", "buggy", "--at", "3")
    assert MOMENT.lower() in out.lower()
    assert re.search(r"\nreq A +4 +1 +0$", out, re.MULTILINE)


def test_a_page_reads_as_a_life_with_its_findings_in_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = shown(capsys, "pr27779", "-a", "buggy", "--page", "swa:1")
    lines = [re.sub(" +", " ", line.strip()) for line in out.splitlines()]
    assert "SWA page 1 of 4: slots 4-7" in lines
    told = [line.split(" ")[:4] for line in lines if re.match(r"[123] ", line)]
    assert told == [
        ["1", "15", "alloc_extend", "req"],
        ["2", "18", "free_swa", "req"],
        ["3", "21", "free_swa", "req"],
    ]
    order = [
        next(at for at, line in enumerate(lines) if text in line)
        for text in ("taken; full 4-7 (page 1) mapped", "error[stale", "full 5", "error[double")
    ]
    assert order == sorted(order)
    assert "at the end after event 3: free, 2 times in the free list" in " ".join(lines)


def test_several_pages_are_shown_in_one_replay(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, "pr27779", "--page", "full:1", "--page", "swa:4")
    assert out.index("full page 1 of 4") < out.index("SWA page 4 of 4")
    assert "no event of the trace touches it" in out


def test_a_slot_names_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert "full slot 5: offset 1 of full page 1" in shown(capsys, "pr27779", "--slot", "full:5")


def test_a_request_is_shown_page_by_page(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, "pr27779", "-a", "buggy", "--req", "A", "--sliding-window-size", "3")
    assert "window 3: the next step reads SWA peers from position 2 on" in out
    rows = [line.split() for line in out.splitlines()]
    assert ["0-1", "1", "4-5", "-", "-", "1", "valid"] in rows
    assert ["2-3", "1", "6-7", "1", "6-7", "inside", "1", "valid,", "stale"] in [
        row[:9] for row in rows
    ]


def test_json_is_one_versioned_document(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(shown(capsys, "pr27779", "-a", "buggy", "--page", "swa:1", "-f", "json"))
    assert (document["schema"], document["allocator"]) == (1, "buggy")
    (life,) = document["pages"]
    assert [event["first"]["event"] for event in life["events"]] == [1, 2, 3]
    assert life["findings"][0]["kind"] == "stale-mapping"
    assert life["end"]["copies"] == 2
    state = json.loads(shown(capsys, "pr27779", "--at", "1", "-f", "json"))["state"]
    assert state["full"]["cells"][0] == {
        "first": 1,
        "last": 1,
        "state": "live",
        "owner": 0,
        "copies": 0,
    }
    assert json.loads(shown(capsys, "pr27779", "--req", "A", "-f", "json"))["row"]["length"] == 4


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "say what to look at: one of --at N, --page POOL:PAGE"),
        (["--at", "1", "--req", "A"], "--at and --req cannot be given together"),
        (["--at", "4"], "--at 4: the trace has events 1 to 3"),
        (["--at", "-1"], "'--at'"),
        (["--at", "x"], "'--at'"),
        (["--page", "7"], "--page '7' names no pool; expected full:PAGE or swa:PAGE"),
        (["--page", "swaa:7"], "no such pool, did you mean 'swa'?"),
        (["--page", "swa:x"], "'x' is no page number"),
        (["--page", "swa:5"], "--page swa:5: the SWA pool has pages 1 to 4 (0 is padding)"),
        (["--slot", "full:20"], "--slot full:20: the full pool has slots 4 to 19"),
        (["--req", "B"], "unknown request 'B' (known: A)"),
        (["--at", "1", "-f", "sarif"], "unknown format 'sarif'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_question_is_one_line_and_exit_2(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", "pr27779", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert expected in captured.err


@pytest.mark.parametrize(
    "name", [name for name in bundled.list_traces() if name.startswith("kinds/")]
)
def test_the_command_that_a_finding_suggests_works_and_shows_the_finding(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", name, "-f", "json", "--exit-zero"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    for finding in findings:
        command = shlex.split(finding["help"][0])
        assert command[:2] == ["swasim", "inspect"]
        out = shown(capsys, *command[2:])
        if "--page" in command:
            assert f"[{finding['kind']}]" in out


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("asked", [{"at": 396}, {"page": ("full", 1)}, {"page": ("swa", 53)}])
@pytest.mark.parametrize("terminal", ["dumb", "xterm-256color"])
def test_a_recorded_trace_fits_the_screen(
    terminal: str, width: int, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", terminal)
    plain = on_screen(RECORDED, Look(width=width, whole_rows=False), **asked)
    assert max(len(line) for line in plain.splitlines()) <= width
    assert plain.count("\n") <= 60
    colored = on_screen(RECORDED, Look(width=width, whole_rows=False, color=True), **asked)
    without = re.sub(r"\x1b\[[0-9;]*m", "", colored)
    assert [line.rstrip() for line in without.splitlines()] == plain.splitlines()


def test_runs_of_decode_steps_are_one_line_of_a_recorded_page() -> None:
    text = on_screen(RECORDED, Look(), page=("full", 1))
    assert re.search(
        r"574-627 +575-628 +37 alloc_decode +slots 65-101 handed out, mapped to SWA 3393-3429"
        r" \(page 53\) +live, 38 of 64 slots, peer SWA 53",
        text,
    )


def scattered(pages: int) -> Inspection:
    """A moment of a large pool whose pages belong to ninety owners in turn."""
    cells = tuple(
        CellRun(page, page, "live", page % 90, 0)
        if page % 3
        else CellRun(page, page, "free", None, 1)
        for page in range(1, pages + 1)
    )
    owners = tuple(
        Owner("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[n] if n < 25 else "*", f"req r{n}", 9, 9)
        for n in range(90)
    )
    free = tuple(range(3, pages + 1, 3))
    pool = PoolView(
        "full",
        cells,
        free,
        (),
        len(free),
        pages - len(free),
        0,
        0,
        pages,
        len(free) * 64,
        64 * pages,
    )
    view = StateView(Moment(9, 10, "free", "r1"), "", "ok", (), pool, pool, owners, (), None, ())
    config = SimConfig(page_size=64, kv_size=64 * pages, kv_size_swa=64 * pages)
    return Inspection("big.jsonl", config, (view,))


def test_a_pool_of_15000_scattered_pages_is_a_readable_screen() -> None:
    out = io.StringIO()
    write_table(scattered(15_000), out, SCREEN_80)
    lines = out.getvalue().splitlines()
    assert len(lines) <= 60
    assert max(len(line) for line in lines) <= 80
    assert "one sign for 4 pages" in out.getvalue()


def test_in_a_pipe_a_large_pool_is_whole() -> None:
    out = io.StringIO()
    write_table(scattered(15_000), out, Look())
    assert "one sign for" not in out.getvalue()
    assert "..." not in out.getvalue()
    assert "\n    14951  " in out.getvalue()


def test_the_output_may_go_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "page.txt"
    assert run(["inspect", "pr27779", "--page", "swa:1", "-o", str(target)]) == 0
    assert capsys.readouterr().out == ""
    assert "SWA page 1 of 4" in target.read_text(encoding="utf-8")
