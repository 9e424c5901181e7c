"""SARIF 2.1.0: findings as results with stable rule ids and fingerprints, for code scanning.

A rule is a kind of the catalogue; a run is one replay. Moments of provenance are related
locations, so that a viewer can step from the finding to the allocation and the first release.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import quote

from swasim import __version__
from swasim.reporters import Look
from swasim.reporters.wording import moment_text, printable
from swasim.sanitizer.findings import Finding, Moment
from swasim.sanitizer.kinds import KINDS, KindInfo
from swasim.sanitizer.suppress import SARIF_FINGERPRINT

if TYPE_CHECKING:
    from swasim.collect import Replay
    from swasim.lockstep import Comparison

SCHEMA_URI = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_MOST_SLOTS = 64
_RULES = {name: index for index, name in enumerate(KINDS)}


def write_replay(replay: Replay, out: TextIO, look: Look) -> None:
    """Write one run; where a baseline was given, the results say that they are new."""
    _dump([_run(replay, look)], out)


def write_comparison(comparison: Comparison, out: TextIO, look: Look) -> None:
    """Write a run per allocator, told apart by its automation id."""
    _dump([_run(run, look) for run in comparison.runs], out)


def _dump(runs: Sequence[dict[str, Any]], out: TextIO) -> None:
    document = {"$schema": SCHEMA_URI, "version": "2.1.0", "runs": list(runs)}
    json.dump(document, out, indent=2)
    out.write("\n")


def _run(replay: Replay, look: Look) -> dict[str, Any]:
    return {
        "tool": {
            "driver": {
                "name": "swasim",
                "semanticVersion": __version__,
                "rules": [_rule(info) for info in KINDS.values()],
            }
        },
        "automationDetails": {"id": f"swasim/{quote(replay.allocator)}/"},
        "invocations": [_invocation(replay)],
        "results": [_result(finding, replay.trace, look) for finding in replay.findings],
        "columnKind": "unicodeCodePoints",
        "properties": {"allocator": replay.allocator, "trace": replay.trace},
    }


def _rule(info: KindInfo) -> dict[str, Any]:
    text = f"{info.why} How it shows: {info.looks_like}"
    links = "".join(f"\n- [{title}]({link})" for title, link in info.examples)
    markdown = f"{info.meaning}\n\n{info.why}\n\n**How it shows:** {info.looks_like}"
    rule: dict[str, Any] = {
        "id": info.name,
        "name": "".join(word.capitalize() for word in info.name.split("-")),
        "shortDescription": {"text": info.meaning},
        "fullDescription": {"text": text},
        "defaultConfiguration": {"level": info.severity},
        "help": {
            "text": f"{info.meaning} {text} More: swasim explain {info.name}",
            "markdown": f"{markdown}\n\n`swasim explain {info.name}`\n{links}",
        },
    }
    if info.examples:
        rule["helpUri"] = info.examples[0][1]
    return rule


def _invocation(replay: Replay) -> dict[str, Any]:
    sentences = list(replay.warnings)
    summary = replay.summary
    for count, what in ((summary.hidden, "not shown"), (summary.suppressed, "suppressed")):
        if count:
            sentences.append(f"{count} findings {what}")
    return {
        "executionSuccessful": True,
        "toolExecutionNotifications": [
            {"level": "warning", "message": {"text": printable(text)}} for text in sentences
        ],
    }


def _result(finding: Finding, trace: str, look: Look) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.kind,
        "ruleIndex": _RULES[finding.kind],
        "level": finding.severity,
        "message": {"text": "\n".join(map(printable, (finding.headline, *finding.notes)))},
        "locations": [_location(finding.at, trace)],
        "relatedLocations": _related(finding, trace),
        "properties": _properties(finding),
    }
    if finding.fingerprint:
        result["partialFingerprints"] = {SARIF_FINGERPRINT: finding.fingerprint}
    if look.new_only:
        result["baselineState"] = "new"
    return result


def _related(finding: Finding, trace: str) -> list[dict[str, Any]]:
    moments = (
        ("allocated", finding.allocated),
        ("mapped", finding.mapped),
        ("released", finding.released),
        ("owner now", finding.owner),
    )
    places = []
    for label, moment in moments:
        if moment is not None:
            message = {"text": f"{label}: {moment_text(moment)}"}
            places.append({**_location(moment, trace), "message": message})
    if finding.cause is not None and finding.cause_at is not None:
        kind = finding.cause_kind or "an earlier finding"
        text = f"because of {kind} at event {finding.cause_at}"
        places.append({**_artifact(trace), "message": {"text": text}})
    return [{"id": number, **place} for number, place in enumerate(places, 1)]


def _location(moment: Moment, trace: str) -> dict[str, Any]:
    place = _artifact(trace)
    if moment.line:
        place["physicalLocation"]["region"] = {"startLine": moment.line}
    return place


def _artifact(trace: str) -> dict[str, Any]:
    path = Path(trace)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    return {"physicalLocation": {"artifactLocation": {"uri": uri}}}


def _properties(finding: Finding) -> dict[str, Any]:
    at = finding.at
    values = {
        "event": at.event,
        "op": at.op,
        "req": at.req,
        "site": at.site,
        "pool": finding.pool,
        "page": finding.page,
        "slots": list(finding.slots[:_MOST_SLOTS]),
        "positions": None if finding.positions is None else list(finding.positions),
        "expected": finding.expected,
        "actual": finding.actual,
        "cause": finding.cause,
        "help": list(finding.help),
    }
    return {name: value for name, value in values.items() if value not in (None, "", [])}
