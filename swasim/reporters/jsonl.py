"""A stream of JSON records, one a line, each with a `type`: for jq and log pipelines."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, TextIO

from swasim import __version__
from swasim.reporters import SCHEMA, Look
from swasim.reporters.jsonfmt import finding_fields

if TYPE_CHECKING:
    from swasim.collect import Replay
    from swasim.lockstep import Comparison


def write_replay(replay: Replay, out: TextIO, look: Look) -> None:
    """Write `run`, then `event` and `finding` records, then `summary`."""
    _write_run(replay, out)


def write_comparison(comparison: Comparison, out: TextIO, look: Look) -> None:
    """Write the records of every run, then `row`, `divergence` and `verdict` records."""
    for run in comparison.runs:
        _write_run(run, out)
    for row in comparison.rows:
        _write("row", dataclasses.asdict(row), out)
    if comparison.first_divergence is not None:
        _write("divergence", dataclasses.asdict(comparison.first_divergence), out)
    for verdict in comparison.verdicts:
        _write("verdict", dataclasses.asdict(verdict), out)


def _write_run(replay: Replay, out: TextIO) -> None:
    head = {"swasim": __version__, "schema": SCHEMA, "trace": replay.trace}
    config = dataclasses.asdict(replay.config)
    _write("run", {**head, "allocator": replay.allocator, "config": config}, out)
    whose = {"allocator": replay.allocator}
    for row in replay.timeline:
        _write("event", {**whose, **dataclasses.asdict(row)}, out)
    for finding in replay.findings:
        _write("finding", {**whose, **finding_fields(finding)}, out)
    _write("summary", {**whose, **dataclasses.asdict(replay.summary)}, out)


def _write(kind: str, fields: dict[str, Any], out: TextIO) -> None:
    out.write(json.dumps({"type": kind, **fields}) + "\n")
