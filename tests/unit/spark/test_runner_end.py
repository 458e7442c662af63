"""A run whose program has ended ends, whatever becomes of its heartbeat."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streamsched.domain.errors import UnavailableError
from streamsched.domain.names import ProgramRef
from streamsched.domain.run import RunState
from streamsched.domain.schedule import BashJob, Program
from streamsched.ports.clock import SystemClock
from streamsched.ports.runs import Assignment, Ending, Stop
from streamsched.spark.command import Installation
from streamsched.spark.runner import Pace, Runner

PROGRAM = Program(ProgramRef("default", "app", "load"), BashJob("true"))


class DeafBook:
    """A PostgreSQL that goes away while a heartbeat is cancelled: the first cancellation becomes its error."""

    def __init__(self) -> None:
        self.lost = 0
        self.ended: list[Ending] = []

    async def claim(self, run: str, *, runner: str, log_path: str, now: datetime) -> Assignment | None:
        return Assignment(run, 1, PROGRAM, {})

    async def started(self, run: str, *, runner: str, now: datetime) -> None:
        return None

    async def beat(self, run: str, *, runner: str, now: datetime) -> Stop | None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError as exc:
            if not self.lost:
                self.lost += 1
                raise UnavailableError("the server went away") from exc
            raise
        return None

    async def finish(self, run: str, ending: Ending) -> bool:
        self.ended.append(ending)
        return True


@pytest.mark.timeout(60)
async def test_a_run_ends_when_the_cancellation_of_its_heartbeat_is_lost(tmp_path: Path) -> None:
    book = DeafBook()
    place = Installation(data_dir=tmp_path, spark_master="local[1]", emit_url="http://127.0.0.1:1", environ=os.environ)
    runner = Runner(book, SystemClock(), place, Pace(heartbeat=timedelta(milliseconds=10)))

    ending = await runner.execute("default.app.plain.1.1.r1")

    assert ending is not None
    assert (ending.state, book.lost) == (RunState.COMPLETED, 1)
    assert book.ended == [ending]
    assert ending.at <= datetime.now(UTC)
