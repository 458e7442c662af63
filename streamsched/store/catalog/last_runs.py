"""What a `SinceLastRun` depends on: the jobs and runs of schedules, read in one statement and so from one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.domain.limits import add_duration
from streamsched.domain.ticks.since_last_run import RunActivity
from streamsched.domain.triggers.leaf import since_last_run_of
from streamsched.store.connections import Executor
from streamsched.store.sql import Select, queries

_SQL: Final = queries("catalog/last_runs")


class _LastRun(NamedTuple):
    """Whether something of a schedule runs or waits, else when the last end was; the generation and number of its
    latest job.
    """

    schedule: str
    leaf: str
    active: bool
    ended_at: datetime | None
    generation: int
    sequence: int


_LAST_RUNS: Final = Select(_SQL["last_runs"], _LastRun)


async def last_runs_of(
    executor: Executor, timers: Sequence[tuple[str, str, datetime]]
) -> Mapping[tuple[str, str], RunActivity]:
    """The last runs for these timers, by schedule and leaf id. Timers of other leaves are omitted.

    A timer is schedule, leaf id and an instant: ends matter that are less than the leaf's duration before it.
    """
    wanted = [
        (schedule, leaf, add_duration(at, -duration))
        for schedule, leaf, at in timers
        if (duration := since_last_run_of(leaf)) is not None
    ]
    if not wanted:
        return {}
    rows = await _LAST_RUNS.fetch(executor, *(list(column) for column in zip(*wanted, strict=True)))
    return {
        (row.schedule, row.leaf): RunActivity(row.active, row.ended_at, (row.generation, row.sequence)) for row in rows
    }
