from __future__ import annotations

import os
from pathlib import Path

import pytest

from swasim.config import KEYS, ResolvedConfig, SimConfig, resolve, show_config
from swasim.errors import ConfigError, SwasimError


def from_file(tmp_path: Path, text: str | bytes) -> ResolvedConfig:
    return resolve({}, {}, str(write(tmp_path, text)), None)


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "c.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(tmp_path: Path, text: str | bytes) -> str:
    """The message, with the folder cut off."""
    with pytest.raises(ConfigError) as caught:
        from_file(tmp_path, text)
    return str(caught.value).replace(f"{tmp_path}{os.sep}", "")


def test_without_any_source_every_value_is_the_default() -> None:
    resolved = resolve({}, {}, None, None)
    assert resolved.config == SimConfig()
    assert set(resolved.origins.values()) == {"default"}
    assert tuple(resolved.origins) == KEYS
    assert resolved.warnings == ()


def test_every_key_can_come_from_a_file(tmp_path: Path) -> None:
    resolved = from_file(
        tmp_path,
        "page_size: 64\nkv_size: 970_880  # tokens\nkv_size_swa: 776704\n"
        "sliding_window_size: 128\nwindow_includes_self: false\nneed_sort: yes\n"
        "device: cuda:1\nallocator: my_pkg.mod:MyAllocator\nengine: torch\n",
    )
    assert resolved.config == SimConfig(
        page_size=64,
        kv_size=970880,
        kv_size_swa=776704,
        sliding_window_size=128,
        window_includes_self=False,
        need_sort=True,
        device="cuda:1",
        allocator="my_pkg.mod:MyAllocator",
        engine="torch",
    )
    assert resolved.origins["kv_size"] == f"{tmp_path}{os.sep}c.yaml:2"


def test_every_key_can_come_from_the_environment() -> None:
    env = {
        "SWASIM_PAGE_SIZE": "4",
        "SWASIM_KV_SIZE": "32",
        "SWASIM_KV_SIZE_SWA": "16",
        "SWASIM_SLIDING_WINDOW_SIZE": "8",
        "SWASIM_WINDOW_INCLUDES_SELF": "No",
        "SWASIM_NEED_SORT": "1",
        "SWASIM_DEVICE": "mps",
        "SWASIM_ALLOCATOR": "buggy",
        "SWASIM_ENGINE": "torch",
        "PAGE_SIZE": "77",
    }
    resolved = resolve({}, env, None, None)
    assert resolved.config == SimConfig(4, 32, 16, 8, False, True, "mps", "buggy", "torch")
    assert resolved.origins["need_sort"] == "environment SWASIM_NEED_SORT"


def test_flag_beats_environment_beats_file_beats_header_beats_default(tmp_path: Path) -> None:
    path = write(tmp_path, "page_size: 3\nkv_size: 24\nkv_size_swa: 24\n")
    header = {"swasim_trace": 1, "page_size": 2, "kv_size": 8, "need_sort": True, "note": "x"}
    env = {"SWASIM_PAGE_SIZE": "4", "SWASIM_KV_SIZE": "48"}
    resolved = resolve({"page_size": 6, "need_sort": None}, env, str(path), header)
    assert resolved.config == SimConfig(6, 48, 24, None, True, True)
    assert {key: resolved.origins[key] for key in (*KEYS[:5], "need_sort")} == {
        "page_size": "flag",
        "kv_size": "environment SWASIM_KV_SIZE",
        "kv_size_swa": f"{path}:3",
        "sliding_window_size": "default",
        "window_includes_self": "default",
        "need_sort": "trace header",
    }


def test_a_false_flag_beats_a_true_header() -> None:
    assert not resolve({"need_sort": False}, {}, None, {"need_sort": True}).config.need_sort


@pytest.mark.parametrize("off", ["sliding_window_size: null\n", "sliding_window_size: 0\n"])
def test_the_window_of_a_header_can_be_switched_off_by_a_file(tmp_path: Path, off: str) -> None:
    resolved = resolve({}, {}, str(write(tmp_path, off)), {"sliding_window_size": 8})
    assert resolved.config.sliding_window_size is None


