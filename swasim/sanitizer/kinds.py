"""The catalogue of findings: the public names, and what `swasim explain` says of each."""

from __future__ import annotations

from dataclasses import dataclass

from swasim.sanitizer.findings import Severity


@dataclass(frozen=True, slots=True)
class KindInfo:
    """One kind of finding.

    Attributes:
        name: stable public name.
        severity: of every finding of this kind.
        meaning: what the truth says, in one or two sentences.
        why: why it matters to somebody who runs a server.
        looks_like: how it shows without swasim.
        examples: public reports as (title, link).
        allocator: on which its smallest trace shows it.
    """

    name: str
    severity: Severity
    meaning: str
    why: str
    looks_like: str
    examples: tuple[tuple[str, str], ...] = ()
    allocator: str = "fixed"

    @property
    def trace(self) -> str:
        """Name of the smallest trace that shows it, among the bundled ones."""
        return f"kinds/{self.name}.jsonl"


def _sglang_pr(number: int) -> tuple[str, str]:
    return f"sglang PR {number}", f"https://github.com/sgl-project/sglang/pull/{number}"


def _sglang_issue(number: int) -> tuple[str, str]:
    return f"sglang issue {number}", f"https://github.com/sgl-project/sglang/issues/{number}"


_FREETOKEN_204 = (
    "FreeToken issue 204",
    "https://github.com/FlashML-org/FreeToken/issues/204",
)
_VLLM_42571 = ("vLLM issue 42571", "https://github.com/vllm-project/vllm/issues/42571")
_LMCACHE_5005 = ("LMCache issue 5005", "https://github.com/LMCache/LMCache/issues/5005")


