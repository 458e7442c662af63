"""Many runs of one process, claimed and ended in a fixed number of statements.

Only the plain case is handled here. A run that is to stop, a schedule that changed or limits the duration of runs, and
an end without success are left to `store.runs.run_store`, so that each rule is stated once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from streamsched.codec import event as event_codec
from streamsched.codec.schedules.schedule import program_from_json, schedule_from_json
from streamsched.domain.errors import ConflictError
from streamsched.domain.events.event import Event
from streamsched.domain.jobs.run import RUN_STATES, RunFact, RunState, status_event
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.tasks.task import TaskRequest
from streamsched.log.topics import PROGRAM_STATUS, public_topic
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.runs import Assignment, RunEnd, StopRequest
from streamsched.store.catalog import history, outbox
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.limits import groups, lanes
from streamsched.store.runs import failing
from streamsched.store.runs.arrived_nodes import ArrivedNode, complete_nodes
from streamsched.store.runs.ending import ancestors_of_run
from streamsched.store.runs.rows import SQL, LiveRun
from streamsched.store.runs.run_store import FACTS, PostgresRunStore, satisfaction, stop_request
from streamsched.store.sql import Select, queries
from streamsched.store.tasks.registration import enqueue

_SQL: Final = queries("runs/run_batch")


class EnqueuedTask(NamedTuple):
    """A task that the end of a run makes."""

    queue: str
    request: TaskRequest


#: What the end of a run makes.
Product = EnqueuedTask | ArrivedNode


class _LockedSchedule(NamedTuple):
    id: str
    definition: Any


class _ClaimedRun(NamedTuple):
    id: str
    attempt: int
    job: str | None
    executable: Any
    arguments: Mapping[str, str]
    schedule: str | None
    ready: str | None


class _BeatenRun(NamedTuple):
    id: str
    stop_requested: str | None
    stop_at_once: bool


class _RunState(NamedTuple):
    id: str
    state: str


_LOCK_SCHEDULES: Final = Select(_SQL["lock_schedules"], _LockedSchedule)
_CLAIM: Final = Select(_SQL["claim"], _ClaimedRun)
_BEAT: Final = Select(_SQL["beat"], _BeatenRun)
_STARTING: Final = Select(_SQL["starting"], LiveRun)
_GOING_ON: Final = Select(_SQL["going_on"], LiveRun)
_LIVE: Final = Select(_SQL["live"], _RunState)


class RunBatch:
    """As `ports.runs.RunStore`, for many runs of one process. Each call is idempotent, and one transaction, with one
    more for each run that is not plain.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._single = PostgresRunStore(pool)

    async def claim(
        self, runs: Sequence[str], *, runner: str, log_path: str | None, now: datetime
    ) -> Sequence[Assignment]:
        """`RunStore.claim` for each; the runs it gives to the caller.

        Raises:
            InvalidError: one of them cannot be read; some may be claimed, and the call may be repeated.
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                definitions: Mapping[str | None, Schedule] = {
                    row.id: schedule_from_json(row.definition) for row in await _LOCK_SCHEDULES.fetch(connection, runs)
                }
                rows = await _CLAIM.fetch(connection, runs, runner, log_path, now)
        claimed = [
            Assignment(
                row.id,
                row.attempt,
                program_from_json(row.executable),
                row.arguments,
                row.job,
                satisfaction(row.ready),
                definitions.get(row.schedule),
            )
            for row in rows
        ]
        for run in set(runs) - {each.run for each in claimed}:
            assignment = await self._single.claim(run, runner=runner, log_path=log_path, now=now)
            if assignment is not None:
                claimed.append(assignment)
        return claimed

    async def mark_started(
        self, runs: Sequence[str], *, runner: str, now: datetime
    ) -> Mapping[str, StopRequest | None]:
        """STARTING → RUNNING, with events on `program-status`, except of runs that are to stop. Returns what
        `heartbeat` returns.

        Raises:
            InvalidError: one of them cannot be stored; nothing changed.
            UnavailableError: PostgreSQL is unavailable; the call may be repeated.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                rows = await _STARTING.fetch(connection, runs, runner)
                starts = _StartRecords(now)
                for row in rows:
                    if row.state == RunState.STARTING and row.stop_requested is None:
                        starts.add(row)
                await connection.execute(_SQL["start"], starts.runs, now)
                await outbox.copy(connection, starts.announced.records)
                await history.copy(connection, starts.announced.history)
        return _stops(rows)

    async def heartbeat(self, runs: Sequence[str], *, runner: str, now: datetime) -> Mapping[str, StopRequest | None]:
        """Stores heartbeats. Returns the requested stops; a missing run is no longer this runner's: it was taken back,
        marked lost, or has ended.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            return _stops(await _BEAT.fetch(self._pool, runs, runner, now))

    async def finish(
        self,
        endings: Mapping[str, RunEnd],
        *,
        events: Mapping[str, Event],
        products: Mapping[str, Product] | None = None,
    ) -> Sequence[str]:
        """`RunStore.finish` for each; publishes the events, makes the tasks and completes the nodes of runs COMPLETED
        by this call in the same transaction. A node that has been completed stays so. Returns those that had not ended
        before.

        Raises:
            NotFoundError: there is no such queue for a task, or no such task in the graph of a node.
            InvalidError: one of them cannot be stored; some of the others may be, and the call may be repeated.
            ConflictError: concurrent changes of these runs, repeatedly.
            UnavailableError: PostgreSQL is unavailable.
        """
        plain = {run: each for run, each in endings.items() if each.state is RunState.COMPLETED}
        ended = await self._end(plain, events, products or {}) if plain else []
        ended += [run for run, each in endings.items() if run not in plain and await self._single.finish(run, each)]
        return ended

    async def _end(
        self,
        endings: Mapping[str, RunEnd],
        events: Mapping[str, Event],
        products: Mapping[str, Product],
        tries: int = 3,
    ) -> list[str]:
        """Outbox, history, tasks and nodes are written before the programs are locked: their locks delay decisions."""
        with translate_errors():
            try:
                async with self._pool.acquire() as connection, connection.transaction():
                    rows = await _GOING_ON.fetch(connection, list(endings))
                    if not rows:
                        return []
                    ends = _EndRecords()
                    for row in rows:
                        ends.add(row, endings[row.id], events.get(row.id))
                    await outbox.copy(connection, ends.announced.records)
                    await history.copy(connection, ends.announced.history)
                    runs = [row.id for row in rows]
                    await _store_products(connection, [products[run] for run in runs if run in products], endings)
                    programs = list(ends.programs)
                    if [(row.id, row.state) for row in rows] != await _LIVE.fetch(connection, runs, programs):
                        raise ConflictError("a run changed while its end was being written")
                    await failing.note_recovery(connection, rows, max(each.at for each in endings.values()))
                    await connection.execute(_SQL["finish"], *(list(each) for each in zip(*ends.outcomes, strict=True)))
                    await connection.execute(SQL["wake"], programs)
                    await lanes.wake_after(connection, runs)
                    await groups.free_slots(connection, *runs)
                    return runs
            except ConflictError:
                if tries == 1:
                    raise
        return await self._end(endings, events, products, tries - 1)


async def _store_products(connection: Connection, products: Sequence[Product], endings: Mapping[str, RunEnd]) -> None:
    """Raises:
    NotFoundError, InvalidError: as `RunBatch.finish`.
    """
    if not products:
        return
    now = max(each.at for each in endings.values())
    if tasks := [each for each in products if isinstance(each, EnqueuedTask)]:
        await enqueue(connection, tasks, now)
    if nodes := [each for each in products if isinstance(each, ArrivedNode)]:
        await complete_nodes(connection, nodes, now)


class _StatusRecords:
    """Status events of runs, as outbox records. Those of a muted run are only written to the history."""

    def __init__(self) -> None:
        self.records: list[OutboxRecord] = []
        self.history: list[tuple[datetime, str, str, str, str]] = []

    def add(self, row: LiveRun, program: ProgramRef, *states: RunState, at: datetime, reason: str = "") -> None:
        """Adds the statuses that a run has had, one after another."""
        if row.muted:
            for state in states:
                self.history.append((at, "run", row.id, "run.muted", f"no schedule is given its status {state}"))
            return
        ancestors, arguments = ancestors_of_run(row, program), row.arguments
        for state in states:
            error = None if state in (RunState.COMPLETED, RunState.RUNNING) else reason
            event = status_event(row.id, program, state, at=at, arguments=arguments, error=error, ancestors=ancestors)
            if event is not None:
                self.records.append(OutboxRecord(PROGRAM_STATUS, event.key, event_codec.encode(event)))


class _StartRecords:
    """What the starts of runs write to the outbox and to the history."""

    def __init__(self, at: datetime) -> None:
        self._at = at
        self._programs: dict[str, ProgramRef] = {}
        self.runs: list[str] = []
        self.announced = _StatusRecords()

    def add(self, row: LiveRun) -> None:
        name = row.program
        program = self._programs.get(name) or self._programs.setdefault(name, ProgramRef.parse(name))
        self.announced.add(row, program, RUN_STATES.advance(RunState.STARTING, RunFact.STARTED), at=self._at)
        self.announced.history.append((self._at, "run", row.id, "run.started", ""))
        self.runs.append(row.id)


class _EndRecords:
    """What the ends of runs write: outbox records and history, and (run, state, exit code, reason, time)."""

    def __init__(self) -> None:
        self.announced = _StatusRecords()
        self.outcomes: list[tuple[str, str, int | None, str, datetime]] = []
        self.programs: dict[str, ProgramRef] = {}

    def add(self, row: LiveRun, ending: RunEnd, event: Event | None) -> None:
        run, state, name = row.id, RunState(row.state), row.program
        program = self.programs.get(name) or self.programs.setdefault(name, ProgramRef.parse(name))
        states: list[RunState] = []
        if state is RunState.STARTING and ending.exit_code is not None:  # it ended before its start was stored
            states.append(state := RUN_STATES.advance(state, RunFact.STARTED))
            self.announced.history.append((ending.at, "run", run, "run.started", ""))
        states.append(state := RUN_STATES.advance(state, FACTS[ending.state]))
        self.announced.add(row, program, *states, at=ending.at, reason=ending.reason)
        if event is not None:
            self.announced.records.append(OutboxRecord(public_topic(event.fact), event.key, event_codec.encode(event)))
        self.announced.history.append((ending.at, "run", run, f"run.{state.lower()}", ending.reason))
        self.outcomes.append((run, state, ending.exit_code, ending.reason, ending.at))


def _stops(rows: Sequence[LiveRun | _BeatenRun]) -> Mapping[str, StopRequest | None]:
    return {row.id: stop_request(row.stop_requested, row.stop_at_once) for row in rows}
