from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
import torch

from swasim.allocator import adapter, cpu_kernels, installed, standins
from swasim.allocator.base import Allocator
from swasim.allocator.watched import Watched, entries_changed, pages_moved
from swasim.call import AllocatorState, Call
from swasim.config import SimConfig
from swasim.errors import ConfigError, UsageError
from tests.support.tiny_allocator import TinyAllocator

TINY = "tests.support.tiny_allocator"


def tiny(kv_size: int = 4, kv_size_swa: int = 3) -> Allocator:
    return adapter.build(
        f"{TINY}:TinyAllocator", SimConfig(1, kv_size=kv_size, kv_size_swa=kv_size_swa)
    )


def test_allocation_reports_pages_taken_and_entries_written() -> None:
    effect = tiny().perform(Call(op="alloc", need_size=2))
    assert effect.out == [1, 2]
    assert (effect.full_taken, effect.swa_taken) == ([1, 2], [1, 2])
    assert (effect.full_returned, effect.swa_returned) == ([], [])
    assert (effect.mapped_slots, effect.mapped_from, effect.mapped_to) == ([1, 2], [0, 0], [1, 2])
    assert (effect.full_available, effect.swa_available) == (2, 1)


def test_release_reports_pages_returned_and_entries_cleared() -> None:
    allocator = tiny()
    allocator.perform(Call(op="alloc", need_size=2))
    effect = allocator.perform(Call(op="free", indices=[2, 1]))
    assert effect.out is None
    assert (effect.full_returned, effect.swa_returned) == ([2, 1], [2, 1])
    assert (effect.mapped_slots, effect.mapped_to) == ([1, 2], [0, 0])


def test_half_done_allocation_shows_the_pages_that_are_gone() -> None:
    effect = tiny(kv_size=4, kv_size_swa=1).perform(Call(op="alloc", need_size=2))
    assert effect.out is None
    assert (effect.full_taken, effect.swa_taken) == ([1, 2], [])


def test_exception_is_reported_with_what_had_changed_before_it() -> None:
    effect = tiny().perform(Call(op="free", indices=[1]))
    assert effect.raised == "AssertionError"
    assert effect.full_returned == [1]
    assert effect.full_available == 5


def test_merging_staged_pages_is_no_change() -> None:
    allocator = tiny()
    for call in (
        Call(op="alloc", need_size=3),
        Call(op="free", indices=[3, 1]),
        Call(op="alloc", need_size=2),
    ):
        effect = allocator.perform(call)
    assert effect.full_taken == [1, 3]
    assert effect.full_returned == []


def test_state_holds_lists_and_the_whole_mapping() -> None:
    allocator = tiny()
    allocator.perform(Call(op="alloc", need_size=2))
    allocator.perform(Call(op="free_swa", indices=[1]))
    assert allocator.state() == AllocatorState(
        full_free=[3, 4],
        swa_free=[3],
        full_staged=[],
        swa_staged=[1],
        mapping=[0, 0, 2, 0, 0, -1],
    )


def test_pool_of_a_call_names_the_sub_allocator() -> None:
    effect = tiny().perform(Call(op="alloc", pool="swa", need_size=1))
    assert effect.out == [1]
    assert (effect.full_taken, effect.swa_taken) == ([], [1])


def test_mapping_writes_work_without_methods_for_them() -> None:
    allocator = tiny()
    effect = allocator.perform(Call(op="set_full_to_swa_mapping", full=[3], swa=[2]))
    assert (effect.mapped_slots, effect.mapped_to) == ([3], [2])
    effect = allocator.perform(Call(op="clear_full_to_swa_mapping", indices=[3]))
    assert (effect.mapped_slots, effect.mapped_from) == ([3], [2])


def test_missing_method_names_the_releases_that_have_it() -> None:
    with pytest.raises(UsageError, match=r"no method free_segment \(SGLang has it from 0\.5\.17"):
        tiny().perform(Call(op="free_segment", indices=[1], start_pos=0))


def test_live_object_is_watched_where_it_is() -> None:
    live = TinyAllocator(4, 3, 1, "cpu")
    watched = adapter.watch(live)
    assert watched.name == "TinyAllocator"
    assert (watched.geometry.kv_size, watched.geometry.kv_size_swa) == (4, 3)
    effect, outcome = watched.observe(lambda: live.alloc(1))
    assert effect.full_taken == [1]
    assert outcome.result.tolist() == [1]


