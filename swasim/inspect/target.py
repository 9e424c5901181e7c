"""What to look at: `full:3`, `swa:29`, checked against the pools."""

from __future__ import annotations

import re
from dataclasses import dataclass

from swasim.errors import LONGEST_NAME, UsageError, nearest
from swasim.geometry import PAD_PAGE, Geometry, Pool

POOLS: dict[str, Pool] = {"full": "full", "swa": "swa"}


@dataclass(frozen=True, slots=True)
class Target:
    """A page or a slot of one pool.

    Attributes:
        slot: None where the whole page is meant.
    """

    pool: Pool
    page: int
    slot: int | None = None


def page_target(text: str, geometry: Geometry) -> Target:
    """The page that `swa:7` names.

    Raises:
        UsageError: it names no page of the pools; says which there are.
    """
    pool, page = _split("page", text)
    pages = geometry.pages(pool)
    if page > pages:
        raise UsageError(
            f"--page {text}: the {_name(pool)} pool has pages 1 to {pages} (0 is padding)"
        )
    return Target(pool, page)


def slot_target(text: str, geometry: Geometry) -> Target:
    """The slot that `full:29` names.

    Raises:
        UsageError: it names no slot of the pools; says which there are.
    """
    pool, slot = _split("slot", text)
    limit = geometry.slot_limit(pool)
    if slot >= limit:
        raise UsageError(
            f"--slot {text}: the {_name(pool)} pool has slots {geometry.page_size} to {limit - 1}"
            f" (those of page {PAD_PAGE}, before them, are padding)"
        )
    return Target(pool, geometry.page_of(slot), slot)


def _split(option: str, text: str) -> tuple[Pool, int]:
    name, colon, number = text.partition(":")
    pool = POOLS.get(name.strip().lower())
    unit = option.upper()
    expected = f"expected full:{unit} or swa:{unit}, as in swa:7"
    shown = text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + "..."
    if not colon:
        raise UsageError(f"--{option} {shown!r} names no pool; {expected}")
    if pool is None:
        hint = nearest(name.lower(), POOLS)
        did_you_mean = f", did you mean {hint!r}?" if hint else ""
        raise UsageError(f"--{option} {shown!r}: there is no such pool{did_you_mean}; {expected}")
    if not re.fullmatch(r"\s*[0-9]{1,18}\s*", number):
        raise UsageError(f"--{option} {shown!r}: {number!r} is no {option} number; {expected}")
    return pool, int(number)


def _name(pool: Pool) -> str:
    return "SWA" if pool == "swa" else pool
