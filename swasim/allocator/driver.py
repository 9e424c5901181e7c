"""What every engine does around a call: is there such a method, and what did an exception say.

What must not be added here: anything that knows how an engine stores its lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from swasim.allocator.profile import PROFILES, Profile
from swasim.call import Call, Effect
from swasim.errors import UsageError

UPSTREAM_ERRORS = (AssertionError, IndexError, NotImplementedError, RuntimeError)
"""What SGLang's allocators raise; anything else is a defect of the engine."""

_POOL_OPERATIONS = frozenset({"alloc", "free", "free_segment", "free_full", "free_full_segment"})
"""Methods that a sub-allocator has, in the releases whose pair has them."""


def require_operation(profile: Profile, call: Call) -> None:
    """Refuse a call that the profile has no method for.

    Raises:
        UsageError: names the method and the releases that have it.
    """
    if call.op not in profile.operations:
        raise UsageError(_no_method(profile, call.op))
    if call.pool is not None and call.op not in _POOL_OPERATIONS:
        raise UsageError(f"a {call.pool} pool alone has no method {call.op}")


def _no_method(profile: Profile, op: str) -> str:
    having = [known.releases for known in PROFILES if op in known.operations]
    if not having:
        return f"no SGLang allocator has a method {op!r}"
    first, last = having[0].split(" to ")[0], having[-1].split(" to ")[-1]
    return (
        f"{op}: this method came with SGLang {first} and was last seen in {last}; "
        f"the allocator mirrors {profile.releases}"
    )


def note_exception(effect: Effect, error: BaseException) -> None:
    """Record an exception of the allocator under test: class name and one line of text."""
    effect.raised = type(error).__name__
    effect.raised_text = " ".join(str(error).split())


def unknown_backup(slot: str, known: Iterable[str]) -> UsageError:
    """The error for a `restore_state` of something that was never saved."""
    names = ", ".join(sorted(known)) or "none"
    return UsageError(f"restore_state: no state was saved as {slot!r} (saved: {names})")


def list_difference(before: Iterable[int], after: Iterable[int]) -> tuple[list[int], list[int]]:
    """Pages that left and pages that entered, when a list was replaced; in list order."""
    before, after = list(before), list(after)
    return _only_in(before, after), _only_in(after, before)


def _only_in(left: list[int], right: list[int]) -> list[int]:
    surplus = Counter(left) - Counter(right)
    only = []
    for page in left:
        if surplus[page]:
            surplus[page] -= 1
            only.append(page)
    return only