def test_observed_exception_is_handed_back_to_its_caller() -> None:
    live = TinyAllocator(4, 3, 1, "cpu")
    effect, outcome = adapter.watch(live).observe(lambda: live.free(torch.tensor([1])))
    assert effect.raised == "AssertionError"
    assert isinstance(outcome.error, AssertionError)


def test_object_without_free_lists_is_refused_by_name_of_what_is_missing() -> None:
    live = TinyAllocator(4, 3, 1, "cpu")
    del live.swa_attn_allocator.free_pages
    with pytest.raises(UsageError, match=r"TinyPool.* has no free_pages"):
        adapter.watch(live)


def test_factory_function_makes_the_allocator() -> None:
    allocator = adapter.build(f"{TINY}:make", SimConfig(1, kv_size=5, kv_size_swa=3))
    assert allocator.state().full_free == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (f"{TINY}:WantsMore", "wants an argument 'tree_cache'"),
        (f"{TINY}:Unbuildable", r"Unbuildable\(size=4\) gave RuntimeError: no memory"),
        (f"{TINY}:Nobody", "has no Nobody"),
        ("no_such_package.x:Y", "importing no_such_package.x gave ModuleNotFoundError"),
        ("no.colon", "write package.module:Class"),
    ],
)
def test_class_that_does_not_fit_says_what_was_tried(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        adapter.build(name, SimConfig(1, kv_size=4, kv_size_swa=3))


def test_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="device 'cuda:99' is not usable here"):
        adapter.build(f"{TINY}:TinyAllocator", SimConfig(1, 4, 4, device="cuda:99", engine="torch"))


def test_pages_moved_keeps_repeats_and_order() -> None:
    none = torch.empty(0, dtype=torch.int64)
    taken, returned = pages_moved(
        (torch.tensor([4, 5, 6]), none), (torch.tensor([1, 1, 4, 5, 6]), none)
    )
    assert (taken, returned) == ([], [1, 1])
    taken, returned = pages_moved(
        (torch.tensor([4, 5, 6]), torch.tensor([9])), (torch.tensor([6]), torch.tensor([2, 9]))
    )
    assert (taken, returned) == ([4, 5], [2])


def test_pages_appended_are_told_from_their_equals_in_the_list() -> None:
    none = torch.empty(0, dtype=torch.int64)
    taken, returned = pages_moved(
        (torch.tensor([7, 8]), none), (torch.tensor([7, 8, 4, 7, 8]), none)
    )
    assert (taken, returned) == ([], [4, 7, 8])


def test_entries_of_an_allocation_come_in_the_order_of_its_slots() -> None:
    before, after = torch.tensor([0, 0, 0, 0]), torch.tensor([0, 3, 1, 2])
    assert entries_changed(before, after, [2, 3]) == ([2, 3, 1], [0, 0, 0], [1, 2, 3])


def test_clear_reports_no_single_pages_and_entries() -> None:
    live = TinyAllocator(4, 3, 1, "cpu")
    watched = adapter.watch(live)
    watched.perform(Call(op="alloc", need_size=2))
    effect = watched.perform(Call(op="clear"))
    assert (effect.full_returned, effect.swa_returned, effect.mapped_slots) == ([], [], [])
    assert (effect.full_available, effect.swa_available) == (4, 3)


def test_mapping_that_grew_is_compared_against_zeros() -> None:
    assert entries_changed(torch.tensor([0, 1]), torch.tensor([0, 2, 3])) == (
        [1, 2],
        [1, 0],
        [2, 3],
    )


def test_extend_stand_in_fills_the_old_page_then_whole_pages_then_a_head() -> None:
    slots = cpu_kernels.extend_slots([2, 0], [9, 3], [9, -1], [5, 7, 3], 4)
    assert slots == [10, 11, 20, 21, 22, 23, 28, 12, 13, 14]


def test_decode_stand_in_opens_a_page_only_at_a_boundary() -> None:
    assert cpu_kernels.decode_slots([5, 6], [7, 20], [3], 4) == [12, 21]


ALLOCATOR = """
import triton_that_nobody_has
from sglang.srt.layers.heavy import Layer
from sglang.srt.utils import helper
from tests.support.tiny_allocator import TinyAllocator

try:
    import extra_that_nobody_has
except ImportError:
    extra_that_nobody_has = None

@triton_that_nobody_has.jit
def kernel():
    pass

class SWATokenToKVPoolAllocator(TinyAllocator):
    def alloc(self, need_size):
        assert extra_that_nobody_has is None
        return super().alloc(helper(need_size))

    def free(self, index):
        triton_that_nobody_has.cdiv(1)

    def free_swa(self, index):
        Layer(3)
"""

