"""Suppressions and baselines: what is taken out, what is counted, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swasim.errors import UsageError
from swasim.geometry import Pool
from swasim.sanitizer.findings import Finding, Moment
from swasim.sanitizer.suppress import (
    Baseline,
    Filtered,
    Suppression,
    apply,
    load_suppressions,
)


def finding(
    kind: str = "double-free", pool: Pool | None = "swa", site: str = "", fingerprint: str = "f1"
) -> Finding:
    return Finding(
        kind=kind,
        severity="error",
        headline="SWA page 1 is returned twice",
        at=Moment(4, 5, "free_swa", site=site),
        pool=pool,
        fingerprint=fingerprint,
    )


@pytest.mark.parametrize(
    ("text", "kind", "pool", "site"),
    [
        ("double-free", "double-free", None, None),
        ("double-free:swa", "double-free", "swa", None),
        ("double-free@radix.*", "double-free", None, "radix.*"),
        (" padding-page:full@cache evict ", "padding-page", "full", "cache evict"),
        ("double-free@a:b@c", "double-free", None, "a:b@c"),
    ],
)
def test_a_suppression_is_kind_pool_and_site(
    text: str, kind: str, pool: str | None, site: str | None
) -> None:
    rule = Suppression.parse(text)
    assert (rule.kind, rule.pool, rule.site) == (kind, pool, site)
    assert str(rule) == text.strip()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("duble-free", "did you mean 'double-free'"),
        ("double-free:swaa", "did you mean 'swa'"),
        ("double-free:", "unknown pool ''"),
        ("double-free@", "empty site"),
        ("", "expected KIND"),
        ("double free", "expected KIND"),
    ],
)
def test_a_bad_suppression_says_what_is_accepted(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Suppression.parse(text)


def test_pool_and_site_narrow_a_suppression() -> None:
    findings = [
        finding(site="radix.evict"),
        finding(site="scheduler"),
        finding(pool="full", site="radix.evict"),
    ]
    result = apply(findings, [Suppression.parse("double-free:swa@radix.*")])
    assert result.kept == (findings[1], findings[2])
    assert result.suppressed_count == 1
    assert result.warnings == ()


def test_a_suppression_with_a_site_leaves_events_without_one() -> None:
    assert apply([finding()], [Suppression.parse("double-free@radix.*")]).suppressed_count == 0


def test_a_suppression_that_matches_nothing_is_reported() -> None:
    result = apply([finding()], [Suppression.parse("stale-mapping:swa", "known.txt:3")])
    assert result.warnings == (
        "known.txt:3: suppression stale-mapping:swa matched no finding; remove it",
    )


def test_a_finding_of_the_baseline_is_old_and_a_suppressed_one_is_not_counted_twice() -> None:
    findings = [finding(fingerprint="f1"), finding("stale-mapping", fingerprint="f2")]
    baseline = Baseline("b.json", frozenset({"f1", "f2"}))
    result = apply(findings, [Suppression.parse("double-free")], baseline)
    assert result == Filtered((), suppressed_count=1, old_count=1, unused=())


def test_suppression_files_have_comments_and_name_the_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "known.txt"
    path.write_text("# accepted until the next release\n\npartial-page-free:swa@spec.*\n")
    (rule,) = load_suppressions(str(path))
    assert (rule.kind, rule.origin) == ("partial-page-free", f"{path}:3")
    path.write_text("double-free\nnonsense\n")
    with pytest.raises(UsageError, match=r"known\.txt:2: unknown kind 'nonsense'"):
        load_suppressions(str(path))


@pytest.mark.parametrize(
    "document",
    [
        ["f1", "f2"],
        {"swasim": "0.1.0", "findings": [{"fingerprint": "f1"}, {"fingerprint": "f2"}]},
        {
            "runs": [
                {"findings": [{"fingerprint": "f1"}]},
                {"findings": [{"fingerprint": "f2"}]},
            ]
        },
        {
            "version": "2.1.0",
            "runs": [
                {
                    "results": [
                        {"partialFingerprints": {"swasim/v1": "f1"}},
                        {"partialFingerprints": {"swasim/v1": "f2"}},
                        {"partialFingerprints": {"other/v1": "f3"}},
                        {"message": {"text": "no fingerprint"}},
                    ]
                }
            ],
        },
    ],
    ids=["list", "replay", "compare", "sarif"],
)
def test_a_baseline_is_any_report(tmp_path: Path, document: object) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps(document))
    assert Baseline.load(str(path)).fingerprints == {"f1", "f2"}


def test_a_baseline_may_be_a_stream_of_records(tmp_path: Path) -> None:
    path = tmp_path / "baseline.jsonl"
    path.write_text('{"type": "run"}\n\n{"type": "finding", "fingerprint": "f1"}\n')
    assert Baseline.load(str(path)).fingerprints == {"f1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"baseline\.json:1:2: no JSON"),
        ('["f1"]\n{', r"baseline\.json:2:2: no JSON"),
        ("17", "holds no findings"),
        ("[1, 2]", "holds no findings"),
        ('{"a": 1}', "holds no findings"),
    ],
)
def test_a_file_that_is_no_report_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        Baseline.load(str(path))


def test_a_missing_baseline_and_undecodable_suppressions_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        Baseline.load(str(tmp_path / "no.json"))
    path = tmp_path / "known.txt"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8 text"):
        load_suppressions(str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 100_000, ": nested too deeply, or a number too long"),
        (b'["a"]\n' + b"[" * 100_000, ":2: nested too deeply, or a number too long"),
        (b"9" * 5000, ": nested too deeply, or a number too long"),
        (b'["\xff"]', r": not UTF-8 text \(byte 2\)"),
    ],
    ids=["deep", "deep line", "long number", "not UTF-8"],
)
def test_what_no_report_can_be_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "baseline"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        Baseline.load(str(path))


def test_a_baseline_without_an_end_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swasim.sanitizer.suppress.MAX_BYTES", 1 << 20)
    with pytest.raises(UsageError, match="/dev/zero: larger than 1 MiB"):
        Baseline.load("/dev/zero")
    with pytest.raises(UsageError, match="/dev/zero: larger than 1 MiB"):
        load_suppressions("/dev/zero")
