"""Public faults that a log can look like: number to address and gist, in our own words."""

from __future__ import annotations

from swasim.triage.report import Issue

_SGL = "https://github.com/sgl-project/sglang"


def _sgl(number: int, what: str, gist: str) -> Issue:
    return Issue(f"sglang {number}", f"{_SGL}/{what}/{number}", gist)


_ALL = (
    _sgl(27779, "pull", "free_swa cleared single entries but returned whole SWA pages"),
    _sgl(27789, "issues", "SWA sum one page above total under EAGLE, page 256, HiCache"),
    _sgl(27586, "pull", "tombstone recovery freed through entries that were never cleared"),
    _sgl(25805, "pull", "tail preallocation left a former owner's entries on recycled pages"),
    _sgl(36081, "issues", "entry rewritten inside a free group; the old SWA page is lost"),
    _sgl(36646, "pull", "grouped free() looked peers up only at the end of the group"),
    _sgl(38519, "pull", "segment free of unmapped pages put SWA page 0 in the free list"),
    _sgl(36723, "pull", "freeing dead peers at page size 1 hands out slot 0"),
    _sgl(35338, "pull", "alloc_decode kept full pages after the SWA side refused"),
    _sgl(34823, "pull", "bigram length against raw length: evicted slots stayed in the tree"),
    _sgl(34870, "pull", "window frontier in tokens, leaf length in bigrams"),
    _sgl(22470, "pull", "page larger than the window: evicted tokens inserted as live"),
    _sgl(29350, "pull", "unfinished request inserted without its eviction boundary"),
    _sgl(29860, "pull", "eager window eviction moved the frontier onto the insert boundary"),
    _sgl(31486, "pull", "all-SWA model: finished request inserted the hole it had freed"),
    _sgl(27731, "pull", "streaming session: more committed than allocated, a page with two owners"),
    _sgl(6888, "issues", "page 16 with mixed chunks: partly shared last page freed twice"),
    _sgl(11970, "issues", "retraction lost the extra slot of a step already launched"),
    _sgl(7130, "issues", "MTP with pages: allocation in pages, release in tokens"),
    _sgl(26972, "pull", "draft reservation wider than the row; the surplus was never freed"),
    _sgl(19518, "pull", "over-allocated draft slots not released on offload"),
    _sgl(37100, "pull", "retraction under decode HiCache kept the old pages"),
    _sgl(38981, "issues", "abort in prefill freed a row as two pieces that share a page"),
    _sgl(28702, "issues", "a preempted request was released twice"),
    _sgl(13801, "issues", "cache plugin popped the committed length a second time"),
    _sgl(24153, "issues", "SWA lock of a shared prefix released once too often"),
    _sgl(24972, "pull", "admission lock skipped a tombstone and later released a newer lock"),
    _sgl(36848, "pull", "lock receipts that make an unbalanced release visible"),
    _sgl(33656, "issues", "HiCache: SWA slot written for another position, found by the canary"),
    _sgl(29662, "pull", "preallocation evicted full tokens only while SWA was short"),
    _sgl(40309, "pull", "resumed request admitted, but SWA pages were not reclaimed"),
    _sgl(33805, "pull", "draft decoding never evicted the window; SWA grows with the output"),
    _sgl(36458, "pull", "two chunks pin the whole SWA pool before eviction may run"),
    _sgl(28246, "pull", "decode retracted before the periodic window eviction had run"),
    _sgl(16067, "pull", "mamba slot taken during a match was kept when admission failed"),
    _sgl(26941, "pull", "mamba buffers freed but still referenced by the request"),
    _sgl(12994, "pull", "mamba state freed per chunk and again at the finish"),
    _sgl(17630, "pull", "draft pool smaller than the target's full pool"),
    _sgl(26966, "pull", "SWA layers read with full-pool indices"),
    _sgl(9123, "issues", "illegal access once the SWA pool wraps around"),
    _sgl(40305, "issues", "page size 1 and SWA allocators have no duplicate check"),
    Issue(
        "FreeToken 204",
        "https://github.com/FlashML-org/FreeToken/issues/204",
        "full pages twice in the free list; the second owner overwrites live entries",
    ),
)
_BY_REF = {issue.ref: issue for issue in _ALL}


def issues(*numbers: int | str) -> tuple[Issue, ...]:
    """The issues by SGLang number, or by their full reference ("FreeToken 204")."""
    refs = (f"sglang {number}" if isinstance(number, int) else number for number in numbers)
    return tuple(_BY_REF[ref] for ref in refs)
