"""Questions to a database."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, Final, Literal, TypeVar

import asyncpg

from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from tests.support.world.rows import HistoryLine, StoredJob, StoredNode, StoredRun, StoredSlot, StoredTask

Row = TypeVar("Row", StoredJob, StoredRun, StoredSlot, StoredNode, StoredTask, HistoryLine)
Text = Literal["schedules", "programs", "jobs", "verdicts", "arguments", "executables", "expectations"]
#: Where a stored text is: its table and column.
TEXTS: Final[Mapping[Text, tuple[str, str]]] = {
    "schedules": ("schedules", "definition"),
    "programs": ("programs", "definition"),
    "jobs": ("jobs", "ready"),
    "verdicts": ("jobs", "waiting"),
    "arguments": ("runs", "arguments"),
    "executables": ("runs", "executable"),
    "expectations": ("expectations", "definition"),
}


class Questions:
    """Answers are typed rows, in an order that is named."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self.pool = pool

    # Jobs and runs

    async def stored_jobs(self) -> list[StoredJob]:
        """By schedule, generation and number."""
        return await self._read(StoredJob, "FROM jobs ORDER BY schedule, generation, sequence, id")

    async def job(self, job: str) -> StoredJob:
        [found] = await self._read(StoredJob, "FROM jobs WHERE id = $1", job)
        return found

    async def waiting(self) -> list[StoredJob]:
        """Jobs that wait for their constraints, by schedule, generation and number."""
        return [each for each in await self.stored_jobs() if each.state == JobState.PENDING_CONSTRAINT]

    async def stored_runs(self, job: str | None = None) -> list[StoredRun]:
        """By id: all, or those of a job."""
        found = await self._read(StoredRun, "FROM runs ORDER BY id")
        return [each for each in found if job is None or each.job == job]

    async def run(self, run: str) -> StoredRun:
        [found] = await self._read(StoredRun, "FROM runs WHERE id = $1", run)
        return found

    async def run_states(self) -> list[RunState]:
        """By the id of the run."""
        return [each.state for each in await self.stored_runs()]

    async def active(self) -> list[StoredRun]:
        """Runs that have not ended, by id."""
        return [each for each in await self.stored_runs() if each.ended_at is None]

    async def pending(self) -> list[str]:
        """Ids of the runs that no runner has claimed, in order."""
        return [each.id for each in await self.stored_runs() if each.state == RunState.PENDING]

    # What they hold and wait for

    async def slots(self, group: str | None = None) -> list[StoredSlot]:
        """By group and run."""
        found = await self._read(StoredSlot, "FROM group_slots ORDER BY group_name, run")
        return [each for each in found if group is None or each.group_name == group]

    async def holders(self, group: str | None = None) -> list[str]:
        """The runs that hold slots, by group and run."""
        return [each.run for each in await self.slots(group)]

    async def group_waits(self) -> list[str]:
        """Jobs that wait for slots."""
        return await self._column("SELECT job FROM group_waits ORDER BY job")

    async def lane_waits(self) -> list[str]:
        """Jobs that wait for their lane."""
        return await self._column("SELECT job FROM lane_waits ORDER BY job")

    async def line(self) -> list[str]:
        """Jobs that wait in the line of a pool, in their order."""
        return await self._column("SELECT job FROM lines ORDER BY turn_at, sequence")

    async def meters(self) -> list[str]:
        """Scopes whose tokens are counted, in order."""
        return await self._column("SELECT scope FROM meters ORDER BY scope")

    async def deadlines(self) -> list[tuple[str, datetime]]:
        """Runs whose deadlines are not settled, and when each is due."""
        return [tuple(row) for row in await self.pool.fetch("SELECT run, due_at FROM deadlines ORDER BY run, due_at")]

    # What was told

    async def history(
        self, subject: str | None = None, *, kind: str | None = None, action: str | None = None
    ) -> list[HistoryLine]:
        """Oldest first: all, or those of a subject, a kind of subject, an action."""
        return await self._read(
            HistoryLine,
            "FROM decisions WHERE ($1::text IS NULL OR subject = $1) AND ($2::text IS NULL OR subject_kind = $2)"
            " AND ($3::text IS NULL OR action = $3) ORDER BY id",
            *(subject, kind, action),
        )

    async def actions(self, subject: str | None = None, *, kind: str | None = None) -> list[str]:
        """Those of the history, oldest first."""
        return [each.action for each in await self.history(subject, kind=kind)]

    async def reasons(
        self, subject: str | None = None, *, kind: str | None = None, action: str | None = None
    ) -> list[str]:
        """Those of the history, oldest first."""
        return [each.reason for each in await self.history(subject, kind=kind, action=action)]

    async def published(self, topic: str | None = None) -> list[bytes]:
        """Values that wait in the outbox, in their order."""
        return await self._column("SELECT value FROM outbox WHERE $1::text IS NULL OR topic = $1 ORDER BY id", topic)

    async def size(self, table: str) -> int:
        """How many rows."""
        return await self.pool.fetchval(f"SELECT count(*) FROM {table}")

    async def everything(self) -> dict[str, list[dict[str, Any]]]:
        """Jobs, runs, slots, history and outbox, without numbers that only a database gives."""
        return {
            table: [dict(row) for row in await self.pool.fetch(f"SELECT {columns} FROM {table} ORDER BY {columns}")]
            for table, columns in {
                "runs": "id, job, attempt, state, reason, arguments, executable, runner, log_path, spawn_at, "
                "deadline_at, created_at, started_at, ended_at, exit_code",
                "jobs": "id, state, reason, ended_at, next_check_at, ready",
                "group_slots": "run, group_name, weight",
                "decisions": "subject, action, reason, subject_kind, at",
                "outbox": "key, value, topic",
            }.items()
        }

    # Graphs and tasks

    async def tasks(self, queue: str | None = None) -> list[StoredTask]:
        """By lane and key: all, or those of a queue."""
        found = await self._read(StoredTask, "FROM tasks ORDER BY lane, key")
        return [each for each in found if queue is None or each.queue == queue]

    async def nodes(self, task: str | None = None) -> list[StoredNode]:
        """By task and job id: all, or those of a task."""
        found = await self._read(StoredNode, "FROM graph_nodes ORDER BY task, job_id")
        return [each for each in found if task is None or each.task == task]

    # The rest

    async def launchers(self) -> list[str]:
        """Runners of the launchers that have a lease, in order."""
        return await self._column("SELECT runner FROM launchers ORDER BY runner")

    async def text(self, what: Text, ident: str) -> Any:
        """What is stored, as JSON."""
        table, column = TEXTS[what]
        return await self.pool.fetchval(f"SELECT {column} FROM {table} WHERE id = $1", ident)

    async def blocked(self, sessions: int = 1) -> None:
        """Until so many sessions wait for a lock."""
        async with asyncio.timeout(30):
            while await self.pool.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") < sessions:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def _read(self, row: type[Row], rest: str, *arguments: Any) -> list[Row]:
        columns = ", ".join(each.name for each in fields(row))
        return [row(*found) for found in await self.pool.fetch(f"SELECT {columns} {rest}", *arguments)]

    async def _column(self, sql: str, *arguments: Any) -> list[Any]:
        return [row[0] for row in await self.pool.fetch(sql, *arguments)]
