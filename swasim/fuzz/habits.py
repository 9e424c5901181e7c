"""What a scheduler keeps of a request, and how often it does what."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Request:
    """A running request, or a prefix that the cache holds.

    Attributes:
        name: its row.
        length: tokens in the row.
        shared: tokens at the front that belong to a cache row.
        swa_from: position from which on SWA peers are live.
        parent: the cache row that it shares, or None.
        users: running requests that share this (cache) row.
    """

    name: str
    length: int = 0
    shared: int = 0
    swa_from: int = 0
    parent: Request | None = None
    users: int = 0


@dataclass(frozen=True, slots=True)
class Habits:
    """What a scheduler does, as weights of its moves and bounds of its requests.

    Attributes:
        max_running: requests at a time.
        max_prompt_tokens: longest prompt.
        window: sliding window, tokens.
        weights: move name to weight; a move that is absent is never made.
    """

    max_running: int
    max_prompt_tokens: int
    window: int
    weights: dict[str, float] = field(
        default_factory=lambda: {
            "admit": 3,
            "decode": 8,
            "chunk": 1,
            "slide": 4,
            "finish": 1.5,
            "cache": 1.5,
            "evict": 1,
            "tombstone": 1,
            "retract": 0.3,
            "draft": 1,
            "tail": 0.7,
            "load_back": 0.4,
            "flush": 0.02,
        }
    )
