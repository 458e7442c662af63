"""Room for the processes of runs (`domain.constraints.process_room`) in PostgreSQL: launchers say how many places they
have, runs hold them, and jobs wait for them.

Runs that need a process are admitted under one lock, the last of a decision: so all launchers together admit no more
than there are places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from streamsched.domain.constraints.process_room import ProcessKind, ProcessRoom, RoomTurn, Share, ShareTurn
from streamsched.domain.decisions.decision import Decision, Wait
from streamsched.domain.decisions.room_for_processes import process_kind
from streamsched.domain.schedules.schedule import Program
from streamsched.store.connections import Connection, Executor
from streamsched.store.sql import Select, queries

_SQL: Final = queries("limits/process_room")
#: Jobs woken at once where no launcher says how many places it has.
_UNKNOWN: Final = 100
#: No run is started this often: those that were not claimed are counted where they are ended.
_ANY_SPAWNS: Final = 1000


class _Launcher(NamedTuple):
    host: str
    host_places: int
    cluster_places: int


class _Held(NamedTuple):
    namespace: str
    pool: str
    held: int


class _Turn(NamedTuple):
    namespace: str
    pool: str
    turn_at: datetime
    id: str


class _Served(NamedTuple):
    namespace: str
    pool: str
    served_at: datetime


class _Claimed(NamedTuple):
    id: str
    spawns: int
    namespace: str
    pool: str


class _Place(NamedTuple):
    kind: str
    namespace: str
    pool: str
    turn_at: datetime


_LAUNCHERS: Final = Select(_SQL["launchers"], _Launcher)
_HELD: Final = Select(_SQL["held"], _Held)
_PENDING: Final = Select(_SQL["pending"], _Turn)
_WAITING: Final = Select(_SQL["waiting"], _Turn)
_SERVED: Final = Select(_SQL["served"], _Served)
_CLAIM: Final = Select(_SQL["claim"], _Claimed)
_OF_JOB: Final = Select(_SQL["of_job"], _Place)


async def lock_rooms(
    connection: Connection, programs: Iterable[Program], now: datetime
) -> Mapping[ProcessKind, ProcessRoom]:
    """The rooms for processes of these programs, locked until the transaction ends; empty where their size is unknown,
    and when none of the programs needs a process.
    """
    kinds = {kind for each in programs if (kind := process_kind(each.executable)) is not None}
    if not kinds or not (launchers := await _LAUNCHERS.fetch(connection)):
        return {}
    await connection.execute(_SQL["lock"])
    return {kind: await _room(connection, kind, launchers, now) for kind in sorted(kinds)}


async def read_room(
    connection: Connection,
    kind: ProcessKind,
    now: datetime | None = None,
    *,
    at_most: int | None = None,
    spawns: int = _ANY_SPAWNS,
) -> ProcessRoom:
    """The room without a lock, at `now` (None: by the database's clock). `at_most`: how many places the caller gives;
    `spawns`: runs for which so many processes were started want no further one.
    """
    launchers = await _LAUNCHERS.fetch(connection)
    return await _room(connection, kind, launchers, now, at_most=at_most, spawns=spawns)


async def place_of_job(connection: Connection, job: str) -> RoomTurn | None:
    """The place for which a job waits."""
    row = await _OF_JOB.fetchrow(connection, job)
    if row is None:
        return None
    return RoomTurn(ProcessKind(row.kind), Share(row.namespace, row.pool), ShareTurn(row.turn_at, job))


async def kind_of_pending(connection: Connection, run: str) -> ProcessKind | None:
    """The kind of process for which a PENDING run waits; None when it waits for none."""
    kind = await connection.fetchval(_SQL["of_run"], run)
    return None if kind is None else ProcessKind(kind)


async def claim_next(
    connection: Connection, kind: ProcessKind, now: datetime, *, retry_at: Sequence[datetime], jitter: float, limit: int
) -> Sequence[tuple[str, int]]:
    """Takes the PENDING runs that get the next places, at most `limit`; each with its number of processes."""
    if not await connection.fetchval(_SQL["any_pending"], kind, now, len(retry_at)):
        return []
    room = await read_room(connection, kind, now, at_most=limit, spawns=len(retry_at))
    places = limit if not room.launchers else min(limit, max(0, room.free_places))
    if not places or not room.pending:
        return []
    chosen: list[str] = []
    given = Counter[Share]()
    for share in room.next_shares(places):
        turns = room.pending.get(share, ())
        if given[share] < len(turns):
            chosen.append(turns[given[share]].id)
        given[share] += 1
    rows = await _CLAIM.fetch(connection, chosen, now, list(retry_at), jitter) if chosen else []
    order = {run: n for n, run in enumerate(chosen)}
    rows.sort(key=lambda row: order[row.id])
    if rows:
        at = [now + timedelta(microseconds=n) for n in range(len(rows))]
        await connection.execute(_SQL["serve"], kind, *_columns((row.namespace, row.pool) for row in rows), at)
    return [(row.id, row.spawns) for row in rows]


async def wake(connection: Connection, now: datetime) -> bool:
    """Wakes the jobs that get the next places; whether any wait."""
    waiting = await connection.fetch(_SQL["kinds"], [*ProcessKind])
    for row in waiting:
        room = await read_room(connection, ProcessKind(row["kind"]), now)
        given = Counter(room.next_shares(max(0, room.free_places) if room.launchers else _UNKNOWN))
        places = {share: count - len(room.pending.get(share, ())) for share, count in given.items()}
        if places := {share: count for share, count in places.items() if count > 0}:
            await connection.execute(_SQL["wake"], row["kind"], *_columns(places), [*places.values()])
    return bool(waiting)


async def settle(connection: Connection, decisions: Sequence[Decision]) -> None:
    """Jobs that lack only a place enter the queues for room; decided jobs have left them."""
    rows = [
        (each.job, each.room.kind, *each.room.share, each.room.turn.at)
        for each in decisions
        if isinstance(each, Wait) and each.room is not None
    ]
    if rows:
        await connection.execute(_SQL["enter"], *_columns(rows))


async def leave(connection: Connection, jobs: Sequence[str]) -> None:
    """Removes jobs that cannot be decided."""
    await connection.execute(_SQL["leave"], jobs)


async def forget(executor: Executor, now: datetime) -> None:
    """Deletes what concerns no job that waits and no share of the last day."""
    await executor.execute(_SQL["forget_waits"])
    await executor.execute(_SQL["forget_shares"], now)


async def _room(
    connection: Connection,
    kind: ProcessKind,
    launchers: Sequence[_Launcher],
    now: datetime | None,
    *,
    at_most: int | None = None,
    spawns: int = _ANY_SPAWNS,
) -> ProcessRoom:
    in_cluster = kind is ProcessKind.CLUSTER
    sizes = tuple((row.host, row.cluster_places if in_cluster else row.host_places) for row in launchers)
    hosts = sorted({host for host, _ in sizes})
    held = {Share(*row[:2]): row.held for row in await _HELD.fetch(connection, kind, now, hosts)}
    room = ProcessRoom(sizes, held)
    places = max(1, room.free_places) if sizes else at_most or _UNKNOWN
    pending = _turns(await _PENDING.fetch(connection, kind, now, spawns, places))
    waiting = _turns(await _WAITING.fetch(connection, kind, places))
    names = sorted({share.namespace for share in (*held, *pending, *waiting)})
    served = {Share(*row[:2]): row.served_at for row in await _SERVED.fetch(connection, kind, names)}
    return ProcessRoom(sizes, held, pending, waiting, served)


def _turns(rows: Iterable[_Turn]) -> Mapping[Share, tuple[ShareTurn, ...]]:
    found: dict[Share, list[ShareTurn]] = {}
    for row in rows:
        found.setdefault(Share(*row[:2]), []).append(ShareTurn(*row[2:]))
    return {share: tuple(sorted(turns)) for share, turns in found.items()}


def _columns(rows: Iterable[Collection[object]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]
