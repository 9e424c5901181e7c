"""SARIF: valid against the 2.1.0 schema, with ids and fingerprints that stay."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from swasim.collect import Replay
from swasim.lockstep import Comparison
from swasim.reporters import Look, reporter, sarif
from swasim.sanitizer.kinds import KINDS
from tests.support import factories

SCHEMA = Path(__file__).parents[1] / "data" / "sarif-schema-2.1.0.json"


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return jsonschema.validators.validator_for(schema)(schema)


def document(record: Replay | Comparison, look: Look | None = None) -> dict[str, Any]:
    out = io.StringIO()
    if isinstance(record, Replay):
        sarif.write_replay(record, out, look or Look())
    else:
        sarif.write_comparison(record, out, look or Look())
    loaded: dict[str, Any] = json.loads(out.getvalue())
    return loaded


@pytest.mark.parametrize(
    "record",
    [
        factories.buggy_replay(),
        factories.clean_replay(),
        factories.comparison(),
        factories.buggy_replay(trace="-"),
        factories.buggy_replay(trace="/srv/traces/a b.jsonl", warnings=("rounded down\x1b",)),
    ],
    ids=["findings", "clean", "comparison", "standard input", "absolute path"],
)
def test_the_document_is_valid(record: Replay | Comparison, validator: Any) -> None:
    validator.validate(document(record))


def test_what_a_baseline_leaves_is_new(validator: Any) -> None:
    made = document(factories.buggy_replay(), Look(new_only=True))
    validator.validate(made)
    states = [result["baselineState"] for result in made["runs"][0]["results"]]
    assert states == ["new", "new", "new"]


def test_without_a_baseline_nothing_is_said_about_new_and_old() -> None:
    results = document(factories.buggy_replay())["runs"][0]["results"]
    assert all("baselineState" not in result for result in results)


def test_the_schema_is_not_satisfied_by_anything(validator: Any) -> None:
    assert not validator.is_valid({"version": "2.1.0"})


def test_rules_are_the_catalogue_in_its_order() -> None:
    rules = document(factories.clean_replay())["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(KINDS)
    assert rules[0]["name"] == "DoubleFree"
    assert "swasim explain double-free" in rules[0]["help"]["text"]
    assert {rule["id"]: rule["defaultConfiguration"]["level"] for rule in rules} == {
        name: info.severity for name, info in KINDS.items()
    }


def test_a_result_says_what_where_and_why() -> None:
    results = document(factories.buggy_replay())["runs"][0]["results"]
    cause, _, consequence = results
    assert cause["ruleId"] == "stale-mapping"
    assert cause["level"] == "error"
    assert cause["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "traces/pr27779.jsonl"},
        "region": {"startLine": 3},
    }
    assert cause["partialFingerprints"] == {"swasim/v1": "aaaa1111"}
    texts = [place["message"]["text"] for place in consequence["relatedLocations"]]
    assert texts == [
        "allocated: event 1 (line 2) alloc_extend req A",
        "released: event 2 (line 3) free_swa req A, swa_radix_cache.evict, t 1.250 s",
        "because of stale-mapping at event 2",
    ]
    assert [place["id"] for place in consequence["relatedLocations"]] == [1, 2, 3]
    assert consequence["properties"]["slots"] == [5]


def test_an_event_without_a_line_has_no_region() -> None:
    at = msgspec.structs.replace(factories.partial_free().at, line=0)
    finding = replace(factories.partial_free(), at=at)
    (result,) = document(factories.buggy_replay(findings=(finding,)))["runs"][0]["results"]
    assert "region" not in result["locations"][0]["physicalLocation"]


def test_a_comparison_has_a_run_per_allocator() -> None:
    runs = document(factories.comparison())["runs"]
    assert [run["automationDetails"]["id"] for run in runs] == ["swasim/buggy/", "swasim/fixed/"]
    assert [len(run["results"]) for run in runs] == [2, 0]


def test_warnings_and_hidden_findings_are_notifications() -> None:
    replay = factories.buggy_replay(warnings=("kv_size 18 was rounded down to 16",))
    replay = replace(replay, summary=replace(replay.summary, hidden=3, suppressed=2))
    (invocation,) = document(replay)["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is True
    texts = [item["message"]["text"] for item in invocation["toolExecutionNotifications"]]
    assert texts == [
        "kv_size 18 was rounded down to 16",
        "3 findings not shown",
        "2 findings suppressed",
    ]


def test_the_format_is_known_by_name() -> None:
    assert reporter("sarif") is sarif
