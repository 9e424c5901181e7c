"""Why a line is no event, in words: the error path of the reader.

The decoder's terse messages become sentences that name the field, its value and what is
accepted. Slow by design (the line is decoded again, and scanned for the column); it runs once.
"""

from __future__ import annotations

import json
import math
import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

import msgspec

from swasim.errors import TraceError, unknown_name
from swasim.trace import events as ev
from swasim.trace.check import EventError, FieldPath, show_path
from swasim.trace.events import OPS, fields_of

_AT = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.([A-Za-z_0-9]+)|\[(\d+|\.\.\.)\]")
_EXPECTED = re.compile(r"^Expected (.*?)(?:, got .*)?$")
_SPACE = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(
    r'(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z))|(?P<word>NaN|-?Infinity)'
    r"|(?P<number>-?[0-9]++(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)"
)
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rf"{_HIGH}{_LOW}|(?P<lone>{_HIGH}|{_LOW})|\\.")

_TYPE_NAMES = {
    "int": "an integer",
    "str": "a string",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}

_ONE_OBJECT = "; a trace holds one JSON object per line"

SHOWN_CHARS = 60
LONGEST_NUMBER = 300
"""Digits beyond which no reader of numbers agrees with another."""


def explain_line(data: bytes, error: Exception, path: str, line: int) -> TraceError:
    """The error to raise for a line that the decoder or `validate_event` refused."""
    message, column = _explain(data, error)
    return TraceError(message, path, line, column)


def explain_header(data: bytes, error: Exception, path: str, line: int) -> TraceError:
    """The error to raise for a header that the decoder refused."""
    message, column = _explain(data, error, header=True)
    return TraceError(message, path, line, column)


def is_cut_off(data: bytes) -> bool:
    """Whether a last line without an end is the front of an object, as a killed server leaves it.

    A file system that crashed leaves zero bytes where the rest would be.
    """
    if data.endswith(b"\0"):
        return True
    if data.lstrip()[:1] != b"{":
        return False
    try:
        msgspec.json.decode(data)
    except (msgspec.ValidationError, RecursionError):
        return False
    except msgspec.DecodeError as error:
        return "trailing characters" not in str(error) and not _is_loose_json(data)
    return False


def _is_loose_json(data: bytes) -> bool:
    """Whether Python reads what the decoder refuses: NaN, lone surrogates, huge numbers."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _explain(data: bytes, error: Exception, *, header: bool = False) -> tuple[str, int]:
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as syntax:
        return _explain_syntax(data, syntax)
    if not isinstance(raw, dict):
        return f"expected one JSON object per line, got {_show(raw)}", 1
    if header:
        return _explain_fields(data, raw, str(error), "header", ev.Header)
    if "op" not in raw:
        return _explain_no_op(raw), 1
    op = raw["op"]
    if not isinstance(op, str):
        return f"op must be a string, got {_show(op)}", _column(data, ("op",))
    if op not in OPS:
        return unknown_name("operation", op, OPS), _column(data, ("op",))
    if isinstance(error, EventError):
        return f"{op}: {error.message}", _column(data, error.field)
    return _explain_fields(data, raw, str(error), op, OPS[op])


def _explain_syntax(data: bytes, error: Exception) -> tuple[str, int]:
    text = str(error)
    if isinstance(error, RecursionError):
        return "not an event: the JSON is nested too deeply", 1
    try:
        data.decode()
    except UnicodeDecodeError as bad:
        return "the line is not UTF-8", bad.start + 1
    loose = _explain_loose(data)
    if loose is not None:
        return loose
    if text == "Input data was truncated":
        return (
            "the line ends inside a JSON object; a trace holds one whole object per line",
            len(data.rstrip(b"\r")) + 1,
        )
    try:
        json.loads(data)
    except json.JSONDecodeError as bad:
        # The decoder's own position is off by a few bytes; this one is exact.
        what = bad.msg[:1].lower() + bad.msg[1:]
        return f"not JSON: {what}{_ONE_OBJECT}", len(bad.doc[: bad.pos].encode()) + 1
    except (ValueError, RecursionError):
        pass
    return f"not JSON: {text}{_ONE_OBJECT}", 1


def _explain_loose(data: bytes) -> tuple[str, int] | None:
    """What Python's reader lets pass and the decoder does not, with its place; None: neither."""
    text = data.decode()
    for match in _TOKEN.finditer(text):
        what = _loose_token(match)
        if what:
            return what, len(text[: match.start()].encode()) + 1
    return None


def _loose_token(match: re.Match[str]) -> str:
    word, number = match["word"], match["number"]
    if word:
        return f"{word} is no JSON number; accepted are plain decimal numbers"
    if number and (len(number) > LONGEST_NUMBER or math.isinf(float(number))):
        shown = number if len(number) <= SHOWN_CHARS else number[: SHOWN_CHARS - 1] + "…"
        return f"the number {shown} is out of range; accepted is what fits in 64 bits"
    for escape in _ESCAPE.finditer(match["string"] or ""):
        if escape["lone"]:
            return f"{escape['lone']} is half of a surrogate pair; text must be valid Unicode"
    return ""


