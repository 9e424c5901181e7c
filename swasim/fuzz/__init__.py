"""Random workloads, in seeded traces, until one of them finds something.

What must not be added here: printing.
"""

from swasim.fuzz.campaign import Campaign, Progress, Settings, fuzz
from swasim.fuzz.find import DIVERGENCE, Find
from swasim.fuzz.play import CALLERS
from swasim.fuzz.sloppy import WRONG
from swasim.fuzz.state import Known, State, load, store

__all__ = [
    "CALLERS",
    "DIVERGENCE",
    "WRONG",
    "Campaign",
    "Find",
    "Known",
    "Progress",
    "Settings",
    "State",
    "fuzz",
    "load",
    "store",
]
