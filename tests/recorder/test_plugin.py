"""Servers that record themselves: the plugin, the start-up file, the guard on tests."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from swasim.errors import UsageError
from swasim.recorder import forks, launch, plugin
from swasim.recorder.guard import Guard
from tests.recorder import fake_sglang
from tests.support import odd_allocators
from tests.support.odd_allocators import ReturnsFloats
from tests.support.recording import events_of, extend, live
from tests.support.tiny_allocator import TinyAllocator

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
RUN = "from sglang.srt.scheduler import run_scheduler_process as run; run(tp_rank=3)"


def run_below(
    tmp_path: Path, code: str, **options: Any
) -> tuple[subprocess.CompletedProcess[str], list[Path]]:
    paths = [str(tmp_path), str(ROOT)]
    base = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    env = launch.environment(base, str(tmp_path / "out" / "rec"), **options)
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    return done, sorted((tmp_path / "out").glob("*")) if (tmp_path / "out").exists() else []


def loading_plugin() -> list[str]:
    """What makes pytest load the plugin: nothing where swasim is installed, which loads it."""
    if entry_points(group="pytest11", name="swasim"):
        return []
    return ["-p", "swasim.pytest_plugin"]


@pytest.mark.parametrize(
    "module",
    [
        "sglang/srt/mem_cache/allocator/swa.py",
        pytest.param("sglang/srt/mem_cache/swa_memory_pool.py", marks=pytest.mark.slow),
        pytest.param("sglang/srt/mem_cache/allocator.py", marks=pytest.mark.slow),
    ],
)
def test_server_started_below_the_launcher_records_itself(module: str, tmp_path: Path) -> None:
    fake_sglang.write(tmp_path, module)
    done, files = run_below(tmp_path, RUN)
    assert done.returncode == 0, done.stderr
    assert "recording the calls of SWATokenToKVPoolAllocator to" in done.stderr
    assert [path.name.endswith(".tp3.jsonl") for path in files] == [True]
    alloc, free = events_of(files[0])
    assert alloc.site == "sglang.srt.scheduler.run_scheduler_process:7"
    assert free.site == "sglang.srt.scheduler.run_scheduler_process:8"


def test_nothing_is_recorded_without_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SWASIM_RECORD", raising=False)
    pair = TinyAllocator(8, 8, 1, "cpu")
    plugin.attach(pair)
    assert "alloc" not in vars(pair)
    assert list(tmp_path.iterdir()) == []


def test_start_up_file_runs_the_one_that_it_hides(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('the other one')")
    done, _files = run_below(tmp_path, "print('main')")
    assert done.stdout.split("\n") == ["the other one", "main", ""]


def test_bad_setting_is_said_and_the_server_starts(tmp_path: Path) -> None:
    done, files = run_below(tmp_path, "print('up')", ring=0)
    assert (done.returncode, done.stdout) == (0, "up\n")
    assert "SWASIM_RECORD_RING is '0'; accepted is a number from 1 on" in done.stderr
    assert "NOTHING WILL BE RECORDED" in done.stderr
    assert files == []


class FakeRegistry:
    """As much of SGLang's hook registry as a plugin sees."""

    def __init__(self) -> None:
        self.registered: list[tuple[str, Callable[..., object], str]] = []

    def register(self, target: str, hook: Callable[..., object], kind: str) -> None:
        self.registered.append((target, hook, kind))


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> FakeRegistry:
    fake = FakeRegistry()
    module = types.ModuleType("sglang.srt.plugins.hook_registry")
    vars(module).update(HookRegistry=fake, HookType=types.SimpleNamespace(AFTER="after"))
    for name in ("sglang", "sglang.srt", "sglang.srt.plugins"):
        package = types.ModuleType(name)
        package.__path__ = []
        monkeypatch.setitem(sys.modules, name, package)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return fake


def test_plugin_without_the_variable_touches_nothing(registry: FakeRegistry) -> None:
    plugin.register()
    assert registry.registered == []


