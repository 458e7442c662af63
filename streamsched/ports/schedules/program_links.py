"""Which schedules start which programs, and the joins per run of an ancestor that depend on it."""

from __future__ import annotations

from typing import NamedTuple

from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.triggers.trigger import Trigger


class ProgramLink(NamedTuple):
    """A schedule of another app of the namespace: what starts its program."""

    schedule: ScheduleRef
    program: ProgramRef
    trigger: Trigger


class ForeignWait(NamedTuple):
    """A schedule that waits for a program of another namespace."""

    schedule: ScheduleRef
    program: ProgramRef


class BrokenJoin(NamedTuple):
    """A schedule that joins ends of programs per run of an ancestor from which one of them descends no more."""

    schedule: ScheduleRef
    ancestor: ProgramRef
    program: ProgramRef

    def __str__(self) -> str:
        return f"joins per run of {self.ancestor}, which leads no more to {self.program}: its runs would not count"
