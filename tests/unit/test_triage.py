"""Every line shape that people paste, with made-up numbers that were added up by hand."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from swasim.errors import UsageError
from swasim.sanitizer.kinds import KINDS
from swasim.triage import Fault, TriageReport, Unread, triage
from swasim.triage.meaning import RULES
from swasim.triage.shapes import clean
from swasim.triage.signals import SIGNALS
from swasim.triage.source import open_log


def only(report: TriageReport) -> Fault:
    (fault,) = report.faults
    return fault


def kinds(fault: Fault) -> list[str]:
    return [family.kind for family in fault.families]


def test_swa_line_one_page_over_names_the_stale_mapping_family() -> None:
    # 2816 + 308992 + 2560 + 0 + 8704 = 323072 = 322816 + 256
    line = (
        "[2026-06-10 09:11:04 TP6 EP6] AssertionError: SWA Pool Mem Leak Detected! [swa] "
        "total=322816, available=2816, evictable=308992, protected=2560, session_held=0, "
        "uncached=8704"
    )
    report = triage([line])
    fault = only(report)
    assert fault.headline == "SWA pool over: counted twice, 256 tokens = 1 page"
    assert (fault.pool, fault.sign, fault.off, fault.off_pages) == ("swa", "over", 256, 1)
    assert fault.ranks == ("TP6 EP6",)
    assert fault.series[0].when == "busy"
    assert kinds(fault)[0] == "stale-mapping"
    assert fault.issues[0].ref == "sglang 27779"
    assert (report.page.size_tokens, report.page.confidence) == (256, "fair")


def test_idle_block_with_balanced_full_and_short_swa_names_an_orphan() -> None:
    # full 235264 + 676352 = 911616; swa 235264 + 676096 = 911360 = 911616 - 256
    report = triage(
        [
            "[2026-08-23 09:11:04 TP0 EP0] ValueError: pool memory leak detected! [full] "
            "total=911616, available=235264, evictable=676352, protected=0, session_held=0, "
            "uncached=0",
            "[swa] total=911616, available=235264, evictable=676096, protected=0, "
            "session_held=0, uncached=0",
        ]
    )
    fault = only(report)
    assert (fault.pool, fault.sign, fault.off, fault.off_pages) == ("swa", "under", -256, -1)
    assert fault.ranks == ("TP0 EP0",)
    assert fault.series[0].when == "idle"
    assert kinds(fault) == ["orphaned-page", "mapping-overwritten", "remap-in-free-group"]
    assert fault.issues[0].ref == "sglang 36081"


def test_both_pools_over_point_at_units_and_double_frees() -> None:
    # 13509568 + 8192 = 13517760 = 13510080 + 7680; 10807552 + 1024 = 10808576 = 10808064 + 512
    report = triage(
        [
            "pool memory leak detected! [full] total=13510080, available=13509568, "
            "evictable=8192, protected=0, session_held=0, uncached=0",
            "[swa] total=10808064, available=10807552, evictable=1024, protected=0, "
            "session_held=0, uncached=0",
        ],
        page_size=64,
    )
    full, swa = report.faults
    assert (full.pool, full.off, full.off_pages) == ("full", 7680, 120)
    assert (swa.pool, swa.off, swa.off_pages) == ("swa", 512, 8)
    assert full.issues[0].ref == "sglang 34823"
    assert report.page.confidence == "given"


def test_full_short_while_swa_balances_names_a_half_allocation() -> None:
    report = triage(
        [
            "[full] total=96, available=32, evictable=48, protected=0, session_held=0, uncached=0",
            "[swa] total=96, available=48, evictable=48, protected=0, session_held=0, uncached=0",
        ],
        page_size=16,
    )
    fault = only(report)
    assert fault.headline == "full pool under: missing, 16 tokens = 1 page"
    assert kinds(fault)[0] == "half-allocation"


def test_oldest_single_pool_line_counts_the_excess() -> None:
    # 3189424 - 3185200 = 4224 = 264 pages of 16
    report = triage(
        [
            "ValueError: token_to_kv_pool_allocator memory leak detected! "
            "available_size=3189424, protected_size=0, self.max_total_num_tokens=3185200",
            "self.token_to_kv_pool_allocator.available_size()=2864304",
            "self.tree_cache.evictable_size()=325120",
        ],
        page_size=16,
    )
    fault = only(report)
    assert fault.headline == "KV pool over: counted twice, 4224 tokens = 264 pages"
    assert fault.issues[0].ref == "sglang 6888"


def test_old_single_pool_line_counts_the_loss() -> None:
    # 644 + 269628 = 270272 = 270331 - 59
    report = triage(
        [
            "[2025-10-22 03:00:00 TP1] token_to_kv_pool_allocator memory leak detected! "
            "self.max_total_num_tokens=270331, available_size=644, evictable_size=269628, "
            "protected_size=0"
        ]
    )
    fault = only(report)
    assert fault.headline == "KV pool under: missing, 59 tokens"
    assert kinds(fault)[0] == "leaked-page"
    assert (report.page.size_tokens, report.page.confidence) == (1, "high")


def test_middle_aged_hybrid_lines_give_one_equation_per_pool() -> None:
    # full 640 + 320 = 960; swa 64 + 128 = 192 = 256 - 64
    report = triage(
        [
            "token_to_kv_pool_allocator memory leak detected! self.full_tokens_per_layer=960, "
            "full_available_size=640, full_evictable_size=320, "
            "self.tree_cache.full_protected_size()=0",
            "self.swa_tokens_per_layer=256, swa_available_size=64, swa_evictable_size=128, "
            "self.tree_cache.swa_protected_size()=0",
        ]
    )
    fault = only(report)
    assert (fault.pool, fault.off, fault.off_pages) == ("swa", -64, -1)
    assert report.pool_totals == (("full", 960), ("swa", 256))


def test_hybrid_lines_with_session_terms_balance() -> None:
    report = triage(
        [
            "full_leaked=0, swa_leaked=0",
            "self.full_tokens_per_layer=96, full_available_size=32, full_evictable_size=32, "
            "full_protected=16, session_held_full=16",
        ]
    )
    assert report.faults == ()
    assert report.recognised == 1


def test_old_mamba_line_reports_the_leaked_slots() -> None:
    report = triage(
        [
            "full_available_size=96, full_evictable_size=0, "
            "self.token_to_kv_pool_allocator.size=96, self.tree_cache.full_protected_size()=0",
            "mamba_available_size=199, mamba_evictable_size=0, "
            "self.req_to_token_pool.mamba_pool.size=200, "
            "self.tree_cache.mamba_protected_size()=0, leaked_full_pages=None, "
            "leaked_mamba_pages={191}",
        ]
    )
    fault = only(report)
    assert fault.headline == "mamba pool under: missing, 1 slot"
    assert "leaked_mamba_pages: 1 (191)" in fault.meaning
    assert fault.issues[0].ref == "sglang 16067"


def test_new_mamba_line_is_counted_in_slots() -> None:
    report = triage(
        [
            "[mamba] total=200, available=190, evictable=7, protected=0, session_held=0, "
            "uncached=0, leaked_mamba_pages={3, 9, 12}"
        ],
        page_size=64,
    )
    assert only(report).headline == "mamba pool under: missing, 3 slots"


def test_request_table_line_is_no_page_fault() -> None:
    report = triage(
        [
            "req_to_token_pool memory leak detected!available_size=4095, session_held=0, "
            "total_size=4096"
        ]
    )
    fault = only(report)
    assert fault.headline == "request table under: missing, 1 row"
    assert fault.off_pages is None


def test_sgl_jax_line_takes_its_rank_from_dp() -> None:
    report = triage(["[dp=3] expected=1024, avail=512, evict=500, protected=0"], page_size=1)
    fault = only(report)
    assert fault.headline == "KV pool under: missing, 12 tokens"
    assert fault.ranks == ("dp=3",)


def test_freetoken_line_is_read_as_swa_when_it_says_so() -> None:
    # 3868 + 8742 = 12610 = 26231 - 13621
    report = triage(
        ["AssertionError: SWA-slot leak/double-free: free(3868)+tree(8742) != capacity(26231)"],
        page_size=1,
    )
    fault = only(report)
    assert (fault.pool, fault.sign, fault.off) == ("swa", "under", -13621)


def test_bare_assert_in_a_traceback_is_an_over_free() -> None:
    report = triage(
        [
            "[2026-05-19 10:00:00 DP1 TP4] Scheduler hit an exception: Traceback (most recent "
            "call last):",
            '  File "sglang/srt/mem_cache/swa_memory_pool.py", line 1, in free',
            "    assert self.swa_attn_allocator.available_size() <= self.swa_attn_allocator.size",
            "AssertionError",
        ]
    )
    fault = only(report)
    assert (fault.pool, fault.first_line, fault.ranks) == ("swa", 3, ("DP1 TP4",))
    assert kinds(fault)[0] == "accounting-overflow"
    assert fault.issues[0].ref == "sglang 25805"


@pytest.mark.parametrize(
    ("line", "shape", "kind"),
    [
        (
            "AssertionError: Committed KV cache already freed (self.kv_committed_len=15)",
            "committed KV freed twice",
            "double-free",
        ),
        (
            "AssertionError: dec_lock_ref on node with node.swa_lock_ref=0, node.id=77",
            "lock underflow",
            "use-after-free",
        ),
        (
            "AssertionError: segment at 32704 shares a page with the one ending at 32704",
            "segment overlap",
            "misaligned",
        ),
        ("AssertionError: free groups cannot be nested", "nested free group", "leaked-page"),
        (
            "kv_canary violation: launch_tag=TAIL_K_SWA fail_reason=write_position "
            "slot_idx=53504 position=512 stored_token=9 expected_token=8 "
            "stored_chain_hash=0x0000000000000001 expected_aux=0x0000000000000002",
            "canary",
            "page-aliased",
        ),
        (
            "KV double free: sub-pool 1 has 2 duplicate pages.",
            "duplicate free pages",
            "double-free",
        ),
        (
            "KV page use-after-free: 64 owner page refs are in the free pool, sample pages=[7].",
            "owned page in free list",
            "use-after-free",
        ),
        ("AssertionError: KV cache is full!", "allocation failed after admission", None),
        ("RuntimeError: SWA pool exhausted", "SWA pool exhausted", "orphaned-page"),
        (
            "RuntimeError: Decode out of memory. Try to lower your batch size.",
            "out of memory",
            "false-exhaustion",
        ),
        (
            "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
            "illegal memory access",
            "index-out-of-range",
        ),
        ("invariant failed: swa.peer_mapped", "device invariant", "padding-page"),
    ],
)
def test_a_line_without_an_equation_is_a_fault_of_its_family(
    line: str, shape: str, kind: str | None
) -> None:
    fault = only(triage([line]))
    assert (fault.shape, fault.severity) == (shape, "error")
    assert kind is None or kinds(fault)[0] == kind


def test_a_retraction_is_pressure_and_no_fault() -> None:
    report = triage(
        [
            "[2026-08-06 01:00:00 TP0] KV cache pool is full. Retract requests. "
            "#retracted_reqs: 1, #new_tokens_gained: 4096, #new_token_ratio: 0.1 -> 0.2"
        ]
    )
    assert only(report).severity == "warning"
    assert not report.found_fault


def test_old_retraction_line_is_recognised_too() -> None:
    report = triage(["KV cache pool is full. Retract requests. #new_tokens_gained: 4096"])
    assert only(report).shape == "retraction"


DECODE = (
    "[2026-08-06 01:00:00 TP0] Decode batch, #running-req: 1, #full token: 77824, full token "
    "usage: 0.10, #swa token: 77824, swa token usage: 1.00, #queue-req: 0, "
)


def test_full_swa_pool_beside_an_empty_full_pool_says_that_the_window_stays() -> None:
    report = triage([DECODE] * 3)
    fault = only(report)
    assert (fault.severity, fault.lines) == ("warning", 3)
    assert fault.issues[0].ref == "sglang 33805"


def test_waiting_requests_beside_a_full_swa_pool_say_that_nothing_is_released() -> None:
    line = (
        "Prefill batch, #new-seq: 0, #new-token: 0, #cached-token: 0, full token usage: 0.40, "
        "swa token usage: 0.98, #running-req: 0, #queue-req: 9, "
    )
    assert only(triage([line] * 3)).issues[0].ref == "sglang 36458"


def test_healthy_usage_lines_are_recognised_and_give_no_fault() -> None:
    line = (
        "Prefill batch, #new-seq: 1, #new-token: 8192, #cached-token: 0, full token usage: 0.01, "
        "swa token usage: 0.01, #running-req: 0, #queue-req: 0, "
    )
    report = triage([line])
    assert report.shapes == (("usage", 1),)
    assert report.faults == ()
    assert report.next == ()


@pytest.mark.parametrize("value", ["-0.25", "1.50"])
def test_a_usage_that_cannot_be_is_a_fault(value: str) -> None:
    report = triage([f"Decode batch, #running-req: 1, #token: 5, token usage: {value}, "])
    assert only(report).severity == "error"


def busy(available: int) -> str:
    return (
        f"[Mem Check (BUSY)] [swa] total=320, available={available}, evictable=64, protected=0, "
        "session_held=0, uncached=64"
    )


def test_busy_check_lines_say_when_the_pool_last_balanced() -> None:
    report = triage([busy(192), busy(192), busy(208), busy(224)], page_size=16)
    fault = only(report)
    series = fault.series[0]
    assert (series.balanced_before, series.last_balanced_line) == (2, 2)
    assert (series.first_off, series.last_off, series.lines) == (16, 32, 2)
    assert fault.growth == "from +16 to +32 tokens over 2 lines (3 to 4): it goes on happening"


def test_a_constant_amount_is_one_event() -> None:
    fault = only(triage([busy(208), busy(208)], page_size=16))
    assert fault.growth == "+16 tokens on 2 lines (1 to 2): one event, not a steady loss"


def test_a_pool_that_balances_again_is_told_apart_from_a_loss() -> None:
    fault = only(triage([busy(208), busy(192)], page_size=16))
    assert fault.growth == "later lines balance again: look for pages in flight, not for lost ones"


def test_old_busy_check_total_is_read() -> None:
    fault = only(triage(["Mem Leak Detected! total_tokens=992 vs self.max_total_num_tokens=1024"]))
    assert (fault.pool, fault.off, fault.series[0].when) == ("kv", -32, "busy")


def test_a_watchdog_dump_that_leaves_out_running_requests_is_no_loss() -> None:
    report = triage(
        [
            "[2026-08-23 09:11:04 TP0] Scheduler watchdog timeout",
            "scheduler.cur_batch_for_debug.batch_size()=4",
            "[full] total=96, available=32, evictable=32, protected=0, session_held=0, uncached=0",
        ]
    )
    assert report.faults == ()


@pytest.mark.parametrize(
    "line",
    [
        "[swa] unified ring (leak-check skipped): available=0, evictable=0, total=64",
        "[full] total=64, available=0, evictable=60, protected=0, session_held=0, uncached=0, "
        "dcp_physical_page_slack_allowed=True",
        "max_total_num_tokens=1024, chunked_prefill_size=8192, max_running_requests=48",
    ],
)
def test_lines_that_upstream_excuses_are_not_judged(line: str) -> None:
    assert triage([line]).faults == ()


def test_ranks_with_the_same_amount_are_one_fault_and_no_race() -> None:
    lines = [
        f"[2026-08-23 09:11:04 TP{rank}] pool memory leak detected! [swa] total=320, "
        "available=304, evictable=0, protected=0, session_held=0, uncached=0"
        for rank in range(8)
    ]
    fault = only(triage(lines, page_size=16))
    assert len(fault.ranks) == 8
    assert "All 8 ranks show the same amount: logic, not a race." in fault.meaning


def test_ranks_that_differ_in_sign_are_two_faults() -> None:
    line = "[swa] total=320, available={}, evictable=0, protected=0, session_held=0, uncached=0"
    report = triage(
        [
            "[2026-08-23 09:11:04 TP0] " + line.format(304),
            "[2026-08-23 09:11:04 TP1] " + line.format(336),
        ],
        page_size=16,
    )
    assert sorted(fault.sign or "" for fault in report.faults) == ["over", "under"]


def test_a_page_size_in_the_log_beats_what_the_numbers_suggest() -> None:
    report = triage(["server_args=ServerArgs(page_size=64, tp_size=8)", busy(336)])
    assert (report.page.size_tokens, report.page.confidence) == (64, "stated")


def test_several_page_sizes_in_one_log_are_pointed_out() -> None:
    report = triage(["page_size=64", "page_size=1", "page_size=64"])
    assert report.page.size_tokens == 64
    assert "several page sizes (1, 64)" in report.cautions[0]


def test_an_amount_that_is_no_whole_page_points_at_lengths_in_tokens() -> None:
    fault = only(triage([busy(191)], page_size=16))
    assert fault.off_pages is None
    assert "1 is no multiple of the page size 16" in fault.meaning


def test_too_few_numbers_give_no_page_size() -> None:
    report = triage(["[dp=0] expected=65536, avail=32768, evict=0, protected=0"])
    assert report.page.size_tokens is None
    assert only(report).off_pages is None


def test_two_equations_in_one_escaped_line_are_both_read() -> None:
    report = triage(
        [
            '{"log":"pool memory leak detected! [full] total=64, available=64, evictable=0, '
            "protected=0, session_held=0, uncached=0\\n[swa] total=64, available=48, "
            'evictable=0, protected=0, session_held=0, uncached=0\\n"}'
        ],
        page_size=16,
    )
    assert only(report).pool == "swa"


def test_colours_are_stripped() -> None:
    assert clean("\x1b[31m[swa]\x1b[0m total=1\x1b]8;;x\x07\r\n") == "[swa] total=1"


def test_garbage_is_read_and_not_recognised() -> None:
    report = triage(["\x00\x01\ufffd" * 50, "=" * 300, "]" * 10, "free(x)+tree("])
    assert (report.lines, report.recognised, report.faults) == (4, 0, ())


def test_next_steps_start_with_a_recording_and_end_with_an_explanation() -> None:
    commands = [step.command for step in triage([busy(208)], page_size=16).next]
    assert commands[0].startswith("SWASIM_RECORD=")
    assert commands[2] == "swasim replay TRACE --expect-idle"
    assert commands[-1] == "swasim explain stale-mapping"


def test_a_long_log_is_read_in_constant_memory() -> None:
    def log() -> Iterator[str]:
        for number in range(20_000):
            yield f"[2026-08-23 09:11:04 TP{number % 8}] request {number} done"
        yield busy(208)

    triage([busy(208)])
    tracemalloc.start()
    report = triage(log(), page_size=16)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.lines == 20_001
    assert peak < 200_000


def test_every_family_names_a_kind_of_the_catalogue() -> None:
    used = {family.kind for rule in (*RULES, *SIGNALS) for family in rule.families}
    assert used <= KINDS.keys()


def read(path: Path, data: bytes) -> list[str]:
    path.write_bytes(data)
    with open_log(str(path)) as lines:
        return list(lines)


def test_a_log_is_read_plain_gzipped_or_as_utf16(tmp_path: Path) -> None:
    text = "one\ntwo [swa]\n"
    log = tmp_path / "server.log"
    assert read(log, text.encode()) == ["one", "two [swa]"]
    assert read(log, gzip.compress(text.encode())) == ["one", "two [swa]"]
    assert read(log, text.encode("utf-16"))[1] == "two [swa]"


def test_binary_garbage_in_a_log_is_no_error(tmp_path: Path) -> None:
    lines = read(tmp_path / "server.log", bytes(range(256)) + b"\n[swa]\n")
    assert lines[-1] == "[swa]"


def test_a_line_without_end_is_cut_and_the_next_one_is_read(tmp_path: Path) -> None:
    lines = read(tmp_path / "server.log", b"x" * 1_000_000 + b"\nnext\n")
    assert [len(line) for line in lines] == [65_536, 4]


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "is empty"), (gzip.compress(b"x" * 9999)[:20], "cannot be read to its end")],
    ids=["empty", "cut gzip"],
)
def test_an_unusable_log_is_named(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(tmp_path / "server.log", data)


def test_a_missing_log_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"), open_log(str(tmp_path / "no.log")):
        pass
    with pytest.raises(UsageError, match="is a directory"), open_log(str(tmp_path)):
        pass


USAGE = "Decode batch, #running-req: 1, #token: 5, token usage: 0.10, "


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: pool memory leak detected! ring: free 3, lent 4, of 8",
        "AssertionError: SWA Pool Mem Leak Detected! {'lost': 256}",
        "[Mem Check (BUSY)] ring(full)=3/8",
        "RuntimeError: KV double-free of page 7",
        "use after free in sub-pool 1",
        '  File "/opt/sglang/srt/mem_cache/allocator/swa.py", line 271, in free_swa',
        '  File "/opt/sglang/srt/mem_cache/memory_pool.py", line 90, in free',
    ],
)
def test_a_line_that_speaks_of_a_fault_in_an_unknown_shape_is_unread(line: str) -> None:
    report = triage([USAGE, line, USAGE])
    assert report.faults == ()
    assert report.recognised == 2
    assert report.unread == Unread(lines=1, first_line=2, last_line=2, example=line.strip())


@pytest.mark.parametrize(
    "line",
    [
        "no memory leak detected",
        "[swa] unified ring (leak-check skipped): available=0, evictable=0, total=64",
        "ServerArgs(enable_memory_leak_check=True, SGLANG_MEM_LEAK_CHECK=1)",
        'File "/opt/sglang/srt/mem_cache/memory_pool.py", line 700, in _create_buffers',
        "KV Cache is allocated. #tokens: 4096, K size: 1.00 GB, V size: 1.00 GB",
        USAGE,
    ],
)
def test_a_line_that_speaks_of_no_fault_is_not_unread(line: str) -> None:
    assert triage([USAGE, line]).unread is None


def test_a_header_is_read_where_its_numbers_follow() -> None:
    report = triage(
        [
            "[2026-08-23 09:11:04 TP0] ValueError: pool memory leak detected!",
            "full_leaked=0, swa_leaked=1",
            "[swa] total=96, available=48, evictable=47, protected=0, session_held=0, uncached=0",
            "[2026-08-23 09:11:05 TP0] SIGQUIT received",
        ]
    )
    assert only(report).off == -1
    assert report.unread is None


def test_a_header_is_unread_where_the_next_record_comes_first() -> None:
    report = triage(
        [
            "[2026-08-23 09:11:04 TP0] ValueError: pool memory leak detected!",
            "[2026-08-23 09:11:05 TP0] Decode batch, #running-req: 1, token usage: 0.10, ",
            "[swa] total=96, available=48, evictable=48, protected=0, session_held=0, uncached=0",
            "[2026-08-23 09:11:06 TP0] ValueError: pool memory leak detected!",
        ]
    )
    assert report.unread is not None
    assert (report.unread.lines, report.unread.first_line, report.unread.last_line) == (2, 1, 4)


def test_a_traceback_is_read_where_its_last_line_is() -> None:
    report = triage(
        [
            'File "sglang/srt/mem_cache/allocator/swa.py", line 1, in free',
            *["    some(frame)"] * 40,
            "AssertionError: Committed KV cache already freed (self.kv_committed_len=15)",
        ]
    )
    assert only(report).shape == "committed KV freed twice"
    assert report.unread is None


def test_what_follows_an_unread_line_is_to_record() -> None:
    report = triage(["KV double free in ring 3"])
    assert report.unread is not None
    assert report.next[0].command.startswith("SWASIM_RECORD=")
