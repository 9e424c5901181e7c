"""A unit test that `swasim minimize --export sglang-test` wrote, run against a real SGLang."""

from __future__ import annotations

import io
import unittest

import pytest

from swasim import bundled
from swasim.allocator import adapter
from swasim.config import SimConfig
from swasim.minimize import as_sglang_test, minimize
from tests.sglang.side_by_side import NUMBERS, RELEASE

CASES = {
    "pr27779": ("buggy", NUMBERS >= (0, 5, 14)),
    "faults/35338": ("fault:35338", False),
}
"""Trace to the allocator that shows the fault, and whether this release is without it."""


def outcome_of(text: str) -> unittest.TestResult:
    """Run a test file as a process with this SGLang would."""
    # Where SGLang's dependencies are missing, its modules are there once the adapter loaded them,
    # with its kernels for the CPU.
    adapter.build("sglang", SimConfig(page_size=4, kv_size=16, kv_size_swa=16))
    namespace = {"__name__": "exported"}
    exec(compile(text, "exported.py", "exec"), namespace)
    cases = [
        unittest.defaultTestLoader.loadTestsFromTestCase(value)
        for value in namespace.values()
        if isinstance(value, type) and issubclass(value, unittest.TestCase)
    ]
    return unittest.TextTestRunner(stream=io.StringIO()).run(unittest.TestSuite(cases))


@pytest.mark.skipif(NUMBERS < (0, 5, 12), reason="BaseSWAKVPool came with 0.5.12")
@pytest.mark.parametrize("trace", CASES)
def test_exported_test_fails_on_releases_with_the_fault_and_passes_on_others(trace: str) -> None:
    allocator, sound = CASES[trace]
    result = minimize(bundled.trace_path(trace), allocator=allocator)
    outcome = outcome_of(as_sglang_test(result))
    assert (outcome.testsRun, outcome.errors) == (1, []), RELEASE
    assert (outcome.failures == []) is sound, RELEASE
