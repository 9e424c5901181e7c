from __future__ import annotations

from pathlib import Path

import pytest

from swasim import bundled
from swasim.errors import UsageError


def test_the_regression_trace_and_its_config_are_found_by_name() -> None:
    assert bundled.trace_path("pr27779").name == "pr27779.jsonl"
    assert bundled.config_path("pr27779").name == "pr27779.yaml"
    assert bundled.trace_path("pr27779").is_file()


def test_a_name_may_carry_its_suffix() -> None:
    assert bundled.trace_path("pr27779.jsonl") == bundled.trace_path("pr27779")
    assert bundled.config_path("pr27779.yaml") == bundled.config_path("pr27779")


def test_every_listed_name_leads_to_a_file() -> None:
    assert "pr27779" in bundled.list_traces()
    assert all(bundled.trace_path(name).is_file() for name in bundled.list_traces())
    assert all(bundled.config_path(name).is_file() for name in bundled.list_configs())


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown bundled trace 'pr2777'; did you mean 'pr27779'"):
        bundled.trace_path("pr2777")
    with pytest.raises(UsageError, match="did you mean 'gpt-oss-20b'"):
        bundled.config_path("gpt-oss-20")


@pytest.mark.parametrize("name", ["../pyproject", "/etc/passwd", "", ".", "pr27779.jsonl/x"])
def test_a_name_cannot_lead_outside(name: str) -> None:
    with pytest.raises(UsageError):
        bundled.trace_path(name)


def test_the_installed_copy_is_preferred_to_the_folder_beside_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "swasim"
    for folder in (package / "_bundled" / "traces" / "kinds", tmp_path / "traces"):
        folder.mkdir(parents=True)
    (package / "_bundled" / "traces" / "kinds" / "leak.jsonl.zst").touch()
    (tmp_path / "traces" / "other.jsonl").touch()
    monkeypatch.setattr(bundled, "_PACKAGE", package)
    assert bundled.list_traces() == ("kinds/leak",)
    assert bundled.trace_path("kinds/leak") == (
        package / "_bundled" / "traces" / "kinds" / "leak.jsonl.zst"
    )
