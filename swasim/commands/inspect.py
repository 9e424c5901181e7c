"""`swasim inspect`: one moment, one page, one slot or one request of a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from swasim.commands.grouping import option
from swasim.commands.options import (
    Allocator,
    ConfigOptions,
    OutputOptions,
    TraceArgument,
    format_option,
)
from swasim.reporters import VIEW_FORMATS

if TYPE_CHECKING:
    from swasim.config import SimConfig
    from swasim.inspect.once import OnProgress
    from swasim.inspect.records import Inspection
    from swasim.trace.reader import TraceReader

LOOK_AT = "Look at (exactly one)"

At = Annotated[
    int | None,
    option(
        "--at", section=LOOK_AT, help="everything after event N (0: the start)", metavar="N", min=0
    ),
]
Pages = Annotated[
    list[str] | None,
    option(
        "--page",
        section=LOOK_AT,
        help="whole life of a page (repeatable): full:3, swa:7",
        metavar="POOL:PAGE",
    ),
]
Slots = Annotated[
    list[str] | None,
    option(
        "--slot",
        section=LOOK_AT,
        help="likewise of one slot (repeatable): full:29, swa:29",
        metavar="POOL:SLOT",
    ),
]
Request = Annotated[
    str | None,
    option("--req", section=LOOK_AT, help="row of a request, page by page", metavar="NAME"),
]
Format = Annotated[str, format_option(VIEW_FORMATS)]


def inspect(
    trace: TraceArgument,
    config: ConfigOptions,
    *,
    format: Format = "table",
    output: OutputOptions,
    at: At = None,
    page: Pages = None,
    slot: Slots = None,
    req: Request = None,
    allocator: Allocator = None,
) -> None:
    """Look at one moment, page, slot or request of a replay.

    Exits 0 whatever the replay finds; `swasim replay` judges.
    """
    from swasim.commands import output as outputs
    from swasim.commands.progress import watching
    from swasim.commands.sources import config_listing, locate_trace, read_files, resolve_config
    from swasim.errors import UsageError
    from swasim.reporters.inspect import WRITERS
    from swasim.trace.reader import open_trace

    asked = {"--at": at, "--page": page or None, "--slot": slot or None, "--req": req}
    given = [flag for flag, value in asked.items() if value is not None]
    if len(given) != 1 and not config.show_config:
        raise UsageError(_wrong_choice(given))
    path = locate_trace(trace)
    with open_trace(path) as reader:
        resolved = resolve_config(config, reader, allocator)
        with outputs.destination(output, inputs=read_files(path, config)) as out:
            if config.show_config:
                out.write(config_listing(resolved, format))
                return
            with watching(reader, output) as on_progress:
                found = _look(reader, resolved.config, at, page, slot, req, on_progress)
            outputs.warn([*resolved.warnings, *found.warnings], output)
            WRITERS[format](found, out, outputs.look(output, out))


def _wrong_choice(given: list[str]) -> str:
    choice = "one of --at N, --page POOL:PAGE, --slot POOL:SLOT, --req NAME"
    if not given:
        return f"say what to look at: {choice}"
    return f"{' and '.join(given)} cannot be given together; give {choice}"


def _look(
    reader: TraceReader,
    config: SimConfig,
    at: int | None,
    pages: list[str] | None,
    slots: list[str] | None,
    req: str | None,
    on_progress: OnProgress | None,
) -> Inspection:
    from swasim.inspect import once
    from swasim.inspect.target import page_target, slot_target

    if at is not None:
        return once.inspect_moment(reader, config, at, on_progress=on_progress)
    if req is not None:
        return once.inspect_row(reader, config, req, on_progress=on_progress)
    targets = [page_target(text, config.geometry) for text in pages or ()]
    targets += [slot_target(text, config.geometry) for text in slots or ()]
    return once.inspect_pages(reader, config, targets, on_progress=on_progress)
