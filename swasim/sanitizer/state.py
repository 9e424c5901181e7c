"""`backup_state` and `restore_state`: free lists that travel back while the world moved on."""

from __future__ import annotations

from swasim.sanitizer.findings import Moment
from swasim.sanitizer.mapping import apply_mapping_writes, check_stale_entries
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
        """Pages that come back are free; pages that leave get the owner of that time back."""
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
        apply_mapping_writes(scene)
        check_stale_entries(scene)


def _owners(pool: PoolTruth) -> Owners:
    return {page: r.allocated for page, r in pool.pages.items() if r.live}
