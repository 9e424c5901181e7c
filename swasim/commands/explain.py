"""`swasim explain`: what a finding means."""

from __future__ import annotations

from typing import Annotated

import typer

from swasim.commands.options import FileOptions, Verbose

Kind = Annotated[
    str | None,
    typer.Argument(
        metavar="[KIND]", help="kind of finding (default: list them all)", show_default=False
    ),
]


def explain(kind: Kind = None, *, verbose: Verbose = False) -> None:
    """Explain a kind of finding, or list them all."""
    from swasim import bundled
    from swasim.commands import output as outputs
    from swasim.errors import UsageError, unknown_name
    from swasim.reporters.catalogue import write_kind, write_kinds
    from swasim.sanitizer.kinds import KINDS

    if kind is not None and kind not in KINDS:
        raise UsageError(unknown_name("kind", kind, KINDS))
    options = FileOptions()
    with outputs.destination(options) as out:
        look = outputs.look(options, out)
        if kind is None:
            write_kinds(KINDS.values(), out, look)
            return
        info = KINDS[kind]
        name = info.trace.removesuffix(".jsonl")
        has_trace = name in bundled.list_traces()
        text = bundled.trace_path(name).read_text(encoding="utf-8") if has_trace else ""
        write_kind(info, name, text, out, look)
