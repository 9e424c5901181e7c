"""The smallest trace of every kind gives that kind, and no other fault."""

import re
from pathlib import Path

import pytest

from swasim.bundled import trace_path
from swasim.commands.app import run
from swasim.run import replay
from swasim.sanitizer.kinds import KINDS

CONSEQUENCES_OF = {
    # More can only be free than exists when something was released twice, and capacity is only
    # missing when something lost it: these two never come alone.
    "accounting-overflow": "double-free",
    "false-exhaustion": "half-allocation",
}

EVENT_OF = {
    "double-free": 4,
    "foreign-free": 4,
    "stale-mapping": 2,
    "page-aliased": 1,
    "padding-page": 3,
    "mapping-overwritten": 3,
    "orphaned-page": 2,
    "half-allocation": 3,
    "accounting-overflow": 3,
    "accounting-mismatch": 5,
    "index-out-of-range": 2,
    "misaligned": 2,
    "use-after-free": 3,
    "window-violation": 2,
    "expectation-failed": 1,
    "replay-divergence": 1,
    "leaked-page": 2,
    "false-exhaustion": 6,
    "partial-page-free": 2,
    "remap-in-free-group": 5,
    "redundant-free": 3,
}


@pytest.mark.parametrize("kind", KINDS)
def test_smallest_trace_gives_its_kind_at_its_event(kind: str) -> None:
    info = KINDS[kind]
    result = replay(trace_path(info.trace), allocator=info.allocator)
    events = [f.at.event for f in result.findings if f.kind == kind]
    assert events[0] == EVENT_OF[kind]
    assert set(events) == {EVENT_OF[kind]}


@pytest.mark.parametrize("kind", KINDS)
def test_smallest_trace_gives_no_other_error(kind: str) -> None:
    info = KINDS[kind]
    result = replay(trace_path(info.trace), allocator=info.allocator)
    others = {f.kind for f in result.findings if f.severity == "error"} - {kind}
    assert others == ({CONSEQUENCES_OF[kind]} if kind in CONSEQUENCES_OF else set())


@pytest.mark.parametrize("kind", CONSEQUENCES_OF)
def test_a_kind_that_never_comes_alone_names_its_cause(kind: str) -> None:
    info = KINDS[kind]
    result = replay(trace_path(info.trace), allocator=info.allocator)
    finding = next(f for f in result.findings if f.kind == kind)
    assert finding.cause_kind == CONSEQUENCES_OF[kind]


def test_every_severity_has_a_kind_and_every_headline_fits() -> None:
    assert {info.severity for info in KINDS.values()} == {"error", "warning", "note"}
    for info in KINDS.values():
        for finding in replay(trace_path(info.trace), allocator=info.allocator).findings:
            assert len(finding.headline) <= 80
            assert finding.severity == KINDS[finding.kind].severity


PUBLIC_EXAMPLES = {
    "double-free": {
        "https://github.com/sgl-project/sglang/pull/27779",
        "https://github.com/FlashML-org/FreeToken/issues/204",
        "https://github.com/vllm-project/vllm/issues/42571",
    },
    "foreign-free": {
        "https://github.com/sgl-project/sglang/pull/27779",
        "https://github.com/sgl-project/sglang/pull/25805",
        "https://github.com/sgl-project/sglang/pull/35501",
    },
    "stale-mapping": {
        "https://github.com/sgl-project/sglang/pull/27779",
        "https://github.com/sgl-project/sglang/pull/25805",
        "https://github.com/sgl-project/sglang/pull/27586",
    },
    "page-aliased": {
        "https://github.com/sgl-project/sglang/pull/27731",
        "https://github.com/LMCache/LMCache/issues/5005",
    },
    "padding-page": {
        "https://github.com/sgl-project/sglang/pull/38519",
        "https://github.com/sgl-project/sglang/pull/36723",
    },
    "mapping-overwritten": {
        "https://github.com/sgl-project/sglang/issues/36081",
        "https://github.com/FlashML-org/FreeToken/issues/204",
    },
    "orphaned-page": {
        "https://github.com/sgl-project/sglang/pull/35338",
        "https://github.com/sgl-project/sglang/pull/36723",
    },
    "half-allocation": {"https://github.com/sgl-project/sglang/pull/35338"},
    "accounting-overflow": {
        "https://github.com/sgl-project/sglang/pull/25805",
        "https://github.com/sgl-project/sglang/pull/38519",
    },
    "accounting-mismatch": {
        "https://github.com/sgl-project/sglang/issues/27789",
        "https://github.com/sgl-project/sglang/pull/36646",
    },
    "index-out-of-range": {
        "https://github.com/sgl-project/sglang/issues/34399",
        "https://github.com/sgl-project/sglang/pull/17630",
    },
    "misaligned": {
        "https://github.com/sgl-project/sglang/pull/11608",
        "https://github.com/sgl-project/sglang/issues/38981",
    },
    "use-after-free": {
        "https://github.com/sgl-project/sglang/pull/31486",
        "https://github.com/sgl-project/sglang/issues/24527",
    },
    "window-violation": {
        "https://github.com/sgl-project/sglang/pull/22470",
        "https://github.com/sgl-project/sglang/pull/29860",
    },
    "leaked-page": {
        "https://github.com/sgl-project/sglang/issues/7130",
        "https://github.com/sgl-project/sglang/pull/26972",
    },
    "false-exhaustion": {"https://github.com/sgl-project/sglang/pull/29662"},
    "partial-page-free": {"https://github.com/sgl-project/sglang/pull/27779"},
    "remap-in-free-group": {"https://github.com/sgl-project/sglang/issues/36081"},
}
"""Pull requests and issues as the public catalogue of faults has them."""


def test_public_examples_are_the_pulls_and_issues_that_they_say() -> None:
    assert {kind: {link for _, link in info.examples} for kind, info in KINDS.items()} == {
        kind: PUBLIC_EXAMPLES.get(kind, set()) for kind in KINDS
    }
    for info in KINDS.values():
        for title, link in info.examples:
            assert title.split()[-1] == link.split("/")[-1]
            assert (" PR " in title) == ("/pull/" in link)


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_that_explain_prints_shows_the_kind(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", kind]) == 0
    [command] = re.findall(r"\(swasim (replay .*)\)", capsys.readouterr().out)
    run([*command.split(), "-f", "concise"])
    assert f"[{kind}]" in capsys.readouterr().out


def test_a_kind_is_documented_where_all_are() -> None:
    text = (Path(__file__).parents[2] / "docs" / "findings.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| (\w+) \| (.+?) \|", text, re.MULTILINE)
    assert [(name, severity) for name, severity, _ in rows] == [
        (info.name, info.severity) for info in KINDS.values()
    ]
    for name, _, meaning in rows:
        assert meaning == KINDS[name].meaning
