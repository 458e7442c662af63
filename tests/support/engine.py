"""One schedule's home in a few lines: the fold, the cells of open keys and the wake-ups that were asked for.

For tests that need no log and no store. Wake-ups come when they are let: at their time, later, or never.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from streamsched.domain.fold.cell import Cell
from streamsched.domain.fold.effect import Launch, Wake
from streamsched.domain.fold.fold import Folded, TriggerState, fold
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.signal import Signal, Woken


@dataclass
class Engine:
    """Attributes:
    asked: cell → the wake-up that stands for it.
    jobs: in order of their becoming visible, each with when that was.
    """

    schedule: ScheduleRef
    state: TriggerState | None = None
    cells: dict[str, Cell] = field(default_factory=dict)
    asked: dict[str, datetime] = field(default_factory=dict)
    jobs: list[tuple[datetime, ReadyJob]] = field(default_factory=list)

    def tell(self, at: datetime, signal: Signal) -> Folded:
        """The log's next record."""
        folded = fold(self.state, signal, at=at, cells=self.cells)
        self.state = folded.state
        for key, cell in folded.cells.items():
            known = self.cells.get(key)
            if cell is None or (known is not None and known.number != cell.number):
                self.cells.pop(key, None)
            if cell is not None:
                self.cells[key] = cell
        for effect in folded.effects:
            if isinstance(effect, Launch):
                self.jobs.append((at, effect.job))
            elif isinstance(effect, Wake) and effect.at is None:
                self.asked.pop(effect.cell, None)
            elif isinstance(effect, Wake) and effect.at is not None:
                self.asked[effect.cell] = effect.at
        return folded

    def wake(self, key: str, at: datetime) -> Folded:
        """The wake-up that stands for a cell comes, at this time."""
        due_at = self.asked.pop(key)
        return self.tell(at, Woken(self.schedule, 0 if self.state is None else self.state.generation, key, due_at))

    def wake_up(self, to: datetime) -> None:
        """All that is due comes, each at its time, as often as more is asked for."""
        while due := [(at, key) for key, at in self.asked.items() if at <= to]:
            at, key = min(due)
            self.wake(key, at)

    def wake_up_late(self, at: datetime) -> None:
        """All that is due comes now."""
        while due := [key for key, asked in self.asked.items() if asked <= at]:
            self.wake(min(due), at)


def reported(log: Iterable[tuple[datetime, Signal]], schedule: ScheduleRef, *, end: datetime, prompt: bool) -> Engine:
    """What a log does, with wake-ups at their time or only at the end."""
    engine = Engine(schedule)
    for at, signal in log:
        if prompt:
            engine.wake_up(at)
        engine.tell(at, signal)
    if prompt:
        engine.wake_up(end)
    engine.wake_up_late(end)
    return engine
