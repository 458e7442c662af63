"""`ports.catalog.CatalogStore` in PostgreSQL: read under locks, decide, write, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

import asyncpg

from streamsched.codec.schedule import program_from_json, program_to_json, schedule_from_json, schedule_to_json
from streamsched.domain.errors import ConfigurationError, InvalidError, UnavailableError
from streamsched.domain.event import schedule_key
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.pause import Pause
from streamsched.domain.schedule import Program
from streamsched.domain.trigger import event_keys
from streamsched.ports.catalog import (
    Action,
    AppChange,
    Applied,
    AppRecord,
    Decision,
    ProgramChange,
    ScheduleChange,
    ScheduleRecord,
)
from streamsched.store import decisions, outbox
from streamsched.store.pool import translated
from streamsched.store.sql import queries

_SQL = queries("catalog")

#: How often a decision is made again because another change came between. Two creations of one name need it once.
_TRIES: Final = 5


class _Overtaken(Exception):  # noqa: N818 - not an error: the reason to decide again
    """A schedule is no longer of the generation that was read."""


class PostgresCatalogStore:
    """Changes of one schedule exclude each other by its row, those of an app's whole by the app's."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def change(
        self,
        app: AppRef,
        schedules: Sequence[ScheduleRef] | None,
        decide: Callable[[AppRecord], AppChange],
        *,
        now: datetime,
        programs: Collection[ProgramRef] | None = None,
    ) -> Applied:
        for _ in range(_TRIES):
            with translated():
                try:
                    async with self._pool.acquire() as connection, connection.transaction():
                        known = await self._read(connection, app, schedules, programs, now)
                        return await self._write(connection, known, decide(known), now)
                except (_Overtaken, asyncpg.DeadlockDetectedError):
                    continue
        raise UnavailableError(f"application '{app}' is changed by others all the time; nothing was changed here")

    async def _read(
        self,
        connection: Any,
        app: AppRef,
        schedules: Sequence[ScheduleRef] | None,
        wanted: Collection[ProgramRef] | None,
        now: datetime,
    ) -> AppRecord:
        if schedules is None:
            await connection.execute(_SQL["create_namespace"], app.namespace, now)
            await connection.execute(_SQL["hold_app"], str(app), app.namespace, now)
            programs = stored_programs(await connection.fetch(_SQL["lock_programs_of_app"], str(app)))
            lost = () if wanted is None else programs.keys() - set(wanted)
            elsewhere = await awaiting(connection, app, lost)
            rows = await connection.fetch(_SQL["lock_schedules_of_app"], str(app), elsewhere)
        else:
            await connection.execute(_SQL["share_app"], str(app))
            programs = stored_programs(await connection.fetch(_SQL["programs_of_app"], str(app)))
            rows = await connection.fetch(_SQL["lock_schedules"], [str(ref) for ref in schedules])
        return await app_record(connection, app, programs, rows)

    async def _write(self, connection: Any, app: AppRecord, change: AppChange, now: datetime) -> Applied:
        for program in change.programs:
            await self._write_program(connection, app.ref, program, now)
        ended: list[str] = []
        for schedule in change.schedules:
            ended += await self._write_schedule(connection, schedule)
        records = [record for schedule in change.schedules for record in schedule.records]
        ids = await outbox.write(connection, records)
        earlier = await outbox.unsent(connection, list(_addresses(app, change)))
        await decisions.record(connection, list(_history(change, now)))
        return Applied(change, [*earlier, *ids], ended)

    async def _write_program(self, connection: Any, app: AppRef, change: ProgramChange, now: datetime) -> None:
        ref = str(change.program.ref)
        if change.action is Action.DELETED:
            await connection.execute(_SQL["remove_program"], ref)
        else:
            await connection.execute(_SQL["put_program"], ref, str(app), program_to_json(change.program), now)

    async def _write_schedule(self, connection: Any, change: ScheduleChange) -> list[str]:
        after, read = change.after, change.before
        ref = str(after.definition.ref)
        stored = await connection.fetchval(
            _SQL["put_schedule"],
            ref,
            str(after.definition.ref.owner),
            str(after.definition.program),
            schedule_to_json(after.definition),
            after.generation,
            after.enabled,
            after.created_at,
            after.updated_at,
            after.deleted_at,
            after.kept_from,
            0 if read is None else read.generation,
        )
        if stored is None:
            raise _Overtaken
        await connection.execute(_SQL["clear_pause"], ref)
        if after.pause is not None:
            paused = after.pause
            await connection.execute(_SQL["put_pause"], ref, after.generation, paused.keep, paused.until, paused.note)
        former = {row["leaf"]: row["due_at"] for row in await connection.fetch(_SQL["clear_timers"], ref)}
        if after.deleted_at is not None:
            await connection.execute(_SQL["clear_wakes"], ref)
        if change.timers:
            due = {
                leaf: min(first, former.get(leaf, first)) if change.keeps else first
                for leaf, first in change.timers.items()
            }
            await connection.execute(_SQL["put_timers"], ref, after.generation, list(due), list(due.values()))
        if change.timers or after.pause is not None:
            await connection.execute(_SQL["ring_timers"])
        return await self._end_jobs(connection, change)

    async def _end_jobs(self, connection: Any, change: ScheduleChange) -> list[str]:
        after = change.after
        ref, program = str(after.definition.ref), str(after.definition.program)
        reason = f"its schedule was {change.action}"
        rows = await connection.fetch(_SQL["end_jobs"], ref, after.stands_from, reason, after.updated_at, program)
        ended = sorted(row["id"] for row in rows)
        await decisions.record(
            connection, [Decision(after.updated_at, "job", job, "obsolete", reason) for job in ended]
        )
        if change.keeps:
            await connection.execute(_SQL["keep_jobs"], ref, program)
        await connection.execute(_SQL["release_runs"], ref, after.keeping, after.stands_from)
        return ended


