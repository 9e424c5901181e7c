"""pytest plugin: tests of allocators, run under the sanitizer.

    def test_eviction(swasim_guard):
        allocator = SWATokenToKVPoolAllocator(...)
        swasim_guard(allocator)
        ...

The test fails with the finding, even where its own asserts hold. With `--swasim-guard` every SWA
allocator that a test builds is watched, so SGLang's own unit tests run under the sanitizer as they
are. Loading this plugin imports neither torch nor the engine.
"""

from __future__ import annotations

import io
import tempfile
import uuid
import warnings
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from swasim.recorder.guard import Guard
    from swasim.sanitizer.findings import Finding


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--swasim-guard` and `--swasim-at-once`."""
    group = parser.getgroup("swasim", "swasim: the sanitizer for KV-cache allocators")
    group.addoption(
        "--swasim-guard",
        action="store_true",
        help="watch every SGLang SWA allocator that a test builds",
    )
    group.addoption(
        "--swasim-at-once",
        action="store_true",
        help="fail inside the call that is at fault, not when the test is over",
    )


class GuardFactory:
    """What the fixture `swasim_guard` is: call it with an allocator to have it watched."""

    def __init__(self, at_once: bool) -> None:
        self._at_once = at_once
        self.guards: list[Guard] = []

    def __call__(self, allocator: Any, *, at_once: bool | None = None) -> Guard:
        """Watch `allocator` until the test is over.

        Args:
            allocator: an SGLang SWATokenToKVPoolAllocator, or any object of that shape.
            at_once: fail inside the call that is at fault; default: `--swasim-at-once`.
        """
        from swasim.recorder.guard import Guard

        wanted = self._at_once if at_once is None else at_once
        guard = Guard(allocator, self._fail_at_once if wanted else None, _unused_path())
        self.guards.append(guard)
        return guard

    def _fail_at_once(self, guard: Guard, finding: Finding) -> None:
        __tracebackhide__ = True
        if finding.severity == "error":
            self.guards.remove(guard)
            pytest.fail(report(guard))

    def stop(self) -> list[str]:
        """Stop watching; a text for each allocator that has errors or could not be watched."""
        guards, self.guards = self.guards, []
        texts = [report(guard) for guard in guards]
        texts += [_unwatched(guard.failure) for guard in guards if guard.failure]
        return [text for text in texts if text]


class BuiltFactory(GuardFactory):
    """Watches what tests build that know nothing of it; says so where it cannot."""

    def built(self, allocator: Any) -> None:
        """Watch `allocator`; a constructor must not fail because that is impossible."""
        from swasim.errors import SwasimError

        try:
            self(allocator)
        except SwasimError as error:
            warnings.warn(_unwatched(str(error)), pytest.PytestWarning, stacklevel=2)

    def stop(self) -> list[str]:
        """Stop watching; a text for each allocator on which errors were found."""
        guards, self.guards = self.guards, []
        for guard in guards:
            if guard.failure:
                warnings.warn(_unwatched(guard.failure), pytest.PytestWarning, stacklevel=2)
        return [text for guard in guards if (text := report(guard))]


_FACTORY = pytest.StashKey[GuardFactory]()
_BUILT = pytest.StashKey[BuiltFactory]()


@pytest.fixture
def swasim_guard(request: pytest.FixtureRequest) -> Iterator[GuardFactory]:
    """Watch allocators during the test, and fail it with what the sanitizer finds."""
    factory = GuardFactory(request.config.getoption("--swasim-at-once"))
    request.node.stash[_FACTORY] = factory
    yield factory
    factory.stop()


def pytest_configure(config: pytest.Config) -> None:
    """With `--swasim-guard`, hook the allocator's constructor for when it is imported."""
    if not config.getoption("--swasim-guard", default=False):
        return
    from swasim.recorder.plugin import when_built

    factory = config.stash[_BUILT] = BuiltFactory(config.getoption("--swasim-at-once"))
    when_built(factory.built)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail the test with what was found; where it failed by itself, say it beside."""
    factories = (item.config.stash.get(_BUILT, None), item.stash.get(_FACTORY, None))
    try:
        result = yield
    except BaseException as error:
        for text in _texts(factories):
            error.add_note(text)
        raise
    texts = _texts(factories)
    if texts:
        pytest.fail("\n\n".join(texts), pytrace=False)
    return result


def _texts(factories: Iterable[GuardFactory | None]) -> list[str]:
    return [text for factory in factories if factory is not None for text in factory.stop()]


def _unwatched(why: str) -> str:
    return f"swasim could not watch an allocator of this test to its end: {why}"


def report(guard: Guard) -> str:
    """Stop a guard; the text of its findings where one is an error, otherwise ""."""
    from swasim.reporters import Look, reporter
    from swasim.trace.writer import write_trace

    replay = guard.stop()
    if not replay.summary.errors:
        return ""
    write_trace(guard.trace, guard.header, guard.entries)
    out = io.StringIO()
    reporter("table").write_replay(replay, out, Look(width=100, quiet=True))
    return f"{out.getvalue().rstrip()}\nThe calls of this test: swasim replay {guard.trace}"


def _unused_path() -> str:
    """Where the calls are written if the test fails; no file yet."""
    return str(Path(tempfile.gettempdir()) / f"swasim-{uuid.uuid4().hex[:12]}.jsonl")
