"""The store of one run, in memory, for a runner without PostgreSQL."""

from __future__ import annotations

from datetime import datetime

from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.domain.names import ProgramRef
from streamsched.domain.programs.driver import Driver
from streamsched.domain.schedules.schedule import Executable, Program
from streamsched.ports.runs import Assignment, RunEnd, StopRequest


class RunBook:
    """A `RunStore` that gives out one program, asks for no stop, and keeps how the run ended."""

    def __init__(self, executable: Executable, program: str = "load") -> None:
        self.program = Program(ProgramRef("default", "app", program), executable)
        self.ended: list[RunEnd] = []

    async def claim(self, run: str, *, runner: str, log_path: str | None, now: datetime) -> Assignment | None:
        return Assignment(run, 1, self.program, {})

    async def mark_started(self, run: str, *, runner: str, now: datetime, start: str = "") -> None: ...

    async def store_driver(self, run: str, *, runner: str, driver: Driver, now: datetime) -> None: ...

    async def heartbeat(
        self, run: str, *, runner: str, now: datetime, metrics: RunMetrics | None = None
    ) -> StopRequest | None: ...

    async def finish(self, run: str, ending: RunEnd) -> bool:
        self.ended.append(ending)
        return True
