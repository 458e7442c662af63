"""Leases of launchers: the inline runs of a lost launcher go back. They are found in one statement, and requeued or
repeated in a fixed number of statements for every `_AT_ONCE` runs.

Only the plain case is handled here; a started run that is not repeated is left to `store.runs.run_monitor`, so that
each rule is stated once. Locks: the launcher, then for every set of runs its schedules and its runs, both sorted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import structlog

from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.errors import SYSTEMIC, describe_failure
from streamsched.domain.failure_isolation import FailureIsolation
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.limits import add_duration
from streamsched.domain.schedules.retry import Retry
from streamsched.store.catalog import history
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.expected_time import ExpectedTime, expected_parameter
from streamsched.store.limits import groups
from streamsched.store.runs.attempts import NextAttempt, repeat_lost
from streamsched.store.runs.rows import StartedRun
from streamsched.store.runs.run_monitor import RunMonitorStore, SilentRun
from streamsched.store.sql import Select, fetch_value, queries

log = structlog.get_logger()

_SQL: Final = queries("runs/launchers")
#: Runs of one transaction.
_AT_ONCE: Final = 4096
#: Started runs that are ended one by one in one call.
_SINGLY: Final = 100

_Runs = Sequence[str]


class _HeldRun(NamedTuple):
    id: str
    started: bool


_HELD: Final = Select(_SQL["held"], _HeldRun)
_STARTED: Final = Select(_SQL["started"], StartedRun)


@dataclass(frozen=True, slots=True)
class RecoveredRuns:
    """What became of the inline runs of one launcher.

    Attributes:
        requeued: never started, PENDING again; no attempt was used up.
        repeated: started, therefore LOST and followed by another attempt.
        ended: started, and LOST for good: the retry policy, a stop or a change of the schedule permits no repetition.
        more: whether started runs are left; call again.
    """

    requeued: int = 0
    repeated: int = 0
    ended: int = 0
    more: bool = False

    @property
    def runs(self) -> int:
        """How many runs were taken care of."""
        return self.requeued + self.repeated + self.ended


class LauncherLeases:
    """The leases of launchers, which are named by their `RunnerId` as text. Every method raises UnavailableError when
    the database is unavailable. With `theirs` no lease expires while the clock says something else.
    """

    def __init__(self, pool: Pool, *, theirs: ExpectedTime | None = None) -> None:
        self._pool = pool
        self._theirs = theirs
        self._single = RunMonitorStore(pool)

    async def renew(self, launcher: str, ttl: timedelta, places: Mapping[ProcessKind, int] | None = None) -> None:
        """Holds the lease for another `ttl`, also one that expired. `places`: for how many processes the launcher has
        places; None: it does not say.
        """
        sizes = [None if places is None else places[kind] for kind in (ProcessKind.HOST, ProcessKind.CLUSTER)]
        with translate_errors():
            await self._pool.execute(_SQL["renew"], launcher, ttl, *sizes)

    async def release(self, launcher: str) -> None:
        """Ends the lease now: others may take back what is left. Idempotent."""
        with translate_errors():
            await self._pool.execute(_SQL["release"], launcher)

    async def list_expired(self, launcher: str, ttl: timedelta) -> Sequence[str]:
        """Other launchers whose leases have expired, at most 100; none until `launcher` has held its own for `ttl`."""
        with translate_errors():
            rows = await self._pool.fetch(_SQL["expired"], launcher, ttl, expected_parameter(self._theirs))
        return [row["runner"] for row in rows]

    async def recover(
        self, launcher: str, ttl: timedelta, *, gone: bool, attempts: int, now: datetime
    ) -> RecoveredRuns | None:
        """Takes back the inline runs of a launcher whose lease has expired, all that were never started before any
        other. With `gone`, the started ones are marked lost too, as `RunMonitorStore.mark_lost` does, and the lease is
        forgotten with the last of them. Without, its process lives, and may be receiving the answers.

        None, without a change: its lease was renewed, or another launcher is recovering it.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                if await connection.fetchval(_SQL["lock"], launcher, ttl, expected_parameter(self._theirs)) is None:
                    return None
                held = await _HELD.fetch(self._pool, launcher)
                recovery = _Recovery(self._pool, self._single, launcher, attempts, now)
                await recovery.requeue([run.id for run in held if not run.started])
                if not gone:
                    return RecoveredRuns(recovery.requeued)
                await recovery.repeat([run.id for run in held if run.started])
                await recovery.end()
                if not recovery.others:
                    await connection.execute(_SQL["forget"], launcher)
        return RecoveredRuns(recovery.requeued, recovery.repeated, recovery.ended, bool(recovery.others))


