"""The recorder, the guard and the plugin on the real allocator, with the real plugin loader."""

from __future__ import annotations

import importlib
import importlib.metadata
import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from swasim.allocator import adapter, installed
from swasim.config import SimConfig
from swasim.recorder import forks, record
from swasim.recorder.guard import Guard
from swasim.trace.reader import open_trace
from tests.sglang.side_by_side import NUMBERS, RELEASE, config_of, real, vectors
from tests.support.recording import drive, events_of, replayed, state_of

PATHS = vectors()


def length_of(path: Path) -> int:
    return len(events_of(path))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name.removesuffix(".jsonl.zst"))
def test_recorded_vector_replays_on_the_release_without_divergence(
    path: Path, tmp_path: Path
) -> None:
    config = config_of(path)
    pair = real(config).target
    with record(pair, tmp_path / "a.jsonl") as recording:
        drive(pair, path)
    assert recording.calls >= length_of(path) - 1
    again = real(config)
    assert replayed(tmp_path / "a.jsonl", again) == []
    assert again.state() == state_of(pair)
    with open_trace(tmp_path / "a.jsonl") as trace:
        assert trace.header is not None
        assert trace.header.source == f"sglang {RELEASE}"


@pytest.mark.parametrize("path", PATHS[::3], ids=lambda path: path.name.removesuffix(".jsonl.zst"))
@pytest.mark.parametrize("check", ["write", "call"])
def test_ring_and_mapping_checks_change_no_answer(path: Path, check: Any, tmp_path: Path) -> None:
    config = config_of(path)
    bare, pair = real(config).target, real(config).target
    drive(bare, path)
    with record(pair, tmp_path / "a.jsonl", ring=9, check_mapping=check):
        drive(pair, path)
    again = real(config)
    assert replayed(tmp_path / "a.jsonl", again) == []
    assert again.state() == state_of(pair) == state_of(bare)


@pytest.mark.skipif(NUMBERS < (0, 5, 8), reason="no pages in SWA pools before 0.5.8")
def test_guard_finds_the_fault_of_pr_27779_up_to_0_5_13_and_nothing_later() -> None:
    pair = real(SimConfig(page_size=4, kv_size=16, kv_size_swa=16)).target
    guard = Guard(pair)
    zero, four = torch.tensor([0]), torch.tensor([4])
    slots = pair.alloc_extend(zero, zero, four, four, torch.tensor([-1]), 4)
    pair.free_swa(slots[:1])
    pair.free_swa(slots[1:2])
    kinds = [found.kind for found in guard.stop().findings if found.severity == "error"]
    if NUMBERS <= (0, 5, 13):
        assert kinds[0] == "stale-mapping"
    else:
        assert kinds == []


class EntryPoint:
    """The entry point as the installed distribution declares it."""

    name = "swasim"
    value = "swasim.recorder.plugin:register"
    dist = None

    def load(self) -> Any:
        module, _, attribute = self.value.partition(":")
        return getattr(importlib.import_module(module), attribute)


@pytest.mark.skipif(NUMBERS < (0, 5, 11), reason="plugins came with 0.5.11")
def test_plugin_loader_of_the_release_finds_attaches_and_records(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cls = installed.load().value
    bare = cls.__init__
    plugins = importlib.import_module("sglang.srt.plugins")
    hooks = importlib.import_module("sglang.srt.plugins.hook_registry")
    declared = importlib.metadata.entry_points(group=plugins.GENERAL_PLUGINS_GROUP)
    if "swasim" not in declared.names:
        monkeypatch.setattr(plugins, "entry_points", lambda group: [EntryPoint()])
    monkeypatch.setattr(plugins, "_plugins_loaded", False)
    monkeypatch.setenv("SWASIM_RECORD", str(tmp_path / "rec"))
    try:
        with caplog.at_level(logging.INFO):
            plugins.load_plugins()
            pair = adapter.build("sglang", SimConfig(page_size=1, kv_size=8, kv_size_swa=8)).target
        assert "Executed general plugin: swasim" in caplog.text
        assert "recording the calls of SWATokenToKVPoolAllocator" in caplog.text
        pair.free(pair.alloc(3))
        [recording] = [item for item in forks.ACTIVE if item.is_recording(pair)]
        recording.detach()
    finally:
        cls.__init__ = bare
        hooks.HookRegistry.reset()
    [path] = tmp_path.iterdir()
    assert path.name.startswith("rec.")
    alloc, _free = events_of(path)
    assert alloc.out == [(1, 4)]
