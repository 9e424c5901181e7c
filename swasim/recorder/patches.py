"""Attributes of live objects, replaced and put back."""

from __future__ import annotations

from typing import Any

_ABSENT = object()


class Patches:
    """Instance attributes that stand in front of what a class defines."""

    def __init__(self) -> None:
        self._made: list[tuple[Any, str, Any, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set `owner.name`, remembering what its instance dictionary held."""
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)
        self._made.append((owner, name, before, value))

    def undo(self) -> None:
        """Put everything back; an attribute that somebody replaced since is left alone."""
        made, self._made = self._made, []  # the writer may end the recording at the same time
        for owner, name, before, value in reversed(made):
            if vars(owner).get(name, _ABSENT) is not value:
                continue
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
