"""Changes of a database that no class of the product makes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from streamsched.codec.schedules.schedule import program_to_json
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.schedule import Program
from tests.support.world.questions import TEXTS, Questions, Text

_LIVE: Final = "jobs, runs, groups, decisions, outbox, schedules"


class StoredWorld(Questions):
    """One database of the product: what it holds, and what becomes of that without the product."""

    # Definitions

    async def put_program(self, program: Program) -> None:
        """The program of app `default.app` is this, whatever it was."""
        await self.pool.execute(
            "INSERT INTO programs VALUES ($1, 'default.app', $2, now(), now()) ON CONFLICT (id) DO UPDATE "
            "SET definition = excluded.definition",
            *(str(program.ref), program_to_json(program)),
        )

    async def enable(self, schedule: str | None = None, *, enabled: bool = True) -> None:
        """The schedule, or all; none is drained any more."""
        await self.pool.execute(
            "UPDATE schedules SET enabled = $2, draining_in = NULL WHERE $1::text IS NULL OR id = $1",
            *(schedule, enabled),
        )

    async def disable(self, schedule: str | None = None) -> None:
        await self.enable(schedule, enabled=False)

    async def drain(self) -> None:
        """Every schedule starts nothing new and finishes what waits."""
        await self.pool.execute(
            "UPDATE schedules SET enabled = false, draining_in = generation, kept_in = generation, "
            "kept_from = generation"
        )

    async def delete_schedule(self, schedule: str | None = None) -> None:
        """The schedule, or all, as a deployment that prunes it leaves it."""
        await self.pool.execute(
            "UPDATE schedules SET enabled = false, deleted_at = now() WHERE $1::text IS NULL OR id = $1", schedule
        )

    async def change_generation(self, schedule: str | None = None, *, enabled: bool = True) -> None:
        """As a deployment of a changed schedule leaves it."""
        await self.pool.execute(
            "UPDATE schedules SET generation = 2, enabled = $2 WHERE $1::text IS NULL OR id = $1", schedule, enabled
        )

    async def forget_schedules(self) -> None:
        await self.pool.execute("DELETE FROM schedules")

    async def remove_programs(self) -> None:
        await self.pool.execute("DELETE FROM programs")

    async def put_text(self, what: Text, text: Any, ident: str | None = None) -> None:
        """This is stored, of one or of all, whether this release can read it or not."""
        table, column = TEXTS[what]
        await self.pool.execute(
            f"UPDATE {table} SET {column} = $1::text::jsonb WHERE $2::text IS NULL OR id = $2",
            *(orjson.dumps(text).decode(), ident),
        )

    # Jobs and runs

    async def complete_nodes(self, task: str, *, but: str = "") -> None:
        """All nodes of the task, but that of this job id, and nobody was told."""
        await self.pool.execute(
            "UPDATE graph_nodes SET state = 'COMPLETED' WHERE task = $1 AND job_id <> $2", task, but
        )

    async def add_job(
        self,
        job: str,
        *,
        program: str,
        at: datetime,
        state: JobState = JobState.LAUNCHED,
        ready: Mapping[str, Any] | None = None,
    ) -> None:
        """A job of a schedule, named by its id: `schedule.generation.sequence`."""
        schedule, generation, sequence = job.rsplit(".", 2)
        ended = None if state in {JobState.PENDING_CONSTRAINT, JobState.PENDING_LAUNCH} else at
        await self.pool.execute(
            "INSERT INTO jobs (id, schedule, generation, sequence, program, state, satisfied_at, created_at, ready,"
            " ended_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9)",
            *(job, schedule, int(generation), int(sequence), program, state, at, dict(ready or {}), ended),
        )

    async def add_run(
        self,
        run: str,
        *,
        program: str,
        at: datetime,
        state: RunState = RunState.COMPLETED,
        job: str | None = None,
        arguments: Mapping[str, str] | None = None,
        reason: str = "",
        pool: str | None = None,
        runner: str = "host:1:1",
    ) -> None:
        """A run that was made, started and ended at this time, as far as it is."""
        began = state is not RunState.PENDING
        ended = at if state in {RunState.COMPLETED, RunState.FAILED, RunState.KILLED, RunState.LOST} else None
        await self.pool.execute(
            "INSERT INTO runs (id, job, attempt, program, executable, arguments, state, reason, created_at,"
            " started_at, ended_at, runner, heartbeat_at, spawn_at, pool)"
            " SELECT $1, $2, 1, $3, coalesce((SELECT definition FROM programs WHERE id = $3), '{}'), $4, $5, $6, $7,"
            " $8, $9, $10, $8, $11, $12",
            *(run, job, program, dict(arguments or {}), state, reason, at),
            *((at if began else None), ended, (runner if began else None), (None if began else at), pool),
        )

    async def end_run(self, run: str, state: RunState, at: datetime) -> None:
        """The run has ended so, though no runner had it."""
        await self.pool.execute(
            "UPDATE runs SET state = $2, ended_at = $3, spawn_at = NULL, runner = 'x' WHERE id = $1", run, state, at
        )

    async def set_run_state(self, state: RunState, run: str | None = None) -> None:
        """The state of the run, or of all, and nothing else of it."""
        await self.pool.execute("UPDATE runs SET state = $2 WHERE $1::text IS NULL OR id = $1", run, state)

    async def fail_runs(self, at: datetime, program: str | None = None) -> None:
        """All, or those of a program, have failed, though no runner had them."""
        await self.pool.execute(
            "UPDATE runs SET state = 'FAILED', ended_at = $1, runner = '{}', spawn_at = NULL"
            " WHERE $2::text IS NULL OR program = $2",
            *(at, program),
        )

    async def request_stop(self, run: str | None = None, *, by: str = "ann") -> None:
        """Somebody wants the run, or all, to end."""
        await self.pool.execute("UPDATE runs SET stop_requested = $2 WHERE $1::text IS NULL OR id = $1", run, by)

    async def postpone_runners(self, at: datetime) -> None:
        """No run gets a runner before."""
        await self.pool.execute("UPDATE runs SET spawn_at = $1", at)

    async def limit_runs(self, deadline_at: datetime) -> None:
        """No run may take longer."""
        await self.pool.execute("UPDATE runs SET deadline_at = $1", deadline_at)

    async def end_jobs(self, state: JobState, at: datetime, job: str | None = None, *, reason: str = "because") -> None:
        """The job, or all, have ended so."""
        await self.pool.execute(
            "UPDATE jobs SET state = $2, reason = $4, next_check_at = NULL, ended_at = $3"
            " WHERE $1::text IS NULL OR id = $1",
            *(job, state, at, reason),
        )

    async def check_jobs(self, at: datetime | None, job: str | None = None) -> None:
        """The job, or every one that waits, is judged then; `None`: when something wakes it."""
        await self.pool.execute(
            "UPDATE jobs SET next_check_at = $1 WHERE state = 'PENDING_CONSTRAINT' AND ($2::text IS NULL OR id = $2)",
            *(at, job),
        )

    async def postpone_jobs(self, schedule: str, by: timedelta) -> None:
        """Jobs of the schedule, and all that wait for slots, were satisfied so much later."""
        await self.pool.execute("UPDATE jobs SET satisfied_at = satisfied_at + $2 WHERE schedule = $1", schedule, by)
        await self.pool.execute("UPDATE group_waits SET satisfied_at = satisfied_at + $1", by)

    async def hold_jobs(self, schedule: str) -> None:
        """Somebody wants them held, which no launcher has seen."""
        await self.pool.execute(
            "UPDATE jobs SET command = 'hold', command_reason = 'ann' WHERE schedule = $1", schedule
        )

    async def set_failures(self, job: str, failures: int) -> None:
        """So often in a row a launcher could not judge it."""
        await self.pool.execute("UPDATE jobs SET failures = $2 WHERE id = $1", job, failures)

    async def remove_jobs(self, schedule: str) -> None:
        await self.pool.execute("DELETE FROM jobs WHERE schedule = $1", schedule)

    async def free_slots(self, run: str | None = None) -> None:
        """The run, or all, holds none any more, though it has not ended."""
        await self.pool.execute("DELETE FROM group_slots WHERE $1::text IS NULL OR run = $1", run)

    async def add_deadline(self, job: str, run: str, due_at: datetime, said: Any) -> None:
        await self.pool.execute("INSERT INTO deadlines VALUES ($1, $2, 0, $3, $4)", job, run, due_at, said)

    async def add_progress(self, schedule: str, progress: Any, at: datetime, *, sequence: int = 0) -> None:
        """What the shards know of the trigger of the schedule."""
        await self.pool.execute(
            "INSERT INTO trigger_progress VALUES ($1, 1, $2, $3, $4)", schedule, sequence, progress, at
        )

    async def add_misses(self, expectation: str, *due: datetime, key: str = "k", reason: str = "r") -> None:
        """Open misses of the expectation."""
        for at in due:
            await self.pool.execute(
                "INSERT INTO expectation_misses VALUES ($1, $2, '2026-01-01', $3, $4, $2, true, true)",
                *(expectation, at, key, reason),
            )
        await self.pool.execute("UPDATE expectations SET open_misses = $2 WHERE id = $1", expectation, len(due))

    async def forget_tasks(self) -> None:
        """No task and no lane, and nothing was told."""
        await self.pool.execute("DELETE FROM tasks")
        await self.pool.execute("DELETE FROM task_lanes")

    async def add_line(
        self, kind: str, subject: str, action: str, at: datetime, *, reason: str = "", detail: Any = None
    ) -> None:
        """Of the history."""
        await self.pool.execute(
            "INSERT INTO decisions (at, subject_kind, subject, action, reason, detail) VALUES ($1, $2, $3, $4, $5, $6)",
            *(at, kind, subject, action, reason, detail),
        )

    # Leases and positions

    async def expire_launchers(self, runner: str | None = None) -> None:
        """The lease of the launcher, or of all, has just ended."""
        await self.pool.execute(
            "UPDATE launchers SET expires_at = now() - interval '1 ms' WHERE $1::text IS NULL OR runner = $1", runner
        )

    async def age_launchers(self, *runners: str, by: timedelta) -> None:
        """They have held their leases for so long."""
        await self.pool.execute(
            "UPDATE launchers SET since = now() - $2::interval WHERE runner = ANY ($1)", list(runners), by
        )

    async def expire_leases(self, *, owner: str | None = None, prefix: str = "") -> None:
        """The leases of an owner, or of all, whose names begin so, have just ended."""
        await self.pool.execute(
            "UPDATE leases SET expires_at = now() - interval '1 ms'"
            " WHERE ($1::text IS NULL OR owner = $1) AND starts_with(name, $2)",
            *(owner, prefix),
        )

    async def expire_task_owners(self) -> None:
        """The leases of all owners of tasks have ended, as when their processes are dead or paused."""
        await self.expire_leases(prefix="tasks-")
        await self.pool.execute("DELETE FROM task_owners")

    async def expire_worker(self, worker: str) -> None:
        """Its leases have ended, and nobody has seen it for long."""
        await self.expire_leases(owner=worker)
        await self.pool.execute("UPDATE workers SET seen_at = now() - interval '1 hour' WHERE id = $1", worker)

    async def reread_log(self) -> None:
        """The intake begins again at the beginning of the log."""
        await self.pool.execute("UPDATE intake_positions SET position = 0")

    # The database itself

    async def clear(self, *, rereads: bool = True) -> None:
        """No schedule, and nothing of any; the intake rereads the log, or goes on where it was."""
        await self.pool.execute(f"TRUNCATE {_LIVE} CASCADE")
        if rereads:
            await self.pool.execute("TRUNCATE intake_positions")

    async def refuse(
        self, when: str, *, change: str = "UPDATE ON runs", code: str = "character_not_in_repertoire"
    ) -> None:
        """PostgreSQL takes no change of a row of which that holds, as it takes no NUL in a text."""
        await self.pool.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '{code}'; END $$"
        )
        await self.pool.execute(
            f"CREATE TRIGGER refuse BEFORE {change} FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION refuse()"
        )

    async def refuse_no_more(self, table: str) -> None:
        await self.pool.execute(f"DROP TRIGGER refuse ON {table}")

    @asynccontextmanager
    async def locked(self, table: str, ident: str | None = None, *, column: str = "id") -> AsyncIterator[None]:
        """Another session holds this row, or all, until the end of the block."""
        async with self.pool.acquire() as connection, connection.transaction():
            which = f"WHERE {column} = $1" if ident is not None else ""
            await connection.execute(f"SELECT FROM {table} {which} FOR UPDATE", *(() if ident is None else (ident,)))
            yield

    @asynccontextmanager
    async def table_locked(self, table: str) -> AsyncIterator[None]:
        """Another session keeps all from the table until the end of the block."""
        async with self.pool.acquire() as connection, connection.transaction():
            await connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            yield