def test_the_window_can_be_switched_off_by_flag_and_environment() -> None:
    header = {"sliding_window_size": 8}
    flag = resolve({"sliding_window_size": 0}, {}, None, header)
    variable = resolve({}, {"SWASIM_SLIDING_WINDOW_SIZE": "none"}, None, header)
    assert flag.config.sliding_window_size is None
    assert variable.config.sliding_window_size is None


def test_an_empty_variable_counts_as_not_set() -> None:
    assert resolve({}, {"SWASIM_PAGE_SIZE": " "}, None, None).config.page_size == 1


def test_the_swa_pool_follows_the_full_pool_when_nobody_names_it() -> None:
    resolved = resolve({"kv_size": 32}, {}, None, None)
    assert resolved.config.kv_size_swa == 32
    assert resolved.origins["kv_size_swa"] == "default (follows kv_size)"


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:12", "mps"])
def test_another_device_chooses_the_torch_engine(device: str) -> None:
    resolved = resolve({"device": device}, {}, None, None)
    assert resolved.config.engine == "torch"
    assert resolved.origins["engine"] == "default (follows device)"


def test_the_torch_engine_can_be_asked_for_on_the_cpu() -> None:
    assert resolve({"engine": "torch"}, {}, None, None).config.engine == "torch"


def test_the_core_engine_is_refused_on_another_device() -> None:
    with pytest.raises(ConfigError, match=r"engine core runs on cpu only, but device is cuda"):
        resolve({"engine": "core", "device": "cuda"}, {}, None, None)


@pytest.mark.parametrize(
    "device", ["gpu", "cuda:", "cuda:-1", "CUDA", "cuda:01", "cuda:0 ", "cpu:0"]
)
def test_a_device_that_cannot_be_is_refused(device: str) -> None:
    with pytest.raises(ConfigError, match="device must be cpu, cuda, cuda:N or mps"):
        resolve({"device": device}, {}, None, None)


def test_a_misspelt_key_names_line_column_and_the_nearest(tmp_path: Path) -> None:
    assert refusal(tmp_path, "# sizes\npage_size: 4\nkv_sise: 16\n") == (
        "c.yaml:3:1: error: unknown key 'kv_sise'; did you mean 'kv_size'? (known: page_size,"
        " kv_size, kv_size_swa, sliding_window_size, window_includes_self, need_sort, device,"
        " allocator, engine)"
    )


def test_the_error_carries_its_place_for_programs(tmp_path: Path) -> None:
    path = write(tmp_path, "page_size: 4\nkv_size:  many\n")
    with pytest.raises(ConfigError) as caught:
        resolve({}, {}, str(path), None)
    error = caught.value
    assert (error.path, error.line, error.column) == (str(path), 2, 11)
    assert error.message == "kv_size must be a whole number of tokens, 1 or more, found many"


