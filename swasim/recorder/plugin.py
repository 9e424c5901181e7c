"""SGLang plugin: record the SWA allocator of every scheduler process.

Entry point of the group `sglang.srt.plugins`. It does nothing unless `SWASIM_RECORD` holds a path
prefix; then the constructor of the allocator is hooked, and each object that it makes is recorded
into `PREFIX.HOST.PID[.tpN…].jsonl`. Where a release has no plugins, or its loader is not called,
`arm` hooks the constructor when its module is imported; both together attach once.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import re
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, cast

from swasim.errors import LONGEST_NAME, SwasimError, UsageError
from swasim.recorder import MappingCheck, forks, record

logger = logging.getLogger("swasim.recorder")

PREFIX_VARIABLE = "SWASIM_RECORD"
DEFAULT_NAME = "swasim-record"
"""Prefix of the files where none, or only a directory, is named."""
DEFAULT_MAX_BYTES = 1 << 30
"""Bound of one process's file where none is given: a forgotten recording must not fill a disk."""

CLASS = "SWATokenToKVPoolAllocator"
MODULES = (
    "sglang.srt.mem_cache.allocator.swa",
    "sglang.srt.mem_cache.swa_memory_pool",
    "sglang.srt.mem_cache.allocator",
)
"""Where the class has been defined, newest first (from 0.5.14; 0.5.8 to 0.5.13; before)."""
OTHERS = {
    "sglang.srt.mem_cache.allocator.swa": ("PureSWATokenToKVPoolAllocator",),
    "sglang.srt.mem_cache.allocator.unified_hybrid_swa": ("UnifiedSWAAllocatorBase",),
    "sglang.srt.mem_cache.multi_ended_allocator": ("UnifiedSWATokenToKVPoolAllocator",),
}
"""Allocators that stand in its place and cannot be recorded: their constructor says so."""
_RANKS = {"tp_rank": "tp", "pp_rank": "pp", "dp_rank": "dp"}
_HOOKED = "_swasim_hooked"
_CONSTRUCTOR = "__init__"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment asks for."""

    prefix: str
    max_bytes: int | None
    ring: int | None
    check_mapping: MappingCheck | None


def settings(environment: Mapping[str, str]) -> Settings | None:
    """What to record where; None where `SWASIM_RECORD` is not set.

    Raises:
        UsageError: a value that cannot be; the message names the variable.
    """
    prefix = environment.get(PREFIX_VARIABLE, "")
    if not prefix.strip():
        return None
    check = environment.get(f"{PREFIX_VARIABLE}_CHECK_MAPPING") or None
    if check not in (None, "never", "write", "call"):
        name = f"{PREFIX_VARIABLE}_CHECK_MAPPING"
        raise UsageError(f"{name} is {check!r}; accepted is never, write or call")
    ring = _count(environment, "RING", None)
    default = None if ring else DEFAULT_MAX_BYTES
    max_bytes = _count(environment, "MAX_BYTES", default)
    return Settings(whole_prefix(prefix), max_bytes, ring, cast("MappingCheck | None", check))


def _count(environment: Mapping[str, str], name: str, default: int | None) -> int | None:
    text = environment.get(f"{PREFIX_VARIABLE}_{name}", "").strip()
    if not text:
        return default
    if not re.fullmatch(r"0*[1-9][0-9]{0,17}", text, re.ASCII):
        shown = text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + "..."
        raise UsageError(f"{PREFIX_VARIABLE}_{name} is {shown!r}; accepted is a number from 1 on")
    return int(text)


def whole_prefix(prefix: str) -> str:
    """The absolute prefix of the files; a directory gets a name in it."""
    path = os.path.abspath(os.path.expanduser(prefix))
    in_directory = prefix.endswith(os.sep) or os.path.isdir(path)
    return os.path.join(path, DEFAULT_NAME) if in_directory else path


def register() -> None:
    """Hook the allocator's constructor, if `SWASIM_RECORD` is set. Called by SGLang's loader."""
    if not _wanted():
        return
    found = _allocator_class()
    if found is None:
        logger.error(
            "%s is set, but this SGLang has no %s where swasim looks for it (%s): "
            "NOTHING WILL BE RECORDED",
            PREFIX_VARIABLE,
            CLASS,
            ", ".join(MODULES),
        )
        return
    try:
        hooks = importlib.import_module("sglang.srt.plugins.hook_registry")
    except ImportError:
        arm()
        return
    for cls in (found, *_others()):
        if not _is_hooked(cls):
            target = f"{cls.__module__}.{cls.__qualname__}.__init__"
            hooks.HookRegistry.register(target, _after_init, hooks.HookType.AFTER)


def _wanted() -> bool:
    try:
        return settings(os.environ) is not None
    except UsageError as error:
        logger.error("%s: NOTHING WILL BE RECORDED", error)
        return False


def _allocator_class() -> type | None:
    for name in MODULES:
        cls = _defined(name, CLASS)
        if cls is not None:
            return cls
    return None


def _others() -> list[type]:
    classes = [
        _defined(module, name)
        for module, names in OTHERS.items()
        if module in sys.modules
        for name in names
    ]
    return [cls for cls in classes if cls is not None]


def _defined(module_name: str, class_name: str) -> type | None:
    """The class, where that module defines it and does not merely import it."""
    try:
        cls = getattr(importlib.import_module(module_name), class_name, None)
    except ModuleNotFoundError as error:
        if not module_name.startswith(error.name or "?"):
            logger.error("importing %s needs %s, which is missing", module_name, error.name)
        return None
    except Exception as error:
        logger.error("importing %s failed: %s: %s", module_name, type(error).__name__, error)
        return None
    return cls if isinstance(cls, type) and cls.__module__ == module_name else None


def _after_init(_result: Any, allocator: Any, *_args: Any, **_kwargs: Any) -> None:
    attach(allocator)


def attach(allocator: Any) -> None:
    """Record `allocator` as the environment says. Never raises; what went wrong is logged."""
    try:
        wanted = settings(os.environ)
        if wanted is None or any(item.is_recording(allocator) for item in forks.ACTIVE):
            return
        path = free_path(wanted.prefix, ranks(sys._getframe(1)))
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        record(
            allocator,
            path,
            max_bytes=wanted.max_bytes,
            ring=wanted.ring,
            check_mapping=wanted.check_mapping,
        )
    except (SwasimError, OSError) as error:
        logger.error("cannot record this %s: %s", type(allocator).__name__, error)
    except Exception:
        logger.exception("cannot record this %s", type(allocator).__name__)
    else:
        # A warning, since servers often hide anything less: somebody must see it happen.
        logger.warning("recording the calls of %s to %s", type(allocator).__name__, path)


def ranks(frame: FrameType | None) -> str:
    """The ranks of this process as file name parts, from the arguments of whoever called.

    Scheduler processes have their ranks as arguments of `run_scheduler_process` in every release;
    no library has to be asked. "" where nobody has any.
    """
    while frame is not None:
        names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
        if "tp_rank" in names:
            found = {short: frame.f_locals.get(name) for name, short in _RANKS.items()}
            parts = [f".{short}{rank}" for short, rank in found.items() if isinstance(rank, int)]
            return "".join(parts)
        frame = frame.f_back
    return ""


def free_path(prefix: str, ranks_part: str) -> str:
    """A path of this host and process that no file has yet."""
    host = socket.gethostname().partition(".")[0] or "host"
    stem = f"{prefix}.{host}.{os.getpid()}{ranks_part}"
    path, number = f"{stem}.jsonl", 1
    while Path(path).exists():
        number += 1
        path = f"{stem}.{number}.jsonl"
    return path


def when_built(action: Callable[[Any], object]) -> None:
    """Call `action` on every SWA allocator that SGLang builds in this process from now on."""
    importing = importlib.import_module("swasim.recorder.importing")
    classes = dict.fromkeys(MODULES, (CLASS,))
    importing.when_imported(classes, lambda cls: hook_class(cls, action))


def hook_class(cls: type, action: Callable[[Any], object]) -> None:
    """Have the constructor of `cls` call `action` on what it makes."""
    if _is_hooked(cls):
        return
    original: Callable[..., None] = getattr(cls, _CONSTRUCTOR)

    @functools.wraps(original)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        action(self)

    setattr(hooked, _HOOKED, True)
    setattr(cls, _CONSTRUCTOR, hooked)


def _is_hooked(cls: type) -> bool:
    return hasattr(vars(cls).get(_CONSTRUCTOR), _HOOKED)


def arm() -> None:
    """Hook the constructor without SGLang's plugin loader: now, or when its module is imported."""
    if not _wanted():
        return
    watched = dict.fromkeys(MODULES, (CLASS,))
    for name, classes in OTHERS.items():
        watched[name] = (*watched.get(name, ()), *classes)
    importing = importlib.import_module("swasim.recorder.importing")
    importing.when_imported(watched, lambda cls: hook_class(cls, attach))
