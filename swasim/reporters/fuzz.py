"""A finished campaign: what was found, from which seed, and how to see it again."""

from __future__ import annotations

import dataclasses
import json
import shlex
from typing import TYPE_CHECKING, Any, TextIO

from swasim import __version__, finds
from swasim.fuzz.sloppy import WRONG
from swasim.reporters import SCHEMA, Look
from swasim.reporters.jsonfmt import finding_fields
from swasim.reporters.screen import SEVERITY_STYLE, Screen, plain_table
from swasim.reporters.wording import counted, printable
from swasim.trace.writer import encode_event

if TYPE_CHECKING:
    from swasim.fuzz import Campaign, Find, Progress, State

EVENTS_SHOWN = 24


def progress_line(now: Progress, before: State) -> str:
    """How far a campaign is, on one line."""
    rate = now.calls / now.seconds if now.seconds else 0
    found = counted(now.finds + len(before.finds), "find")
    return (
        f"{counted(before.seeds + now.seeds, 'seed')}, {now.calls:,} calls, {rate:,.0f}/s, {found}"
    )


def save(campaign: Campaign, find: Find, folder: str) -> str:
    """Save one find into `folder`; "-": nowhere.

    Raises:
        UsageError: it cannot be written.
    """
    if folder == "-":
        return ""
    about = f"{find.kind}: {find.headline}."
    origin = (
        f"Found by `{command(campaign, find.seed)}`: {find.calls} events,"
        f" {len(find.events)} of them left."
    )
    blame = ["The ideal allocator shows it too: the calls are wrong."] if find.by_caller else []
    return finds.save(
        folder,
        f"fuzz-{campaign.settings.allocator}-{find.kind}-{find.seed}",
        find.config,
        find.events,
        [about, origin, *blame],
        allocators_of(campaign, find),
    )


def allocators_of(campaign: Campaign, find: Find) -> list[str]:
    """Allocators that show a find: two for a divergence."""
    against = [campaign.settings.against] if find.finding is None else []
    return [campaign.settings.allocator, *against]


def command(campaign: Campaign, seed: int) -> str:
    """The command that plays one seed again."""
    settings = campaign.settings
    words = ["swasim", "fuzz", "--allocator", settings.allocator, "--callers", settings.callers]
    if settings.mistakes != WRONG:
        words += ["--mistakes", ",".join(settings.mistakes)]
    for flag, value in (("--against", settings.against), ("--control", settings.control)):
        words += [flag, value] if value else []
    for key, value in sorted(settings.given.items()):
        flag = "--" + key.replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            words += [flag, str(value)]
    words += ["--calls", str(settings.calls), "--seed", str(seed), "--seeds", "1"]
    return " ".join(shlex.quote(word) for word in words)


def write(
    campaign: Campaign, total: State, paths: list[str], out: TextIO, look: Look, format: str
) -> None:
    """Write the result in one of `SEARCH_FORMATS`; `paths` are parallel to the finds."""
    if format == "json":
        document = {
            "swasim": __version__,
            "schema": SCHEMA,
            **_summary(campaign, total),
            "finds": [_find(campaign, f, p) for f, p in zip(campaign.finds, paths, strict=True)],
        }
        json.dump(document, out, indent=2)
        out.write("\n")
    elif format == "jsonl":
        for find, path in zip(campaign.finds, paths, strict=True):
            out.write(json.dumps({"type": "find", **_find(campaign, find, path)}) + "\n")
        head = {"type": "campaign", "swasim": __version__, "schema": SCHEMA}
        out.write(json.dumps({**head, **_summary(campaign, total)}) + "\n")
    elif format == "concise":
        for find, path in zip(campaign.finds, paths, strict=True):
            place = f"{printable(path)}: " if path else ""
            out.write(f"{place}{_tag(find)} {find.headline} (seed {find.seed})\n")
        out.write(statement(campaign, total) + "\n")
    else:
        _table(campaign, total, paths, out, look)


def statement(campaign: Campaign, total: State) -> str:
    """What was played and found, in one sentence."""
    last = total.next_seed - 1
    if not total.seeds:
        played = "no seed"
    elif total.seeds == 1:
        played = f"seed {last}"
    else:
        played = f"seeds {total.seed} to {last}"
    found = counted(len(total.finds), "find")
    text = f"{found} in {played}, {total.calls:,} calls of {campaign.settings.callers} callers"
    if campaign.excused:
        text += (
            f"; {counted(campaign.excused, 'trace')} left out, on which"
            f" {campaign.settings.control} shows an error too"
        )
    if campaign.end == "interrupted":
        text += "; interrupted"
    return text


