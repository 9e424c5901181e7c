"""`swasim allocators`: the registry."""

from __future__ import annotations

from typing import Annotated

from swasim.commands.options import FileOptions, Verbose, format_option
from swasim.reporters import VIEW_FORMATS

Format = Annotated[str, format_option(VIEW_FORMATS)]


def allocators(*, format: Format = "table", output: FileOptions, verbose: Verbose = False) -> None:
    """List the allocators that a trace can be replayed on.

    Prints what each mirrors, the finding it gives, and where to read on.
    """
    from swasim.allocator.registry import known
    from swasim.commands import output as outputs
    from swasim.reporters.catalogue import ALLOCATOR_WRITERS

    with outputs.destination(output) as out:
        ALLOCATOR_WRITERS[format](known(), out, outputs.look(output, out))
