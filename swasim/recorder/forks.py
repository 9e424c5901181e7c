"""Recordings that are under way in this process, and what happens to them at a fork.

The one piece of module state: the interpreter knows no other way to tell a child apart.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swasim.recorder.recorder import Recording

ACTIVE: weakref.WeakSet[Recording] = weakref.WeakSet()


_held: list[Recording] = []
"""Recordings whose writers wait while a fork is under way."""


def _before() -> None:
    _held[:] = ACTIVE
    for recording in _held:
        recording.before_fork()


def _in_parent() -> None:
    for recording in _held:
        recording.after_fork_in_parent()
    _held.clear()


def _in_child() -> None:
    for recording in _held:
        recording.after_fork_in_child()
    _held.clear()
    ACTIVE.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