def test_plugin_hooks_the_constructor_where_the_class_is_defined(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = types.ModuleType("sglang.srt.mem_cache.swa_memory_pool")
    cls = type("SWATokenToKVPoolAllocator", (TinyAllocator,), {"__module__": module.__name__})
    vars(module).update(SWATokenToKVPoolAllocator=cls)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setenv("SWASIM_RECORD", str(tmp_path / "rec"))
    plugin.register()
    [(target, hook, kind)] = registry.registered
    assert target == f"{module.__name__}.SWATokenToKVPoolAllocator.__init__"
    assert kind == "after"
    pair = cls(8, 8, 1, "cpu")
    hook(None, pair, 8, 8)
    hook(None, pair, 8, 8)
    pair.alloc(1)
    [recording] = [item for item in forks.ACTIVE if item.is_recording(pair)]
    recording.detach()
    [path] = tmp_path.iterdir()
    assert len(events_of(path)) == 1


def test_plugin_that_finds_no_class_says_so_loudly(
    registry: FakeRegistry,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("SWASIM_RECORD", str(tmp_path / "rec"))
    plugin.register()
    assert registry.registered == []
    [line] = caplog.records
    assert line.levelname == "ERROR"
    assert "NOTHING WILL BE RECORDED" in line.getMessage()


def test_allocator_that_cannot_be_recorded_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SWASIM_RECORD", str(tmp_path / "rec"))
    pair = TinyAllocator(8, 8, 1, "cpu")
    pair.full_attn_allocator = pair.swa_attn_allocator
    plugin.attach(pair)
    [line] = caplog.records
    assert line.levelno == logging.ERROR
    assert "TinyAllocator has one pool for both sides" in line.getMessage()


def test_files_of_one_process_do_not_meet(tmp_path: Path) -> None:
    first = plugin.free_path(str(tmp_path / "rec"), ".tp0")
    Path(first).touch()
    second = plugin.free_path(str(tmp_path / "rec"), ".tp0")
    assert first.endswith(f".{os.getpid()}.tp0.jsonl")
    assert second.endswith(f".{os.getpid()}.tp0.2.jsonl")


def test_command_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="no command 'no-such-command-here' on PATH"):
        launch.become(["no-such-command-here"], dict(os.environ))


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_signals_and_exit_status_are_those_of_the_command(sent: int, tmp_path: Path) -> None:
    child = (
        "import signal, sys, time\n"
        f"signal.signal({int(sent)}, lambda *_: sys.exit(7))\n"
        "print('up', flush=True)\n"
        "signal.pause()\n"
    )
    code = (
        "import os, sys\n"
        "from swasim.recorder import launch\n"
        "env = launch.environment(os.environ, 'rec')\n"
        "launch.become([sys.executable, '-c', sys.argv[1]], env)\n"
    )
    command = [sys.executable, "-c", code, child]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(sent)
        assert process.wait() == 7


GUARDED = """
    import torch
    from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator

    def test_twice():
        allocator = SWATokenToKVPoolAllocator(8, 8)
        slots = allocator.alloc(2)
        allocator.free_swa(slots)
        allocator.free_swa(slots)

    def test_once():
        allocator = SWATokenToKVPoolAllocator(8, 8)
        allocator.alloc(2)
"""


def test_guard_option_fails_unchanged_tests_with_the_finding(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_sglang.write(pytester.path)
    pytester.syspathinsert()
    pytester.makepyfile(GUARDED)
    arguments = [*loading_plugin(), "-p", "no:cacheprovider"]
    pytester.runpytest_inprocess(*arguments).assert_outcomes(passed=2)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    guarded = pytester.runpytest_inprocess(*arguments, "--swasim-guard")
    guarded.assert_outcomes(passed=1, failed=1)
    guarded.stdout.fnmatch_lines(["*error?stale-mapping?*", "*swasim replay *.jsonl*"])


def test_guard_fixture_fails_the_test_with_the_finding(pytester: pytest.Pytester) -> None:
    fake_sglang.write(pytester.path)
    pytester.syspathinsert()
    code = GUARDED.replace("(8, 8)", "(8, 8)\n        swasim_guard(allocator)")
    for name in ("_twice", "_once"):
        code = code.replace(f"{name}()", f"{name}(swasim_guard)")
    pytester.makepyfile(code)
    arguments = [*loading_plugin(), "-p", "no:cacheprovider"]
    pytester.runpytest_inprocess(*arguments).assert_outcomes(passed=1, failed=1)
    at_once = pytester.runpytest_inprocess(*arguments, "--swasim-at-once")
    at_once.assert_outcomes(passed=1, failed=1)
    at_once.stdout.fnmatch_lines(["*allocator.free_swa(slots)*"])


def test_plugin_loads_without_torch() -> None:
    code = (
        "import sys, swasim.pytest_plugin, swasim.recorder.plugin\n"
        "sys.exit(int('torch' in sys.modules or 'rich' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_guard_follows_an_allocator_that_is_in_use_already() -> None:
    pair = live()
    slots = extend(pair, 8)
    guard = Guard(pair)
    pair.free(slots)
    with pytest.raises(AssertionError):
        pair.free(slots[:4])
    kinds = [finding.kind for finding in guard.stop().findings if finding.severity == "error"]
    assert kinds[0] == "double-free"
    assert "free" not in vars(pair)


@pytest.mark.parametrize(
    ("name", "answer", "failure"),
    [
        ("ReturnsNumber", 1, "what ReturnsNumber returned: int"),
        ("ReturnsFloats", ReturnsFloats.value, r"tensor of torch\.float32"),
        ("SizeUnknown", [1], "does not say how many tokens"),
        ("Speechless", "NoTextError", ""),
        ("Exits", "SystemExit", ""),
        ("WantsMoreOnAlloc", "TypeError", ""),
    ],
)
def test_guarded_call_gives_its_caller_what_it_always_gave(
    name: str, answer: object, failure: str
) -> None:
    pair = getattr(odd_allocators, name)()
    guard = Guard(pair)
    try:
        given = pair.alloc(1)
    except BaseException as error:
        given = type(error).__name__
    assert given is answer or list(given) == answer or given == answer
    assert re.search(failure, guard.failure)
    assert (guard.failure == "") == (failure == "")
    guard.stop()
    assert "free" not in vars(pair)


def test_guard_names_the_allocator_on_which_its_findings_are_seen_again() -> None:
    assert Guard(TinyAllocator(8, 8, 1, "cpu")).config.allocator == (
        "tests.support.tiny_allocator:TinyAllocator"
    )


UNREADABLE = """
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator


def test_it(PARAMETER):
    allocator = SWATokenToKVPoolAllocator(8, 8)
    GUARD
    allocator.full_attn_allocator.free_pages = None
    allocator.free_swa([])
"""


def test_allocator_that_cannot_be_read_fails_the_test_that_asked_and_warns_another(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_sglang.write(pytester.path)
    pytester.syspathinsert()
    arguments = [*loading_plugin(), "-p", "no:cacheprovider"]
    asked = UNREADABLE.replace("PARAMETER", "swasim_guard").replace(
        "GUARD", "swasim_guard(allocator)"
    )
    pytester.makepyfile(asked)
    told = pytester.runpytest_inprocess(*arguments)
    told.assert_outcomes(failed=1)
    told.stdout.fnmatch_lines(["*swasim could not watch*has no free_pages*"])
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    pytester.makepyfile(UNREADABLE.replace("PARAMETER", "").replace("GUARD", ""))
    warned = pytester.runpytest_inprocess(*arguments, "--swasim-guard", "-Wdefault")
    warned.assert_outcomes(passed=1, warnings=1)
    warned.stdout.fnmatch_lines(["*PytestWarning: swasim could not watch*has no free_pages*"])


@pytest.mark.parametrize("value", ["", " ", "\t"])
def test_blank_prefix_is_none(value: str) -> None:
    assert plugin.settings({"SWASIM_RECORD": value}) is None


def test_prefix_is_made_absolute_and_a_directory_gets_a_name_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "there").mkdir()
    prefixes = [plugin.whole_prefix(name) for name in ("bad", "~/bad", "there", "not_there/")]
    names = ("bad", "bad", "there/swasim-record", "not_there/swasim-record")
    assert prefixes == [str(tmp_path / name) for name in names]
    assert launch.environment({}, "there/")["SWASIM_RECORD"] == prefixes[2]


@pytest.mark.parametrize("value", ["0", "-1", "³", "٣", "1_000", "1e6", "1 GiB", "9" * 5000])
@pytest.mark.parametrize("name", ["SWASIM_RECORD_RING", "SWASIM_RECORD_MAX_BYTES"])
def test_number_that_is_none_is_named(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=rf"^{name} is .{{1,90}}; accepted is a number from 1 on$"):
        plugin.settings({"SWASIM_RECORD": "x", name: value})