_CATALOGUE = (
    KindInfo(
        "double-free",
        "error",
        "A page is returned to a pool in which it is already free, so it stands in the free list "
        "twice.",
        "The allocator will hand the page to two requests, and each overwrites the keys and "
        "values of the other. The allocator itself only notices when more is free than exists.",
        "Garbled answers under load, or `available_size() <= size` failing much later.",
        (_sglang_pr(27779), _FREETOKEN_204, _VLLM_42571),
    ),
    KindInfo(
        "foreign-free",
        "error",
        "A page is returned by a call that names no slot of the page's present owner: through a "
        "row that lost it before, or through a mapping entry that should be gone.",
        "The owner goes on reading and writing the page while the allocator gives it to somebody "
        "else.",
        "One user's text in another user's answer; nothing is logged.",
        (_sglang_pr(27779), _sglang_pr(25805), _sglang_pr(35501)),
    ),
    KindInfo(
        "stale-mapping",
        "error",
        "After a release, a mapping entry still points at the SWA page that was released; or a "
        "page is handed out with the entries of its former owner.",
        "Whoever follows the entry later reads, writes or releases a page that belongs to "
        "somebody else. It is the usual cause of double and foreign frees.",
        "Nothing at all until the page is reused; then an over-free by whole pages.",
        (_sglang_pr(27779), _sglang_pr(25805), _sglang_pr(27586)),
        allocator="buggy",
    ),
    KindInfo(
        "page-aliased",
        "error",
        "A page is handed out while it is live: it has two owners.",
        "Both requests write their keys and values into it, and the first of them that ends "
        "releases it under the other.",
        "Garbled answers for two requests at once; the sum of the pool may still be right.",
        (_sglang_pr(27731), _LMCACHE_5005),
        allocator="fault:34399",
    ),
    KindInfo(
        "padding-page",
        "error",
        "Page 0, the padding that every masked token points at, is released or handed out.",
        "A request that gets page 0 shares it with every padded or unmapped token of every batch.",
        "An over-free by a page seconds after start, or garbage for single requests.",
        (_sglang_pr(38519), _sglang_pr(36723)),
        allocator="sglang-0.5.23",
    ),
    KindInfo(
        "mapping-overwritten",
        "error",
        "An entry that points at a live SWA page is replaced by another page, and nothing else "
        "points at the first.",
        "A release finds SWA pages through the mapping only, so the first page can never be "
        "released: it is lost until the server restarts.",
        "The SWA pool is short by one page at idle.",
        (_sglang_issue(36081), _FREETOKEN_204),
    ),
    KindInfo(
        "orphaned-page",
        "error",
        "A live page that nothing leads to any more: an SWA page without an entry of a live full "
        "page, or a full page that its row dropped and no other row names.",
        "Nothing can release it: the pool is smaller from now on. Told once nothing can explain it "
        "any more (reuse, idle, the end), and about the call that cut the page off.",
        "The sum of the pool is below its total at idle; throughput sinks over hours.",
        (_sglang_pr(35338), _sglang_pr(36723)),
        allocator="sglang-0.5.23",
    ),
    KindInfo(
        "half-allocation",
        "error",
        "A call took pages of one pool, could not complete because the other is exhausted or an "
        "exception left it, and gave nothing back.",
        "The caller was told that it got nothing, so it releases nothing: the pages are gone.",
        "Retractions under pressure, then a leak in the pool that was not short.",
        (_sglang_pr(35338),),
    ),
    KindInfo(
        "accounting-overflow",
        "error",
        "More tokens are available than the pool has.",
        "Some page is counted twice, and will be handed out twice.",
        "`assert self.swa_attn_allocator.available_size() <= self.swa_attn_allocator.size`.",
        (_sglang_pr(25805), _sglang_pr(38519)),
    ),
    KindInfo(
        "accounting-mismatch",
        "error",
        "Free, live and pending pages do not add up to the pool: a release was accepted and the "
        "page never arrived, or the allocator's count differs from its lists.",
        "Capacity is lost, or counted that is not there; the leak check aborts the server.",
        "`pool memory leak detected!` with a sum that is off by whole pages.",
        (_sglang_issue(27789), _sglang_pr(36646)),
    ),
    KindInfo(
        "index-out-of-range",
        "error",
        "A slot outside of the pool, or negative where that has no meaning.",
        "The kernel reads or writes beyond its buffer, or the mapping's sentinel is overwritten.",
        "IndexError on the CPU, an illegal memory access on the GPU.",
        (_sglang_issue(34399), _sglang_pr(17630)),
    ),
    KindInfo(
        "misaligned",
        "error",
        "A segment that starts inside a page, a last_loc whose offset contradicts the prefix "
        "length, or an allocation that is no whole number of pages.",
        "Tokens land at offsets where nobody looks for them, or on the padding page.",
        "`segment at N shares a page with the one ending at N`, or wrong answers at page "
        "boundaries only.",
        (_sglang_pr(11608), _sglang_issue(38981)),
        allocator="sglang-0.5.23",
    ),
    KindInfo(
        "use-after-free",
        "error",
        "A call grows or reads through a slot whose page is free or belongs to another.",
        "The request attends to somebody else's keys and values and writes over them.",
        "Wrong answers after an eviction or a retraction.",
        (_sglang_pr(31486), _sglang_issue(24527)),
    ),
    KindInfo(
        "window-violation",
        "error",
        "The SWA peer of a token is released while the token is still inside its request's "
        "window, or a step needs a token of the window that has no live peer.",
        "The sliding-window layers attend to whatever the next owner writes there.",
        "Answers that derail some tokens after an eviction.",
        (_sglang_pr(22470), _sglang_pr(29860)),
    ),
    KindInfo(
        "expectation-failed",
        "error",
        "An `expect` of the trace does not hold, or a call raised an exception that the trace does "
        "not announce and no other finding explains.",
        "The trace is also a test case, and it fails. Both sides stand in the finding.",
        "",
    ),
    KindInfo(
        "replay-divergence",
        "error",
        "A recorded `out` differs from what the replay returned.",
        "The allocator behaves differently from the one that was recorded. Reported once; from "
        "then on recorded slots are translated, so that the replay can go on.",
        "",
    ),
    KindInfo(
        "leaked-page",
        "error",
        "The trace declares the pools idle and a page is live.",
        "Somebody forgot a release: the pool is smaller from now on.",
        "`pool memory leak detected!` at idle.",
        (_sglang_issue(7130), _sglang_pr(26972)),
    ),
    KindInfo(
        "false-exhaustion",
        "warning",
        "An allocation was refused that both pools would have room for, had one of them not lost "
        "pages earlier.",
        "Requests are retracted or queued for capacity that exists.",
        "`KV cache pool is full. Retract requests.` at low real usage.",
        (_sglang_pr(29662),),
    ),
    KindInfo(
        "partial-page-free",
        "warning",
        "A release names some of a page's live tokens, and the whole page goes.",
        "The other tokens of the page are gone too. Legal where the caller means it; it is the "
        "pattern behind PR 27779.",
        "",
        (_sglang_pr(27779),),
    ),
    KindInfo(
        "remap-in-free-group",
        "warning",
        "A mapping entry that is queued for release is rewritten before the group ends.",
        "An allocator that reads the mapping when the group ends releases the wrong page.",
        "One page short at idle after tombstone recovery.",
        (_sglang_issue(36081),),
        allocator="sglang-0.5.23",
    ),
    KindInfo(
        "redundant-free",
        "note",
        "A release that has no effect: what it names was gone already.",
        "Harmless by itself; the caller's idea of what is live differs from the allocator's.",
        "",
    ),
)

KINDS: dict[str, KindInfo] = {kind.name: kind for kind in _CATALOGUE}
"""All kinds by name, in the order of the catalogue."""
