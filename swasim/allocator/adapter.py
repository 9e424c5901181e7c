"""The real thing under test: an installed SGLang, a work tree, or any class with its methods.

`build` makes an allocator from a name, `watch` takes an object that somebody already has. Both
give an `Allocator` whose effects are derived from outside (see `swasim.allocator.watched`).
Nothing of SGLang is copied or changed; what its constructor wants is stood in for here.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any, TypeVar

import torch

from swasim.allocator import cpu_kernels, installed
from swasim.allocator.base import Allocator
from swasim.allocator.watched import Watched
from swasim.call import AllocatorState, Call, Effect
from swasim.config import SimConfig
from swasim.errors import ConfigError, SwasimError, UsageError
from swasim.geometry import Geometry, Pool

_Answer = TypeVar("_Answer")

_POOL_BASES = ("SWAKVPool", "BaseSWAKVPool")


def build(name: str, config: SimConfig) -> Allocator:
    """An allocator that is not swasim's own.

    Args:
        name: "sglang" for the SWA allocator of the SGLang that can be imported, or
            "package.module:Name" for a class, or for a function that returns an allocator.
        config: sizes, `need_sort`, and the torch device on which it is built.

    Raises:
        UsageError: it cannot be imported or constructed; the message says what was tried.
        ConfigError: the device is not there.
    """
    _check_device(config.device)
    # What the package prints is no part of a report, which may be JSON on standard output.
    with redirect_stdout(sys.stderr):
        loaded = _find(name)
        target = _construct(loaded.value, config, name)
    try:
        return _as_allocator(target, name, config, loaded.version)
    except SwasimError:
        raise
    except Exception as error:
        raise UsageError(
            f"allocator {name!r}: looking at {type(target).__name__} gave"
            f" {type(error).__name__}: {error}"
        ) from error


def _as_allocator(target: Any, name: str, config: SimConfig, version: str) -> Allocator:
    """What was constructed, watched unless it answers calls itself."""
    if not isinstance(target, Watched) and callable(getattr(target, "perform", None)):
        return Answering(target, name, config.geometry)
    if torch.device(config.device).type == "cpu":
        for pool in ("full", "swa"):
            cpu_kernels.install(type(getattr(target, f"{pool}_attn_allocator", None)))
    return Watched(target, name, config.geometry, version)


class Answering:
    """An object from outside that answers calls itself; its defects are not swasim's.

    Attributes:
        name: as the user named it.
        geometry: sizes of the pools.
    """

    def __init__(self, target: Any, name: str, geometry: Geometry) -> None:
        self.name = name
        self.geometry = geometry
        self._target = target

    def perform(self, call: Call) -> Effect:
        """Hand the call on.

        Raises:
            UsageError: the object let an exception out, or gave no `Effect`.
        """
        return self._asked(lambda: self._target.perform(call), "perform", Effect)

    def state(self) -> AllocatorState:
        """Hand the question on; raises as `perform`."""
        return self._asked(self._target.state, "state", AllocatorState)

    def _asked(self, ask: Callable[[], Any], method: str, wanted: type[_Answer]) -> _Answer:
        try:
            with redirect_stdout(sys.stderr):
                answer = ask()
        except SwasimError:
            raise
        except (Exception, SystemExit) as error:
            raise UsageError(
                f"allocator {self.name!r}: {method}() gave {type(error).__name__}: {error}"
            ) from error
        if not isinstance(answer, wanted):
            raise UsageError(
                f"allocator {self.name!r}: {method}() returned {type(answer).__name__}; accepted"
                f" is {wanted.__module__}.{wanted.__name__}"
            )
        return answer


def watch(target: Any, name: str = "") -> Watched:
    """Watch an allocator object that is already there; the object is not changed.

    Sizes are read from the object (`size_full`, `size_swa`, `page_size`).

    Args:
        name: how reports call it; the class name by default.

    Raises:
        UsageError: the object has no free lists and mapping that could be read.
    """
    page_size = getattr(target, "page_size", None)
    if not isinstance(page_size, int) or page_size < 1:
        raise UsageError(f"{type(target).__name__} has no page_size; it cannot be watched")
    geometry = Geometry(page_size, _size(target, "full"), _size(target, "swa"))
    return Watched(target, name or type(target).__name__, geometry)


def _size(target: Any, pool: Pool) -> int:
    owner = getattr(target, f"{pool}_attn_allocator", None)
    for value in (getattr(target, f"size_{pool}", None), getattr(owner, "size", None)):
        if isinstance(value, int):
            return value
    raise UsageError(
        f"{type(target).__name__} has neither size_{pool} nor {pool}_attn_allocator.size; "
        "it cannot be watched"
    )


def _check_device(device: str) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"device {device!r} is not usable here: {reason}") from error


def _find(name: str) -> installed.Loaded:
    if name == "sglang":
        return installed.load()
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise UsageError(f"allocator {name!r}: write package.module:Class")
    if module_name.partition(".")[0] == "sglang":
        return installed.load(module_name, attribute)
    try:
        module = importlib.import_module(module_name)
    except SwasimError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"allocator {name!r}: importing {module_name} gave {type(error).__name__}: {error} "
            "(is its folder on PYTHONPATH?)"
        ) from error
    value: Any = module
    for part in attribute.split("."):
        value = getattr(value, part, None)
        if value is None:
            raise UsageError(f"allocator {name!r}: {module_name} has no {attribute}")
    if not callable(value):
        raise UsageError(f"allocator {name!r}: {attribute} is neither a class nor a function")
    return installed.Loaded(value, module_name, "", None)


def _construct(factory: Callable[..., Any], config: SimConfig, name: str) -> Any:
    given = _arguments(factory, config)
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError) as error:
        raise UsageError(f"allocator {name!r}: its signature cannot be read: {error}") from error
    arguments: dict[str, Any] = {}
    for p in parameters:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        if p.name in given and p.kind is not p.POSITIONAL_ONLY:
            arguments[p.name] = given[p.name]
        elif p.default is p.empty:
            raise UsageError(
                f"allocator {name!r} wants an argument {p.name!r} that swasim has no value for "
                f"(has: {', '.join(given)}); write a function that makes one and name that: "
                "package.module:make"
            )
    try:
        return factory(**arguments)
    except SwasimError:
        raise
    except (Exception, SystemExit) as error:
        tried = ", ".join(f"{key}={_brief(value)}" for key, value in arguments.items())
        raise UsageError(
            f"allocator {name!r}: {getattr(factory, '__name__', name)}({tried}) gave "
            f"{type(error).__name__}: {error}"
        ) from error


def _brief(value: Any) -> str:
    if isinstance(value, bool | int | str | torch.dtype | None):
        return repr(value)
    return type(value).__name__


def _arguments(factory: Callable[..., Any], config: SimConfig) -> dict[str, Any]:
    """Everything that a constructor may ask for, by the names that are in use."""
    pool = kv_pool_stand_in(factory)
    return {
        "size": config.kv_size,
        "size_full": config.kv_size,
        "kv_size": config.kv_size,
        "size_swa": config.kv_size_swa,
        "kv_size_swa": config.kv_size_swa,
        "page_size": config.page_size,
        "need_sort": config.need_sort,
        "device": config.device,
        "dtype": torch.int64,
        "kvcache": pool,
        "kv_cache": pool,
        "kv_pool": pool,
        "req_to_token_pool": None,
        "sliding_window_size": config.sliding_window_size,
        "geometry": config.geometry,
        "config": config,
    }


class _KVPool:
    """What an SWA allocator reads of a KV pool: no buffers, the mapping and a look-up in it."""

    full_kv_pool = None
    swa_kv_pool = None
    swa_req_ring_size = None
    full_to_swa_index_mapping: Any = None

    def __init__(self) -> None:
        """Needs no sizes: nothing is stored."""

    def register_mapping(self, full_to_swa_index_mapping: Any) -> None:
        """Keep the allocator's mapping."""
        self.full_to_swa_index_mapping = full_to_swa_index_mapping

    def translate_loc_from_full_to_swa(self, kv_indices: torch.Tensor) -> Any:
        """[n] int64 full slots to [n] int64 SWA slots."""
        return self.full_to_swa_index_mapping[kv_indices]