TOKENS = "must be a whole number of tokens, 1 or more, found"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("page_size: 0\n", f"c.yaml:1:12: error: page_size {TOKENS} 0"),
        ("page_size: -4\n", f"c.yaml:1:12: error: page_size {TOKENS} -4"),
        ("page_size: 1.5\n", f"c.yaml:1:12: error: page_size {TOKENS} 1.5"),
        ('page_size: "4"\n', f'c.yaml:1:12: error: page_size {TOKENS} "4"'),
        ("page_size: yes\n", f"c.yaml:1:12: error: page_size {TOKENS} yes"),
        ("page_size: 0x10\n", f"c.yaml:1:12: error: page_size {TOKENS} '0x10'"),
        ("page_size: 010\n", f"c.yaml:1:12: error: page_size {TOKENS} '010'"),
        ("page_size: 1:30\n", f"c.yaml:1:12: error: page_size {TOKENS} '1:30'"),
        ("page_size: [4]\n", f"c.yaml:1:12: error: page_size {TOKENS[:-6]} found a list"),
        ("page_size: {a: 4}\n", f"c.yaml:1:12: error: page_size {TOKENS[:-6]} found a mapping"),
        (
            "page_size:\n",
            "c.yaml:1:11: error: page_size has no value; it must be a whole number of tokens,"
            " 1 or more",
        ),
        (
            "kv_size: 3000000000\n",
            "c.yaml:1:10: error: kv_size is 3000000000 tokens; at most 2147483647 are possible",
        ),
        (
            "need_sort: maybe\n",
            "c.yaml:1:12: error: need_sort must be true or false, found maybe",
        ),
        ("need_sort: 1\n", "c.yaml:1:12: error: need_sort must be true or false, found 1"),
        (
            "allocator: 5\n",
            "c.yaml:1:12: error: allocator must be a registry name or package.module:Class,"
            " found 5",
        ),
        (
            "engine: fast\n",
            "c.yaml:1:9: error: engine must be core or torch, found 'fast'",
        ),
        (
            "sliding_window_size: -1\n",
            "c.yaml:1:22: error: sliding_window_size must be a whole number of tokens"
            " (0 or null: no window), found -1",
        ),
        (
            "page_size: 4\nkv_size: 16\npage_size: 4\n",
            "c.yaml:3:1: error: page_size is given twice, first on line 1",
        ),
        (
            "page_size: !!python/object/apply:os.system [echo]\n",
            f"c.yaml:1:12: error: page_size {TOKENS[:-6]} found a list",
        ),
    ],
)
def test_a_value_that_cannot_be_is_named_with_its_place(
    tmp_path: Path, text: str, message: str
) -> None:
    assert refusal(tmp_path, text) == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "c.yaml: error: empty; expected `key: value` lines"),
        (b" \n\n", "c.yaml: error: empty; expected `key: value` lines"),
        (b"\x7fELF\x02\x01\x00", "c.yaml:1: error: not text: it holds control characters"),
        (b"page_size: 4\n\x80\x81\xff", "c.yaml:2: error: not UTF-8 text; expected a YAML file"),
        (b"- a\n- b\n", "c.yaml:1:1: error: expected `key: value` lines, found a list"),
        (b"hello\n", "c.yaml:1:1: error: expected `key: value` lines, found the value 'hello'"),
        (b"? [a]\n: 1\n", "c.yaml:1:3: error: a key must be a word, found a list"),
        (
            b"page_size: 4\n  kv_size: 3\n",
            "c.yaml:2:10: error: not valid YAML: mapping values are not allowed here",
        ),
        (
            b"page_size: [4\n",
            "c.yaml:2:1: error: not valid YAML: expected ',' or ']', but got '<stream end>'",
        ),
        (
            b"page_size: 4\n---\nkv_size: 8\n",
            "c.yaml:2:1: error: not valid YAML: but found another document",
        ),
        (b"page_size: *x\n", "c.yaml:1:12: error: not valid YAML: found undefined alias 'x'"),
        (b"[" * 5000, "c.yaml: error: nested too deeply; expected `key: value` lines"),
        (
            b"#" * (1 << 20) + b"\n",
            "c.yaml: error: larger than 1 MiB; a configuration has a few lines",
        ),
    ],
    ids=[
        "empty",
        "blank",
        "elf",
        "latin",
        "list",
        "word",
        "list-key",
        "indent",
        "open-list",
        "two-documents",
        "alias",
        "deep",
        "huge",
    ],
)
def test_a_file_that_is_no_configuration_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    assert refusal(tmp_path, content) == message


def test_a_file_of_comments_names_the_keys(tmp_path: Path) -> None:
    assert refusal(tmp_path, "# page_size: 4\n").startswith("c.yaml: error: no keys in it;")


def test_a_directory_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory; expected a YAML file"):
        resolve({}, {}, str(tmp_path), None)
    with pytest.raises(ConfigError, match="no such file"):
        resolve({}, {}, str(tmp_path / "absent.yaml"), None)
    with pytest.raises(ConfigError, match="cannot be read"):
        resolve({}, {}, "a\0b", None)


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    assert from_file(tmp_path, b"\xef\xbb\xbfpage_size: 4\r\nkv_size: 16\r\n").config.kv_size == 16


def test_an_anchor_is_read_like_its_value(tmp_path: Path) -> None:
    resolved = from_file(tmp_path, "kv_size: &n 32\nkv_size_swa: *n\n")
    assert resolved.config.kv_size_swa == 32


