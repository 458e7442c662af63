"""Changes of apps and schedules: read under locks, decide, write, in one transaction. Locks are taken in one order:
app, program, schedules by id, timers, jobs by id, runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import asyncpg

from streamsched.codec.schedules.schedule import program_to_json, schedule_to_json
from streamsched.domain.errors import UnavailableError
from streamsched.domain.events.event import schedule_key
from streamsched.domain.history import HistoryEntry
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.quotas.quota import QuotaGrowth
from streamsched.domain.schedules.schedule import ScheduleRecord
from streamsched.domain.signals.home import MOST_OF_ONE_KEY, choose_affinity, key_hash
from streamsched.domain.triggers.trigger import event_keys
from streamsched.log.control import control, outbox_record
from streamsched.ports.outbox import OutboxRecord
from streamsched.store.catalog import app_expectations, outbox, quota_counts
from streamsched.store.catalog.app_rows import (
    PROGRAMS_OF_APP,
    AppRows,
    ProgramRow,
    ScheduleRow,
    missing_programs,
    read_app_rows,
)
from streamsched.store.catalog.history import record_all
from streamsched.store.catalog.namespace_grants import check_resumed
from streamsched.store.catalog.program_links import LinkRow, read_links
from streamsched.store.catalog.quota_counts import growth_of
from streamsched.store.catalog.records import (
    LARGE,
    Action,
    AppChange,
    Applied,
    AppRecord,
    ProgramChange,
    ScheduleChange,
)
from streamsched.store.catalog.removed_programs import find_waiting, record_removals
from streamsched.store.catalog.versions import record_versions
from streamsched.store.connections import Connection, compute_meanwhile, translate_errors
from streamsched.store.sql import Select, queries, slices

_R = TypeVar("_R")
_SQL = queries("catalog/catalog")

#: Attempts when another change commits in between. Two creations of one name need two.
_TRIES: Final = 5


class _ClearedTimer(NamedTuple):
    """A timer of a former generation, with the time of its next tick."""

    schedule: str
    leaf: str
    due_at: datetime


class _EndedJob(NamedTuple):
    """A job that became obsolete."""

    id: str
    reason: str
    ended_at: datetime


class _Taken(NamedTuple):
    """How many schedules have an affinity; not more than are asked for."""

    affinity: int
    schedules: int


_LOCKED_PROGRAMS: Final = Select(_SQL["lock_programs_of_app"], ProgramRow)
_LOCKED_SCHEDULES: Final = Select(_SQL["lock_schedules"], ScheduleRow)
_LOCKED_SCHEDULES_OF_APP: Final = Select(_SQL["lock_schedules_of_app"], ScheduleRow)
_TAKEN: Final = Select(_SQL["count_affinities"], _Taken)
_CLEARED_TIMERS: Final = Select(_SQL["clear_timers"], _ClearedTimer)
_ENDED_JOBS: Final = Select(_SQL["end_jobs"], _EndedJob)


class _Overtaken(Exception):  # noqa: N818 - not an error: the reason to decide again
    """A schedule is no longer of the generation that was read."""


class CatalogStore:
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
        """Reads these schedules of the app under their locks and stores what `decide` returns, in one transaction.

        With `schedules` None it reads all, creates an app that does not exist, and locks the app against other changes;
        only then the next four apply. `programs`: the programs the app is to have; schedules of other apps of the
        namespace that wait for one to be removed are read and locked too. `awaited`: the programs that its schedules
        are to wait for; what leads to them is in `AppRecord.links`. `origin`: the file the app was deployed from;
        None keeps the stored one. `by`: the name of the caller; in the audit of removals that leave schedules of other
        namespaces waiting, and with those schedules.

        `decide` must be pure: it runs inside the transaction, and again when another change committed in between. What
        it raises is raised to the caller, and nothing changes.

        Raises:
            UnavailableError: PostgreSQL is unavailable; nothing changed, or everything did.
        """

        def read_and_decide(rows: AppRows) -> tuple[AppRecord, AppChange, QuotaGrowth]:
            record = rows.decode()
            change = decide(record)
            return record, change, growth_of(change.schedules)

        for _ in range(_TRIES):
            with translate_errors():
                try:
                    async with self._pool.acquire() as connection, connection.transaction():
                        rows = await self._read(connection, app, schedules, programs, now, awaited=awaited)
                        large = rows.is_large or schedules is None
                        record, change, growth = (
                            await compute_meanwhile(connection, read_and_decide, rows)
                            if large
                            else read_and_decide(rows)
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
        links: Sequence[LinkRow] = ()
        if schedules is None:
            await connection.execute(_SQL["create_namespace"], app.namespace, now)
            await connection.execute(_SQL["hold_app"], str(app), app.namespace, now)
            programs = await _LOCKED_PROGRAMS.fetch(connection, str(app))
            of_other_apps, foreign_waits = await find_waiting(connection, app, missing_programs(programs, wanted))
            rows = await _LOCKED_SCHEDULES_OF_APP.fetch(connection, str(app), of_other_apps)
            links = await read_links(connection, app, awaited)
        else:
            foreign_waits = ()
            await connection.execute(_SQL["share_app"], str(app))
            programs = await PROGRAMS_OF_APP.fetch(connection, str(app))
            rows = await _LOCKED_SCHEDULES.fetch(connection, [str(ref) for ref in schedules])
        whole = schedules is None
        return await read_app_rows(connection, app, programs, rows, foreign_waits, links=links, whole=whole)

    async def _write(
        self, connection: Connection, app: AppRecord, change: AppChange, now: datetime, by: str
    ) -> Applied:
        change = replace(change, schedules=await _choose_affinities(connection, change.schedules))
        await _write_programs(connection, app.ref, change.programs, now)
        ended = await _write_schedules(connection, change.schedules) if change.schedules else []
        records = await _compute(connection, _control_records, change.schedules)
        ids = await outbox.write(connection, records)
        changed = {each.after.definition.ref for each in change.schedules}
        unchanged = [each for ref, each in app.schedules.items() if ref not in changed]
        earlier: list[int] = []
        for part in slices(unchanged):
            earlier += await outbox.list_unsent(connection, list(_record_keys(part)))
        await record_all(connection, _program_history(change.programs, now))
        for part in slices(change.schedules):
            await record_all(connection, _schedule_history(part, now))
        await record_removals(connection, change, by, now)
        await app_expectations.write(connection, app.ref, change.expectations, change.recipients, now)
        return Applied(change, [*earlier, *ids], ended)


async def _choose_affinities(connection: Connection, changes: Sequence[ScheduleChange]) -> tuple[ScheduleChange, ...]:
    """The changes with the affinities of new schedules (ADR 43). Changes at the same time do not see one another, so an
    affinity may get a few more schedules than `MOST_OF_ONE_KEY`.
    """
    keys, hashes = await _compute(connection, _listened_keys, changes)
    taken: Counter[int] = Counter()
    for part in slices(hashes):
        taken.update(dict(await _TAKEN.fetch(connection, part, MOST_OF_ONE_KEY)))
    return await _compute(connection, partial(_with_affinities, keys=keys, taken=taken), changes)


def _listened_keys(changes: Sequence[ScheduleChange]) -> tuple[Sequence[frozenset[str]], Sequence[int]]:
    """Of each change the event keys to which a new schedule listens, none of one that there was; the hashes of all."""
    keys = [event_keys(each.after.definition.trigger) if each.before is None else frozenset[str]() for each in changes]
    return keys, sorted({key_hash(key) for each in keys for key in each})


def _with_affinities(
    changes: Sequence[ScheduleChange], *, keys: Sequence[frozenset[str]], taken: Counter[int]
) -> tuple[ScheduleChange, ...]:
    chosen: list[ScheduleChange] = []
    for change, listened in zip(changes, keys, strict=True):
        affinity = choose_affinity(listened, taken)
        if affinity is not None:
            taken[affinity] += 1
        chosen.append(change if affinity is None else replace(change, after=replace(change.after, affinity=affinity)))
    return tuple(chosen)


async def _compute(
    connection: Connection, compute: Callable[[Sequence[ScheduleChange]], _R], changes: Sequence[ScheduleChange]
) -> _R:
    """What it returns for these changes; for many of them in a thread, while others use the event loop."""
    return await compute_meanwhile(connection, compute, changes) if len(changes) > LARGE else compute(changes)


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
            each.after.is_draining,
            each.after.resumed_at,
            each.after.affinity,
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
        (ref, each.after.generation, pause.mode.value, pause.until, pause.note)
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
    former = {(row.schedule, row.leaf): row.due_at for row in await _CLEARED_TIMERS.fetch(connection, refs)}
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
    rows = sorted(await _ENDED_JOBS.fetch(connection, *_columns(rows_to_end)))
    await record_all(connection, [HistoryEntry(row.ended_at, "job", row.id, "obsolete", row.reason) for row in rows])
    kept = [(ref, str(each.after.definition.program)) for ref, each in zip(refs, changes, strict=True) if each.keeps]
    if kept:
        await connection.execute(_SQL["keep_jobs"], *_columns(kept))
    held = [
        (ref, _is_holding(each.after), each.after.oldest_valid_generation)
        for ref, each in zip(refs, changes, strict=True)
    ]
    await connection.execute(_SQL["release_runs"], *_columns(held))
    return [row.id for row in rows]


def _is_holding(record: ScheduleRecord) -> bool:
    """Whether valid jobs and runs wait for the end of a pause."""
    return record.keeps and not record.activity.admits


def _columns(values: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows to write (at least one) as the arrays that `unnest` takes."""
    return [list(column) for column in zip(*values, strict=True)]


def _control_records(changes: Sequence[ScheduleChange]) -> list[OutboxRecord]:
    """What the log is told of the changes, in its order."""
    return [outbox_record(each, to.after.affinity) for to in changes for each in control(to.before, to.after)]


def _record_keys(unchanged: Sequence[ScheduleRecord]) -> Iterator[str]:
    """The record keys of schedules that stay as they are. Records of an earlier change may still be in the outbox,
    and a repeat of that call must wait for them too.
    """
    for record in unchanged:
        yield schedule_key(record.definition.ref, record.affinity)
        yield from event_keys(record.definition.trigger)


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
