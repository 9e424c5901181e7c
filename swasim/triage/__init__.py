"""What a server log's memory lines mean: which pool, over or under, by how much, and why.

`triage` reads lines and gives one finished report. Text in, records out; no allocator, no
printing, constant memory.
"""

from swasim.triage.engine import triage
from swasim.triage.report import (
    Family,
    Fault,
    Issue,
    PageGuess,
    RankSeries,
    Step,
    Terms,
    TriageReport,
    Unread,
)
from swasim.triage.shapes import RECOGNISED

__all__ = [
    "RECOGNISED",
    "Family",
    "Fault",
    "Issue",
    "PageGuess",
    "RankSeries",
    "Step",
    "Terms",
    "TriageReport",
    "Unread",
    "triage",
]
