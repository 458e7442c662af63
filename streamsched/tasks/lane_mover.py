"""Changes the number of partitions of lanes while tasks are delivered (ADR 25).

The owner of partition 0 does it, in the background. Every step can be repeated, so a process that is killed in between
is followed by another that begins again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn, assert_never

import structlog

from streamsched.domain.tasks.layout import LayoutStep
from streamsched.process.run_forever import run_forever
from streamsched.store.tasks.partitions import MoveResult, TaskPartitions

log = structlog.get_logger()

#: Lanes that are read in one transaction; those to be moved are locked meanwhile.
_AT_ONCE: Final = 1000
#: Seconds between two checks while nothing is to do, and while owners or lanes in flight are awaited.
_IDLE_S: Final = 2.0
_AWAIT_S: Final = 0.2


class LaneMover:
    """Belongs to one event loop. `leads`: whether this process moves the lanes; two at a time do no harm."""

    def __init__(self, partitions: TaskPartitions, *, leads: Callable[[], bool]) -> None:
        self._partitions = partitions
        self._leads = leads
        self._after: str | None = ""
        self._towards = 0
        self._moved = 0

    async def run(self) -> NoReturn:
        """Runs until cancelled."""
        await run_forever(self.step, called="task_partitions")

    async def step(self) -> float:
        """One step of a change, if one was asked for. Returns the seconds until the next.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        if not self._leads():
            return _IDLE_S
        found = await self._partitions.get()
        wanted = found.layout.wanted
        match found.step:
            case LayoutStep.NOTHING:
                return _IDLE_S
            case LayoutStep.AWAIT_OWNERS:
                return _AWAIT_S
            case LayoutStep.SWITCH:
                await self._partitions.switch(wanted)
                self._begin(wanted)
                log.info("tasks.resharding", before=found.layout.partitions, partitions=wanted)
                return 0
            case LayoutStep.MOVE:
                if self._towards != wanted:
                    self._begin(wanted)
                return await self._move()
            case other:
                assert_never(other)

    async def _move(self) -> float:
        if self._after is not None:
            self._after, moved = await self._partitions.move(self._after, limit=_AT_ONCE)
            self._moved += moved
            return 0
        match await self._partitions.settle(self._towards):
            case MoveResult.DONE:
                log.info("tasks.resharded", partitions=self._towards, lanes=self._moved)
                self._towards = 0
                return 0
            case MoveResult.BUSY:
                return _AWAIT_S
            case MoveResult.LEFT:
                self._after = ""
                return _AWAIT_S
            case other:
                assert_never(other)

    def _begin(self, towards: int) -> None:
        self._towards, self._after, self._moved = towards, "", 0
