"""`ports.catalog.CatalogStore` on PostgreSQL: read under locks, decide, write, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import asyncpg

from streamsched.codec.schedules.schedule import (
    program_to_json,
    schedule_to_json,
    stored_program_from_json,
    stored_schedule_from_json,
)
from streamsched.domain.errors import ConfigurationError, InvalidError, UnavailableError
from streamsched.domain.events.event import schedule_key
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.quotas.quota import QuotaGrowth
from streamsched.domain.schedules.pause import Pause, PauseMode
from streamsched.domain.schedules.schedule import Program, Schedule
from streamsched.domain.triggers.trigger import event_keys
from streamsched.ports.catalog import (
    Action,
    AppChange,
    Applied,
    AppRecord,
    HistoryEntry,
    ProgramChange,
    ScheduleChange,
    ScheduleRecord,
)
from streamsched.ports.schedules.expectations import AppExpectations
from streamsched.ports.schedules.program_links import ForeignWait
from streamsched.store.catalog import app_expectations, outbox, quota_counts
from streamsched.store.catalog.history import record_all
from streamsched.store.catalog.namespace_grants import check_resumed
from streamsched.store.catalog.program_links import links_of, read_links
from streamsched.store.catalog.quota_counts import growth_of
from streamsched.store.catalog.removed_programs import find_waiting, record_removals
from streamsched.store.catalog.versions import record_versions
from streamsched.store.connections import Connection, computed_meanwhile, translated
from streamsched.store.sql import queries, slices

_SQL = queries("catalog/catalog")

#: Attempts when another change commits in between. Two creations of one name need two.
_TRIES: Final = 5
#: More schedules than this are decoded and decided in a thread, not in the event loop.
_LARGE: Final = 100


class _Overtaken(Exception):  # noqa: N818 - not an error: the reason to decide again
    """A schedule is no longer of the generation that was read."""


class PostgresCatalogStore:
    """Changes of a schedule are serialized by the lock of its row, changes of a whole app by the app's."""

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
        awaited: Collection[ProgramRef] = (),
        origin: str | None = None,
        by: str = "",
    ) -> Applied:
        def decided(rows: AppRows) -> tuple[AppRecord, AppChange, QuotaGrowth]:
            record = rows.decoded()
            change = decide(record)
            return record, change, growth_of(change.schedules)

        for _ in range(_TRIES):
            with translated():
                try:
                    async with self._pool.acquire() as connection, connection.transaction():
                        rows = await self._read(connection, app, schedules, programs, now, awaited=awaited)
                        large = rows.large or schedules is None
                        record, change, growth = (
                            await computed_meanwhile(connection, decided, rows) if large else decided(rows)
                        )
                        await check_resumed(connection, change.schedules)
                        await quota_counts.check(connection, app.namespace, growth, now=now)
                        applied = await self._write(connection, record, change, now, by)
                        if origin is not None and schedules is None:
                            await connection.execute(_SQL["put_origin"], str(app), origin)
                        return applied
                except (_Overtaken, asyncpg.DeadlockDetectedError):
                    continue
        raise UnavailableError(f"application '{app}' is changed by others all the time; nothing was changed here")

    async def _read(
        self,
        connection: Connection,
        app: AppRef,
        schedules: Sequence[ScheduleRef] | None,
        wanted: Collection[ProgramRef] | None,
        now: datetime,
        *,
        awaited: Collection[ProgramRef],
    ) -> AppRows:
        links: Sequence[Any] = ()
        if schedules is None:
            await connection.execute(_SQL["create_namespace"], app.namespace, now)
            await connection.execute(_SQL["hold_app"], str(app), app.namespace, now)
            programs = await connection.fetch(_SQL["lock_programs_of_app"], str(app))
            of_other_apps, foreign_waits = await find_waiting(connection, app, missing_programs(programs, wanted))
            rows = await connection.fetch(_SQL["lock_schedules_of_app"], str(app), of_other_apps)
            links = await read_links(connection, app, awaited)
        else:
            foreign_waits = ()
            await connection.execute(_SQL["share_app"], str(app))
            programs = await connection.fetch(_SQL["programs_of_app"], str(app))
            rows = await connection.fetch(_SQL["lock_schedules"], [str(ref) for ref in schedules])
        whole = schedules is None
        return await app_rows(connection, app, programs, rows, foreign_waits, links=links, whole=whole)

    async def _write(
        self, connection: Connection, app: AppRecord, change: AppChange, now: datetime, by: str
    ) -> Applied:
        await _write_programs(connection, app.ref, change.programs, now)
        ended = await _write_schedules(connection, change.schedules) if change.schedules else []
        records = [record for schedule in change.schedules for record in schedule.records]
        ids = await outbox.write(connection, records)
        changed = {each.after.definition.ref for each in change.schedules}
        unchanged = [each.definition for ref, each in app.schedules.items() if ref not in changed]
        earlier: list[int] = []
        for part in slices(unchanged):
            earlier += await outbox.unsent(connection, list(_record_keys(part)))
        await record_all(connection, _program_history(change.programs, now))
        for part in slices(change.schedules):
            await record_all(connection, _schedule_history(part, now))
        await record_removals(connection, change, by, now)
        await app_expectations.write(connection, app.ref, change.expectations, change.recipients, now)
        return Applied(change, [*earlier, *ids], ended)


