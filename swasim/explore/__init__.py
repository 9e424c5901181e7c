"""Every sequence of calls up to a bound, breadth first, so that what is found is the shortest.

What must not be added here: printing, files.
"""

from swasim.explore.moves import FAMILIES, Family, chosen_families
from swasim.explore.search import Exploration, Progress, Sequence, explore
from swasim.explore.situation import Bounds

__all__ = [
    "FAMILIES",
    "Bounds",
    "Exploration",
    "Family",
    "Progress",
    "Sequence",
    "chosen_families",
    "explore",
]
