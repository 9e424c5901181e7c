"""Options declared once, in dataclasses, and spliced into every command that wants them.

A command takes `output: OutputOptions` as one parameter; `expand` shows Typer one option per field
and hands the command the finished record. `SectionedCommand` prints help by those sections.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand


def option(*flags: str, section: str, help: str, env: bool = True, **settings: Any) -> Any:
    """A Typer option that can also be set by `SWASIM_` and its long name.

    Args:
        flags: as for `typer.Option`; the first long one names the environment variable.
        section: heading in the help.
        help: one line, no full stop.
        env: False where `swasim.config` reads the variable itself, to know the origin.
    """
    long_flag = next(flag for flag in flags if flag.startswith("--")).split("/")[0]
    variable = "SWASIM_" + long_flag.removeprefix("--").replace("-", "_").upper()
    return typer.Option(
        *flags,
        help=help,
        rich_help_panel=section,
        envvar=variable if env else None,
        show_envvar=False,
        show_default=False,
        **settings,
    )


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with every dataclass parameter replaced by one parameter per field."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        if isinstance(hint, type) and is_dataclass(hint):
            groups[parameter.name] = hint
            parameters += _field_parameters(hint)
        else:
            only = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(annotation=hint, kind=only))

    def call(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    call.__name__ = command.__name__
    call.__doc__ = command.__doc__
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__dict__["__signature__"] = inspect.Signature(parameters)
    return call


@functools.cache
def _field_parameters(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


class SectionedCommand(TyperCommand):
    """A command whose plain help lists the options under the headings they were given."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then the sections in order of appearance, then the rest."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            is_argument = parameter.param_type_name == "argument"
            heading = getattr(parameter, "rich_help_panel", None)
            sections.setdefault(
                "Arguments" if is_argument else heading or "Other options", []
            ).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)
