"""`ports.runs.RunBatch` on PostgreSQL: many runs claimed and ended in a fixed number of statements.

Only the plain case is handled here. A run that is to stop, a schedule that changed or limits the duration of runs, and
an end without success are left to `store.runs.run_store`, so that each rule is stated once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import asyncpg

from streamsched.codec import event as event_codec
from streamsched.codec.schedules.schedule import stored_schedule_from_json
from streamsched.domain.errors import ConflictError
from streamsched.domain.events.event import Event
from streamsched.domain.jobs.run import RUN_STATES, RunFact, RunState, status_event
from streamsched.domain.names import ProgramRef
from streamsched.log.topics import PROGRAM_STATUS, public_topic
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.runs import ArrivedNode, Assignment, EnqueuedTask, Product, RunEnd, StopRequest
from streamsched.store.catalog import history, outbox
from streamsched.store.connections import Connection, translated
from streamsched.store.limits import groups, lanes
from streamsched.store.runs import failing
from streamsched.store.runs.arrived_nodes import arrive
from streamsched.store.runs.ending import ancestors_of_run
from streamsched.store.runs.run_store import FACTS, PostgresRunStore, assigned, satisfaction
from streamsched.store.sql import queries
from streamsched.store.tasks.registration import enqueue

_SQL: Final = queries("runs/run_batch")


class PostgresRunBatch:
    """See `ports.runs.RunBatch`. Each call is one transaction, and one more for each run that is not plain."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._single = PostgresRunStore(pool)

    async def claim(
        self, runs: Sequence[str], *, runner: str, log_path: str | None, now: datetime
    ) -> Sequence[Assignment]:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                definitions = {
                    row["id"]: stored_schedule_from_json(row["definition"])
                    for row in await connection.fetch(_SQL["lock_schedules"], runs)
                }
                rows = await connection.fetch(_SQL["claim"], runs, runner, log_path, now)
        claimed = [assigned(row, satisfaction(row), definitions.get(row["schedule"])) for row in rows]
        for run in set(runs) - {each.run for each in claimed}:
            assignment = await self._single.claim(run, runner=runner, log_path=log_path, now=now)
            if assignment is not None:
                claimed.append(assignment)
        return claimed

    async def started(self, runs: Sequence[str], *, runner: str, now: datetime) -> Mapping[str, StopRequest | None]:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                rows = await connection.fetch(_SQL["starting"], runs, runner)
                starts = _StartRecords(now)
                for row in rows:
                    if row["state"] == RunState.STARTING and row["stop_requested"] is None:
                        starts.add(row)
                await connection.execute(_SQL["start"], starts.runs, now)
                await outbox.copy(connection, starts.announced.records)
                await history.copy(connection, starts.announced.history)
        return _stops(rows)

    async def heartbeat(self, runs: Sequence[str], *, runner: str, now: datetime) -> Mapping[str, StopRequest | None]:
        with translated():
            rows = await self._pool.fetch(_SQL["beat"], runs, runner, now)
        return _stops(rows)

    async def finish(
        self,
        endings: Mapping[str, RunEnd],
        *,
        events: Mapping[str, Event],
        products: Mapping[str, Product] | None = None,
    ) -> Sequence[str]:
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
        with translated():
            try:
                async with self._pool.acquire() as connection, connection.transaction():
                    rows = await connection.fetch(_SQL["going_on"], list(endings))
                    if not rows:
                        return []
                    ends = _EndRecords()
                    for row in rows:
                        ends.add(row, endings[row["id"]], events.get(row["id"]))
                    await outbox.copy(connection, ends.announced.records)
                    await history.copy(connection, ends.announced.history)
                    runs = [row["id"] for row in rows]
                    await _make(connection, [products[run] for run in runs if run in products], endings)
                    await connection.execute(_SQL["lock_programs"], list(ends.programs))
                    locked = await connection.fetch(_SQL["live"], runs)
                    if [(row["id"], row["state"]) for row in rows] != [(row["id"], row["state"]) for row in locked]:
                        raise ConflictError("a run changed while its end was being written")
                    await failing.note_recovery(connection, rows, max(each.at for each in endings.values()))
                    for outcome, rows_of_it in ends.by_outcome.items():
                        await connection.execute(
                            _SQL["finish"], *outcome, *(list(each) for each in zip(*rows_of_it, strict=True))
                        )
                    await connection.execute(_SQL["wake"], list(ends.programs))
                    await lanes.wake_after(connection, runs)
                    await groups.free(connection, *runs)
                    return runs
            except ConflictError:
                if tries == 1:
                    raise
        return await self._end(endings, events, products, tries - 1)


