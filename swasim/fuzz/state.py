"""A campaign that can be gone on with: which seeds are done, and what was found.

The file is JSON and always whole: it is written beside itself and renamed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swasim.errors import UsageError
from swasim.fuzz.campaign import Settings

VERSION = 1


@dataclass(frozen=True, slots=True)
class Known:
    """One find of an earlier run."""

    seed: int
    kind: str
    headline: str
    fingerprint: str
    trace: str


@dataclass(frozen=True, slots=True)
class State:
    """Where a campaign stands.

    Attributes:
        settings: what is played.
        seed: the first one; `seeds` of them are done.
        calls: events carried out in them.
        finds: in the order of their seeds.
    """

    settings: Settings
    seed: int
    seeds: int = 0
    calls: int = 0
    finds: tuple[Known, ...] = ()

    @property
    def next_seed(self) -> int:
        """The first seed that is not done."""
        return self.seed + self.seeds


def load(path: str, settings: Settings, seed: int) -> State:
    """The state in a file; a new one where there is no file.

    Raises:
        UsageError: the file is no such state, or belongs to another campaign.
    """
    _check_writable(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return State(settings, seed)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"--state {path}: cannot be read: {reason}") from None
    try:
        stored = json.loads(text)
        version = stored["swasim_fuzz"]
        if version != VERSION:
            raise UsageError(f"--state {path}: version {version!r}, this swasim knows {VERSION}")
        state = State(
            _settings(stored["settings"]),
            _count(stored["seed"]),
            _count(stored["seeds"]),
            _count(stored["calls"]),
            tuple(_known(find) for find in stored["finds"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(
            f"--state {path}: the file is no state of `swasim fuzz`; give another file"
        ) from None
    _check_same(path, state, settings, seed)
    return state


def _check_writable(path: str) -> None:
    if not path:
        raise UsageError("--state is empty; give a file")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise UsageError(f"--state {path}: cannot be written: there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--state {path}: cannot be written: no permission for {folder}")


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError
    return value


def _known(stored: dict[str, Any]) -> Known:
    _count(stored["seed"])
    if not all(isinstance(value, str) for key, value in stored.items() if key != "seed"):
        raise ValueError
    return Known(**stored)


def _check_same(path: str, state: State, settings: Settings, seed: int) -> None:
    old, new = _plain(state.settings), _plain(settings)
    for key in new:
        if old[key] != new[key]:
            raise UsageError(
                f"--state {path}: belongs to a campaign with {key} {old[key]!r}, not {new[key]!r};"
                " give another file"
            )
    if state.seed != seed:
        raise UsageError(
            f"--state {path}: belongs to a campaign that began at seed {state.seed}, not {seed};"
            " give another file"
        )


def store(path: str, state: State) -> None:
    """Write the state.

    Raises:
        UsageError: the file cannot be written.
    """
    document = {
        "swasim_fuzz": VERSION,
        "settings": _plain(state.settings),
        "seed": state.seed,
        "seeds": state.seeds,
        "calls": state.calls,
        "finds": [dataclasses.asdict(find) for find in state.finds],
    }
    partial = f"{path}.{os.getpid()}.part"
    try:
        try:
            Path(partial).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
            os.replace(partial, path)
        except BaseException:
            with contextlib.suppress(OSError, ValueError):
                os.unlink(partial)
            raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"--state {path}: cannot be written: {reason}") from None


def _plain(settings: Settings) -> dict[str, Any]:
    fields = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}
    return {**fields, "given": dict(settings.given), "mistakes": list(settings.mistakes)}


def _settings(stored: dict[str, Any]) -> Settings:
    return Settings(**{**stored, "mistakes": tuple(stored["mistakes"])})
