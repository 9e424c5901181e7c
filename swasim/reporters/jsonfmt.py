"""One versioned JSON document. Fields are added, never renamed."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from swasim import __version__
from swasim.reporters import SCHEMA, Look

if TYPE_CHECKING:
    from swasim.collect import Replay
    from swasim.lockstep import Comparison
    from swasim.sanitizer.findings import Finding


def write_replay(replay: Replay, out: TextIO, look: Look) -> None:
    """Write one document for the replay."""
    _write(_document(run_fields(replay)), out)


def write_comparison(comparison: Comparison, out: TextIO, look: Look) -> None:
    """Write one document with the runs, the first divergence and the verdicts."""
    _write(_document(comparison_fields(comparison)), out)


def run_fields(replay: Replay) -> dict[str, Any]:
    """Everything that a replay says, as plain values."""
    return {
        "trace": replay.trace,
        "config": dataclasses.asdict(replay.config),
        "allocator": replay.allocator,
        "findings": [finding_fields(finding) for finding in replay.findings],
        "summary": dataclasses.asdict(replay.summary),
        "timeline": [dataclasses.asdict(row) for row in replay.timeline],
        "timeline_skipped": replay.timeline_skipped,
        "warnings": list(replay.warnings),
    }


def comparison_fields(comparison: Comparison) -> dict[str, Any]:
    """Everything that a comparison says, as plain values."""
    parted = comparison.first_divergence
    return {
        "trace": comparison.trace,
        "runs": [_document(run_fields(run)) for run in comparison.runs],
        "first_divergence": None if parted is None else dataclasses.asdict(parted),
        "verdicts": [dataclasses.asdict(verdict) for verdict in comparison.verdicts],
        "rows": [dataclasses.asdict(row) for row in comparison.rows],
        "rows_skipped": comparison.rows_skipped,
        "warnings": list(comparison.warnings),
    }


def finding_fields(finding: Finding) -> dict[str, Any]:
    """A finding with its event laid flat: what most scripts want is at the top level."""
    fields: dict[str, Any] = msgspec.to_builtins(finding)
    at = fields.pop("at")
    cause_event = fields.pop("cause_at")
    first = {name: fields.pop(name) for name in ("kind", "severity", "pool", "page")}
    return {**first, **at, **fields, "cause_event": cause_event}


def _document(fields: dict[str, Any]) -> dict[str, Any]:
    return {"swasim": __version__, "schema": SCHEMA, **fields}


def _write(document: dict[str, Any], out: TextIO) -> None:
    json.dump(document, out, indent=2)
    out.write("\n")
