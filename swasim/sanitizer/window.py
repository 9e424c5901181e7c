"""What a request still needs: the tokens of its window on the SWA side, all of them on the full.

A step that adds the token at position `m` reads back over the window: with a window of W tokens
that includes the token itself, positions m - W + 1 … m; otherwise m - W … m. Every one of them
needs a live SWA peer, and every position below `m` a live full page.
"""

from __future__ import annotations

from collections.abc import Mapping

from swasim.geometry import UNMAPPED
from swasim.sanitizer.findings import Finding
from swasim.sanitizer.rows import RowIndex, RowTruth
from swasim.sanitizer.scene import Scene
from swasim.trace.events import ReqName
from swasim.trace.resolve import Row, RowChange


class Window:
    """Watches rows.

    Args:
        rows: the resolver's rows; read, never changed.
        page_size: tokens per page.
        sliding_window_size: tokens; None: only the full side is watched.
        includes_self: whether the window counts the token that attends.
    """

    def __init__(
        self,
        rows: Mapping[ReqName, Row],
        page_size: int,
        sliding_window_size: int | None,
        *,
        includes_self: bool,
    ) -> None:
        self._rows = rows
        self.index = RowIndex(page_size)
        self._page_size = page_size
        self._back: int | None = None
        if sliding_window_size:
            self._back = sliding_window_size - 1 if includes_self else sliding_window_size

    def clone(self, rows: Mapping[ReqName, Row]) -> Window:
        """A watcher that knows the same and watches other rows with the same content."""
        twin = object.__new__(Window)
        twin.__dict__.update(self.__dict__)
        twin._rows = rows
        twin.index = self.index.clone()
        return twin

    @property
    def back_tokens(self) -> int | None:
        """Tokens before its own position that a step reads; None: no window."""
        return self._back

    def note_released(self, scene: Scene) -> None:
        """Remember what rows lose by a release; to be called before its mapping writes apply."""
        if not self.index.by_page:
            return
        effect, truth = scene.effect, scene.truth
        for page in dict.fromkeys(effect.full_returned):
            for req, _, _ in self.index.naming(page):
                self.index.rows[req].broken[page] = None
        gone = dict.fromkeys(effect.swa_returned)
        if truth.group is not None:
            gone.update(dict.fromkeys(truth.group.queued["swa"]))
        for swa_page in gone:
            for full_page in truth.mapping.owners(swa_page):
                self._lose_peer(scene, swa_page, full_page)

    def _lose_peer(self, scene: Scene, swa_page: int, full_page: int) -> None:
        record = scene.truth.full.peek(full_page)
        for req, first, last in self.index.naming(full_page):
            row = self.index.rows[req]
            row.dead_len = max(row.dead_len, last + 1)
            if self._back is None or not row.allocated or row.suspect is not None:
                continue
            start = max(first, row.length - self._back)
            if last < start or record is None or not record.live or record.queued:
                continue
            row.suspect = scene.build.build(
                "window-violation",
                f"the peers of positions {start}..{last} of req {req} go, inside its window",
                scene.moment,
                pool="swa",
                page=swa_page,
                slots=self._rows[req].slots[start : last + 1],
                positions=(start, last + 1),
                released=scene.moment,
                owner=record.allocated,
                notes=(
                    f"req {req} has {row.length} tokens and reads back to position "
                    f"{max(0, row.length - self._back)} in its next step",
                ),
            )

    def check_step(self, scene: Scene, changes: tuple[RowChange, ...]) -> None:
        """An allocation for rows: what the new tokens read must be there."""
        for change in changes:
            row = self.index.rows.get(change.req)
            if row is None or not change.allocated or not change.added_slots:
                continue
            if row.broken and self._check_broken(scene, change, row):
                # Gone on one side, gone on the other: that is one fault.
                row.dead_len, row.suspect = 0, None
                continue
            if self._back is not None and row.dead_len > change.kept_len - self._back:
                self._check_window(scene, change, row)

    def _check_broken(self, scene: Scene, change: RowChange, row: RowTruth) -> bool:
        """Full pages of the prefix that were released under the row; says whether one was."""
        broken, row.broken = row.broken, {}
        told = {f.page for f in scene.findings if f.pool == "full"}
        births = self._rows[change.req].births
        for page in broken:
            names = self.index.by_page.get(page, {}).get(change.req)
            if names is None or names[0] >= change.kept_len or page in told:
                continue
            record = scene.truth.full.touch(page)
            owned_since = record.allocated.event if record.allocated else 0
            if record.live and not record.queued and owned_since <= births[names[0]]:
                continue
            scene.report(
                "use-after-free",
                f"req {change.req} reads positions {names[0]}..{names[1]} on released page {page}",
                pool="full",
                page=page,
                slots=self._rows[change.req].slots[names[0] : names[1] + 1],
                cause=record.fault_after(births[names[0]]),
                owner=record.allocated if record.live else None,
                mark_page=False,
            )
            return True
        return False

    def _check_window(self, scene: Scene, change: RowChange, row: RowTruth) -> None:
        start = max(0, change.kept_len - (self._back or 0))
        suspect, row.suspect = row.suspect, None
        if row.dead_len <= change.kept_len:  # else new tokens lack peers, as a short tail's do
            row.dead_len = start
        position = self._first_dead(scene, change.req, start, change.kept_len)
        if position is None:
            return
        slot = self._rows[change.req].slots[position]
        suspect = suspect or self._suspect_about(slot)
        if suspect is not None:
            scene.findings.append(suspect)
            return
        swa_page = scene.truth.mapping.entry(slot) // self._page_size
        scene.report(
            "window-violation",
            f"req {change.req} needs position {position}, whose SWA peer is gone",
            pool="swa",
            page=swa_page,
            slots=[slot],
            mark_page=False,
            notes=(
                f"the step at {change.kept_len} tokens reads back to position {start}",
                f"position {position} is full slot {slot}",
            ),
        )

    def _suspect_about(self, slot: int) -> Finding | None:
        """The early release that took a slot's peer from another row that shares it."""
        for req, _, _ in self.index.naming(slot // self._page_size):
            row = self.index.rows[req]
            if row.suspect is not None and slot in row.suspect.slots:
                suspect, row.suspect = row.suspect, None
                return suspect
        return None

    def _first_dead(self, scene: Scene, req: ReqName, start: int, end: int) -> int | None:
        """First position in `[start, end)` without a live SWA peer."""
        mapping, swa = scene.truth.mapping, scene.truth.swa
        slots = self._rows[req].slots
        for position in range(start, end):
            slot = slots[position]
            swa_slot = mapping.entry(slot)
            record = swa.peek(swa_slot // self._page_size)
            if swa_slot == UNMAPPED or record is None or not record.live or slot in mapping.stale:
                return position
        return None

    def follow(self, scene: Scene, changes: tuple[RowChange, ...]) -> None:
        """Carry row changes over; full pages that no row names any more are suspected."""
        for change in changes:
            dead_len = self._inherited_dead_len(scene, change)
            row = self.index.rows.get(change.req)
            if row is not None and row.suspect is not None and not self._still_named(row, change):
                row.suspect = None
            for page in self.index.apply(change):
                self._suspect_unnamed(scene, page, change)
            row = self.index.rows.get(change.req)
            if row is not None:
                row.dead_len = max(row.dead_len, dead_len)

    def _still_named(self, row: RowTruth, change: RowChange) -> bool:
        """Whether the suspected positions are still part of the row."""
        suspect = row.suspect
        return suspect is not None and (
            suspect.positions is None or suspect.positions[0] < change.kept_len
        )

    def _inherited_dead_len(self, scene: Scene, change: RowChange) -> int:
        """How far the appended positions may lack peers."""
        call = scene.call
        if call.op == "alloc_extend_swa_tail":
            return call.seq_lens[0] - call.swa_tail_len
        if change.added_slots and (call.pool == "full" or not change.allocated):
            return change.kept_len + len(change.added_slots)
        return 0

    def _suspect_unnamed(self, scene: Scene, page: int, change: RowChange) -> None:
        record = scene.truth.full.peek(page)
        if record is None or not record.live or record.queued or record.allocated is None:
            return
        size = self._page_size
        births = [
            birth
            for slot, birth in zip(change.dropped_slots, change.dropped_births, strict=True)
            if slot // size == page
        ]
        if not births or record.allocated.event > max(births):
            return
        finding = scene.build.build(
            "orphaned-page",
            f"req {change.req} drops live full page {page}, which no other row names",
            scene.moment,
            pool="full",
            page=page,
            slots=[s for s in change.dropped_slots if s // size == page],
            cause=record.damage,
            notes=("nothing released it afterwards",),
        )
        scene.suspects.add("full", page, finding)

    def confirm_all(self, scene: Scene) -> list[Finding]:
        """The trace is over, or the pools are idle: early releases that still stand.

        Only what a request did to itself, while it could still go on: a request that others
        evict from and that never takes another step may simply be over.
        """
        found: list[Finding] = []
        for req, row in self.index.rows.items():
            suspect, row.suspect = row.suspect, None
            if suspect is None or suspect.at.req != str(req):
                continue
            if self._owns_its_end(scene, req):
                found.append(suspect)
        return found

    def _owns_its_end(self, scene: Scene, req: ReqName) -> bool:
        """Whether the row still owns the full page of its last position."""
        row = self._rows.get(req)
        if row is None or not row.slots:
            return False
        record = scene.truth.full.peek(row.slots[-1] // self._page_size)
        return (
            record is not None
            and record.live
            and record.queued is None
            and record.allocated is not None
            and record.allocated.event <= row.births[-1]
        )
