"""The life of one page, written down while a trace is replayed.

A watch sees every step, and keeps the events that touched its page. Runs of growth are folded
while they are seen, so that a page that a long decode filled costs one entry.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from swasim.call import Call
from swasim.geometry import UNMAPPED, number_runs
from swasim.inspect.look import look_at
from swasim.inspect.records import Act, LifeEvent, PageLife, Run, What
from swasim.inspect.target import Target
from swasim.replayer import Replayer, Step
from swasim.sanitizer.findings import Finding, Moment
from swasim.sanitizer.release import RELEASES, RELEASES_FULL
from swasim.sanitizer.scene import moment_of
from swasim.trace.events import Entry, ReqName

GROWTH: frozenset[What] = frozenset({"filled", "mapped"})
ROWS: frozenset[What] = frozenset({"joined", "left"})
NAMED: frozenset[What] = frozenset({"named"})
FOLDED_REQS = 8
"""Rows that a folded run names; further ones are left out."""


class PageWatch:
    """Writes down what happens to one page, or one slot of it.

    Args:
        replayer: about to replay; read after every step, never changed.
        target: the page or slot.
    """

    def __init__(self, replayer: Replayer, target: Target) -> None:
        self._replayer = replayer
        self._pool, self._page, self._slot = target.pool, target.page, target.slot
        geometry = replayer.config.geometry
        self._size = geometry.page_size
        slots = geometry.slots_of(self._page)
        self._slots = slots if self._slot is None else range(self._slot, self._slot + 1)
        self._entries: dict[int, int] = {}
        """Full slot to SWA slot, for the entries that touch the watched slots."""
        self._naming: tuple[ReqName, ...] = ()
        self._queued_calls = 0
        self._times_taken = 0
        self._events: list[LifeEvent] = []
        self._findings: list[Finding] = []
        self._state = look_at(replayer, target).state
        self._target = target

    def before(self, entry: Entry) -> None:
        """Nothing of a page must be seen before an event: the watch remembers its entries."""

    def after(self, step: Step) -> None:
        """Take one step in."""
        told = [finding for finding in step.findings if self._is_about(finding)]
        self._findings += told
        acts = list(self._acts(step))
        state = self._replayer.sanitizer.truth.pool(self._pool).look_at(self._page)[0]
        if state == "lost" != self._state:
            acts.append(Act("lost"))
        self._state = state
        if acts:
            now = look_at(self._replayer, self._target)
            moment = moment_of(step.entry, step.resolved)
            self._add(LifeEvent(moment, moment, 1, (moment.op,), tuple(acts), now))

    def late(self, findings: Iterable[Finding]) -> None:
        """Findings that came with the end of the trace."""
        self._findings += [finding for finding in findings if self._is_about(finding)]

    def life(self, last: Moment) -> PageLife:
        """The finished record; `last` is the last event of the trace."""
        geometry = self._replayer.config.geometry
        slots = geometry.slots_of(self._page)
        return PageLife(
            pool=self._pool,
            page=self._page,
            slot=self._slot,
            slots=(slots[0], slots[-1]),
            pages=geometry.pages(self._pool),
            events=tuple(self._events),
            findings=tuple(sorted(self._findings, key=lambda finding: finding.at.event)),
            times_taken=self._times_taken,
            end=look_at(self._replayer, self._target),
            last=last,
        )

    def _is_about(self, finding: Finding) -> bool:
        if finding.pool == self._pool and finding.page == self._page:
            return self._slot is None or not finding.slots or self._touches(finding)
        # Findings name full slots, whichever pool they are about.
        return self._pool == "full" and self._touches(finding)

    def _touches(self, finding: Finding) -> bool:
        if self._pool == "swa":
            return any(slot in self._entries for slot in finding.slots)
        return any(slot in self._slots for slot in finding.slots)

    # What one step did

    def _acts(self, step: Step) -> Iterable[Act]:
        call, effect = step.call, step.effect
        if call is None or effect is None:
            return self._row_acts()
        if call.op == "clear" and not effect.raised:
            return self._cleared()
        full = self._pool == "full"
        taken = (effect.full_taken if full else effect.swa_taken).count(self._page)
        self._times_taken += taken
        named = self._named(call)
        acts = [Act("taken", times=taken)] if taken else []
        if full and effect.out and call.pool != "swa":
            acts += self._slots_act("filled", [s for s in effect.out if s in self._slots])
        acts += self._mapping_acts(step)
        queued = self._newly_queued()
        acts += [Act("queued", times=queued)] if queued else []
        released = (effect.full_returned if full else effect.swa_returned).count(self._page)
        acts += [Act("released", times=released)] if released else []
        if full:
            acts += self._peers_released(effect.swa_returned)
        if not acts and named:
            acts += self._slots_act("named", named)
        return [*acts, *self._row_acts()]

    def _slots_act(self, what: What, slots: list[int]) -> list[Act]:
        return [Act(what, number_runs(slots))] if slots else []

    def _cleared(self) -> list[Act]:
        used = self._state != "free" or self._entries
        self._entries.clear()
        self._queued_calls = 0
        acts = [Act("cleared")] if used and self._page else []
        return [*acts, *self._row_acts()]

    def _mapping_acts(self, step: Step) -> list[Act]:
        """Entries that began or ceased to join the watched slots to the other pool."""
        effect = step.effect
        if effect is None or not effect.mapped_slots:
            return []
        full = self._pool == "full"
        before: dict[int, int] = {}
        for slot, to in zip(effect.mapped_slots, effect.mapped_to, strict=True):
            old = self._entries.get(slot, UNMAPPED)
            touches = slot in self._slots if full else to in self._slots and to != UNMAPPED
            if not (touches or old):
                continue
            before.setdefault(slot, old)
            if touches and to != UNMAPPED:
                self._entries[slot] = to
            else:
                self._entries.pop(slot, None)
        lost = {s: old for s, old in before.items() if old and self._entries.get(s) != old}
        won = {s: self._entries[s] for s in before if self._entries.get(s, before[s]) != before[s]}
        return [*self._pairs("unmapped", lost), *self._pairs("mapped", won)]

    def _pairs(self, what: What, pairs: dict[int, int]) -> list[Act]:
        if not pairs:
            return []
        full = number_runs(sorted(pairs))
        swa = number_runs(pairs[slot] for slot in sorted(pairs))
        return [Act(what, full, swa) if self._pool == "full" else Act(what, swa, full)]

    def _newly_queued(self) -> int:
        """Calls that queued the page's release in the open free group, since the last event."""
        group = self._replayer.sanitizer.truth.group
        calls = 0 if group is None else len(group.queued[self._pool].get(self._page, ()))
        newly, self._queued_calls = calls - self._queued_calls, calls
        return max(newly, 0)

    def _peers_released(self, swa_returned: list[int]) -> list[Act]:
        """SWA pages that went while entries of this full page still point at them."""
        if not swa_returned or not self._entries:
            return []
        gone = {swa // self._size for swa in self._entries.values()} & set(swa_returned)
        return [Act("peer-released", others=number_runs(sorted(gone)))] if gone else []

    def _named(self, call: Call) -> list[int]:
        """Watched slots that a release names, as the entries were before it."""
        if call.op not in RELEASES and call.op != "clear_full_to_swa_mapping":
            return []
        slots = call.named_slots
        if self._pool == "full":
            return [] if call.pool == "swa" else [slot for slot in slots if slot in self._slots]
        if call.pool is not None:
            return [slot for slot in slots if slot in self._slots] if call.pool == "swa" else []
        if call.op in RELEASES_FULL and "full" in call.op:
            return []
        return [self._entries[slot] for slot in slots if slot in self._entries]

    def _row_acts(self) -> list[Act]:
        """Rows that began or ceased to name the page."""
        if self._pool == "swa":
            return []
        index = self._replayer.sanitizer.row_index
        naming = tuple(index.by_page.get(self._page, ()))
        if self._slot is not None and naming:
            rows = self._replayer.resolver.rows
            naming = tuple(req for req in naming if self._slot in rows[req].slots)
        if naming == self._naming:
            return []
        joined = tuple(str(req) for req in naming if req not in self._naming)
        left = tuple(str(req) for req in self._naming if req not in naming)
        self._naming = naming
        acts = [Act("joined", reqs=joined)] if joined else []
        return [*acts, Act("left", reqs=left)] if left else acts

    # Folding

    def _add(self, event: LifeEvent) -> None:
        last = self._events[-1] if self._events else None
        if last is None or not _folds(last, event) or self._told_between(last.last.event):
            self._events.append(event)
            return
        self._events[-1] = LifeEvent(
            first=last.first,
            last=event.last,
            steps=last.steps + 1,
            ops=last.ops if event.ops[0] in last.ops else (*last.ops, *event.ops),
            acts=_merged(last.acts, event.acts),
            after=event.after,
        )

    def _told_between(self, event: int) -> bool:
        """Whether a finding stands at or behind the event: then it is shown between the two."""
        return bool(self._findings) and self._findings[-1].at.event >= event


def _folds(last: LifeEvent, event: LifeEvent) -> bool:
    before = {act.what for act in last.acts}
    now = {act.what for act in event.acts}
    if before | now <= ROWS:
        return True
    same_op = last.ops == event.ops
    return same_op and (before | now <= GROWTH or before | now <= NAMED)


def _merged(before: tuple[Act, ...], now: tuple[Act, ...]) -> tuple[Act, ...]:
    merged = {act.what: act for act in before}
    for act in now:
        old = merged.get(act.what)
        merged[act.what] = act if old is None else _joined(old, act)
    return tuple(merged.values())


def _joined(old: Act, new: Act) -> Act:
    reqs = tuple(dict.fromkeys((*old.reqs, *new.reqs)))
    return replace(
        old,
        slots=_runs_joined(old.slots, new.slots),
        others=_runs_joined(old.others, new.others),
        reqs=reqs[:FOLDED_REQS],
        times=old.times + new.times,
    )


def _runs_joined(old: tuple[Run, ...], new: tuple[Run, ...]) -> tuple[Run, ...]:
    if old and new and new[0][0] == old[-1][1] + 1:
        return (*old[:-1], (old[-1][0], new[0][1]), *new[1:])
    return old if set(new) <= set(old) else (*old, *new)