async def _write_programs(connection: Connection, app: AppRef, changes: Sequence[ProgramChange], now: datetime) -> None:
    removed = [str(each.program.ref) for each in changes if each.action is Action.DELETED]
    if removed:
        await connection.execute(_SQL["remove_programs"], removed)
    stored = [each.program for each in changes if each.action is not Action.DELETED]
    if stored:
        ids, definitions = [str(each.ref) for each in stored], [program_to_json(each) for each in stored]
        await connection.execute(_SQL["put_programs"], ids, str(app), definitions, now)


async def _write_schedules(connection: Connection, changes: Sequence[ScheduleChange]) -> list[str]:
    """Writes all changes, with their pauses, timers and jobs, in slices; all of one kind before the next, which is the
    order of locks. Returns the ids of the jobs that ended.

    Raises:
        _Overtaken: a schedule is not of the generation that was read.
    """
    for part in slices(changes):
        await _put_schedules(connection, part)
    for part in slices(changes):
        refs = [str(each.after.definition.ref) for each in part]
        await _write_timers(connection, refs, part, notify=await _write_pauses(connection, refs, part))
    ended: list[str] = []
    for part in slices(changes):
        ended += await _end_jobs(connection, [str(each.after.definition.ref) for each in part], part)
    return ended


async def _put_schedules(connection: Connection, changes: Sequence[ScheduleChange]) -> None:
    rows = [
        (
            str(each.after.definition.ref),
            str(each.after.definition.ref.owner),
            str(each.after.definition.program),
            schedule_to_json(each.after.definition),
            each.after.generation,
            each.after.enabled,
            each.after.created_at,
            each.after.updated_at,
            each.after.deleted_at,
            # of a backlog jobs of its own generation are valid too, although it is not enabled
            each.after.generation if each.after.backlog and each.after.kept_from is None else each.after.kept_from,
            each.after.draining,
            each.after.resumed_at,
        )
        for each in changes
    ]
    if len(await connection.fetch(_SQL["put_schedules"], *_columns(rows))) < len(rows):
        raise _Overtaken
    await record_versions(connection, changes)
    await connection.execute(
        _SQL["ring_graphs"], [str(each.after.definition.ref) for each in changes if each.after.enabled]
    )


async def _write_pauses(connection: Connection, refs: list[str], changes: Sequence[ScheduleChange]) -> bool:
    """Replaces the pauses. Returns whether there are any now."""
    await connection.execute(_SQL["clear_pauses"], refs)
    pauses = [
        (ref, each.after.generation, pause.keep, pause.mode.value, pause.until, pause.note)
        for ref, each in zip(refs, changes, strict=True)
        if (pause := each.after.pause) is not None
    ]
    if pauses:
        await connection.execute(_SQL["put_pauses"], *_columns(pauses))
    return bool(pauses)


