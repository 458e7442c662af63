"""The open keys of a schedule that correlates, while one signal changes some of them.

A key opens with the first event that counts under it. It closes when it is empty or expires. What was due before is
evaluated first, so a late wake-up changes no decision. A key that is a run begins again with the first event that a
rerun of it led to; what its earlier runs led to counts no more (`domain.triggers.run_keys`). When too many keys are
open, the event that opened them is refused or the keys open longest are dropped (`OnFull`). A key that is due but has
not been woken is still open; expired keys among those open longest are closed first, and keys that have finished are
forgotten before an open one is lost.

Where the trigger tells corrections apart, a key that has fired and is empty is *finished* until it expires: its cell
stays, and what comes for it is a correction (`domain.fold.corrections`).

Cost: proportional to the keys that the signal changes, independent of how many are open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import cast

from streamsched.domain.fold.cell import EMPTY, Cell, correction_due_at, expires_at
from streamsched.domain.fold.cell_update import CellUpdate, LeafEvent, Satisfaction
from streamsched.domain.fold.corrections import contributions, correct, finish, is_crowded
from streamsched.domain.fold.effect import Effect, Wake
from streamsched.domain.fold.state import Folded, TriggerState, launches, with_wakes
from streamsched.domain.jobs.job import job_id
from streamsched.domain.signals.verdict import JudgedEvent
from streamsched.domain.triggers.on_correction import OnCorrection
from streamsched.domain.triggers.run_keys import rerun_of


class OpenKeys:
    """`cells` are those of the open keys, in order of their opening; they are not changed."""

    def __init__(
        self, state: TriggerState, at: datetime, cells: Mapping[str, Cell], *, statistics: bool = False
    ) -> None:
        """`statistics`: the event brings those of a commit that came before, so it corrects nothing."""
        self._statistics = statistics
        self._state = state
        self._at = at
        self._cells = cells
        self._changed: dict[str, Cell | None] = {}
        self._effects: list[Effect] = []
        self._jobs = 0
        self._lost = 0
        self._dropped: list[str] = []
        #: The finished keys that the event corrects, with their jobs.
        self.corrected: dict[str, str] = {}
        self._without_key: str | None = None
        self._number = cells[next(reversed(cast("dict[str, Cell]", cells)))].number if cells else 0
        #: Number of open keys now minus the number when the signal arrived.
        self._grown = 0
        #: The event added to one of the keys; otherwise it only replaced older commits.
        self.adding = False
        #: Why the event does not count under a key: it comes from a run that was repeated, or it brings statistics of a
        #: commit for a key that has finished. "": it does.
        self.outdated = ""
        #: The keys that began again, because a rerun of their run led to the event.
        self.replaced: list[str] = []

    def cell(self, key: str) -> Cell | None:
        """The cell of a key as it is now; None when it is not open."""
        return self._changed[key] if key in self._changed else self._cells.get(key)

    def open_keys(self) -> Iterator[str]:
        """The keys that are open now, in order of their opening."""
        for key, cell in self._cells.items():
            now = self.cell(key)
            if now is not None and now.number == cell.number:
                yield key
        new = [
            (cell.number, key) for key, cell in self._changed.items() if cell is not None and self._is_new(key, cell)
        ]
        yield from (key for _, key in sorted(new))

    def elapse(self, key: str, cell: Cell) -> CellUpdate:
        """The update with time passed up to now, at most to the key's expiry."""
        end = expires_at(self._state.plan, cell)
        update = self._update(key, cell)
        update.elapse(self._at if end is None else min(self._at, end), fires=self._state.fires)
        return update

    def count(self, key: str, leaf_events: Sequence[LeafEvent]) -> list[str]:
        """Counts an event under a key, after what was due before. Returns the ids of the leaves that counted it."""
        at, fires = self._at, self._state.fires
        known = self.cell(key)
        if known is not None and known.finished is None:
            update = self.elapse(key, known)
            if not update.is_empty and not self._is_expired(known):
                newer = self._compare_reruns(key, known, leaf_events)
                if newer == 0:
                    update.count(leaf_events, at, fires=fires)
                elif newer < 0:
                    self.outdated = f"run {key}, from which it descends, was run again, and what that led to counts"
                if newer <= 0 or not self._begin_key(key, leaf_events).counted:
                    self.adding = self.adding or (bool(update.counted) and not update.replaced)
                    if update.changed:
                        self.settle(key, known, update)
                    return update.counted
                self.replaced.append(key)
            self.settle(key, known, update)
            known = self.cell(key)
            if known is not None and known.finished is None:
                self._close(key, known)
                known = None
        if known is not None and (finished := self._settle_finished(key, known)) is not None:
            return self._correct(key, finished, leaf_events)
        update = self._begin_key(key, leaf_events)
        self.adding = self.adding or bool(update.counted)
        if update.counted:
            self._number += 1
            self.settle(key, EMPTY._replace(opened_at=at, number=self._number), update)
        return update.counted

    def pass_time(self, key: str, cell: Cell) -> None:
        """Evaluates what is due for a key up to now."""
        if cell.finished is None:
            self.settle(key, cell, self.elapse(key, cell))
        else:
            self._settle_finished(key, cell)

    def settle(self, key: str, before: Cell, update: CellUpdate) -> None:
        """Applies an update: launches its jobs, and keeps the key open unless it expired or is empty."""
        self._launch(key, update.satisfactions)
        if update.is_empty and update.has_fired and self._policy is not None:
            self._settle_finished(key, finish(before, self._latest_job, update.satisfactions[-1].at))
            return
        if update.is_empty or self._is_expired(before):
            self._lost += not update.is_empty
            self._close(key, before)
            return
        self._keep(key, update.cell(before))

    def without_key(self, why: str) -> None:
        """Counts the event as one of which something has no key."""
        self._without_key = why

    @property
    def dropped_keys(self) -> Sequence[str]:
        """The keys that `drop_oldest` dropped, in order of their opening."""
        return self._dropped

    def surplus(self) -> int:
        """How many keys more than allowed are open, after closing expired ones among those open longest."""
        for key in list(islice(self._expired_keys(), max(0, self._surplus()))):
            cell = self.cell(key)
            if cell is not None:
                self.pass_time(key, cell)
        self._forget_finished()
        return max(0, self._surplus())

    @property
    def growth(self) -> int:
        """The number of open keys minus that when the signal arrived; may be negative."""
        return self._grown

    def drop_oldest(self) -> None:
        """Drops the keys open longest beyond the limit, after evaluating what is due for them."""
        self._forget_finished()
        for key in list(islice(self.open_keys(), max(0, self._surplus()))):
            cell = self.cell(key)
            if cell is not None:
                self.pass_time(key, cell)
            left = self.cell(key)
            if left is not None:
                self._lost += 1
                self._dropped.append(key)
                self._close(key, left)

    def result(self, verdict: JudgedEvent | None = None) -> Folded:
        """The result of the signal."""
        state, jobs, lost = self._state, self._jobs, self._lost
        if jobs or lost:
            state = state._replace(
                sequence=state.sequence + jobs, lost=state.lost + lost, dropped=state.dropped + len(self._dropped)
            )
        if self._without_key is not None:
            state = state._replace(keyless=state.keyless + 1, keyless_why=self._without_key)
        return Folded(state, tuple(self._effects), verdict, self._changed)

    @property
    def _policy(self) -> OnCorrection | None:
        return self._state.plan.on_correction

    @property
    def _latest_job(self) -> str:
        """The id of the latest job of the schedule's generation."""
        state = self._state
        return job_id(state.schedule, state.generation, state.sequence + self._jobs)

    def _launch(self, key: str, satisfactions: Sequence[Satisfaction], corrects: str = "") -> None:
        found = launches(self._state, key, satisfactions, self._jobs, corrects)
        self._jobs += len(found)
        self._effects += found

    def _keep(self, key: str, cell: Cell) -> None:
        kept, wakes = with_wakes(self._state.definition, key, cell)
        self._effects += wakes
        self._grown += self.cell(key) is None
        self._changed[key] = kept

    def _settle_finished(self, key: str, cell: Cell) -> Cell | None:
        """Makes a job of the corrections that are due, and forgets an expired key. Returns the cell that is left."""
        due = correction_due_at(self._state.plan, cell)
        if due is not None and due <= self._at and self._state.fires:
            cell = self._rerun(key, cell, due)
        if self._is_expired(cell):
            self._lost += bool(cell.accumulations)
            self._close(key, cell)
            return None
        self._keep(key, cell)
        return self.cell(key)

    def _correct(self, key: str, cell: Cell, leaf_events: Sequence[LeafEvent]) -> list[str]:
        """Takes an event for a finished key. Returns the ids of the leaves that count it."""
        if self._statistics:
            self.outdated = f"it brings bytes and rows of a commit that came before, and key {key} has fired since"
            return []
        after, taken = correct(cell, leaf_events, self._at)
        if not taken or cell.finished is None or self._policy is None:
            return []
        self.corrected[key] = cell.finished.job
        if self._policy.quiet is None:
            return []
        self.adding = True
        if self._state.fires and is_crowded(after):
            after = self._rerun(key, after, self._at)
        self._settle_finished(key, after)
        return taken

    def _rerun(self, key: str, cell: Cell, at: datetime) -> Cell:
        assert cell.finished is not None
        satisfaction = Satisfaction(at, contributions(self._state.plan, cell))
        self._launch(key, [satisfaction], cell.finished.job)
        return finish(cell, self._latest_job, at)

    def _forget_finished(self) -> None:
        """Forgets as many finished keys as are too many, those first that opened first."""
        if self._policy is None or self._surplus() <= 0:
            return
        finished = (
            key for key in self.open_keys() if (cell := self.cell(key)) is not None and cell.finished is not None
        )
        for key in list(islice(finished, self._surplus())):
            cell = self.cell(key)
            if cell is not None and cell.accumulations and self._state.fires:
                cell = self._rerun(key, cell, self._at)
            if cell is not None:
                self._lost += bool(cell.accumulations)
                self._close(key, cell)

    def _begin_key(self, key: str, leaf_events: Sequence[LeafEvent]) -> CellUpdate:
        """The update of a key that opens with an event."""
        update = self._update(key, EMPTY)
        update.begin(self._at)
        update.count(leaf_events, self._at, fires=self._state.fires)
        return update

    def _compare_reruns(self, key: str, cell: Cell, leaf_events: Sequence[LeafEvent]) -> int:
        """Positive when the event comes from a later rerun of the key's run than what the cell has counted, negative
        when from an earlier one. All that a cell has counted comes from the same.
        """
        per = self._state.plan.per
        if per is None or per.run_of is None:
            return 0
        counted = next((has.events for has in cell.accumulations.values() if has.events), None)
        return 0 if counted is None else rerun_of(leaf_events[0].event, key) - rerun_of(next(iter(counted)), key)

    def _update(self, key: str, cell: Cell) -> CellUpdate:
        return CellUpdate(self._state.plan, cell, self._state.consumption, key)

    def _surplus(self) -> int:
        per = self._state.plan.per
        return 0 if per is None else len(self._cells) + self._grown - per.at_most

    def _expired_keys(self) -> Iterator[str]:
        """The expired keys, in order of opening, up to the first one that has not expired."""
        for key in self.open_keys():
            cell = self.cell(key)
            if cell is None or not self._is_expired(cell):
                return
            yield key

    def _close(self, key: str, before: Cell) -> None:
        self._grown -= self.cell(key) is not None
        if key in self._cells or key in self._changed:
            self._changed[key] = None
        if before.asked is not None:
            self._effects.append(Wake(self._state.schedule, self._state.generation, key, None))

    def _is_expired(self, cell: Cell) -> bool:
        end = expires_at(self._state.plan, cell)
        return end is not None and end <= self._at

    def _is_new(self, key: str, cell: Cell) -> bool:
        return key not in self._cells or self._cells[key].number != cell.number
