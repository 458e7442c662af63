"""Spans: of which jobs and runs they are due. A row says that itself, and is settled after the receiver has accepted
them. So none is forgotten when a process dies in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

from streamsched.codec.records import launch
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.spans import EndedJob, EndedRun
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.sql import Select, queries

_SQL: Final = queries("jobs/spans")
_SENT: Final = "sent"
_DROPPED: Final = "dropped"
#: Most rows of each table that one statement drops.
_AT_ONCE: Final = 1000
#: What verdicts name besides runs and jobs (`domain.decisions.admission`).
_SHARED: Final = ("group ", "pool ", "plug-in ", "cluster ")
_RUNS: Final = "runs"
_TIME: Final = "time"
#: Most things of `waited_for`.
_NAMED: Final = 8
_T = TypeVar("_T")


class _Job(NamedTuple):
    id: str
    program: str
    state: str
    created_at: datetime
    ended_at: datetime
    waiting: Any
    ready: str
    admitted_at: datetime | None


class _Run(NamedTuple):
    id: str
    program: str
    attempt: int
    state: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime
    exit_code: int | None
    ready: str | None
    stored_at: datetime | None


_Row = TypeVar("_Row", _Job, _Run)
_DUE_JOBS: Final = Select(_SQL["due_jobs"], _Job)
_DUE_RUNS: Final = Select(_SQL["due_runs"], _Run)


@dataclass(frozen=True, slots=True)
class DueSpans:
    """Jobs and runs that have ended and whose spans have not been sent.

    Attributes:
        unreadable: ids of jobs, and of runs, whose rows hold something else; no span can be made of them.
    """

    jobs: Sequence[EndedJob]
    runs: Sequence[EndedRun]
    unreadable: tuple[Sequence[str], Sequence[str]] = ((), ())

    @property
    def count(self) -> int:
        """Jobs and runs together."""
        return len(self.jobs) + len(self.runs) + sum(map(len, self.unreadable))


class SpanStore:
    """The jobs and runs of an installation, by their spans."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_due(self, *, limit: int) -> DueSpans:
        """At most `limit` jobs and as many runs, those that ended first.

        Raises:
            UnavailableError: the database cannot be reached.
        """
        with translate_errors():
            jobs = await _DUE_JOBS.fetch(self._pool, limit)
            runs = await _DUE_RUNS.fetch(self._pool, limit)
        read_jobs, bad_jobs = _read_rows(jobs, _job)
        read_runs, bad_runs = _read_rows(runs, _run)
        return DueSpans(read_jobs, read_runs, (bad_jobs, bad_runs))

    async def settle(self, due: DueSpans, *, sent: bool) -> None:
        """The spans of these are sent, or else dropped; those of unreadable rows are dropped. Idempotent.

        Raises:
            UnavailableError: the database cannot be reached.
        """
        outcome = _SENT if sent else _DROPPED
        jobs, runs = [each.ready.id for each in due.jobs], [each.run for each in due.runs]
        bad_jobs, bad_runs = due.unreadable
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                for query, rows, how in (
                    ("settle_jobs", jobs, outcome),
                    ("settle_runs", runs, outcome),
                    ("settle_jobs", bad_jobs, _DROPPED),
                    ("settle_runs", bad_runs, _DROPPED),
                ):
                    if rows:
                        await connection.execute(_SQL[query], rows, how)

    async def drop_ended_before(self, before: datetime) -> int:
        """Drops the spans of jobs and runs that ended before then; how many jobs and runs there were.

        Raises:
            UnavailableError: the database cannot be reached.
        """
        dropped = 0
        with translate_errors():
            while found := await self._pool.fetchval(_SQL["drop_old"], before, _AT_ONCE):
                dropped += found
        return dropped


def _read_rows(rows: Sequence[_Row], read: Callable[[_Row], _T]) -> tuple[list[_T], list[str]]:
    """The rows that can be read, and the ids of the others."""
    found: list[_T] = []
    unreadable: list[str] = []
    for row in rows:
        try:
            found.append(read(row))
        except Exception:  # noqa: BLE001 - a row may hold anything; the others have spans
            unreadable.append(row.id)
    return found, unreadable


def _job(row: _Job) -> EndedJob:
    return EndedJob(
        ready=launch.decode(row.ready),
        program=row.program,
        state=JobState(row.state),
        stored_at=row.created_at,
        admitted_at=row.admitted_at,
        ended_at=row.ended_at,
        waited_for=tuple(dict.fromkeys(_waited_names(row.waiting)))[:_NAMED],
    )


def _run(row: _Run) -> EndedRun:
    return EndedRun(
        run=row.id,
        ready=None if row.ready is None else launch.decode(row.ready),
        program=row.program,
        attempt=row.attempt,
        state=RunState(row.state),
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        exit_code=row.exit_code,
        stored_at=row.stored_at,
    )


def _waited_names(verdicts: Any) -> Iterator[str]:
    """What the stored verdicts wait for: names of what is shared, `runs`, or `time`; never a text of a plug-in."""
    for verdict in verdicts if isinstance(verdicts, list) else ():
        match verdict:
            case {"kind": "wait_until"}:
                yield _TIME
            case {"kind": "wait_for", "what": [*things]}:
                for each in things:
                    yield each if isinstance(each, str) and each.startswith(_SHARED) else _RUNS
