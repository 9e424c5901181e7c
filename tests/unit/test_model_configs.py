"""The shipped configurations, recomputed from the models' own numbers.

The formula is that of SGLang's hybrid pool sizing for 40 GiB of KV memory on one GPU.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import pytest

from swasim import bundled
from swasim.config import SimConfig, resolve

KV_BYTES = 40 * 2**30


class Side(NamedTuple):
    """Attention layers of one kind; heads and head dimensions per layer, KV in bf16."""

    layers: int
    kv_heads: int
    k_dim: int
    v_dim: int

    @property
    def token_bytes(self) -> int:
        return self.kv_heads * (self.k_dim + self.v_dim) * 2


class Sizing(NamedTuple):
    full: Side
    swa: Side
    page_size: int
    window: int
    ratio: Fraction = Fraction(4, 5)

    @property
    def cell_bytes(self) -> Fraction:
        full = self.full.layers * self.full.token_bytes
        return full + self.ratio * self.swa.layers * self.swa.token_bytes


MODELS = {
    "gpt-oss-20b": Sizing(Side(12, 8, 64, 64), Side(12, 8, 64, 64), 64, 128),
    "gpt-oss-120b": Sizing(Side(18, 8, 64, 64), Side(18, 8, 64, 64), 64, 128),
    "gemma-4-31b": Sizing(Side(10, 4, 512, 512), Side(50, 16, 256, 256), 64, 1024),
    "gemma-4-26b-a4b": Sizing(Side(5, 2, 512, 512), Side(25, 8, 256, 256), 64, 1024),
    "llama-4-scout": Sizing(Side(12, 8, 128, 128), Side(36, 8, 128, 128), 64, 8192),
    "mimo-v2-flash": Sizing(Side(9, 4, 192, 128), Side(39, 8, 192, 128), 128, 128),
    "step-3.7-flash": Sizing(Side(12, 8, 128, 128), Side(33, 8, 128, 128), 128, 512),
}


def pool_sizes(cell_bytes: Fraction, ratio: Fraction, page_size: int) -> tuple[int, int]:
    full = int(KV_BYTES // cell_bytes) // page_size * page_size
    return full, int(full * ratio) // page_size * page_size


def shipped(name: str) -> SimConfig:
    resolved = resolve({}, {}, str(bundled.config_path(name)), None)
    assert resolved.warnings == ()
    return resolved.config


@pytest.mark.parametrize("name", MODELS)
def test_pool_sizes_follow_from_layers_heads_and_memory(name: str) -> None:
    sizing = MODELS[name]
    full, swa = pool_sizes(sizing.cell_bytes, sizing.ratio, sizing.page_size)
    config = shipped(name)
    assert (config.page_size, config.kv_size, config.kv_size_swa) == (sizing.page_size, full, swa)
    assert config.sliding_window_size == sizing.window


def test_deepseek_v4_flash_follows_from_its_compressed_entries() -> None:
    entry = 448 + 64 * 2 + 8
    indexer = 128 + 4
    c4_state = Fraction(8, 128) * 4 * (512 + 128) * 4
    swa_token = 43 * entry + 21 * c4_state
    full_token = 21 * Fraction(entry + indexer, 4) + 20 * Fraction(entry, 128)
    cell = full_token + Fraction(1, 10) * swa_token
    assert cell == Fraction("7705.45")
    config = shipped("deepseek-v4-flash")
    assert (config.kv_size, config.kv_size_swa) == pool_sizes(cell, Fraction(1, 10), 256)
    assert (config.page_size, config.sliding_window_size) == (256, 128)


def test_the_regression_config_has_four_pages_of_four_tokens_each() -> None:
    assert shipped("pr27779") == SimConfig(page_size=4, kv_size=16, kv_size_swa=16)


def test_every_shipped_file_is_looked_at_here() -> None:
    assert set(bundled.list_configs()) == {*MODELS, "deepseek-v4-flash", "pr27779"}


@pytest.mark.parametrize("name", sorted({*MODELS, "deepseek-v4-flash"}))
def test_the_numbers_in_a_file_stand_in_its_comment_too(name: str) -> None:
    text = Path(bundled.config_path(name)).read_text(encoding="utf-8")
    comment = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    config = shipped(name)
    assert f"= {config.kv_size:,} ({config.geometry.full_pages:,} pages)" in comment
    assert f"= {config.kv_size_swa:,} ({config.geometry.swa_pages:,} pages)" in comment
