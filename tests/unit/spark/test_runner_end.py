"""A run whose program has ended ends, whatever becomes of its heartbeat and its files."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streamsched.domain.errors import UnavailableError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.domain.schedules.schedule import BashJob
from streamsched.ports.clock import SystemClock
from streamsched.ports.runs import RunEnd, StopRequest
from streamsched.spark.command import RunEnvironment
from streamsched.spark.runner import Runner, Timing
from tests.support.run_book import RunBook

RUN = "default.app.plain.1.1.r1"


class DeafBook(RunBook):
    """A PostgreSQL that goes away while a heartbeat is cancelled: the first cancellation becomes its error."""

    def __init__(self, command: str = "true") -> None:
        super().__init__(BashJob(command))
        self.lost = 0

    async def heartbeat(
        self, run: str, *, runner: str, now: datetime, metrics: RunMetrics | None = None
    ) -> StopRequest | None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError as exc:
            if not self.lost:
                self.lost += 1
                raise UnavailableError("the server went away") from exc
            raise
        return None


async def executed(run_store: DeafBook, data_dir: Path) -> RunEnd | None:
    site = RunEnvironment(data_dir=data_dir, spark_master="local[1]", emit_url="http://127.0.0.1:1", environ=os.environ)
    return await Runner(run_store, SystemClock(), site, Timing(heartbeat=timedelta(milliseconds=10))).execute(RUN)


@pytest.mark.timeout(60)
async def test_a_run_ends_when_the_cancellation_of_its_heartbeat_is_lost(tmp_path: Path) -> None:
    run_store = DeafBook()

    ending = await executed(run_store, tmp_path)

    assert ending is not None
    assert (ending.state, run_store.lost) == (RunState.COMPLETED, 1)
    assert run_store.ended == [ending]
    assert ending.at <= datetime.now(UTC)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("command", "state", "reason"),
    [
        ("rm -r {place}/runs", RunState.COMPLETED, "exit code 0"),
        ("echo words; rm -r {place}/runs; exit 3", RunState.FAILED, "exit code 3: words"),
        ("echo words; rm -r {place}; exit 3", RunState.FAILED, "exit code 3"),
    ],
)
async def test_a_disk_that_takes_and_gives_nothing_changes_no_end(
    tmp_path: Path, command: str, state: RunState, reason: str
) -> None:
    place = tmp_path / "data"
    run_store = DeafBook(command.format(place=place))

    await executed(run_store, place)

    assert [(ending.state, ending.reason) for ending in run_store.ended] == [(state, reason)]


@pytest.mark.timeout(60)
async def test_a_program_without_a_log_ends_with_the_reason(tmp_path: Path) -> None:
    run_store = DeafBook()
    (tmp_path / "logs" / f"{RUN}.log").mkdir(parents=True)

    await executed(run_store, tmp_path)

    [ending] = run_store.ended
    assert ending.state is RunState.FAILED
    assert ending.reason.startswith("the program cannot be started: [Errno 21] Is a directory")