async def _write_timers(
    connection: Connection, refs: list[str], changes: Sequence[ScheduleChange], *, notify: bool
) -> None:
    """Replaces the timers. In a change that keeps the accumulation a leaf keeps an earlier due time."""
    rows = await connection.fetch(_SQL["clear_timers"], refs)
    former = {(row["schedule"], row["leaf"]): row["due_at"] for row in rows}
    deleted = [ref for ref, each in zip(refs, changes, strict=True) if each.after.deleted_at is not None]
    if deleted:
        await connection.execute(_SQL["clear_wakes"], deleted)
    timers = [
        (ref, leaf, each.after.generation, min(first, former.get((ref, leaf), first)) if each.keeps else first)
        for ref, each in zip(refs, changes, strict=True)
        for leaf, first in each.timers.items()
    ]
    if timers:
        await connection.execute(_SQL["put_timers"], *_columns(timers))
    if timers or notify:
        await connection.execute(_SQL["ring_timers"])


async def _end_jobs(connection: Connection, refs: list[str], changes: Sequence[ScheduleChange]) -> list[str]:
    rows_to_end = [
        (
            ref,
            each.after.oldest_valid_generation,
            f"its schedule was {each.action}",
            each.after.updated_at,
            str(each.after.definition.program),
        )
        for ref, each in zip(refs, changes, strict=True)
    ]
    rows = sorted(await connection.fetch(_SQL["end_jobs"], *_columns(rows_to_end)), key=lambda row: row["id"])
    await record_all(
        connection, [HistoryEntry(row["ended_at"], "job", row["id"], "obsolete", row["reason"]) for row in rows]
    )
    kept = [(ref, str(each.after.definition.program)) for ref, each in zip(refs, changes, strict=True) if each.keeps]
    if kept:
        await connection.execute(_SQL["keep_jobs"], *_columns(kept))
    held = [
        (ref, _holds(each.after), each.after.oldest_valid_generation) for ref, each in zip(refs, changes, strict=True)
    ]
    await connection.execute(_SQL["release_runs"], *_columns(held))
    return [row["id"] for row in rows]