SGLANG = {
    "__init__.py": "raise RuntimeError('needs a GPU')\n",
    "srt/__init__.py": "",
    "srt/mem_cache/__init__.py": "",
    "srt/mem_cache/allocator.py": ALLOCATOR,
    "srt/utils/__init__.py": "from sglang.srt.utils.common import *\n",
    "srt/utils/common.py": "import orjson_that_nobody_has\ndef helper(n): return n\n",
    "srt/layers/__init__.py": "",
    "srt/layers/heavy.py": "raise RuntimeError('no GPU')\n",
}

USE = """
import sys
from swasim.allocator import adapter
from swasim.call import Call
from swasim.config import SimConfig
from swasim.errors import UsageError

allocator = adapter.build("sglang", SimConfig(1, kv_size=4, kv_size_swa=3))
print(allocator.perform(Call(op="alloc", need_size=2)).out)
print("triton_that_nobody_has" in sys.modules)
for op in ("free", "free_swa"):
    try:
        allocator.perform(Call(op=op, indices=[1]))
    except UsageError as error:
        print(error)
"""


def write_sglang(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / "sglang" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_sglang_loads_without_its_dependencies_and_says_so_when_it_needs_one(
    tmp_path: Path,
) -> None:
    write_sglang(tmp_path, SGLANG)
    done = subprocess.run(
        [sys.executable, "-c", USE],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}", "PATH": ""},
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "[1, 2]",
        "False",
        "sglang uses triton_that_nobody_has.cdiv in the allocator, and it is not there: "
        "pip install triton_that_nobody_has",
        "sglang uses sglang.srt.layers.heavy.Layer in the allocator, and it is not there: "
        "install sglang with its dependencies",
    ]


def test_import_that_failed_before_does_not_stand_in_the_way(tmp_path: Path) -> None:
    write_sglang(tmp_path, SGLANG)
    (tmp_path / "sglang" / "__init__.py").write_text("import sglang.srt, no_such_module")
    (tmp_path / "sglang" / "srt" / "__init__.py").touch()
    first = "try:\n    import sglang\nexcept ImportError:\n    pass\n"
    done = subprocess.run(
        [sys.executable, "-c", first + USE],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}", "PATH": ""},
    )
    assert done.stderr == ""
    assert done.stdout.startswith("[1, 2]")


def test_constants_of_a_missing_library_that_are_declared_can_be_read() -> None:
    absences = standins.Absences("sglang", values={"triton.language.core.LIMIT": 8})
    absences.sealed = True
    core = standins.absent("triton.language.core", absences)
    assert core.LIMIT == 8
    with pytest.raises(standins.AbsentError, match="pip install triton"):
        _ = core.OTHER


@pytest.mark.parametrize(
    ("file", "module"),
    [
        ("srt/mem_cache/allocator.py", "sglang.srt.mem_cache.allocator"),
        ("srt/mem_cache/swa_memory_pool.py", "sglang.srt.mem_cache.swa_memory_pool"),
        ("srt/mem_cache/allocator/swa.py", "sglang.srt.mem_cache.allocator.swa"),
        ("srt/mem_cache/pair/__init__.py", "sglang.srt.mem_cache.pair"),
    ],
)
def test_class_is_found_in_every_place_it_ever_had(tmp_path: Path, file: str, module: str) -> None:
    write_sglang(tmp_path, {file: "class SWATokenToKVPoolAllocator(Base):\n    pass\n"})
    assert installed.find_module(tmp_path / "sglang") == module


def test_sglang_without_the_class_says_how_to_name_another(tmp_path: Path) -> None:
    write_sglang(tmp_path, {"srt/mem_cache/allocator.py": ""})
    with pytest.raises(UsageError, match=r"no class SWATokenToKVPool.* sglang\.srt\.mem_cache\.M"):
        installed.find_module(tmp_path / "sglang")


