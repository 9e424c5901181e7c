"""The passes, as data: each has a name, a sentence, and a function that offers smaller traces.

A pass only offers; the gate of the search decides. Adding a pass is one function and one line in
`ROUND` or `FINISH`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from swasim.minimize.passes import events, lengths, merging, naming, sizes, text
from swasim.minimize.search import Search


@dataclass(frozen=True, slots=True)
class Pass:
    """One way to make a trace smaller.

    Attributes:
        name: as the report shows it.
        does: what it tries, in one sentence.
        work: offers candidates to the search until none is taken.
    """

    name: str
    does: str
    work: Callable[[Search], None]


ROUND = (
    Pass("fit pools", "takes pages out of the pools that nobody asks for", sizes.fit_pools),
    Pass("drop events", "leaves events out, in chunks from the end", events.drop_events),
    Pass("drop requests", "leaves a request out, with all that names it", events.drop_requests),
    Pass("drop batch items", "leaves one request out of a batch", events.drop_items),
    Pass("ungroup", "leaves the two ends of a free group out", events.ungroup),
    Pass("cut lengths", "keeps fewer tokens of an allocation", lengths.cut_lengths),
    Pass("merge", "makes one event of two", merging.merge),
    Pass("unshare", "lets a request stand for one that shares its slots", merging.unshare),
    Pass("smaller pools", "takes pages out of the pools", sizes.smaller_pools),
    Pass("smaller pages", "keeps fewer tokens of every page", sizes.smaller_pages),
    Pass("smaller window", "checks a smaller window, or none", sizes.smaller_window),
    Pass("no sorting", "does without need_sort", sizes.no_sorting),
)
"""Repeated until none of them helps any more."""

FINISH = (
    Pass("plain forms", "writes a simpler operation for a special one", text.plain_forms),
    Pass("rows", "names slots by request and position", naming.name_rows),
    Pass("rename", "calls requests A, B, C", text.rename),
    Pass("default fields", "leaves fields out that the rows imply", text.drop_fields),
    Pass("single events", "leaves out any one event, as it stands in the file", events.drop_single),
    Pass("pairs", "leaves out any two events", events.drop_pairs),
)
"""After a round that did not help; where one of these does, the round starts again."""