def _addresses(app: AppRecord, change: AppChange) -> Iterator[str]:
    """Where the log hears of the schedules that were asked about and stay as they are. What an earlier call changed may
    still be on its way there, and who repeats that call must wait for it like the first one did.
    """
    changed = {each.after.definition.ref for each in change.schedules}
    for ref, record in app.schedules.items():
        if ref not in changed:
            yield schedule_key(ref)
            yield from event_keys(record.definition.trigger)


async def awaiting(connection: Any, app: AppRef, lost: Iterable[ProgramRef]) -> list[str]:
    """The ids of schedules of other apps that wait for one of these programs."""
    found: set[str] = set()
    for ref in lost:
        name = [{"namespace": ref.namespace, "application": ref.app, "program": ref.name}]
        found |= {row["id"] for row in await connection.fetch(_SQL["awaiting"], str(app), name)}
    return sorted(found)


async def app_record(
    connection: Any, app: AppRef, programs: Mapping[ProgramRef, Program], rows: Sequence[Any]
) -> AppRecord:
    """What a decision sees, of rows of `schedules` that were read, of this app and of others."""
    pauses = {
        (row["schedule"], row["generation"]): Pause(row["keep"], row["until"], row["note"])
        for row in await connection.fetch(_SQL["pauses"], [row["id"] for row in rows])
    }
    records = [schedule_record(row, pauses.get((row["id"], row["generation"]))) for row in rows]
    own = {record.definition.ref: record for record in records if record.definition.ref.owner == app}
    others = {record.definition.ref: record for record in records if record.definition.ref not in own}
    return AppRecord(app, programs, own, others)


def schedule_record(row: Any, pause: Pause | None = None) -> ScheduleRecord:
    """A row of `schedules`, and how it is paused.

    Raises:
        ConfigurationError: this release cannot read it.
    """
    with _stored("schedule"):
        definition = schedule_from_json(row["definition"])
    return ScheduleRecord(
        definition,
        row["generation"],
        row["enabled"],
        row["created_at"],
        row["updated_at"],
        row["deleted_at"],
        kept_from=row["kept_from"] if row["kept_in"] == row["generation"] else None,
        pause=pause,
    )


def stored_program(row: Any) -> Program:
    """A row of `programs`.

    Raises:
        ConfigurationError: this release cannot read it.
    """
    with _stored("program"):
        return program_from_json(row["definition"])


@contextmanager
def _stored(kind: str) -> Iterator[None]:
    """What we stored ourselves is nobody's bad input."""
    try:
        yield
    except InvalidError as exc:
        raise ConfigurationError(
            f"a stored {kind} cannot be read by this release, a newer one may have written it: {exc}"
        ) from exc


def stored_programs(rows: Sequence[Any]) -> dict[ProgramRef, Program]:
    """Rows of `programs`, by name."""
    programs = (stored_program(row) for row in rows)
    return {program.ref: program for program in programs}


def _history(change: AppChange, now: datetime) -> Iterator[Decision]:
    for program in change.programs:
        yield Decision(now, "program", str(program.program.ref), program.action, program.reason)
    for schedule in change.schedules:
        after = schedule.after
        detail: dict[str, Any] = {
            "generation": after.generation,
            "enabled": after.enabled,
            "triggered_by": str(after.definition.trigger),
            "accumulation": "kept" if schedule.keeps else "reset",
        }
        if after.pause is not None and after.pause.until is not None:
            detail["until"] = after.pause.until
        yield Decision(now, "schedule", str(after.definition.ref), schedule.action, schedule.reason, detail)
