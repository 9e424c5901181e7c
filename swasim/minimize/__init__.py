"""Shrinking: the shortest trace that still shows a finding.

`minimize` replays the trace once, slices it by the cause of the finding, and lets passes shrink
what is left. What must not be added here: printing.
"""

from swasim.minimize.engine import Helped, Minimized, minimize
from swasim.minimize.export import as_pytest, as_trace
from swasim.minimize.gate import shows
from swasim.minimize.outside import CommandJudge
from swasim.minimize.search import Judge, Progress
from swasim.minimize.sglang_test import as_sglang_test
from swasim.minimize.target import Target, target_of

__all__ = [
    "CommandJudge",
    "Helped",
    "Judge",
    "Minimized",
    "Progress",
    "Target",
    "as_pytest",
    "as_sglang_test",
    "as_trace",
    "minimize",
    "shows",
    "target_of",
]
