"""Flags, environment, file and trace header to one `SimConfig`, with the origin of each value."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from swasim.config.file import Given, load_file
from swasim.config.values import (
    DEFAULTS,
    FALSE_WORDS,
    KEYS,
    NONE_WORDS,
    TRUE_WORDS,
    SimConfig,
    problem,
    whole_number,
)
from swasim.errors import ConfigError, unknown_name

ENVIRONMENT_PREFIX = "SWASIM_"


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """The merged configuration.

    Attributes:
        config: the values.
        origins: key to where its value came from: "flag", "environment SWASIM_PAGE_SIZE",
            "configs/x.yaml:3", "trace header", or "default" (with the key that it follows).
        warnings: sentences about values that were changed or cannot be meant.
    """

    config: SimConfig
    origins: dict[str, str]
    warnings: tuple[str, ...] = ()


class ShownValue(NamedTuple):
    """One line of `--show-config`."""

    key: str
    value: str
    origin: str


def resolve(
    flags: Mapping[str, Any],
    env: Mapping[str, str],
    file: str | None,
    header: Mapping[str, Any] | None,
    *,
    header_at: tuple[str, int] = ("", 0),
) -> ResolvedConfig:
    """Merge the sources: flag, then environment, then file, then trace header, then default.

    Pool sizes are rounded down to whole pages, with a warning, as upstream does. Without a source
    of its own `kv_size_swa` follows `kv_size`, and `engine` follows `device`.

    Args:
        flags: key to typed value; None means that the flag was not given.
        env: the environment; only `SWASIM_` and a key in capitals are read, empty means not set.
        file: path of a YAML file, or None.
        header: fields of the trace header, or None; keys that are no configuration are passed over.
        header_at: file and line of the header, for messages.

    Raises:
        ConfigError: unknown key, wrong type, impossible value or combination, unreadable file.
    """
    given: dict[str, Given] = {}
    given.update(_from_header(header or {}, header_at))
    if file is not None:
        given.update(load_file(file))
    given.update(_from_environment(env))
    given.update(_from_flags(flags))
    for key, entry in given.items():
        wrong = problem(key, entry.value)
        if wrong:
            raise _refused(wrong, entry)
    _follow(given)
    warnings = _round_pools(given)
    if given["engine"].value == "core" and given["device"].value != "cpu":
        raise _refused(
            f"engine core runs on cpu only, but device is {given['device'].value}"
            f" ({given['device'].origin}): use engine torch",
            given["engine"],
        )
    config = SimConfig(**{key: given[key].value for key in KEYS})
    warnings += _admission_warnings(config) + _misspelt_variables(env)
    return ResolvedConfig(config, {key: given[key].origin for key in KEYS}, tuple(warnings))


def show_config(resolved: ResolvedConfig) -> list[ShownValue]:
    """Every key with its value as YAML writes it, and where the value came from."""
    return [
        ShownValue(key, _as_yaml(getattr(resolved.config, key)), resolved.origins[key])
        for key in KEYS
    ]


def _from_header(header: Mapping[str, Any], at: tuple[str, int]) -> dict[str, Given]:
    found = {key: header[key] for key in KEYS if header.get(key) is not None}
    # The header has no field for the allocator: its name was made of the `source`.
    origins = {"allocator": "trace header: source"}
    return {
        key: Given(value, origins.get(key, "trace header"), *at) for key, value in found.items()
    }


def _from_flags(flags: Mapping[str, Any]) -> dict[str, Given]:
    for key in flags:
        if key not in KEYS:
            raise ConfigError(unknown_name("configuration key", key, KEYS))
    return {key: Given(value, "flag") for key, value in flags.items() if value is not None}


def _from_environment(env: Mapping[str, str]) -> dict[str, Given]:
    found = {}
    for key in KEYS:
        name = ENVIRONMENT_PREFIX + key.upper()
        text = env.get(name, "").strip()
        if text:
            found[key] = Given(_from_text(key, text), f"environment {name}")
    return found


def _misspelt_variables(env: Mapping[str, str]) -> list[str]:
    """Sentences about variables that nobody reads and that look like one of these."""
    known = {ENVIRONMENT_PREFIX + key.upper() for key in KEYS}
    found = []
    for name in sorted(env):
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known and env[name]:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.93)
            if close:
                found.append(f"environment {name} is not known; did you mean {close[0]}?")
    return found


def _from_text(key: str, text: str) -> Any:
    """The value that `text` stands for, or the text itself where it is none of the key's type."""
    default = DEFAULTS[key]
    lowered = text.lower()
    if isinstance(default, bool):
        return True if lowered in TRUE_WORDS else False if lowered in FALSE_WORDS else text
    if isinstance(default, str):
        return text
    if key == "sliding_window_size" and lowered in NONE_WORDS:
        return 0
    return whole_number(text, text)


def _refused(message: str, entry: Given) -> ConfigError:
    if entry.path:
        return ConfigError(message, entry.path, entry.line, entry.column)
    return ConfigError(f"{message} ({entry.origin})")


def _follow(given: dict[str, Given]) -> None:
    """Fill what no source gave, some of it from what others gave."""
    if "kv_size_swa" not in given and "kv_size" in given:
        given["kv_size_swa"] = Given(given["kv_size"].value, "default (follows kv_size)")
    if "engine" not in given and "device" in given and given["device"].value != "cpu":
        given["engine"] = Given("torch", "default (follows device)")
    for key in KEYS:
        given.setdefault(key, Given(DEFAULTS[key], "default"))


def _round_pools(given: dict[str, Given]) -> list[str]:
    """Round both pools down to whole pages; the sentences that say so.

    Raises:
        ConfigError: a pool is smaller than one page.
    """
    page = given["page_size"]
    warnings = []
    for key in ("kv_size", "kv_size_swa"):
        pool = given[key]
        pages = pool.value // page.value
        if pages == 0:
            unit = "token" if pool.value == 1 else "tokens"
            raise _refused(
                f"{key} is {pool.value} {unit}, less than one page of {page.value}"
                f" (page_size: {page.origin})",
                pool,
            )
        if pool.value % page.value:
            whole = pages * page.value
            warnings.append(
                f"{key} is {pool.value} tokens ({pool.origin}), not whole pages of {page.value}:"
                f" rounded down to {whole} ({pages} pages)"
            )
            given[key] = pool._replace(value=whole)
    return warnings


def _admission_warnings(config: SimConfig) -> list[str]:
    """Upstream charges a prefill window + page of the SWA pool, and needs more than that."""
    window = config.sliding_window_size
    if window is None or window + config.page_size < config.kv_size_swa:
        return []
    return [
        f"window {window} + page {config.page_size} tokens do not fit in the SWA pool of"
        f" {config.kv_size_swa}: nothing could ever be admitted"
    ]


def _as_yaml(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
