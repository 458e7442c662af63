"""A consumer that remembers: what a failed run had, the next one gets."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamsched.domain.errors import NotFoundError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.spark.context import RunContext
from streamsched.spark.pfs import PartitionedFileSet
from tests.integration.tables.conftest import RecordingEmitter, Server
from tests.support.world import StoredWorld

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


@pytest.mark.parametrize("scheme", ["", "file://"])
async def test_all_since_the_last_success(server: Server, tmp_path: Path, spark: SparkSession, scheme: str) -> None:
    environ = {"STREAMSCHED_URL": server.url}
    flights = PartitionedFileSet("flights", f"{scheme}{tmp_path}/flights", emitter=RecordingEmitter(), environ=environ)

    def write(day: int, mode: str = "append") -> None:
        flights.write(spark.createDataFrame([(day, day)], "day int, n int"), partition_by=["day"], mode=mode)

    async def consume(run: str, reader: str = "") -> list[int]:
        context = RunContext(run, ProgramRef("default", "air", "join"))
        frame = await asyncio.to_thread(flights.consume, context, spark, reader=reader)
        return sorted(row.day for row in frame.collect())

    async def begin(*runs: str) -> None:
        for run in runs:
            world, now = StoredWorld(server.services.pool), datetime.now(UTC)
            await world.add_run(run, program="default.air.join", at=now, state=RunState.PENDING)

    async def end(run: str, state: str) -> None:
        await StoredWorld(server.services.pool).end_run(run, RunState(state), datetime.now(UTC))

    await begin("r1", "r2", "r3", "r4")
    with pytest.raises(NotFoundError, match=r"default\.flights"):
        await consume("r1", "nothing-yet")
    write(1)
    write(2)
    assert await consume("r1") == [1, 2]
    write(3)
    assert await consume("r1") == [1, 2]
    await end("r1", "FAILED")
    assert await consume("r2") == [1, 2, 3]
    write(1)
    await end("r2", "COMPLETED")
    write(3, mode="overwrite_partitions")
    assert await consume("r3") == [1, 3]
    await end("r3", "COMPLETED")
    assert await consume("r4") == []
    assert await consume("r4", "another") == [1, 1, 2, 3]
    with pytest.raises(NotFoundError, match="unknown"):
        await consume("unknown")
