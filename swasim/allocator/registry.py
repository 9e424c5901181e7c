"""Every allocator that has a name, and how to build one.

Listing is cheap: torch is loaded only when an allocator that needs it is built.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from swasim.allocator.base import Allocator
from swasim.allocator.core import CorePair
from swasim.allocator.faults import FAULTS, Fault
from swasim.allocator.profile import IDEAL, PROFILE_F, PROFILE_G, RELEASES, Profile
from swasim.config import SimConfig
from swasim.errors import ConfigError, UsageError, unknown_name

_PAGE_BYTES = {"core": 40, "torch": 16}
_ENTRY_BYTES = 9
"""Memory of a page in a free list and of a mapping entry, measured."""

PR_27779 = "https://github.com/sgl-project/sglang/pull/27779"

INSTALLED = "sglang"
"""Name of the allocator of the SGLang that can be imported."""

_SHOWN = (
    f"{INSTALLED}, fixed, buggy, ideal, fault:NUMBER, a release such as 0.5.23, "
    "package.module:Class; `swasim allocators` lists them all"
)


@dataclass(frozen=True, slots=True)
class AllocatorInfo:
    """One allocator, as `swasim allocators` lists it.

    Attributes:
        name: registry name.
        mirrors: release, or range of releases, or what else it is like.
        link: where to read on; "" where there is nothing.
        finding: kind of the first error on `trace`; "" where none is expected.
        faulty: it is listed to show a fault; findings on it are expected.
        summary: one sentence.
        trace: name of the bundled trace that shows the fault; "" without one.
        aliases: further names.
        by_caller: the fault is the caller's, so that every allocator gives the finding.
    """

    name: str
    mirrors: str
    link: str
    finding: str
    faulty: bool
    summary: str
    trace: str
    aliases: tuple[str, ...] = ()
    by_caller: bool = False


def known() -> tuple[AllocatorInfo, ...]:
    """Every registered allocator: the pair of PR 27779, the ideal one, faults, releases."""
    return tuple(info for info, _ in _entries())


def names() -> tuple[str, ...]:
    """Every name that `build` takes, aliases included, in the order of `known`."""
    return tuple(name for info, _ in _entries() for name in (info.name, *info.aliases))


def info(name: str) -> AllocatorInfo:
    """What is known of an allocator.

    Raises:
        UsageError: no such name; tells the nearest one, and how to see them all.
    """
    return _entry(name)[0]


def profile(name: str) -> Profile:
    """The profile behind a registry name.

    Raises:
        UsageError: no such name.
    """
    return _entry(name)[1]


def build(config: SimConfig) -> Allocator:
    """A new allocator with every page free.

    Args:
        config: name, sizes, `need_sort`, engine and device.

    Raises:
        UsageError: an unknown name; page_size above 1 on a release without pages; the core
            engine on a device other than the CPU.
        ConfigError: pools that do not fit in this machine's memory.
    """
    if is_foreign(config.allocator):
        from swasim.allocator import adapter

        return adapter.build(config.allocator, config)
    found, profile = _entry(config.allocator)
    if config.page_size > 1 and not profile.paged:
        raise UsageError(
            f"{found.name} knows page size 1 only (pages came with SGLang 0.5.8), "
            f"but page_size is {config.page_size}"
        )
    _require_memory(config)
    if config.engine == "torch":
        from swasim.allocator.tensor import swa

        return swa.build(
            profile, config.geometry, config.need_sort, config.device, config.allocator
        )
    if config.device != "cpu":
        raise UsageError(f"engine core runs on cpu only, device is {config.device}: use torch")
    return CorePair(config.allocator, profile, config.geometry, config.need_sort)


def _require_memory(config: SimConfig) -> None:
    """Refuse pools that this machine cannot hold, before the system ends the process for it."""
    pages = config.geometry.full_pages + config.geometry.swa_pages
    needed = pages * _PAGE_BYTES[config.engine] + config.kv_size * _ENTRY_BYTES
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if config.device == "cpu" and needed > installed:
        raise ConfigError(
            f"pools of {config.kv_size} and {config.kv_size_swa} tokens with pages of"
            f" {config.page_size} need about {needed >> 30} GiB of memory, and this machine has"
            f" {installed >> 30}; use smaller pools (kv_size, kv_size_swa) or larger pages"
            " (page_size)"
        )


def is_foreign(name: str) -> bool:
    """Whether a name means code from outside: "sglang", or "package.module:Class"."""
    return name == INSTALLED or (":" in name and not name.startswith("fault:"))


@cache
def _entries() -> tuple[tuple[AllocatorInfo, Profile], ...]:
    return (
        *_pair(),
        *((_of_fault(fault), fault.profile) for fault in FAULTS),
        *((_of_release(release, profile), profile) for release, profile in RELEASES.items()),
    )


@cache
def _by_name() -> dict[str, tuple[AllocatorInfo, Profile]]:
    return {name: entry for entry in _entries() for name in (entry[0].name, *entry[0].aliases)}


def _entry(name: str) -> tuple[AllocatorInfo, Profile]:
    found = _by_name().get(name)
    if found is None:
        raise UsageError(unknown_name("allocator", name, (INSTALLED, *_by_name()), _SHOWN))
    return found


def _pair() -> tuple[tuple[AllocatorInfo, Profile], ...]:
    fixed = AllocatorInfo(
        name="fixed",
        mirrors=f"SGLang {PROFILE_G.releases}",
        link=PR_27779,
        finding="",
        faulty=False,
        summary="free_swa releases and unmaps whole pages, once each",
        trace="",
    )
    buggy = AllocatorInfo(
        name="buggy",
        mirrors=f"SGLang {PROFILE_F.releases}",
        link=PR_27779,
        finding="stale-mapping",
        faulty=True,
        summary="free_swa of part of a page releases the page and unmaps only the named tokens",
        trace="pr27779",
        aliases=("fault:27779",),
    )
    ideal = AllocatorInfo(
        name="ideal",
        mirrors=IDEAL.releases,
        link="",
        finding="",
        faulty=False,
        summary="what is found on it is the caller's fault",
        trace="",
    )
    return ((fixed, PROFILE_G), (buggy, PROFILE_F), (ideal, IDEAL))


def _of_fault(fault: Fault) -> AllocatorInfo:
    return AllocatorInfo(
        name=fault.profile.name,
        mirrors=fault.profile.releases,
        link=fault.link,
        finding=fault.finding,
        faulty=True,
        summary=fault.summary,
        trace=fault.trace,
        aliases=fault.aliases,
        by_caller=fault.by_caller,
    )


def _of_release(release: str, profile: Profile) -> AllocatorInfo:
    return AllocatorInfo(
        name=f"sglang-{release}",
        mirrors=f"SGLang {profile.releases}",
        link=f"https://github.com/sgl-project/sglang/releases/tag/v{release}",
        finding="",
        faulty=False,
        summary=f"as SGLang {release} behaves (profile {profile.name})",
        trace="",
        aliases=(release,),
    )
