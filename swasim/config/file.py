"""One YAML file to checked values, each with the place where it stands.

Only the node tree is read, never constructed: marks are at hand for every message, and no tag
can run code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import yaml

from swasim.config.values import (
    DEFAULTS,
    KEYS,
    TRUE_WORDS,
    expected,
    problem,
    shorten,
    whole_number,
)
from swasim.errors import ConfigError, unknown_name

MAX_FILE_BYTES = 1 << 20
"""A configuration has nine keys; a larger file is something else (a trace, most likely)."""


class Given(NamedTuple):
    """A value and its place; `path` and `line` only where it stands in a file."""

    value: Any
    origin: str
    path: str = ""
    line: int = 0
    column: int = 0


def load_file(path: str) -> dict[str, Given]:
    """The keys of one YAML file, types checked, each with its place.

    Raises:
        ConfigError: names file, line and column; an unknown key comes with the nearest known one.
    """
    root = _compose(path, _read_text(path))
    if root is None:
        raise ConfigError(f"no keys in it; expected `key: value` lines ({', '.join(KEYS)})", path)
    if not isinstance(root, yaml.MappingNode):
        raise _at(root, path, f"expected `key: value` lines, found {_kind(root)}")
    found: dict[str, Given] = {}
    for key_node, value_node in root.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise _at(key_node, path, f"a key must be a word, found {_kind(key_node)}")
        key = key_node.value
        if key not in KEYS:
            raise _at(key_node, path, unknown_name("key", shorten(key), KEYS))
        if key in found:
            raise _at(key_node, path, f"{key} is given twice, first on line {found[key].line}")
        mark = value_node.start_mark
        line, column = mark.line + 1, mark.column + 1
        value = _scalar(key, value_node, path)
        wrong = problem(key, value)
        if wrong:
            raise ConfigError(wrong, path, line, column)
        found[key] = Given(value, f"{path}:{line}", path, line, column)
    return found


def _read_text(path: str) -> str:
    try:
        with open(path, "rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
    except IsADirectoryError:
        raise ConfigError("is a directory; expected a YAML file", path) from None
    except FileNotFoundError:
        raise ConfigError("no such file", path) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot be read: {reason}", path) from None
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError(
            f"larger than {MAX_FILE_BYTES >> 20} MiB; a configuration has a few lines", path
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError("not UTF-8 text; expected a YAML file", path, line) from None
    if not text.strip():
        raise ConfigError("empty; expected `key: value` lines", path)
    return text


def _compose(path: str, text: str) -> yaml.Node | None:
    """The node tree, with marks; nothing is constructed, so no tag can run code."""
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        reason = error.problem or error.context or "cannot be parsed"
        raise ConfigError(f"not valid YAML: {reason}", path, line, column) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError("not text: it holds control characters", path, line) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"not valid YAML: {shorten(str(error))}", path) from None
    except RecursionError:
        raise ConfigError("nested too deeply; expected `key: value` lines", path) from None


def _scalar(key: str, node: yaml.Node, path: str) -> Any:
    """The node's value as a Python int, bool or str; the window may be null (no window)."""
    if not isinstance(node, yaml.ScalarNode):
        raise _at(node, path, f"{key} must be {expected(key)}, found {_kind(node)}")
    text: str = node.value
    if node.tag == "tag:yaml.org,2002:null":
        if key == "sliding_window_size" and text:
            return 0
        raise _at(node, path, f"{key} has no value; it must be {expected(key)}")
    if node.tag == "tag:yaml.org,2002:bool" and isinstance(DEFAULTS[key], bool):
        return text.lower() in TRUE_WORDS
    if node.tag == "tag:yaml.org,2002:int":
        return whole_number(text, text)
    if node.tag == "tag:yaml.org,2002:str" and isinstance(DEFAULTS[key], str):
        return text
    quoted = f'"{shorten(text)}"' if node.style else shorten(text)
    raise _at(node, path, f"{key} must be {expected(key)}, found {quoted}")


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return f"the value {shorten(node.value)!r}"


def _at(node: yaml.Node, path: str, message: str) -> ConfigError:
    mark = node.start_mark
    return ConfigError(message, path, mark.line + 1, mark.column + 1)
