"""Fences of runs that were given up, as launchers write them (ADR 23): columns of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from streamsched.codec.schedules.schedule import program_from_json
from streamsched.domain.backoff import double_pause
from streamsched.domain.jobs.run import run_id
from streamsched.domain.limits import add_duration
from streamsched.domain.programs.output import UNDECLARED, UNFENCED, ProgramOutput, fence_text
from streamsched.domain.schedules.schedule import InlineExecutable
from streamsched.ports.runs import Assignment
from streamsched.store.catalog.history import record
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.runs.ending import program_of
from streamsched.store.runs.rows import StoredRun
from streamsched.store.sql import Select, queries

_SQL: Final = queries("runs/fences")

#: Seconds until a fence is tried again: after the first time, and at most.
_FIRST_S: Final = 90.0
_LONGEST_S: Final = 6 * 3600.0
#: How often a fence is tried; then the run says for good that it may still commit.
MOST_TRIES: Final = 12


class _OrderRow(NamedTuple):
    id: str
    attempt: int
    executable: Any
    arguments: Mapping[str, str]
    job: str | None


_ORDER: Final = Select(_SQL["order"], _OrderRow)


@dataclass(frozen=True, slots=True)
class FenceOrder:
    """A run whose job is to commit no more."""

    assignment: Assignment

    @property
    def job(self) -> str:
        """The author of its commits: the job, or of a run without one the run."""
        return self.assignment.job or self.assignment.run

    @property
    def attempt(self) -> int:
        """Of the fence: one more than the run's."""
        return self.assignment.attempt + 1

    @property
    def outputs(self) -> Sequence[ProgramOutput]:
        """Those of its program."""
        return self.assignment.program.outputs


async def request_fence(connection: Connection, row: StoredRun, *, at: datetime, may_live: bool = True) -> None:
    """Within the end of this locked run, which no attempt follows: its fence is due when its process may live, or
    that of an earlier attempt, which was lost. Programs that launchers execute themselves commit nothing.
    """
    program = program_of(row)
    if program is None or isinstance(program.executable, InlineExecutable):
        return
    text, due = (UNFENCED, at) if program.outputs else (UNDECLARED, None)
    earlier = [run_id(row.job or row.id, each) for each in range(1, row.attempt)]
    await connection.execute(_SQL["want"], row.id, text, due, may_live, earlier)


class FenceStore:
    """The fences that are to be written. Every method raises `UnavailableError` when PostgreSQL does not answer."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def claim_due(self, now: datetime, *, limit: int) -> Sequence[str]:
        """Runs to be fenced now, each for one caller; again ever more seldom, until `store_result` or `MOST_TRIES`."""
        pauses = [
            timedelta(seconds=double_pause(_FIRST_S, tries, longest=_LONGEST_S)) for tries in range(MOST_TRIES - 1)
        ]
        again = [add_duration(now, pause) for pause in pauses]
        with translate_errors():
            return [row["id"] for row in await self._pool.fetch(_SQL["due"], now, again, limit)]

    async def order(self, run: str) -> FenceOrder | None:
        """What is to be fenced; None when there is nothing any more."""
        with translate_errors():
            row = await _ORDER.fetchrow(self._pool, run)
        if row is None:
            return None
        program = program_from_json(row.executable)
        return FenceOrder(Assignment(row.id, row.attempt, program, row.arguments, row.job))

    async def raise_epochs(self, order: FenceOrder) -> frozenset[str]:
        """Fences the outputs whose commits are rows behind the API; returns their names. Idempotent."""
        datasets = [str(each.dataset) for each in order.outputs]
        with translate_errors():
            rows = await self._pool.fetch(_SQL["raise_epochs"], datasets, order.job, order.attempt)
        return frozenset(row["dataset"] for row in rows)

    async def store_result(self, run: str, found: Mapping[str, str], *, now: datetime) -> None:
        """Stores for each output why it is not fenced, "" when it is; the latter for all is not tried again."""
        text = fence_text(found)
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                done = not any(found.values())
                if await connection.fetchval(_SQL["written"], run, text, done) is not None:
                    await record(connection, "run", run, "run.fenced" if done else "run.not_fenced", text, at=now)