async def _make(connection: Connection, products: Sequence[Product], endings: Mapping[str, RunEnd]) -> None:
    """Raises:
    NotFoundError, InvalidError: as `RunBatch.finish`.
    """
    if not products:
        return
    now = max(each.at for each in endings.values())
    if tasks := [each for each in products if isinstance(each, EnqueuedTask)]:
        await enqueue(connection, tasks, now)
    if nodes := [each for each in products if isinstance(each, ArrivedNode)]:
        await arrive(connection, nodes, now)


class _StatusRecords:
    """Status events of runs, as outbox records. Those of a muted run are only written to the history."""

    def __init__(self) -> None:
        self.records: list[OutboxRecord] = []
        self.history: list[tuple[datetime, str, str, str, str]] = []

    def add(self, row: Any, program: ProgramRef, state: RunState, *, at: datetime, reason: str = "") -> None:
        if row["muted"]:
            self.history.append((at, "run", row["id"], "run.muted", f"no schedule is given its status {state}"))
            return
        error = None if state in (RunState.COMPLETED, RunState.RUNNING) else reason
        ancestors, arguments = ancestors_of_run(row, program), row["arguments"]
        event = status_event(row["id"], program, state, at=at, arguments=arguments, error=error, ancestors=ancestors)
        if event is not None:
            self.records.append(OutboxRecord(PROGRAM_STATUS, event.key, event_codec.encode(event)))


class _StartRecords:
    """What the starts of runs write to the outbox and to the history."""

    def __init__(self, at: datetime) -> None:
        self._at = at
        self._programs: dict[str, ProgramRef] = {}
        self.runs: list[str] = []
        self.announced = _StatusRecords()

    def add(self, row: Any) -> None:
        name = row["program"]
        program = self._programs.get(name) or self._programs.setdefault(name, ProgramRef.parse(name))
        self.announced.add(row, program, RUN_STATES.advance(RunState.STARTING, RunFact.STARTED), at=self._at)
        self.announced.history.append((self._at, "run", row["id"], "run.started", ""))
        self.runs.append(row["id"])


class _EndRecords:
    """What the ends of runs write: outbox records and history, and (run, reason, time) by state and exit code."""

    def __init__(self) -> None:
        self.announced = _StatusRecords()
        self.by_outcome: dict[tuple[str, int | None], list[tuple[str, str, datetime]]] = {}
        self.programs: dict[str, ProgramRef] = {}

    def add(self, row: Any, ending: RunEnd, event: Event | None) -> None:
        run, state, name = row["id"], RunState(row["state"]), row["program"]
        program = self.programs.get(name) or self.programs.setdefault(name, ProgramRef.parse(name))
        if state is RunState.STARTING and ending.exit_code is not None:  # it ended before its start was stored
            state = RUN_STATES.advance(state, RunFact.STARTED)
            self.announced.add(row, program, state, at=ending.at)
            self.announced.history.append((ending.at, "run", run, "run.started", ""))
        state = RUN_STATES.advance(state, FACTS[ending.state])
        self.announced.add(row, program, state, at=ending.at, reason=ending.reason)
        if event is not None:
            self.announced.records.append(OutboxRecord(public_topic(event.fact), event.key, event_codec.encode(event)))
        self.announced.history.append((ending.at, "run", run, f"run.{state.lower()}", ending.reason))
        self.by_outcome.setdefault((state, ending.exit_code), []).append((run, ending.reason, ending.at))


def _stops(rows: Sequence[Any]) -> Mapping[str, StopRequest | None]:
    return {
        row["id"]: None if row["stop_requested"] is None else StopRequest(row["stop_requested"], row["stop_at_once"])
        for row in rows
    }