def _explain_no_op(raw: dict[str, Any]) -> str:
    if "swasim_trace" in raw:
        return "a second header, or a header behind an event; only the first object may be one"
    near = unknown_name("field", next(iter(raw)), ["op"]) if raw else "an empty object"
    hint = f" ({near.split(' (known')[0]})" if "did you mean" in near or not raw else ""
    return f"missing field 'op', which names the operation{hint} (known: {', '.join(OPS)})"


def _explain_fields(
    data: bytes, raw: dict[str, Any], text: str, op: str, record: type[Any]
) -> tuple[str, int]:
    at = _AT.search(text)
    path = _parse_path(at[1]) if at else ()
    text = _AT.sub("", text)
    where = f"{op}: "
    if text.startswith("Object contains unknown field"):
        name = text.split("`")[1]
        inside = f" in {show_path(path)}" if path else ""
        accepted = fields_of(_record_at(record, path))
        return (
            where + unknown_name(f"field{inside}", name, accepted),
            _column(data, (*path, name), key=True),
        )
    if text.startswith("Object missing required field"):
        name = text.split("`")[1]
        inside = f" in {show_path(path)}" if path else ""
        known = ", ".join(fields_of(_record_at(record, path)))
        return f"{where}missing field {name!r}{inside} (known: {known})", _column(data, path)
    if path == ("op",):
        # The decoder goes by the first one, Python by the last.
        return f"{op}: 'op' is given more than once", 1
    value = _value_at(raw, path)
    column = _column(data, path)
    if text.startswith("Invalid enum value") and path[-1:] == ("pool",):
        return where + unknown_name("pool", str(value), ("full", "swa")), column
    return f"{where}{show_path(path)} must be {_accepted(text)}, got {_show(value)}", column


def _record_at(record: type[Any], path: FieldPath) -> type[Any]:
    if path[-1:] in (("mapped",), ("unmapped",)):
        return ev.RowRange
    if path[:1] == ("segments",):
        return ev.SegmentItem
    if path[:1] == ("expect",):
        return ev.Expect
    return record


def _accepted(text: str) -> str:
    match = _EXPECTED.match(text)
    if match is None:
        return text
    words = match[1]
    if "<=" in words:
        return "an integer that fits in 64 bits"
    if words.endswith(">= 0"):
        return "an integer, not negative"
    if words.endswith(">= 1"):
        return "an integer, at least 1"
    length = re.match(r"`array` of length (\d)", words)
    if length:
        names = {"2": "a run [start, end)", "3": "[full_slot, swa_slot, length]"}
        return names.get(length[1], f"a list of {length[1]} items")
    kinds = [_TYPE_NAMES.get(kind, kind) for kind in words.strip("`").split(" | ")]
    kinds = [kind for kind in kinds if kind != "null"] or kinds
    return " or ".join(kinds)


def _parse_path(text: str) -> FieldPath:
    path: list[str | int] = []
    for key, index in _STEP.findall(text):
        path.append(key or (int(index) if index != "..." else 0))
    return tuple(path)


def _value_at(raw: Any, path: FieldPath) -> Any:
    value = raw
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


def _column(data: bytes, path: FieldPath, *, key: bool = False) -> int:
    """1-based byte column of the value (or of the key) at `path`; 1 when it is not there."""
    try:
        text = data.decode()
        at = _locate(text, path, key)
    except (ValueError, IndexError, RecursionError):
        return 1
    return len(text[:at].encode()) + 1


def _locate(text: str, path: FieldPath, want_key: bool) -> int:
    at = _skip(text, 0)
    for depth, step in enumerate(path):
        at, key_at = (_item if isinstance(step, int) else _member)(text, at, step)  # type: ignore[arg-type]
        if want_key and depth == len(path) - 1:
            return key_at
    return at


def _member(text: str, at: int, name: str) -> tuple[int, int]:
    """Where the value of member `name` starts, and where its key does."""
    at = _skip(text, at + 1)
    while text[at] == '"':
        key_at = at
        key, at = scanstring(text, at + 1)
        at = _skip(text, _skip(text, at) + 1)
        if key == name:
            return at, key_at
        at = _after_value(text, at)
    raise ValueError(name)


def _item(text: str, at: int, index: int) -> tuple[int, int]:
    """Where item `index` of a list starts (twice, as `_member` does)."""
    at = _skip(text, at + 1)
    for _ in range(index):
        at = _after_value(text, at)
    return at, at


def _after_value(text: str, at: int) -> int:
    _, at = json.JSONDecoder().raw_decode(text, at)
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