def kv_pool_stand_in(allocator_class: Any) -> Any:
    """A KV pool object for the constructor of `allocator_class`.

    It is an instance of the pool class that the allocator's module checks for, where there is
    one, made without its constructor: no buffer is allocated. A look-up that the pool class
    itself defines is used as it is (releases up to 0.5.12.post1 cast to int32 there).
    """
    bases = _pool_bases(allocator_class)
    own = dict(vars(_KVPool))
    for name in ("__dict__", "__weakref__"):
        own.pop(name, None)
    for base in bases:
        for name in ("register_mapping", "translate_loc_from_full_to_swa"):
            method = getattr(base, name, None)
            abstract = getattr(method, "__isabstractmethod__", False)
            if inspect.isfunction(method) and not abstract:
                own.pop(name, None)
        for name in getattr(base, "__abstractmethods__", ()):
            own.setdefault(name, _stores_nothing)
    if not bases:
        return _KVPool()
    return type(bases[0])("KVPoolStandIn", bases, own)()


def _stores_nothing(*_args: Any, **_kwargs: Any) -> Any:
    raise NotImplementedError("swasim's stand-in for the KV pool stores no data")


def _pool_bases(allocator_class: Any) -> tuple[type, ...]:
    for owner in getattr(allocator_class, "__mro__", ()):
        module = inspect.getmodule(owner)
        names = vars(module) if module is not None else {}
        for name in _POOL_BASES:
            if isinstance(names.get(name), type):
                return (names[name],)
    return ()
