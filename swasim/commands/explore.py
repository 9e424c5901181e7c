"""`swasim explore`: every sequence of calls up to a bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from swasim.commands.grouping import option
from swasim.commands.hunting import (
    DEFAULT_FOLDER,
    FOUND,
    INTERRUPTED,
    SEARCH,
    Budget,
    Collect,
    Format,
    Save,
)
from swasim.commands.options import Allocator, ConfigOptions, OutputOptions

if TYPE_CHECKING:
    from swasim.config import ResolvedConfig, SimConfig
    from swasim.explore import Bounds, Family

CLAIMED = ("leaked-page", "replay-divergence")
"""Kinds that need an `expect` or a recorded `out`."""

DEFAULT_DEPTH, DEFAULT_REQUESTS, DEFAULT_PAGES, DEFAULT_PAGE_SIZE = 5, 2, 3, 2


@dataclass(frozen=True, slots=True)
class ExploreOptions:
    """What is tried, and how far."""

    depth: Annotated[
        int,
        option(
            "--depth",
            section=SEARCH,
            help=f"longest sequence, in events (default {DEFAULT_DEPTH})",
            metavar="N",
            min=1,
        ),
    ] = DEFAULT_DEPTH
    requests: Annotated[
        int,
        option(
            "--requests",
            section=SEARCH,
            help=f"requests at a time (default {DEFAULT_REQUESTS})",
            metavar="N",
            min=1,
        ),
    ] = DEFAULT_REQUESTS
    pages: Annotated[
        int | None,
        option(
            "--pages",
            section=SEARCH,
            help=f"pages in each pool, unless --kv-size says otherwise (default {DEFAULT_PAGES})",
            metavar="N",
            min=1,
        ),
    ] = None
    callers: Annotated[
        str,
        option(
            "--callers",
            section=SEARCH,
            help="careful, sloppy (default: what an allocator must bear), or wrong",
            metavar="KIND",
        ),
    ] = "sloppy"
    moves: Annotated[
        str | None,
        option(
            "--moves",
            section=SEARCH,
            help="only these moves, comma-separated; with + before each, these too",
            metavar="NAMES",
        ),
    ] = None
    control: Annotated[
        str | None,
        option(
            "--control",
            section=SEARCH,
            help="count only errors that this allocator does not show on the same sequence",
            metavar="NAME",
        ),
    ] = None
    find: Annotated[
        str | None,
        option("--find", section=SEARCH, help="look for errors of this kind only", metavar="KIND"),
    ] = None
    collect: Collect = False
    budget: Budget = None
    save: Save = DEFAULT_FOLDER


def explore(
    config: ConfigOptions,
    search: ExploreOptions,
    *,
    format: Format = "table",
    output: OutputOptions,
    allocator: Allocator = None,
) -> None:
    """Try every sequence of calls up to a bound, the short ones first.

    What it finds is the shortest sequence with an error, saved as a trace; when it finds nothing
    and the bound is exhausted, no sequence of these moves within it has one.
    """
    from swasim.commands import hunting
    from swasim.commands import output as outputs
    from swasim.commands.progress import telling
    from swasim.commands.sources import config_listing
    from swasim.explore import explore as run
    from swasim.reporters import explore as report

    hunting.check_folder(search.save)
    resolved = _configuration(config, search, allocator)
    bounds, families = _what_to_try(resolved.config, search)
    with outputs.destination(output) as out:
        if config.show_config:
            out.write(config_listing(resolved, format))
            return
        outputs.warn(resolved.warnings, output)
        with telling(output, report.progress_line) as progress:
            result = run(
                resolved.config,
                bounds,
                families,
                control=search.control or "",
                kind=search.find or "",
                collect=search.collect,
                budget_s=search.budget,
                progress=progress,
            )
        paths = report.save_all(result, search.callers, search.save)
        look = outputs.look(output, out)
        report.write(result, search.callers, paths, out, look, format)
    if result.end == "interrupted":
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(FOUND if result.found else 0)


def _configuration(
    config: ConfigOptions, search: ExploreOptions, allocator: str | None
) -> ResolvedConfig:
    """Tiny pools, unless something else was asked for."""
    from swasim.commands.hunting import config_for_search
    from swasim.config.values import MAX_TOKENS

    # The page size is looked up first: here any of them fits.
    alone = {"page_size": DEFAULT_PAGE_SIZE, "kv_size": MAX_TOKENS}
    page_size = config_for_search(config, allocator, alone, "explore").config.page_size
    size = page_size * (search.pages or DEFAULT_PAGES)
    base = {"page_size": page_size, "kv_size": size}
    return config_for_search(config, allocator, base, "explore")


def _what_to_try(settings: SimConfig, search: ExploreOptions) -> tuple[Bounds, tuple[Family, ...]]:
    """Bounds and moves.

    Raises:
        UsageError: an allocator that cannot be copied, or a word that nobody knows.
    """
    from swasim.allocator import registry
    from swasim.errors import UsageError
    from swasim.explore import Bounds, chosen_families

    if search.find is not None:
        _check_kind(search.find)
    names = [settings.allocator, *([search.control] if search.control else [])]
    for name in names:
        if registry.is_foreign(name):
            raise UsageError(f"{name} cannot be copied, and so not explored; use `swasim fuzz`")
    operations = frozenset.intersection(*(registry.profile(name).operations for name in names))
    families = chosen_families(search.callers, operations, search.moves)
    window = settings.sliding_window_size
    reach = None if window is None else window - settings.window_includes_self
    return Bounds(search.depth, search.requests, reach), families


def _check_kind(kind: str) -> None:
    """Refuse kinds that no sequence of moves can end in: not to find them would prove nothing.

    Raises:
        UsageError: the kind is unknown, is no error, or is about what a trace claims.
    """
    from swasim.errors import UsageError, unknown_name
    from swasim.sanitizer.kinds import KINDS

    if kind not in KINDS:
        raise UsageError("--find: " + unknown_name("kind", kind, KINDS))
    severity = KINDS[kind].severity
    if severity != "error":
        raise UsageError(f"--find: {kind} is a {severity}; explore looks for errors")
    if kind in CLAIMED:
        raise UsageError(
            f"--find: {kind} is about what a trace claims, and no move of explore claims anything"
        )
