"""--output: what is refused, and that nothing half-written is left."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from swasim.commands.app import run
from swasim.commands.options import OutputOptions
from swasim.commands.output import destination, look
from swasim.errors import UsageError


def write(
    path: Path | str, text: str = "new\n", *, force: bool = False, inputs: tuple[str, ...] = ()
) -> None:
    with destination(OutputOptions(output=str(path), force=force), inputs=inputs) as out:
        out.write(text)


def test_a_new_file_is_written(tmp_path: Path) -> None:
    write(tmp_path / "report")
    assert (tmp_path / "report").read_text() == "new\n"
    assert os.listdir(tmp_path) == ["report"]


def test_an_existing_file_is_kept_without_force(tmp_path: Path) -> None:
    report = tmp_path / "report"
    report.write_text("old\n")
    with pytest.raises(UsageError, match="the file exists; --force replaces it"):
        write(report)
    assert report.read_text() == "old\n"


def test_force_replaces_it(tmp_path: Path) -> None:
    report = tmp_path / "report"
    report.write_text("old\n")
    write(report, force=True)
    assert report.read_text() == "new\n"


def test_the_input_is_never_the_output(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text("old\n")
    with pytest.raises(UsageError, match="is also the input"):
        write(trace, force=True, inputs=(str(trace),))


def test_a_failure_half_way_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    report = tmp_path / "report"
    report.write_text("old\n")

    def fail() -> None:
        with destination(OutputOptions(output=str(report), force=True)) as out:
            out.write("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert report.read_text() == "old\n"
    assert os.listdir(tmp_path) == ["report"]


def test_a_folder_and_a_missing_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        write(tmp_path)
    with pytest.raises(UsageError, match="is a directory"):
        write(f"{tmp_path}/new/")
    with pytest.raises(UsageError, match="no folder"):
        write(tmp_path / "missing" / "report")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="Permission denied"):
        write(tmp_path / "report")


def test_a_refusal_of_the_system_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UsageError, match="cannot be written: Permission denied"):
        write(tmp_path / "report")


def test_a_device_is_written_in_place() -> None:
    write("/dev/null")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize(
    ("environment", "color"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
    ids=["pipe", "forced", "NO_COLOR wins"],
)
def test_colour_follows_the_environment(
    environment: dict[str, str],
    color: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert look(OutputOptions(), sys.stdout).color is color
    assert look(OutputOptions(), io.StringIO()).color is False


def test_width_is_that_of_columns_and_rows_stay_whole_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert look(OutputOptions(), sys.stdout).width is None
    monkeypatch.setenv("COLUMNS", "90")
    seen = look(OutputOptions(), sys.stdout)
    assert (seen.width, seen.whole_rows) == (90, True)


def test_a_terminal_sets_width_and_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    seen = look(OutputOptions(), terminal)
    assert (seen.width, seen.whole_rows, seen.color) == (120, False, True)


def test_a_file_that_came_up_meanwhile_is_kept(tmp_path: Path) -> None:
    report = tmp_path / "report"

    def race() -> None:
        with destination(OutputOptions(output=str(report))) as out:
            out.write("second\n")
            report.write_text("first\n")

    with pytest.raises(UsageError, match="the file exists; --force replaces it"):
        race()
    assert report.read_text() == "first\n"
    assert os.listdir(tmp_path) == ["report"]


def test_no_hard_links_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    write(tmp_path / "report")
    assert os.listdir(tmp_path) == ["report"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("text", ["short\n", "long\n" * 100_000])
def test_a_full_disk_names_the_output(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--output /dev/full: cannot be written: No space left"):
        write("/dev/full", text)


def test_an_empty_name_is_no_file() -> None:
    with pytest.raises(UsageError, match="--output is empty; give a file"):
        write("")


@pytest.mark.parametrize("flag", ["--config", "--baseline", "--suppressions"])
def test_no_file_that_is_read_is_written(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {"--config": "page_size: 4\n", "--suppressions": "double-free\n"}
    report = tmp_path / "report"
    if flag == "--baseline":
        assert run(["replay", "pr27779", "-f", "json", "-o", str(report)]) == 0
    else:
        report.write_text(content[flag])
    before = report.read_text()
    assert run(["replay", "pr27779", flag, str(report), "-o", str(report), "--force"]) == 2
    assert capsys.readouterr().err.endswith("is also the input; give another file\n")
    assert report.read_text() == before


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_plain_text_gets_no_name_of_a_compressed_file(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"short.jsonl{suffix}"
    assert run(["minimize", "pr27779", "-a", "buggy", "-o", str(path)]) == 2
    assert f"is plain text; give a name without {suffix}" in capsys.readouterr().err
    assert not path.exists()
