"""Evidence of what is expected: commits of datasets and completed runs of schedules. Times are UTC."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from streamsched.domain.expectations.expectation import SubjectKind
from streamsched.domain.expectations.key_template import columns_of, key_of
from streamsched.domain.expectations.presence import evidence_mark
from streamsched.domain.limits import add_duration
from streamsched.domain.schedules.arguments import KEY_PREFIX
from streamsched.ports.intake import IntakeBatch, IntakeResult
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.positions import StoredPositions
from streamsched.store.sql import Select, fetch_value, queries
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


@dataclass(frozen=True, slots=True)
class Evidence:
    """A commit of a dataset, or a completed run of a schedule.

    Attributes:
        mark: the same for a repeat of the event.
        at: when the log had it, or when the run ended.
        values: the columns of each partition, or of the key of the job.
    """

    kind: SubjectKind
    subject: str
    mark: bytes
    at: datetime
    values: Sequence[Mapping[str, str]] = ()


class _Template(NamedTuple):
    """A subject that is expected, and the template of its keys; empty: any will do."""

    subject: str
    template: str


class _CompletedRun(NamedTuple):
    """A line of the history about a run of a schedule."""

    id: int
    at: datetime
    subject: str


class _RunOfSchedule(NamedTuple):
    """A run that a schedule started, with its arguments."""

    id: str
    schedule: str
    arguments: Any


_KNOWN: Final = Select(_SQL["known"], _Template)
_COMPLETED: Final = Select(_SQL["completed"], _CompletedRun)
_RUNS: Final = Select(_SQL["runs"], _RunOfSchedule)


class EvidenceStore(StoredPositions):
    """`ports.intake.IntakeStore` of evidence: stores what is expected, and drops the rest. All methods raise
    `UnavailableError` when PostgreSQL is unavailable.
    """

    async def take(self, topic: str, batches: Sequence[IntakeBatch[Evidence | None]], *, now: datetime) -> IntakeResult:
        """Stores what expectations are about with the positions after it, in one transaction."""
        del now
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                starts = [batch.partition for batch in batches], [batch.start for batch in batches]
                held = {partition for (partition,) in await connection.fetch(_SQL["hold"], topic, *starts)}
                taken = [batch for batch in batches if batch.partition in held]
                found = [each for batch in taken for each in batch.rows if each is not None]
                stored = await store_evidence(connection, SubjectKind.DATASET, found)
                moved = [batch.partition for batch in taken], [batch.next for batch in taken]
                await connection.execute(_SQL["move"], topic, *moved)
        return IntakeResult(frozenset(held), stored, len(found) - stored)

    async def expects(self, kind: SubjectKind) -> bool:
        """Whether an expectation is about something of a kind."""
        with translate_errors():
            return await fetch_value(self._pool, _SQL["expects"], bool, kind.value)

    async def read_to(self, kind: SubjectKind, at: datetime) -> None:
        """All of a kind that came up to `at` is stored."""
        with translate_errors():
            await self._pool.execute(_SQL["read_to"], kind.value, at)

    async def begin(self, topic: str, positions: Mapping[int, int]) -> None:
        """Stores positions to begin at, unless there are some already."""
        with translate_errors():
            await self._pool.execute(_SQL["begin"], topic, list(positions), list(positions.values()))

    async def end(self, topic: str) -> None:
        """Nothing reads the topic any more: its positions are removed. Idempotent."""
        with translate_errors():
            await self._pool.execute(_SQL["end"], topic)

    async def forget(self, *, now: datetime) -> int:
        """Deletes evidence and misses that nothing needs any more; returns how many rows."""
        deleted = 0
        with translate_errors():
            for query, *arguments in (
                ("forget", now, MOST_EVIDENCE),
                ("forget_keys", now, MOST_EVIDENCE),
                ("forget_misses", add_duration(now, -_KEEP_MISSES), MOST_MISSES),
            ):
                deleted += int((await self._pool.execute(_SQL[str(query)], *arguments)).rpartition(" ")[2])
        return deleted


class CompletionStore:
    """The history of runs, as evidence. One reader, one object: it remembers which lines are settled, and where the
    history ended while no schedule was expected.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._history = PostgresWorkHistory(pool)
        self._asked: tuple[int, datetime] | None = None
        self._idle_at: int | None = None

    async def take(self, *, now: datetime, limit: int) -> int:
        """Stores the evidence of the next lines of the history about completed runs of schedules that are expected,
        with the position, in one transaction. Returns how many lines were read; fewer than `limit`: all are read that
        were there at `now`, as far as they are settled.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        self._asked = self._asked or (await self._history.last_number(), now)
        with translate_errors():
            if not await fetch_value(self._pool, _SQL["expects"], bool, SubjectKind.SCHEDULE.value):
                await self._pool.execute(_SQL["end_reader"], _COMPLETIONS)
                self._idle_at, self._asked = self._asked[0], None
                return 0
        begin = self._asked[0] if self._idle_at is None else self._idle_at
        settled = await self._history.settled_number()
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                position = await connection.fetchval(_SQL["reader"], _COMPLETIONS)
                if position is None:
                    await connection.execute(_SQL["begin_reader"], _COMPLETIONS, begin)
                    position = begin
                rows = await _COMPLETED.fetch(connection, position, settled, limit) if settled > position else []
                reached = rows[-1].id if len(rows) == limit else max(position, settled)
                await store_evidence(connection, SubjectKind.SCHEDULE, await _evidence_of_runs(connection, rows))
                if reached > position:
                    await connection.execute(_SQL["advance_reader"], _COMPLETIONS, reached)
                if self._asked[0] <= reached:
                    await connection.execute(_SQL["read_to"], SubjectKind.SCHEDULE.value, self._asked[1])
        if self._asked[0] <= reached:
            self._asked = None
        return len(rows)


async def store_evidence(connection: Connection, kind: SubjectKind, found: Sequence[Evidence]) -> int:
    """Stores what expectations are about; returns how much of it that is."""
    if not found:
        return 0
    subjects = sorted({each.subject for each in found})
    templates: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for row in await _KNOWN.fetch(connection, kind.value, subjects):
        templates[row.subject].add(columns_of(row.template))
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


async def _evidence_of_runs(connection: Connection, rows: Sequence[_CompletedRun]) -> list[Evidence]:
    """The completed runs of schedules that are expected, with the columns of their keys."""
    owners = {row.subject: ".".join(row.subject.split(".", _OWNER)[:_OWNER]) for row in rows}
    known = await _KNOWN.fetch(connection, SubjectKind.SCHEDULE.value, sorted(set(owners.values())))
    expected = {row.subject for row in known}
    wanted = [run for run, owner in owners.items() if owner in expected]
    found = await _RUNS.fetch(connection, wanted) if wanted else ()
    ended = {row.subject: row.at for row in rows}
    return [
        Evidence(
            SubjectKind.SCHEDULE, row.schedule, evidence_mark(row.id), ended[row.id], _columns_of_key(row.arguments)
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
