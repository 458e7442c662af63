"""`ports.schedules.expectations.EvidenceStore` and `CompletionStore` on PostgreSQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg

from streamsched.domain.expectations.expectation import SubjectKind
from streamsched.domain.expectations.key_template import columns_of, key_of
from streamsched.domain.expectations.presence import evidence_mark
from streamsched.domain.limits import later
from streamsched.domain.schedules.arguments import KEY_PREFIX
from streamsched.ports.intake import IntakeBatch, IntakeResult
from streamsched.ports.schedules.expectations import Evidence
from streamsched.store.connections import Connection, translated
from streamsched.store.positions import StoredPositions
from streamsched.store.sql import queries
from streamsched.store.webhooks.work_history import PostgresWorkHistory

_SQL: Final = queries("expectations/evidence")

#: The newest rows that are kept: evidence and keys of a subject, misses of an expectation.
MOST_EVIDENCE: Final = 10_000
MOST_MISSES: Final = 100
#: How long a miss is kept.
_KEEP_MISSES: Final = timedelta(days=400)
#: A longer key equals none that a template makes.
_LONGEST_KEY: Final = 1000
_COMPLETIONS: Final = "completions"
#: Parts of a run's id that name its schedule, or its program when no schedule started it.
_OWNER: Final = 3


class PostgresEvidence(StoredPositions):
    """See `ports.schedules.expectations.EvidenceStore`."""

    async def take(self, topic: str, batches: Sequence[IntakeBatch[Evidence | None]], *, now: datetime) -> IntakeResult:
        del now
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                starts = [batch.partition for batch in batches], [batch.start for batch in batches]
                held = {row["partition"] for row in await connection.fetch(_SQL["hold"], topic, *starts)}
                taken = [batch for batch in batches if batch.partition in held]
                found = [each for batch in taken for each in batch.rows if each is not None]
                stored = await put(connection, SubjectKind.DATASET, found)
                moved = [batch.partition for batch in taken], [batch.next for batch in taken]
                await connection.execute(_SQL["move"], topic, *moved)
        return IntakeResult(frozenset(held), stored, len(found) - stored)

    async def expects(self, kind: SubjectKind) -> bool:
        with translated():
            return await self._pool.fetchval(_SQL["expects"], kind.value)

    async def read_to(self, kind: SubjectKind, at: datetime) -> None:
        with translated():
            await self._pool.execute(_SQL["read_to"], kind.value, at)

    async def begin(self, topic: str, positions: Mapping[int, int]) -> None:
        with translated():
            await self._pool.execute(_SQL["begin"], topic, list(positions), list(positions.values()))

    async def end(self, topic: str) -> None:
        with translated():
            await self._pool.execute(_SQL["end"], topic)

    async def forget(self, *, now: datetime) -> int:
        deleted = 0
        with translated():
            for query, *arguments in (
                ("forget", now, MOST_EVIDENCE),
                ("forget_keys", now, MOST_EVIDENCE),
                ("forget_misses", later(now, -_KEEP_MISSES), MOST_MISSES),
            ):
                deleted += int((await self._pool.execute(_SQL[str(query)], *arguments)).rpartition(" ")[2])
        return deleted


class PostgresCompletions:
    """See `ports.schedules.expectations.CompletionStore`. One reader, one object: it remembers which lines are settled,
    and where the history ended while no schedule was expected.
    """

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._history = PostgresWorkHistory(pool)
        self._asked: tuple[int, datetime] | None = None
        self._idle_at: int | None = None

    async def take(self, *, now: datetime, limit: int) -> int:
        self._asked = self._asked or (await self._history.last_number(), now)
        with translated():
            if not await self._pool.fetchval(_SQL["expects"], SubjectKind.SCHEDULE.value):
                await self._pool.execute(_SQL["end_reader"], _COMPLETIONS)
                self._idle_at, self._asked = self._asked[0], None
                return 0
        begin = self._asked[0] if self._idle_at is None else self._idle_at
        settled = await self._history.settled_number()
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                position = await connection.fetchval(_SQL["reader"], _COMPLETIONS)
                if position is None:
                    await connection.execute(_SQL["begin_reader"], _COMPLETIONS, begin)
                    position = begin
                rows = await connection.fetch(_SQL["completed"], position, settled, limit) if settled > position else []
                reached = rows[-1]["id"] if len(rows) == limit else max(position, settled)
                await put(connection, SubjectKind.SCHEDULE, await _completed(connection, rows))
                if reached > position:
                    await connection.execute(_SQL["advance_reader"], _COMPLETIONS, reached)
                if self._asked[0] <= reached:
                    await connection.execute(_SQL["read_to"], SubjectKind.SCHEDULE.value, self._asked[1])
        if self._asked[0] <= reached:
            self._asked = None
        return len(rows)


async def put(connection: Connection, kind: SubjectKind, found: Sequence[Evidence]) -> int:
    """Stores what expectations are about; returns how much of it that is."""
    if not found:
        return 0
    subjects = sorted({each.subject for each in found})
    templates: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for row in await connection.fetch(_SQL["known"], kind.value, subjects):
        templates[row["subject"]].add(columns_of(row["template"]))
    expected = [each for each in found if each.subject in templates]
    if not expected:
        return 0
    rows = [(each.subject, each.mark, each.at) for each in expected]
    await connection.execute(_SQL["put"], kind.value, *map(list, zip(*rows, strict=True)))
    newest_first = sorted(expected, key=lambda each: each.at, reverse=True)  # they come in the order of several readers
    keys = {(each.subject, key): each.at for each in newest_first for key in _keys(each, templates[each.subject])}
    if keys:
        listed = [subject for subject, _ in keys], [key for _, key in keys]
        await connection.execute(_SQL["put_keys"], kind.value, *listed, list(keys.values()))
    await connection.execute(_SQL["stir"], kind.value, sorted(templates), max(each.at for each in expected))
    return len(expected)


def _keys(evidence: Evidence, columns: Collection[tuple[str, ...]]) -> set[str]:
    """What it has of the columns that expectations name."""
    found = set[str]()
    for names in filter(None, columns):
        for values in evidence.values:
            if all(name in values for name in names):
                key = key_of({name: values[name] for name in names})
                if len(key) <= _LONGEST_KEY:
                    found.add(key)
    return found


async def _completed(connection: Connection, rows: Sequence[Any]) -> list[Evidence]:
    """The completed runs of schedules that are expected, with the columns of their keys."""
    owners = {row["subject"]: ".".join(row["subject"].split(".", _OWNER)[:_OWNER]) for row in rows}
    known = await connection.fetch(_SQL["known"], SubjectKind.SCHEDULE.value, sorted(set(owners.values())))
    expected = {row["subject"] for row in known}
    wanted = [run for run, owner in owners.items() if owner in expected]
    found = await connection.fetch(_SQL["runs"], wanted) if wanted else ()
    ended = {row["subject"]: row["at"] for row in rows}
    return [
        Evidence(
            SubjectKind.SCHEDULE,
            row["schedule"],
            evidence_mark(row["id"]),
            ended[row["id"]],
            _columns_of_key(row["arguments"]),
        )
        for row in found
    ]


def _columns_of_key(arguments: Any) -> Sequence[Mapping[str, str]]:
    if not isinstance(arguments, Mapping):
        return ()
    values = {
        str(name).removeprefix(KEY_PREFIX): value
        for name, value in arguments.items()
        if str(name).startswith(KEY_PREFIX)
    }
    return [{name: value for name, value in values.items() if isinstance(value, str)}] if values else ()
