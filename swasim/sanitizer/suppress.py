"""Findings that somebody decided to live with: suppressions by place, baselines by fingerprint.

Finished findings in, finished findings out. A suppression names a kind and where it may occur;
a baseline is an earlier report, and what it holds is old. Both leave a count behind, so that a
clean result never looks cleaner than it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from swasim.errors import UsageError, unknown_name
from swasim.geometry import Pool
from swasim.sanitizer.findings import Finding
from swasim.sanitizer.kinds import KINDS

_FORM = re.compile(r"(?P<kind>[^:@\s]+)(?::(?P<pool>[^@\s]*))?(?:@(?P<site>.*))?")
_POOLS: dict[str, Pool] = {"full": "full", "swa": "swa"}
SARIF_FINGERPRINT = "swasim/v1"
"""Under which name a fingerprint stands in SARIF, written by one run and read by the next."""

MAX_BYTES = 256 << 20
"""Largest baseline or file of suppressions that is read."""


@dataclass(frozen=True, slots=True)
class Suppression:
    """A kind that is accepted, everywhere or only at some places.

    Attributes:
        kind: finding kind.
        pool: only in this pool; None for both and for findings without a pool.
        site: shell pattern (`*`, `?`, `[…]`) that the event's site must match; None for any,
            also for events without a site.
        origin: "file:line" or "--suppress", for messages.
    """

    kind: str
    pool: Pool | None = None
    site: str | None = None
    origin: str = "--suppress"

    @classmethod
    def parse(cls, text: str, origin: str = "--suppress") -> Suppression:
        """Read `KIND[:POOL][@SITE]`.

        Raises:
            UsageError: another form, an unknown kind or an unknown pool; names `origin`, what is
                accepted and the nearest known name.
        """
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise UsageError(f"{origin}: {text!r} is no suppression; expected KIND[:POOL][@SITE]")
        kind, pool, site = match["kind"], match["pool"], match["site"]
        if kind not in KINDS:
            raise UsageError(f"{origin}: {unknown_name('kind', kind, KINDS)}")
        if pool is not None and pool not in _POOLS:
            raise UsageError(f"{origin}: {unknown_name('pool', pool, _POOLS)}")
        if site == "":
            raise UsageError(f"{origin}: {text!r} has an empty site; leave the @ out for any site")
        return cls(kind, _POOLS[pool] if pool else None, site, origin)

    def matches(self, finding: Finding) -> bool:
        """Whether the finding is one that this accepts."""
        if finding.kind != self.kind or (self.pool is not None and finding.pool != self.pool):
            return False
        return self.site is None or fnmatchcase(finding.at.site, self.site)

    def __str__(self) -> str:
        """As it is written."""
        pool = f":{self.pool}" if self.pool else ""
        return f"{self.kind}{pool}" + (f"@{self.site}" if self.site is not None else "")


def load_suppressions(path: str) -> tuple[Suppression, ...]:
    """Suppressions of a file: one a line, `#` starts a comment line, blank lines are skipped.

    Raises:
        UsageError: the file cannot be read, or a line is none; names file and line.
    """
    lines = _text(path).splitlines()
    return tuple(
        Suppression.parse(line, f"{path}:{number}")
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    )


@dataclass(frozen=True, slots=True)
class Baseline:
    """Fingerprints of findings that are known already."""

    path: str
    fingerprints: frozenset[str]

    @classmethod
    def load(cls, path: str) -> Baseline:
        """Read fingerprints from a report: `json`, `jsonl`, `sarif`, or a plain list of them.

        Raises:
            UsageError: the file cannot be read, is no JSON, or has no place for findings.
        """
        fingerprints: set[str] = set()
        understood = False
        for record in _records(path):
            found = _fingerprints(record)
            if found is not None:
                understood = True
                fingerprints.update(found)
        if not understood:
            raise UsageError(
                f"{path}: holds no findings; expected a swasim report (json, jsonl, sarif) or a "
                "list of fingerprints"
            )
        return cls(path, frozenset(fingerprints))

    def holds(self, finding: Finding) -> bool:
        """Whether the finding is old."""
        return finding.fingerprint in self.fingerprints


@dataclass(frozen=True, slots=True)
class Filtered:
    """What is left of a list of findings.

    Attributes:
        kept: neither suppressed nor old, in their order.
        suppressed_count: findings that a suppression accepted.
        old_count: findings of the baseline, not counting suppressed ones.
        unused: suppressions that accepted nothing.
    """

    kept: tuple[Finding, ...]
    suppressed_count: int = 0
    old_count: int = 0
    unused: tuple[Suppression, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for every suppression that was not needed."""
        return tuple(
            f"{rule.origin}: suppression {rule} matched no finding; remove it"
            for rule in self.unused
        )


def apply(
    findings: Iterable[Finding],
    suppressions: Iterable[Suppression] = (),
    baseline: Baseline | None = None,
) -> Filtered:
    """Take out what is suppressed or old.

    Every finding stands for itself: a consequence stays when its cause is taken out.
    """
    rules = tuple(suppressions)
    used: set[Suppression] = set()
    kept: list[Finding] = []
    suppressed = old = 0
    for finding in findings:
        accepting = [rule for rule in rules if rule.matches(finding)]
        used.update(accepting)
        if accepting:
            suppressed += 1
        elif baseline is not None and baseline.holds(finding):
            old += 1
        else:
            kept.append(finding)
    unused = tuple(rule for rule in rules if rule not in used)
    return Filtered(tuple(kept), suppressed, old, unused)


def _text(path: str) -> str:
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise UsageError(f"{path}: larger than {MAX_BYTES >> 20} MiB; no report is")
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{path}: cannot be read: {reason}") from None


def _records(path: str) -> Iterator[Any]:
    """The one JSON value of the file, or one per line."""
    text = _text(path)
    try:
        yield _decoded(text, path)
        return
    except json.JSONDecodeError as error:
        whole = error
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = _decoded(line, f"{path}:{number}")
        except json.JSONDecodeError as error:
            # The first line decides whose fault it is: a document, or a stream with a bad line.
            if number == 1:
                place, reason = f"{path}:{whole.lineno}:{whole.colno}", whole.msg
            else:
                place, reason = f"{path}:{number}:{error.colno}", error.msg
            raise UsageError(f"{place}: no JSON: {reason}") from None
        yield record


def _decoded(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError):
        raise UsageError(f"{place}: nested too deeply, or a number too long") from None


def _fingerprints(record: Any) -> list[str] | None:
    """Fingerprints in one value; None where it has no place for findings."""
    if isinstance(record, list):
        return record if all(isinstance(item, str) for item in record) else None
    if not isinstance(record, dict):
        return None
    if isinstance(record.get("fingerprint"), str):
        return [record["fingerprint"]]
    if isinstance(record.get("findings"), list):
        return [text for item in record["findings"] for text in _fingerprints(item) or ()]
    if isinstance(record.get("results"), list):
        return [text for item in record["results"] for text in _sarif_fingerprint(item)]
    if isinstance(record.get("runs"), list):
        return [text for run in record["runs"] for text in _fingerprints(run) or ()]
    # The other records of a stream: a run without findings is a baseline too.
    return [] if "type" in record else None


def _sarif_fingerprint(result: Any) -> list[str]:
    partial = result.get("partialFingerprints") if isinstance(result, dict) else None
    text = partial.get(SARIF_FINGERPRINT) if isinstance(partial, dict) else None
    return [text] if isinstance(text, str) else []