def _holds(record: ScheduleRecord) -> bool:
    """Whether valid jobs and runs wait for the end of a pause."""
    return record.keeps and not record.activity.admits


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows (at least one) as the arrays that `unnest` takes."""
    return [list(column) for column in zip(*rows, strict=True)]


def _record_keys(unchanged: Sequence[Schedule]) -> Iterator[str]:
    """The record keys of schedules that stay as they are. Records of an earlier change may still be in the outbox,
    and a repeat of that call must wait for them too.
    """
    for definition in unchanged:
        yield schedule_key(definition.ref)
        yield from event_keys(definition.trigger)


@dataclass(frozen=True, slots=True)
class AppRows:
    """What is stored of an app, undecoded: rows of its `programs`, of `schedules` of it and of others, and `links`."""

    app: AppRef
    programs: Sequence[Any]
    schedules: Sequence[Any]
    pauses: Sequence[Any]
    origin: str
    foreign_waits: Sequence[ForeignWait]
    links: Sequence[Any]
    watched: AppExpectations

    @property
    def large(self) -> bool:
        """Whether it is decoded and decided on in a thread: thousands of schedules or programs take seconds."""
        return max(len(self.schedules), len(self.programs), len(self.links)) > _LARGE

    async def record(self) -> AppRecord:
        """`decoded`, outside a transaction."""
        return await asyncio.to_thread(self.decoded) if self.large else self.decoded()

    def decoded(self) -> AppRecord:
        """The input of a decision."""
        programs = {program.ref: program for program in map(stored_program, self.programs)}
        pauses = {(row["schedule"], row["generation"]): stored_pause(row) for row in self.pauses}
        records = [schedule_record(row, pauses.get((row["id"], row["generation"]))) for row in self.schedules]
        own = {record.definition.ref: record for record in records if record.definition.ref.owner == self.app}
        others = {record.definition.ref: record for record in records if record.definition.ref not in own}
        links = tuple(links_of(self.links))
        return AppRecord(self.app, programs, own, others, self.foreign_waits, self.origin, links, self.watched)


async def app_rows(
    connection: Connection,
    app: AppRef,
    programs: Sequence[Any],
    schedules: Sequence[Any],
    foreign_waits: Sequence[ForeignWait] = (),
    *,
    links: Sequence[Any] = (),
    whole: bool,
) -> AppRows:
    """With the pauses of the schedules, and the origin of the app; with `whole` also with what it expects."""
    pauses = await connection.fetch(_SQL["pauses"], [row["id"] for row in schedules])
    origin = await connection.fetchval(_SQL["origin"], str(app))
    watched = await app_expectations.watched_by(connection, app) if whole else AppExpectations()
    return AppRows(app, programs, schedules, pauses, origin or "", foreign_waits, links, watched)


def schedule_record(row: Any, pause: Pause | None = None) -> ScheduleRecord:
    """A schedule from a row of `schedules`, with its pause.

    Raises:
        ConfigurationError: this release cannot read it.
    """
    with _stored("schedule"):
        definition = stored_schedule_from_json(row["definition"])
    return ScheduleRecord(
        definition,
        row["generation"],
        row["enabled"],
        row["created_at"],
        row["updated_at"],
        row["deleted_at"],
        kept_from=row["kept_from"] if row["kept_in"] == row["generation"] != row["kept_from"] else None,
        pause=pause,
        resumed_at=row["resumed_at"],
    )


def stored_pause(row: Any) -> Pause:
    """The pause in a row of `pauses`; an earlier release writes no mode."""
    mode = PauseMode.of(keep=row["keep"])
    return Pause(mode if row["mode"] is None else PauseMode(row["mode"]), row["until"], row["note"])


def stored_program(row: Any) -> Program:
    """A program from a row of `programs`.

    Raises:
        ConfigurationError: this release cannot read it.
    """
    with _stored("program"):
        return stored_program_from_json(row["definition"])


@contextmanager
def _stored(kind: str) -> Iterator[None]:
    """Turns `InvalidError` into `ConfigurationError`: the definition was stored, so no caller's input is wrong."""
    try:
        yield
    except InvalidError as exc:
        raise ConfigurationError(
            f"a stored {kind} cannot be read by this release, a newer one may have written it: {exc}"
        ) from exc


def missing_programs(rows: Sequence[Any], wanted: Collection[ProgramRef] | None) -> set[ProgramRef]:
    """The programs of rows of `programs` that are not wanted; none when nothing is said about them."""
    return set() if wanted is None else {ProgramRef.parse(row["id"]) for row in rows} - set(wanted)


def _program_history(changes: Sequence[ProgramChange], now: datetime) -> list[HistoryEntry]:
    return [HistoryEntry(now, "program", str(each.program.ref), each.action, each.reason) for each in changes]


def _schedule_history(changes: Sequence[ScheduleChange], now: datetime) -> list[HistoryEntry]:
    lines: list[HistoryEntry] = []
    for change in changes:
        after = change.after
        detail: dict[str, Any] = {
            "generation": after.generation,
            "enabled": after.enabled,
            "triggered_by": str(after.definition.trigger),
            "accumulation": "kept" if change.keeps else "reset",
        }
        if after.pause is not None:
            detail |= {"mode": after.pause.mode.value, **({"by": "itself"} if change.itself else {})}
            if after.pause.until is not None:
                detail["until"] = after.pause.until
        lines.append(HistoryEntry(now, "schedule", str(after.definition.ref), change.action, change.reason, detail))
    return lines