def test_module_that_this_sglang_does_not_have_is_told_with_its_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sglang(tmp_path, SGLANG)
    (tmp_path / "sglang-9.9.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match=r"; the SGLang 9\.9 that Python imports has no sglang"):
        installed.load("sglang.srt.mem_cache.elsewhere")
    for name in [name for name in sys.modules if name.partition(".")[0] == "sglang"]:
        monkeypatch.delitem(sys.modules, name)


def test_no_sglang_at_all_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "sglang", raising=False)
    with pytest.raises(UsageError, match="no SGLang to import: pip install --no-deps sglang"):
        installed.package_folder()


def test_repository_root_instead_of_its_python_folder_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sglang" / "python").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "sglang", raising=False)
    with pytest.raises(
        UsageError, match=r"sglang is no SGLang package.*PYTHONPATH=~/sglang/python"
    ):
        installed.package_folder()


def test_release_is_read_beside_the_package_or_inside_it(tmp_path: Path) -> None:
    write_sglang(tmp_path, {"version.py": "__version__ = '0.5.12'\n"})
    assert installed.release(tmp_path / "sglang") == "0.5.12"
    (tmp_path / "sglang-0.5.13.dist-info").mkdir()
    assert installed.release(tmp_path / "sglang") == "0.5.13"


ODD = "tests.support.odd_allocators"


def odd(name: str) -> Allocator:
    return adapter.build(f"{ODD}:{name}", SimConfig(1, kv_size=4, kv_size_swa=4))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ReturnsFloats", r"what ReturnsFloats returned: tensor of torch\.float32; accepted are"),
        ("ReturnsWords", "what ReturnsWords returned: tuple of str; accepted are integers"),
        ("ReturnsNumber", "what ReturnsNumber returned: int; accepted are integers"),
        ("WantsMoreOnAlloc", r"WantsMoreOnAlloc\._alloc cannot be called as SGLang calls it"),
        ("SizeUnknown", r"SizeUnknown\.full_available_size\(\) does not say how many tokens"),
    ],
)
def test_answer_that_is_none_is_an_error_that_names_it(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        odd(name).perform(Call(op="alloc", need_size=1))


@pytest.mark.parametrize("name", ["ReturnsTuple", "ReturnsMatrix", "ReturnsPieces"])
def test_slots_are_read_from_any_shape_of_integers(name: str) -> None:
    assert odd(name).perform(Call(op="alloc", need_size=1)).out == [1]


def test_what_a_release_returns_is_not_taken_for_slots() -> None:
    allocator = odd("Odd")
    live = cast(Watched, allocator).target
    live.free = lambda index: ["released", index]
    assert allocator.perform(Call(op="free", indices=[1])).out is None


@pytest.mark.parametrize(
    ("name", "raised", "text"),
    [("Exits", "SystemExit", "0"), ("Speechless", "NoTextError", "cannot be made: RuntimeError")],
)
def test_exit_and_exception_without_text_are_exceptions_like_others(
    name: str, raised: str, text: str
) -> None:
    effect = odd(name).perform(Call(op="alloc", need_size=1))
    assert effect.raised == raised
    assert text in effect.raised_text


def test_exit_while_it_is_built_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"ExitsWhenBuilt\(\) gave SystemExit: 0"):
        odd("ExitsWhenBuilt")


def test_module_that_exits_when_imported_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "leaves_at_once.py").write_text("raise SystemExit('bye')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match="importing leaves_at_once gave SystemExit: bye"):
        adapter.build("leaves_at_once:Any", SimConfig(1, 4, 4))


def test_mapping_of_floats_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"full_to_swa_index_mapping: tensor of torch\.float32"):
        odd("NoMapping").perform(Call(op="free", indices=[1]))


def test_pages_in_pieces_of_any_kind_are_read() -> None:
    allocator = odd("PagesInPieces")
    allocator.perform(Call(op="free", indices=[1]))
    assert allocator.state().full_staged == [1, 3]


def test_what_the_allocator_prints_stays_out_of_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    odd("Talks").perform(Call(op="alloc", need_size=1))
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "built\ncalled\n")


def test_lists_that_are_longer_than_one_piece_are_compared_to_the_end() -> None:
    long = torch.arange(1, 600_001)
    none = long[:0]
    assert pages_moved((long, none), (long[3:], none)) == ([1, 2, 3], [])
    assert pages_moved((long[2:], none), (torch.cat((torch.tensor([2, 1]), long[2:])), none)) == (
        [],
        [2, 1],
    )
    changed = long.clone()
    changed[400_000] = 0
    assert pages_moved((long, none), (changed, none)) == ([400_001], [0])
    assert entries_changed(long, changed) == ([400_000], [400_001], [0])
