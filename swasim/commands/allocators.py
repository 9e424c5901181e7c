"""`swasim allocators`: the registry."""

from __future__ import annotations

from swasim.commands.options import OutputOptions


def allocators(output: OutputOptions) -> None:
    """List the allocators that a trace can be replayed on.

    Prints what each mirrors, the finding it gives, and where to read on.
    """
    from swasim.allocator.registry import known
    from swasim.commands import output as outputs
    from swasim.errors import UsageError, unknown_name
    from swasim.reporters.catalogue import ALLOCATOR_FORMATS

    if output.format not in ALLOCATOR_FORMATS:
        raise UsageError(unknown_name("format", output.format, ALLOCATOR_FORMATS))
    with outputs.destination(output) as out:
        ALLOCATOR_FORMATS[output.format](known(), out, outputs.look(output, out))
