"""The accounts: what the allocator says is available, against what the truth counts."""

from __future__ import annotations

from swasim.geometry import PAD_PAGE, Pool
from swasim.sanitizer.findings import Finding
from swasim.sanitizer.scene import Scene, short_list
from swasim.sanitizer.shadow import PoolTruth
from swasim.wording import counted


def check_accounts(scene: Scene) -> None:
    """After every call: no pool has more than its size, and counts agree with lists."""
    effect, geometry = scene.effect, scene.truth.geometry
    for pool, available, size_tokens in (
        (scene.truth.full, effect.full_available, geometry.kv_size),
        (scene.truth.swa, effect.swa_available, geometry.kv_size_swa),
    ):
        if available > size_tokens:
            _check_overflow(scene, pool, available, size_tokens)
        elif pool.overflown:
            pool.overflown = False
        listed = (pool.free_pages + pool.account_offset_pages) * geometry.page_size
        if available != listed:
            _report_mismatch(scene, pool, available, listed)


def _check_overflow(scene: Scene, pool: PoolTruth, available: int, size_tokens: int) -> None:
    if pool.overflown:
        return
    pool.overflown = True
    cause = pool.excess or scene.first_error() or _padding_fault(pool)
    scene.report(
        "accounting-overflow",
        f"{pool.label} pool: {available} tokens available of {size_tokens}",
        pool=pool.name,
        cause=cause,
    )


def _padding_fault(pool: PoolTruth) -> Finding | None:
    record = pool.peek(PAD_PAGE)
    return record.fault if record else None


def _report_mismatch(scene: Scene, pool: PoolTruth, available: int, listed: int) -> None:
    page_size = scene.truth.geometry.page_size
    scene.report(
        "accounting-mismatch",
        f"{pool.label} pool says {available} tokens available, its lists hold {listed}",
        pool=pool.name,
        cause=scene.first_error(),
    )
    pool.account_offset_pages += (available - listed) // page_size


def check_idle(scene: Scene) -> None:
    """The trace declares the pools idle: every live page is leaked."""
    for finding in scene.suspects.confirm_all():
        scene.findings.append(finding)
        if finding.pool is not None and finding.page is not None:
            scene.truth.pool(finding.pool).lose(finding.page)
            scene.truth.pool(finding.pool).touch(finding.page).fault = finding
    for pool in (scene.truth.full, scene.truth.swa):
        _check_idle_pool(scene, pool)


def _check_idle_pool(scene: Scene, pool: PoolTruth) -> None:
    by_owner: dict[int, list[int]] = {}
    for page, record in pool.pages.items():
        if record.live and pool.is_real(page):
            event = record.allocated.event if record.allocated else 0
            by_owner.setdefault(event, []).append(page)
    for pages in by_owner.values():
        pages.sort()
        record = pool.pages[pages[0]]
        scene.report(
            "leaked-page",
            f"idle pools with {counted(len(pages), f'live {pool.label} page')}: "
            f"{short_list(pages, 4)}",
            pool=pool.name,
            page=pages[0],
            cause=record.damage,
            owner=record.allocated,
            notes=(f"{pool.label} pages {short_list(pages, 16)}",),
        )
        for page in pages:
            pool.lose(page)


def names_out_of_range(scene: Scene) -> None:
    """Slots that the call names and that no pool has."""
    call, geometry = scene.call, scene.truth.geometry
    pool: Pool = "swa" if call.pool == "swa" else "full"
    bad = _outside(call.indices, 0, geometry.slot_limit(pool))
    for segment in call.segments:
        bad += _outside(segment.indices, 0, geometry.slot_limit("full"))
    bad += _outside(call.last_loc, -1, geometry.slot_limit("full"))
    bad += _outside(call.full, 0, geometry.slot_limit("full"))
    swa_bad = _outside(call.swa, 0, geometry.slot_limit("swa"))
    groups: tuple[tuple[list[int], Pool], ...] = ((bad, pool), (swa_bad, "swa"))
    for slots, where in groups:
        if slots:
            last = geometry.slot_limit(where) - 1
            label = scene.truth.pool(where).label
            scene.report(
                "index-out-of-range",
                f"{call.op} names slot {short_list(slots, 3)}, the {label} pool ends at {last}",
                pool=where,
                slots=slots[:64],
            )


def _outside(slots: list[int], low: int, limit: int) -> list[int]:
    if not slots or (min(slots) >= low and max(slots) < limit):
        return []
    return [slot for slot in slots if not low <= slot < limit]
