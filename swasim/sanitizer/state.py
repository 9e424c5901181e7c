"""`backup_state` and `restore_state`: free lists that travel back while the world moved on."""

from __future__ import annotations

from swasim.sanitizer.findings import Moment
from swasim.sanitizer.mapping import (
    apply_mapping_writes,
    check_stale_entries,
    renew_entries,
    suspect_orphan,
)
from swasim.sanitizer.scene import Scene
from swasim.sanitizer.shadow import PoolTruth

Owners = dict[int, Moment | None]


class StateKeeper:
    """Remembers, per saved name, who owned which page."""

    def __init__(self) -> None:
        self._saved: dict[str, tuple[Owners, Owners]] = {}

    def clone(self) -> StateKeeper:
        """The same saved states; they never change."""
        twin = StateKeeper()
        twin._saved = self._saved.copy()
        return twin

    def backup(self, scene: Scene) -> None:
        """Note the owners at this moment."""
        truth = scene.truth
        self._saved[scene.call.slot] = (_owners(truth.full), _owners(truth.swa))

    def restore(self, scene: Scene) -> None:
        """Pages that come back are free; the others get the owner of that time back."""
        if scene.effect.raised:
            return
        effect, truth = scene.effect, scene.truth
        saved = self._saved.get(scene.call.slot, ({}, {}))
        for pool, owners, returned, taken in (
            (truth.full, saved[0], effect.full_returned, effect.full_taken),
            (truth.swa, saved[1], effect.swa_returned, effect.swa_taken),
        ):
            for page in returned:
                pool.put(page, scene.moment)
                scene.suspects.dismiss(pool.name, page)
            for page in taken:
                pool.take(page, owners.get(page) or scene.moment)
            for page, owner in owners.items():
                record = pool.peek(page)
                if record is not None and record.live and record.allocated is not owner:
                    pool.touch(page).allocated = owner
        _renew_own_entries(scene)
        apply_mapping_writes(scene)
        check_stale_entries(scene)
        _check_entries_left(scene, effect.swa_taken)


def _renew_own_entries(scene: Scene) -> None:
    """Entries that outlived their page, which its owner of that time has again."""
    truth, size = scene.truth, scene.truth.geometry.page_size
    renewed: list[int] = []
    for page in dict.fromkeys(scene.effect.swa_taken):
        owner = truth.swa.touch(page).allocated
        for slot in truth.mapping.slots_pointing_at(page):
            full = truth.full.peek(slot // size)
            if full is not None and full.live and full.allocated == owner:
                renewed.append(slot)
    renew_entries(scene, renewed)


def _check_entries_left(scene: Scene, pages: list[int]) -> None:
    """The mapping is not saved: an SWA page that is live again may have no entry any more."""
    mapping = scene.truth.mapping
    for page in dict.fromkeys(pages):
        if scene.truth.swa.is_real(page) and not mapping.owners(page):
            suspect_orphan(scene, page, f"SWA page {page} is live again, without an entry", [])


def _owners(pool: PoolTruth) -> Owners:
    return {page: r.allocated for page, r in pool.pages.items() if r.live}
