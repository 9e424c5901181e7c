"""`backup_state` and `restore_state`: the trace names states, upstream hands out objects."""

from __future__ import annotations

from typing import Any

from swasim.recorder.calls import Arguments, Method
from swasim.trace.events import AnyEvent, BackupState, Mark, RestoreState

_MOST = 16


class Backups:
    """Names of the states that the server holds, found again by identity."""

    UNKNOWN = object()
    """Kept in place of a name where a state is restored that this file does not have."""

    def __init__(self) -> None:
        self._states: list[tuple[Any, str]] = []
        self._count = 0
        self.backup = Method(self._next_name, _backup_event, after=self._remember)
        self.restore = Method(self._find, _restore_event)

    def forget(self) -> None:
        """Nothing saved so far can be named any more."""
        self._states.clear()

    def _next_name(self, _arguments: Arguments) -> str:
        return f"backup-{self._count + 1}"

    def _remember(self, name: str, state: Any) -> str:
        self._count += 1
        self._states = [*self._states, (state, name)][-_MOST:]
        return name

    def _find(self, arguments: Arguments) -> Any:
        state = arguments.first()
        for known, name in self._states:
            if known is state:
                return name
        return self.UNKNOWN


def _backup_event(name: Any, common: dict[str, Any]) -> AnyEvent:
    return BackupState(slot=name, **common)


def _restore_event(name: Any, common: dict[str, Any]) -> AnyEvent:
    if name is Backups.UNKNOWN:
        return Mark(label="restore_state of an unknown state", **common)
    return RestoreState(slot=name, **common)
