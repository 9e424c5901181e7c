"""Free groups: what was queued must come back at the end, once, and nothing else."""

from __future__ import annotations

from swasim.geometry import PAD_PAGE
from swasim.sanitizer.findings import Moment
from swasim.sanitizer.mapping import (
    apply_mapping_writes,
    check_cut_from_full,
    check_stale_entries,
)
from swasim.sanitizer.release import WRONG_RELEASES, report_missing, stale_cause
from swasim.sanitizer.scene import Scene
from swasim.sanitizer.shadow import FreeGroup, PageTruth, PoolTruth
from swasim.sanitizer.window import Window


def check_group_begin(scene: Scene) -> None:
    """Open a group. A nested begin keeps what is queued: it is still owed."""
    if scene.effect.raised:
        return
    if scene.truth.group is None:
        scene.truth.group = FreeGroup(scene.moment)
    else:
        scene.truth.group.begun_again = scene.moment


def check_group_end(scene: Scene, window: Window) -> None:
    """Close the group, and hold what came back against what was queued."""
    truth, effect = scene.truth, scene.effect
    group = truth.group or FreeGroup(scene.moment)
    truth.group = None
    for pool, returned in ((truth.full, effect.full_returned), (truth.swa, effect.swa_returned)):
        _flush(scene, group, pool, returned)
    if not effect.raised:
        for pool in (truth.full, truth.swa):
            _check_missing(scene, group, pool)
    window.note_released(scene)
    apply_mapping_writes(scene)
    check_stale_entries(scene)
    check_cut_from_full(scene)


def _flush(scene: Scene, group: FreeGroup, pool: PoolTruth, returned: list[int]) -> None:
    seen: dict[int, int] = {}
    queued = group.queued[pool.name]
    for page in returned:
        nth = seen[page] = seen.get(page, 0) + 1
        record = pool.peek(page)
        calls = queued.get(page, [])
        if page == PAD_PAGE:
            if nth == 1:
                scene.report(
                    "padding-page",
                    f"padding page 0 of the {pool.label} pool is released",
                    pool=pool.name,
                    page=page,
                    cause=scene.first_error() or next(iter(group.doubled.values()), None),
                )
        elif record is None or not record.live:
            asked = calls[nth - 1] if nth <= len(calls) else None
            _report_double(scene, group, pool, page, record, asked)
        elif not calls and not (pool.name == "swa" and page in group.peers):
            _report_unqueued(scene, group, pool, page, record)
        pool.put(page, scene.moment)
        scene.suspects.dismiss(pool.name, page)


def _report_double(
    scene: Scene,
    group: FreeGroup,
    pool: PoolTruth,
    page: int,
    record: PageTruth | None,
    asked: Moment | None,
) -> None:
    """A page came back that was free: the call that queued it is to blame, where one is known."""
    if pool.name == "full" and page in group.doubled:
        pool.excess = pool.excess or group.doubled[page]  # told when it was queued
        return
    scene.report(
        "double-free",
        f"{pool.label} page {page} is released again while it is free",
        pool=pool.name,
        page=page,
        at=asked,
        released=record.released if record else None,
        cause=stale_cause(scene, pool, page)
        or (record.damage if record else None)
        or scene.first_error(*WRONG_RELEASES)
        or next(iter(group.doubled.values()), None),
        notes=(f"carried out when the free group ended, at event {scene.moment.event}",),
    )
    pool.excess = pool.excess or scene.findings[-1]


def _report_unqueued(
    scene: Scene, group: FreeGroup, pool: PoolTruth, page: int, record: PageTruth
) -> None:
    """The group released a live page that no call had queued."""
    scene.report(
        "foreign-free",
        f"the free group releases {pool.label} page {page}, which no call in it named",
        pool=pool.name,
        page=page,
        owner=record.allocated,
        cause=next(iter(group.overwritten.values()), None)
        or record.damage
        or scene.first_error(*WRONG_RELEASES),
        notes=(f"the free group was opened at event {group.opened.event}",),
    )


def _check_missing(scene: Scene, group: FreeGroup, pool: PoolTruth) -> None:
    """Queued pages that did not come back are lost, and the last way to them is to blame."""
    missing: list[int] = []
    for page in group.queued[pool.name]:
        record = pool.peek(page)
        if record is None or record.queued is None:
            continue
        overwritten = group.overwritten.get(page) if pool.name == "swa" else None
        if overwritten is not None:
            scene.findings.append(overwritten)
            pool.lose(page)
            record.fault = overwritten
            pool.shortage = pool.shortage or overwritten
        else:
            missing.append(page)
    if missing:
        first = group.queued[pool.name][missing[0]][0]
        again = group.begun_again
        note = f"a group was begun inside this one at event {again.event}" if again else ""
        report_missing(scene, pool, missing, first, note)
