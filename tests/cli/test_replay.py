"""`swasim replay`: exit codes, options, and what goes where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swasim.commands.app import run

TRACE = """\
{"swasim_trace":1,"page_size":4,"kv_size":16,"kv_size_swa":16}
{"op":"alloc_extend","reqs":["A"],"seq_lens":[4]}
{"op":"free_swa","req":"A","start":0,"end":1,"site":"evict"}
{"op":"free_swa","req":"A","start":1,"end":2}
"""


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "FORCE_COLOR", "SWASIM_ALLOCATOR", "SWASIM_PAGE_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "t.jsonl"
    path.write_text(TRACE)
    return str(path)


def test_errors_are_exit_1_and_a_table_on_stdout(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", trace, "-a", "buggy"]) == 1
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = captured.out.splitlines()
    assert lines[0] == f"{trace} on buggy"
    assert "    1     2  alloc_extend  A 0:4    12  -4   12  -4  ok" in lines
    assert any(line.startswith("1. error[stale-mapping] ") for line in lines)
    assert any(line.startswith("  led to    error[double-free] ") for line in lines)
    assert lines[-1].endswith("full 12/16 tokens, SWA 20/16 tokens")


def test_warnings_and_notes_are_exit_0(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", trace, "-a", "fixed"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("SWA 16/16 tokens")


@pytest.mark.parametrize(
    ("allocator", "fail_on", "code"),
    [
        ("fixed", "warning", 1),
        ("fixed", "partial-page-free", 1),
        ("fixed", "note", 1),
        ("fixed", "double-free,stale-mapping", 0),
        ("buggy", "padding-page", 0),
        ("buggy", "double-free, padding-page", 1),
        ("buggy", "warning", 1),
    ],
)
def test_fail_on_decides_what_fails(
    allocator: str, fail_on: str, code: int, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", trace, "-a", allocator, "--fail-on", fail_on]) == code


def test_exit_zero_wins(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", trace, "-a", "buggy", "--exit-zero"]) == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--fail-on", "duble-free"], "did you mean 'double-free'?"),
        (["--format", "tabel"], "did you mean 'table'?"),
        (["--allocator", "bugy"], "did you mean 'buggy'?"),
        (["--engine", "tensor"], "core or torch"),
        (["--device", "gpu"], "cpu, cuda"),
        (["--page-size", "0"], "page_size"),
        (["--kv-size", "3"], "less than one page of 4"),
        (["--config", "nosuch.yaml"], "nosuch.yaml"),
        (["--suppress", "duble-free"], "did you mean 'double-free'?"),
        (["--baseline", "nosuch.json"], "nosuch.json"),
        (["--output", "/nosuch/folder/report"], "no folder /nosuch/folder"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_unknown_name_or_value_is_one_line_and_exit_2(
    arguments: list[str], expected: str, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", trace, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert expected in captured.err


def test_json_on_stdout_is_one_document(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", trace, "-a", "buggy", "-f", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["trace"], document["allocator"]) == (1, trace, "buggy")
    assert [finding["kind"] for finding in document["findings"]][:1] == ["stale-mapping"]
    assert document["findings"][0]["site"] == "evict"
    assert document["summary"]["swa_available"] == 20


def test_concise_points_at_the_line(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(["replay", trace, "-a", "buggy", "-f", "concise"])
    assert capsys.readouterr().out.startswith(f"{trace}:3: error[stale-mapping] ")


def test_options_can_be_set_by_variables(
    trace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWASIM_ALLOCATOR", "buggy")
    monkeypatch.setenv("SWASIM_FORMAT", "concise")
    monkeypatch.setenv("SWASIM_EXIT_ZERO", "1")
    assert run(["replay", trace]) == 0
    assert "error[stale-mapping]" in capsys.readouterr().out


def test_a_flag_wins_over_a_variable(
    trace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWASIM_ALLOCATOR", "buggy")
    assert run(["replay", trace, "-a", "fixed"]) == 0


def test_show_config_says_where_each_value_came_from(
    trace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("kv_size: 32\nkv_size_swa: 8\n")
    monkeypatch.setenv("SWASIM_KV_SIZE_SWA", "24")
    arguments = ["replay", trace, "-c", str(config), "--need-sort", "--show-config"]
    assert run(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = {line.split(":")[0]: line.split(maxsplit=1)[1] for line in lines}
    origins = {key: " ".join(text.split()) for key, text in shown.items()}
    assert origins["page_size"] == "4 # trace header"
    assert origins["kv_size"] == f"32 # {config}:1"
    assert origins["kv_size_swa"] == "24 # environment SWASIM_KV_SIZE_SWA"
    assert origins["need_sort"] == "true # flag"
    assert origins["device"] == "cpu # default"


def test_max_findings_hides_and_counts(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", trace, "-a", "buggy", "--max-findings", "1"]) == 1
    out = capsys.readouterr().out
    assert "1. " in out
    assert "led to" not in out
    assert "of them not shown (--max-findings)" in out.splitlines()[-1]


def test_stop_at_first_stops_at_the_event(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", trace, "-a", "buggy", "--stop-at-first", "-f", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["summary"]["events"] == 2


def test_expect_idle_reports_what_is_live(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", trace, "-a", "fixed", "--expect-idle", "-f", "concise"]) == 1
    assert "error[leaked-page]" in capsys.readouterr().out


def test_a_suppression_takes_its_finding_out_and_an_unneeded_one_is_said(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = ["--suppress", "partial-page-free:swa@ev*", "--suppress", "padding-page"]
    assert run(["replay", trace, "-a", "fixed", "-q", "--fail-on", "warning", *rules]) == 0
    assert "1 suppressed" in capsys.readouterr().out
    run(["replay", trace, "-a", "fixed", *rules])
    assert "padding-page matched no finding" in capsys.readouterr().err


def test_a_baseline_leaves_only_what_is_new(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = str(tmp_path / "old.json")
    assert run(["replay", trace, "-a", "buggy", "-f", "json", "-o", report]) == 1
    assert run(["replay", trace, "-a", "buggy", "--baseline", report]) == 0


def test_output_refuses_to_overwrite_before_any_work(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report"
    report.write_text("old")
    assert run(["replay", trace, "-o", str(report)]) == 2
    assert "--force" in capsys.readouterr().err
    assert report.read_text() == "old"
    assert run(["replay", trace, "-o", str(report), "--force"]) == 0
    assert report.read_text().startswith(trace)


def test_a_bad_line_leaves_no_output_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text(TRACE + '{"op":"fre"}\n' + '{"op":"clear"}\n')
    assert run(["replay", str(bad), "-o", str(tmp_path / "report")]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.jsonl"]


def test_a_cut_trace_is_a_warning_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut.jsonl"
    cut.write_text(TRACE + '{"op":"fre')
    assert run(["replay", str(cut), "-a", "fixed"]) == 0
    assert "cut off inside line 5" in capsys.readouterr().err
    assert run(["replay", str(cut), "-a", "fixed", "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_a_bundled_trace_is_found_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["replay", "pr27779", "-a", "fixed"]) == 0


def test_every_and_tail_thin_the_table_and_keep_what_is_interesting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = tmp_path / "long.jsonl"
    header = '{"swasim_trace":1,"page_size":1,"kv_size":64}\n'
    long.write_text(header + '{"op":"alloc","need_size":1,"req":"A"}\n' * 40)
    assert run(["replay", str(long), "--every", "10"]) == 0
    out = capsys.readouterr().out
    assert ".. 11 " in out
    assert "of 40 events not shown" in out
    assert run(["replay", str(long), "--tail", "3", "-f", "json"]) == 0
    timeline = json.loads(capsys.readouterr().out)["timeline"]
    assert [row["event"] for row in timeline] == [38, 39, 40]


def test_show_config_as_json_is_one_document(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", trace, "--show-config", "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["config"]["page_size"] == 4
    assert document["origins"]["page_size"] == "trace header"


def test_the_source_of_a_trace_picks_the_release_and_show_config_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"swasim_trace":1,"source":"sglang 0.5.12"}\n{"op":"clear"}\n')
    assert run(["replay", str(path), "--show-config"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "allocator: sglang-0.5.12 # trace header: source" in lines


def test_pools_beyond_the_memory_are_refused_before_they_are_made(
    trace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1 << 21}.get)
    flags = ["--page-size", "1", "--kv-size", "2000000000", "--kv-size-swa", "1000000000"]
    assert run(["replay", trace, *flags]) == 2
    assert capsys.readouterr().err.startswith(
        "swasim: error: pools of 2000000000 and 1000000000 tokens with pages of 1 need about 128"
        " GiB of memory, and this machine has 8; use smaller pools"
    )


def test_a_misspelt_variable_is_a_warning(
    trace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWASIM_PAGESIZE", "8")
    monkeypatch.setenv("SWASIM_RECORD_RING", "8")
    assert run(["replay", trace]) == 0
    assert capsys.readouterr().err == (
        "swasim: warning: environment SWASIM_PAGESIZE is not known; did you mean"
        " SWASIM_PAGE_SIZE?\n"
    )


def test_a_trace_whose_every_call_raises_was_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"op":"alloc_extend","reqs":["A"],"seq_lens":[8]}\n')
    assert run(["replay", str(path), "-f", "concise"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "nothing was judged" in error
    assert "page_size 1" in error
