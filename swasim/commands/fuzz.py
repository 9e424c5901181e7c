"""`swasim fuzz`: random workloads until one of them finds something."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
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
    is_given,
)
from swasim.commands.options import Allocator, ConfigOptions, OutputOptions

if TYPE_CHECKING:
    from swasim.config import ResolvedConfig
    from swasim.fuzz import Campaign, Settings, State

DEFAULT_SEEDS, DEFAULT_CALLS = 200, 500
STATE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class FuzzOptions:
    """What is played, and how long."""

    callers: Annotated[
        str,
        option(
            "--callers",
            section=SEARCH,
            help="careful (default), sloppy (what an allocator must bear), or wrong",
            metavar="KIND",
        ),
    ] = "careful"
    mistakes: Annotated[
        str | None,
        option(
            "--mistakes",
            section=SEARCH,
            help="of wrong callers: only these, comma-separated; each trace has one kind",
            metavar="NAMES",
        ),
    ] = None
    against: Annotated[
        str | None,
        option(
            "--against",
            section=SEARCH,
            help="a second allocator in lockstep: where they part is a find",
            metavar="NAME",
        ),
    ] = None
    control: Annotated[
        str | None,
        option(
            "--control",
            section=SEARCH,
            help="count only traces on which this allocator shows no error",
            metavar="NAME",
        ),
    ] = None
    seed: Annotated[
        int,
        option("--seed", section=SEARCH, help="the first seed (default 0)", metavar="N", min=0),
    ] = 0
    seeds: Annotated[
        int | None,
        option(
            "--seeds",
            section=SEARCH,
            help=f"traces to play, one a seed (default {DEFAULT_SEEDS}; with --budget: no limit)",
            metavar="N",
            min=1,
        ),
    ] = None
    calls: Annotated[
        int,
        option(
            "--calls",
            section=SEARCH,
            help=f"events of each trace (default {DEFAULT_CALLS})",
            metavar="N",
            min=1,
        ),
    ] = DEFAULT_CALLS
    budget: Budget = None
    collect: Collect = False
    jobs: Annotated[
        int,
        option(
            "--jobs",
            "-j",
            section=SEARCH,
            help="processes (default 1); the finds do not depend on it",
            metavar="N",
            min=1,
        ),
    ] = 1
    state: Annotated[
        str | None,
        option(
            "--state",
            section=SEARCH,
            help="file that remembers which seeds are done; gone on with where it is there",
            metavar="FILE",
        ),
    ] = None
    save: Save = DEFAULT_FOLDER


def fuzz(
    config: ConfigOptions,
    search: FuzzOptions,
    *,
    format: Format = "table",
    output: OutputOptions,
    allocator: Allocator = None,
) -> None:
    """Play random workloads on an allocator until one of them finds an error.

    Sizes are random too, unless they are given. What is found is minimized and saved as a trace;
    everything follows from the seed. Ctrl-C stops, and --state lets the next run go on.
    """
    from swasim.commands import hunting
    from swasim.commands import output as outputs
    from swasim.commands.progress import telling
    from swasim.commands.sources import config_listing
    from swasim.fuzz import fuzz as run
    from swasim.fuzz import load
    from swasim.reporters import fuzz as report

    hunting.check_folder(search.save)
    resolved = _configuration(config, allocator)
    settings = _settings(resolved, search)
    state = load(search.state, settings, search.seed) if search.state is not None else None
    seeds = search.seeds
    if seeds is None and search.budget is None:
        seeds = DEFAULT_SEEDS
    if seeds is not None and state is not None:
        seeds = max(0, seeds - state.seeds)
    with outputs.destination(output) as out:
        if config.show_config:
            out.write(config_listing(_with_chance(resolved), format))
            return
        outputs.warn(resolved.warnings, output)
        keeper = _Keeper(search, settings, state)
        with telling(output, partial(report.progress_line, before=keeper.before)) as progress:
            result = run(
                settings,
                seed=keeper.next_seed,
                seeds=seeds,
                budget_s=search.budget,
                collect=search.collect,
                jobs=search.jobs,
                known=keeper.known,
                progress=progress,
                checkpoint=keeper.keep,
            )
        keeper.keep(result, last=True)
        look = outputs.look(output, out)
        report.write(result, keeper.total(result), keeper.paths, out, look, format)
    if result.end == "interrupted":
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(FOUND if keeper.total(result).finds else 0)


def _configuration(config: ConfigOptions, allocator: str | None) -> ResolvedConfig:
    """What was asked for; pools that are random must neither refuse a page size nor warn of one."""
    from swasim.commands.hunting import config_for_search
    from swasim.config.values import MAX_TOKENS

    wide = {"kv_size": MAX_TOKENS}
    page_size = config_for_search(config, allocator, wide, "fuzz").config.page_size
    whole = {"kv_size": MAX_TOKENS // page_size * page_size}
    return config_for_search(config, allocator, whole, "fuzz")


def _with_chance(resolved: ResolvedConfig) -> ResolvedConfig:
    """The configuration to be shown: what nobody chose is drawn anew for every seed."""
    drawn = ("page_size", "kv_size", "kv_size_swa", "sliding_window_size", "need_sort")
    chance = {key: "not used: random, by the seed" for key in drawn if not is_given(resolved, key)}
    return replace(resolved, origins=resolved.origins | chance)


def _settings(resolved: ResolvedConfig, search: FuzzOptions) -> Settings:
    """What is played: configuration keys that somebody chose are not left to chance."""
    from swasim.allocator import registry
    from swasim.errors import UsageError, unknown_name
    from swasim.fuzz import CALLERS, Settings

    config = resolved.config
    if search.callers not in CALLERS:
        raise UsageError("--callers: " + unknown_name("kind of caller", search.callers, CALLERS))
    for name in filter(None, (config.allocator, search.against, search.control)):
        if not registry.is_foreign(name):
            registry.info(name)
    given = {
        key: getattr(config, key)
        for key in resolved.origins
        if key != "allocator" and is_given(resolved, key)
    }
    if "kv_size" in given:
        given.setdefault("kv_size_swa", config.kv_size_swa)
    if "device" in given:
        given.setdefault("engine", config.engine)
    if ("kv_size" in given or "kv_size_swa" in given) and "page_size" not in given:
        raise UsageError("a pool size needs --page-size: page sizes are random otherwise")
    if given.get("sliding_window_size", 0) is None:
        raise UsageError("--sliding-window-size 0: a workload needs a window")
    return Settings(
        allocator=config.allocator,
        against=search.against or "",
        control=search.control or "",
        callers=search.callers,
        mistakes=_mistakes(search),
        calls=search.calls,
        given=given,
    )


def _mistakes(search: FuzzOptions) -> tuple[str, ...]:
    """The chosen mistakes; all of them where none is named."""
    from swasim.errors import UsageError, unknown_name
    from swasim.fuzz import WRONG

    if search.mistakes is None:
        return WRONG
    names = tuple(dict.fromkeys(n.strip() for n in search.mistakes.split(",") if n.strip()))
    if search.callers != "wrong":
        raise UsageError(f"--mistakes: {search.callers} callers make none; add --callers wrong")
    if not names:
        raise UsageError("--mistakes is empty; known: " + ", ".join(WRONG))
    for name in names:
        if name not in WRONG:
            raise UsageError("--mistakes: " + unknown_name("mistake", name, WRONG))
    return names


class _Keeper:
    """Saves every find when it is found, and the state now and then."""

    def __init__(self, search: FuzzOptions, settings: Settings, state: State | None) -> None:
        from swasim.fuzz import State

        self._search = search
        self.before = state if state is not None else State(settings, search.seed)
        self.known = frozenset(find.fingerprint for find in self.before.finds)
        self.paths: list[str] = []
        self._due = 0.0

    @property
    def next_seed(self) -> int:
        return self.before.next_seed

    def keep(self, campaign: Campaign, *, last: bool = False) -> None:
        """Save what is new."""
        import time

        from swasim.fuzz import store
        from swasim.reporters.fuzz import save

        for find in campaign.finds[len(self.paths) :]:
            self.paths.append(save(campaign, find, self._search.save))
            self._due = 0.0
        now = time.monotonic()
        if self._search.state is not None and (last or now >= self._due):
            store(self._search.state, self.total(campaign))
            self._due = now + STATE_SECONDS

    def total(self, campaign: Campaign) -> State:
        """The state after this run."""
        from swasim.fuzz import Known

        fresh = tuple(
            Known(find.seed, find.kind, find.headline, find.fingerprint, path)
            for find, path in zip(campaign.finds, self.paths, strict=False)
        )
        before = self.before
        return replace(
            before,
            seeds=before.seeds + campaign.seeds,
            calls=before.calls + campaign.calls,
            finds=(*before.finds, *fresh),
        )
