"""`SimConfig`, its keys, and what each value may be."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

from swasim.errors import ConfigError
from swasim.geometry import Geometry

MAX_TOKENS = 2**31 - 1
"""Largest size accepted, in tokens: serving kernels address slots with 32-bit integers."""

ENGINES = ("core", "torch")

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off"})
NONE_WORDS = frozenset({"none", "null", "~"})
"""Spelt out in the environment; YAML has types of its own."""

_DEVICE = re.compile(r"cpu|mps|cuda(:(0|[1-9][0-9]{0,3}))?")
_NUMBER = re.compile(r"[+-]?(0|[1-9][0-9_]*)")


@dataclass(frozen=True, slots=True)
class SimConfig:
    """Everything that decides a replay besides the trace.

    Attributes:
        page_size: tokens per page.
        kv_size, kv_size_swa: tokens in each pool, whole pages.
        sliding_window_size: tokens; None (or 0, which becomes None): no window is checked.
        window_includes_self: whether the window counts the token that attends (model configs:
            yes; SGLang's runtime value, one smaller: no).
        need_sort: freed pages are staged and merged in order when an allocation runs short.
        device: torch device of the torch engine; checked by its syntax only.
        allocator: registry name, or `package.module:Class`.
        engine: "core" (plain integers, CPU) or "torch" (the reference; any device).

    Raises:
        ConfigError: a value of the wrong type or out of range, a pool that is not a whole number
            of pages, or the core engine on a device other than the CPU.
    """

    page_size: int = 1
    kv_size: int = 1024
    kv_size_swa: int = 1024
    sliding_window_size: int | None = None
    window_includes_self: bool = True
    need_sort: bool = False
    device: str = "cpu"
    allocator: str = "fixed"
    engine: str = "core"

    def __post_init__(self) -> None:
        for key in KEYS:
            wrong = problem(key, getattr(self, key))
            if wrong:
                raise ConfigError(wrong)
        for key in ("kv_size", "kv_size_swa"):
            size = getattr(self, key)
            if size < self.page_size or size % self.page_size:
                raise ConfigError(
                    f"{key} is {size} tokens, which is not one or more whole pages of"
                    f" {self.page_size} (swasim.config.resolve rounds down)"
                )
        if self.sliding_window_size == 0:
            object.__setattr__(self, "sliding_window_size", None)
        if self.engine == "core" and self.device != "cpu":
            raise ConfigError(f"engine core runs on cpu only, device is {self.device}: use torch")

    @property
    def geometry(self) -> Geometry:
        """Sizes of the pools."""
        return Geometry(self.page_size, self.kv_size, self.kv_size_swa)


KEYS = tuple(field.name for field in fields(SimConfig))
"""Every configuration key, in the order in which they are shown."""

DEFAULTS = {field.name: field.default for field in fields(SimConfig)}


def expected(key: str) -> str:
    """What a key accepts, as a phrase."""
    if key in ("page_size", "kv_size", "kv_size_swa"):
        return "a whole number of tokens, 1 or more"
    if key == "sliding_window_size":
        return "a whole number of tokens (0 or null: no window)"
    if key == "device":
        return "cpu, cuda, cuda:N or mps"
    if key == "engine":
        return " or ".join(ENGINES)
    if key == "allocator":
        return "a registry name or package.module:Class"
    return "true or false"


def problem(key: str, value: Any) -> str | None:
    """What is wrong with a value on its own, or None."""
    if _acceptable(key, value):
        return None
    shown = shorten(str(value)) if not isinstance(value, str) else repr(shorten(value))
    if isinstance(value, int) and value > MAX_TOKENS:
        return f"{key} is {shown} tokens; at most {MAX_TOKENS} are possible"
    return f"{key} must be {expected(key)}, found {shown}"


def _acceptable(key: str, value: Any) -> bool:
    default = DEFAULTS[key]
    if isinstance(default, bool):
        return isinstance(value, bool)
    if isinstance(default, str):
        return isinstance(value, str) and _acceptable_word(key, value)
    if value is None:
        return key == "sliding_window_size"
    smallest = 0 if key == "sliding_window_size" else 1
    # bool is an int to Python; "page_size: yes" is a mistake to everybody else.
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return smallest <= value <= MAX_TOKENS


def _acceptable_word(key: str, value: str) -> bool:
    if key == "device":
        return _DEVICE.fullmatch(value) is not None
    if key == "engine":
        return value in ENGINES
    return bool(value) and not any(sign.isspace() for sign in value)


def whole_number(text: str, otherwise: Any) -> Any:
    """The number that plain decimal digits (and `_`) spell, or `otherwise`."""
    if _NUMBER.fullmatch(text) and len(text) <= 20:
        return int(text)
    return otherwise


def shorten(text: str, width: int = 60) -> str:
    """The text, cut for a message."""
    return text if len(text) <= width else text[: width - 1] + "…"