class _Recovery:
    """The recovery of one launcher, whose row is locked. Each set of runs has a transaction of its own, and parts of
    one that fails; a run that fails alone is left to the run monitor, which finds it by its silence.
    """

    def __init__(self, pool: Pool, single: RunMonitorStore, launcher: str, attempts: int, now: datetime) -> None:
        self._pool = pool
        self._single = single
        self._launcher = launcher
        self._attempts = attempts
        self._now = now
        self._why = f"its launcher {launcher} is gone"
        self.requeued = self.repeated = self.ended = 0
        self.others: list[SilentRun] = []

    async def requeue(self, runs: _Runs) -> None:
        for start in range(0, len(runs), _AT_ONCE):
            await self._change(runs[start : start + _AT_ONCE], self._requeue)

    async def repeat(self, runs: _Runs) -> None:
        for start in range(0, len(runs), _AT_ONCE):
            await self._change(runs[start : start + _AT_ONCE], self._repeat)

    async def end(self) -> None:
        """Ends some of the runs that are not plain, each in a transaction of its own."""
        some, self.others = self.others[:_SINGLY], self.others[_SINGLY:]
        for run in some:
            try:
                lost = await self._single.mark_lost(run, self._why, now=self._now, attempts=self._attempts)
            except SYSTEMIC:
                raise
            except Exception as failure:  # noqa: BLE001 - its row may hold anything; the other runs are ended
                log.error("run.end_failed", run=run.run, reason=describe_failure(failure))
                continue
            if lost is not None and lost.next_run is not None:
                self.repeated += 1
            elif lost is not None:
                self.ended += 1

    async def _change(self, runs: _Runs, change: Callable[[Connection, _Runs], Awaitable[None]]) -> None:
        search = FailureIsolation(runs)
        for part in search:
            try:
                with translate_errors():
                    async with self._pool.acquire() as connection, connection.transaction():
                        await change(connection, part)
            except Exception as failure:  # noqa: BLE001 - as above
                if not search.halve(failure):
                    log.error("run.recovery_failed", run=part[0], reason=describe_failure(failure))

    async def _requeue(self, connection: Connection, runs: _Runs) -> None:
        why = f"{self._why}; it was not started"
        self.requeued += await fetch_value(connection, _SQL["requeue"], int, runs, self._launcher, self._now, why)

    async def _repeat(self, connection: Connection, runs: _Runs) -> None:
        default = Retry(self._attempts, frozenset({Failure.LOST}), timedelta(0))
        await connection.execute(_SQL["lock_schedules"], runs)
        others: list[SilentRun] = []
        lost: list[str] = []
        again: list[NextAttempt] = []
        for row in await _STARTED.fetch(connection, runs, self._launcher):
            following = repeat_lost(row, default, self._why)
            if following is None:
                others.append(SilentRun(row.id, row.attempt, self._launcher, row.heartbeat_at))
            else:
                lost.append(row.id)
                again.append(following)
        if lost:
            await self._store(connection, lost, again)
        self.repeated += len(lost)
        self.others += others

    async def _store(self, connection: Connection, lost: _Runs, again: Sequence[NextAttempt]) -> None:
        made = [each.run for each in again]
        starts = [add_duration(self._now, each.pause) for each in again]
        await connection.execute(_SQL["lose"], lost, self._why, self._now)
        await connection.execute(_SQL["repeat"], lost, made, self._now, starts)
        await groups.hand_over(connection, lost, made)
        lines = [(self._now, "run", run, "run.lost", self._why) for run in lost]
        lines += [(self._now, "run", each.run, "run.created", each.why) for each in again]
        await history.copy(connection, lines)
