"""Findings that --suppress, --suppressions and --baseline take out of the result."""

from __future__ import annotations

from swasim.commands.options import CheckOptions
from swasim.sanitizer.findings import Finding
from swasim.sanitizer.suppress import Baseline, Suppression, load_suppressions


class Acceptance:
    """Says of each finding whether it counts, and remembers which suppressions were needed.

    Args:
        options: what was given on the command line.

    Raises:
        UsageError: a suppression or a file that cannot be understood.
    """

    def __init__(self, options: CheckOptions) -> None:
        named = [Suppression.parse(text) for text in options.suppress or ()]
        filed = load_suppressions(options.suppressions) if options.suppressions else ()
        self._rules = (*named, *filed)
        self._used: set[Suppression] = set()
        self._baseline = Baseline.load(options.baseline) if options.baseline else None

    def keeps(self, finding: Finding) -> bool:
        """Whether the finding is neither suppressed nor old."""
        accepting = [rule for rule in self._rules if rule.matches(finding)]
        self._used.update(accepting)
        if accepting:
            return False
        return self._baseline is None or not self._baseline.holds(finding)

    @property
    def warnings(self) -> list[str]:
        """A sentence for every suppression that was not needed."""
        return [
            f"{rule.origin}: suppression {rule} matched no finding; remove it"
            for rule in self._rules
            if rule not in self._used
        ]