def _summary(campaign: Campaign, total: State) -> dict[str, Any]:
    settings = campaign.settings
    return {
        "allocator": settings.allocator,
        "against": settings.against or None,
        "control": settings.control or None,
        "callers": settings.callers,
        "calls_per_seed": settings.calls,
        "given": dict(settings.given),
        "first_seed": total.seed,
        "seeds": total.seeds,
        "calls": total.calls,
        "end": campaign.end,
        "repeats": campaign.repeats,
        "excused": campaign.excused,
        "earlier_finds": [dataclasses.asdict(k) for k in total.finds[: _earlier(campaign, total)]],
        "seconds": round(campaign.seconds, 3),
        "statement": statement(campaign, total),
    }


def _earlier(campaign: Campaign, total: State) -> int:
    return len(total.finds) - len(campaign.finds)


def _find(campaign: Campaign, find: Find, path: str) -> dict[str, Any]:
    parted = find.divergence
    return {
        "seed": find.seed,
        "kind": find.kind,
        "headline": find.headline,
        "fingerprint": find.fingerprint,
        "calls": find.calls,
        "trace": path or None,
        "minimal": find.minimal,
        "by_caller": find.by_caller,
        "again": command(campaign, find.seed),
        "config": dataclasses.asdict(find.config),
        "events": [json.loads(encode_event(event)) for event in find.events],
        "finding": None
        if find.finding is None
        else finding_fields(find.finding) | {"help": finds.commands_with(path, find.finding.help)},
        "divergence": None if parted is None else dataclasses.asdict(parted),
    }


def _tag(find: Find) -> str:
    return find.kind if find.finding is None else f"{find.finding.severity}[{find.kind}]"


def _table(campaign: Campaign, total: State, paths: list[str], out: TextIO, look: Look) -> None:
    screen = Screen(out, look)
    for find, path in zip(campaign.finds, paths, strict=True):
        severity = "error" if find.finding is None else find.finding.severity
        screen.line((_tag(find), SEVERITY_STYLE[severity]), " ", printable(find.headline))
        blame = "; the ideal allocator shows it too: the calls are wrong" if find.by_caller else ""
        size = find.config.page_size
        screen.line(
            f"  seed {find.seed}, after {counted(find.calls, 'event')}; minimized to"
            f" {len(find.events)}, page size {size}{blame}"
        )
        shown = find.events if look.verbose else find.events[:EVENTS_SHOWN]
        for number, event in enumerate(shown, 1):
            screen.line(f"  {number:>2}  {encode_event(event).decode()}")
        if len(find.events) > len(shown):
            more = len(find.events) - len(shown)
            screen.line(f"  ... {more} more events (--verbose shows them)")
        if path:
            screen.labelled("saved", printable(path))
            again = finds.command_of(path, allocators_of(campaign, find))
            screen.line("  ", ("go on    ", "dim"), " ", printable(again))
        screen.line("  ", ("again    ", "dim"), " ", printable(command(campaign, find.seed)))
        screen.line()
    _earlier_finds(campaign, total, screen)
    screen.prose(f"{printable(campaign.settings.allocator)}: {statement(campaign, total)}.")
    if not look.quiet:
        rate = campaign.calls / campaign.seconds if campaign.seconds else 0
        known = f", {counted(campaign.repeats, 'repeat')}" if campaign.repeats else ""
        screen.line(
            f"{counted(campaign.calls, 'call')} in {campaign.seconds:.1f} s, {rate:,.0f}/s"
            f"{known}; ended by: {campaign.end}"
        )
    screen.flush()


def _earlier_finds(campaign: Campaign, total: State, screen: Screen) -> None:
    earlier = total.finds[: _earlier(campaign, total)]
    if not earlier:
        return
    screen.line("found before:")
    table = plain_table()
    for heading in ("seed", "kind", "trace"):
        table.add_column(heading)
    for known in earlier:
        table.add_row(str(known.seed), known.kind, printable(known.trace))
    screen.show(table)
    screen.line()