@pytest.mark.parametrize(
    ("flags", "env", "header", "message"),
    [
        ({"page_size": 0}, {}, None, f"page_size {TOKENS} 0 (flag)"),
        ({"page_size": True}, {}, None, f"page_size {TOKENS} True (flag)"),
        (
            {},
            {"SWASIM_KV_SIZE": "many"},
            None,
            f"kv_size {TOKENS} 'many' (environment SWASIM_KV_SIZE)",
        ),
        (
            {},
            {"SWASIM_NEED_SORT": "maybe"},
            None,
            "need_sort must be true or false, found 'maybe' (environment SWASIM_NEED_SORT)",
        ),
        ({}, {}, {"kv_size": -1}, f"kv_size {TOKENS} -1 (trace header)"),
        (
            {"page_size": 16},
            {},
            {"kv_size": 8},
            "kv_size is 8 tokens, less than one page of 16 (page_size: flag) (trace header)",
        ),
        (
            {"kv_size": 16, "kv_size_swa": 1, "page_size": 2},
            {},
            None,
            "kv_size_swa is 1 token, less than one page of 2 (page_size: flag) (flag)",
        ),
    ],
)
def test_a_refusal_names_the_source_of_the_value(
    flags: dict[str, object], env: dict[str, str], header: dict[str, object] | None, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(flags, env, None, header)
    assert str(caught.value) == message


def test_an_unknown_flag_is_answered_with_the_nearest_key() -> None:
    with pytest.raises(ConfigError, match="did you mean 'page_size'"):
        resolve({"page_sise": 4}, {}, None, None)


def test_a_pool_below_one_page_is_refused_at_its_line(tmp_path: Path) -> None:
    assert refusal(tmp_path, "kv_size: 8\npage_size: 16\n") == (
        "c.yaml:1:10: error: kv_size is 8 tokens, less than one page of 16"
        f" (page_size: {tmp_path}{os.sep}c.yaml:2)"
    ).replace(f"{tmp_path}{os.sep}", "")


def test_pool_sizes_are_rounded_down_to_whole_pages_with_a_warning() -> None:
    resolved = resolve({"page_size": 64, "kv_size": 1000, "kv_size_swa": 640}, {}, None, None)
    assert (resolved.config.kv_size, resolved.config.kv_size_swa) == (960, 640)
    assert resolved.warnings == (
        "kv_size is 1000 tokens (flag), not whole pages of 64: rounded down to 960 (15 pages)",
    )


def test_a_window_that_never_fits_is_a_warning() -> None:
    flags = {"page_size": 256, "kv_size": 4096, "kv_size_swa": 409, "sliding_window_size": 128}
    resolved = resolve(flags, {}, None, None)
    assert resolved.config.kv_size_swa == 256
    assert resolved.warnings[1] == (
        "window 128 + page 256 tokens do not fit in the SWA pool of 256:"
        " nothing could ever be admitted"
    )


@pytest.mark.parametrize(("swa", "warned"), [(12, 1), (16, 0)])
def test_a_window_that_fits_exactly_still_admits_nothing(swa: int, warned: int) -> None:
    flags = {"page_size": 4, "kv_size": 16, "kv_size_swa": swa, "sliding_window_size": 8}
    assert len(resolve(flags, {}, None, None).warnings) == warned


def test_show_config_lists_every_key_as_yaml_writes_it() -> None:
    shown = show_config(resolve({"need_sort": True, "page_size": 4}, {}, None, None))
    assert [tuple(row) for row in shown] == [
        ("page_size", "4", "flag"),
        ("kv_size", "1024", "default"),
        ("kv_size_swa", "1024", "default"),
        ("sliding_window_size", "null", "default"),
        ("window_includes_self", "true", "default"),
        ("need_sort", "true", "flag"),
        ("device", "cpu", "default"),
        ("allocator", "fixed", "default"),
        ("engine", "core", "default"),
    ]


def test_a_config_made_by_hand_is_checked_too() -> None:
    with pytest.raises(ConfigError, match="page_size must be"):
        SimConfig(page_size=0)
    with pytest.raises(ConfigError, match="kv_size is 18 tokens, which is not one or more whole"):
        SimConfig(page_size=4, kv_size=18)
    with pytest.raises(ConfigError, match="engine core runs on cpu only"):
        SimConfig(device="cuda")


def test_a_window_of_zero_made_by_hand_means_no_window() -> None:
    assert SimConfig(sliding_window_size=0).sliding_window_size is None


def test_a_config_cannot_be_changed() -> None:
    key = "page_size"
    with pytest.raises(AttributeError):
        setattr(SimConfig(), key, 2)


def test_a_config_error_is_a_usage_matter_for_the_shell() -> None:
    assert issubclass(ConfigError, SwasimError)
    assert ConfigError("x").exit_code == 2
