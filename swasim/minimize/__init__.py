"""Shrinking: the shortest trace that still shows a finding.

`minimize` replays the trace once, slices it by the cause of the finding, and lets passes shrink
what is left. What must not be added here: printing, files.
"""

from swasim.minimize.engine import Helped, Minimized, minimize
from swasim.minimize.gate import shows
from swasim.minimize.search import Judge, Progress
from swasim.minimize.target import Target, target_of

__all__ = [
    "Helped",
    "Judge",
    "Minimized",
    "Progress",
    "Target",
    "minimize",
    "shows",
    "target_of",
]
