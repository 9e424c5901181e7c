"""What an inspection found: for people (`table`), or as one JSON document."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, TextIO

import msgspec

from swasim import __version__
from swasim.inspect.records import Inspection, PageLife, RowView, StateView
from swasim.reporters import SCHEMA, Look
from swasim.reporters.jsonfmt import finding_fields
from swasim.reporters.life import write_life
from swasim.reporters.pools import write_state
from swasim.reporters.rowpages import write_row
from swasim.reporters.screen import Screen
from swasim.reporters.wording import counted, printable
from swasim.sanitizer.findings import Finding, Moment


def write_table(inspection: Inspection, out: TextIO, look: Look) -> None:
    """Write every view below one head."""
    screen = Screen(out, look)
    config = inspection.config
    geometry = config.geometry
    screen.line((printable(inspection.trace), "bold"), f" on {printable(config.allocator)}")
    window = config.sliding_window_size
    screen.line(
        f"pages of {counted(config.page_size, 'token')}:"
        f" full {geometry.full_pages}, SWA {geometry.swa_pages}"
        + ("" if window is None else f"; window {counted(window, 'token')}")
    )
    for view in inspection.views:
        screen.line()
        if isinstance(view, PageLife):
            write_life(view, config.page_size, screen)
        elif isinstance(view, RowView):
            write_row(view, screen, look)
        else:
            write_state(view, screen, look)
    screen.flush()


def write_json(inspection: Inspection, out: TextIO, look: Look) -> None:
    """Write one document; what was asked for decides which of its lists are there."""
    document: dict[str, Any] = {
        "swasim": __version__,
        "schema": SCHEMA,
        "trace": inspection.trace,
        "allocator": inspection.config.allocator,
        "config": dataclasses.asdict(inspection.config),
        "warnings": list(inspection.warnings),
    }
    for view in inspection.views:
        if isinstance(view, PageLife):
            name = "pages" if view.slot is None else "slots"
            document.setdefault(name, []).append(_plain(view))
        else:
            document["state" if isinstance(view, StateView) else "row"] = _plain(view)
    json.dump(document, out, indent=2)
    out.write("\n")


def _plain(value: Any) -> Any:
    """A record as plain values; findings as every other format has them."""
    if isinstance(value, Finding):
        return finding_fields(value)
    if isinstance(value, Moment):
        return msgspec.structs.asdict(value)
    if dataclasses.is_dataclass(value):
        return {
            field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


WRITERS: dict[str, Callable[[Inspection, TextIO, Look], None]] = {
    "table": write_table,
    "json": write_json,
}
