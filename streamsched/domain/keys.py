"""The open keys of a schedule that correlates, while one signal changes some of them.

A key opens with the first event that counts under it. It closes when nothing of it is left, or when it expires: what
was due before is judged first, as everywhere, so a late wake-up changes no decision. When too many keys are open, those
that have been longest go; a key that is due and has not been woken yet is still open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import cast

from streamsched.domain.cell import EMPTY, Cell, expires_at
from streamsched.domain.draft import Draft, Share
from streamsched.domain.effect import Effect, Wake
from streamsched.domain.state import Folded, TriggerState, asking, launches
from streamsched.domain.verdict import Judged


class OpenKeys:
    """`cells` are those of the open keys, in order of their opening; they are read, never changed."""

    def __init__(self, state: TriggerState, at: datetime, cells: Mapping[str, Cell]) -> None:
        self._state = state
        self._at = at
        self._cells = cells
        self._changed: dict[str, Cell | None] = {}
        self._effects: list[Effect] = []
        self._jobs = 0
        self._lost = 0

    def cell(self, key: str) -> Cell | None:
        """The cell of a key as it is now; None when it is not open."""
        return self._changed[key] if key in self._changed else self._cells.get(key)

    def open(self) -> Iterator[str]:
        """The keys that are open now, in order of their opening."""
        for key, cell in self._cells.items():
            now = self.cell(key)
            if now is not None and now.number == cell.number:
                yield key
        new = [
            (cell.number, key) for key, cell in self._changed.items() if cell is not None and self._is_new(key, cell)
        ]
        yield from (key for _, key in sorted(new))

    def elapse(self, key: str, cell: Cell) -> Draft:
        """The cell with its time passed, though not beyond its end."""
        definition, end = self._state.definition, expires_at(self._state.plan, cell)
        draft = self._draft(key, cell)
        draft.elapse(self._at if end is None else min(self._at, end), fires=definition.enabled)
        return draft

    def count(self, key: str, shares: Sequence[Share]) -> list[str]:
        """An event counts under a key, once its time has passed; ids of the leaves where it does."""
        at, fires = self._at, self._state.enabled
        known = self.cell(key)
        if known is not None:
            draft = self.elapse(key, known)
            if not draft.empty and not self._expired(known):
                draft.count(shares, at, fires=fires)
                if draft.changed:
                    self.settle(key, known, draft)
                return draft.counted
            self.settle(key, known, draft)
        draft = self._draft(key, EMPTY)
        draft.begin(at)
        draft.count(shares, at, fires=fires)
        if draft.counted:
            self.settle(key, EMPTY._replace(opened_at=at, number=self._next_number()), draft)
        return draft.counted

    def settle(self, key: str, before: Cell, draft: Draft) -> None:
        """What a draft made of a key: its jobs go out, and it stays open unless it expired or nothing of it is left."""
        found = launches(self._state, key, draft.satisfactions, self._jobs)
        self._jobs += len(found)
        self._effects += found
        if draft.empty or self._expired(before):
            self._lost += not draft.empty
            self._close(key, before)
            return
        cell, wakes = asking(self._state.definition, key, draft.cell(before))
        self._effects += wakes
        self._changed[key] = cell

    def make_room(self) -> None:
        """No more keys are open than may be. Of those that go, what is due already is judged first."""
        per = self._state.plan.per
        opened = sum(cell is not None and key not in self._cells for key, cell in self._changed.items())
        closed = sum(cell is None and key in self._cells for key, cell in self._changed.items())
        surplus = 0 if per is None else len(self._cells) + opened - closed - per.at_most
        if surplus <= 0:
            return
        for key, _ in zip(tuple(self.open()), range(surplus), strict=False):
            cell = self.cell(key)
            if cell is not None:
                self.settle(key, cell, self.elapse(key, cell))
            left = self.cell(key)
            if left is not None:
                self._lost += 1
                self._close(key, left)

    def folded(self, verdict: Judged | None = None) -> Folded:
        """What the signal did."""
        state, jobs, lost = self._state, self._jobs, self._lost
        if jobs or lost:
            state = TriggerState(state.definition, state.sequence + jobs, state.cell, state.lost + lost)
        return Folded(state, tuple(self._effects), verdict, self._changed)

    def _draft(self, key: str, cell: Cell) -> Draft:
        return Draft(self._state.plan, cell, self._state.consumption, key)

    def _close(self, key: str, before: Cell) -> None:
        if key in self._cells or key in self._changed:
            self._changed[key] = None
        if before.asked is not None:
            self._effects.append(Wake(self._state.schedule, self._state.generation, key, None))

    def _expired(self, cell: Cell) -> bool:
        end = expires_at(self._state.plan, cell)
        return end is not None and end <= self._at

    def _is_new(self, key: str, cell: Cell) -> bool:
        return key not in self._cells or self._cells[key].number != cell.number

    def _next_number(self) -> int:
        numbers = [cell.number for cell in self._changed.values() if cell is not None]
        if self._cells:
            newest = next(reversed(cast("dict[str, Cell]", self._cells)))
            numbers.append(self._cells[newest].number)
        return max(numbers, default=0) + 1
