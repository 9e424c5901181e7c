"""Limits that keep the code readable; raising one is a decision, so it is written here."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "swasim"

SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:\s*no\s*cover|pyright:|mypy:)")
SUPPRESSIONS_AT_MOST = 5
FILE_LINES_AT_MOST = 450
FUNCTION_LINES_AT_MOST = 60
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")

LONG_FILES: dict[str, str] = {}
"""File to the reason why it may be longer."""


def sources() -> dict[str, str]:
    return {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def comments(text: str) -> list[tuple[int, str]]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]


def test_few_checks_are_switched_off() -> None:
    found = [
        f"{name}:{line}: {comment}"
        for name, text in sources().items()
        for line, comment in comments(text)
        if SUPPRESSION.search(comment)
    ]
    assert len(found) <= SUPPRESSIONS_AT_MOST, found


def test_no_file_holds_two_rooms() -> None:
    long = {
        name: text.count("\n")
        for name, text in sources().items()
        if text.count("\n") > FILE_LINES_AT_MOST
    }
    assert set(long) == set(LONG_FILES), long


def test_functions_fit_on_a_screen() -> None:
    long = [
        f"{name}:{node.lineno}: {node.name}"
        for name, text in sources().items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES_AT_MOST
    ]
    assert long == []


def test_nothing_is_left_unfinished() -> None:
    found = [
        f"{name}:{line}: {comment}"
        for name, text in sources().items()
        for line, comment in comments(text)
        if UNFINISHED.search(comment)
    ]
    assert found == []
