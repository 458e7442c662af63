"""Many runs at once: claimed and ended set by set, in a handful of statements whatever their number.

For whoever executes many short runs in one process. What is not plain (a run that somebody wants to end, a schedule
that moved on or limits how long runs may take, an end that is no success) goes the way of the single run,
`store.execution`, so every rule stands once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import asyncpg

from streamsched.codec import event as event_codec
from streamsched.codec.schedule import schedule_from_json
from streamsched.domain.errors import ConflictError
from streamsched.domain.event import Event
from streamsched.domain.names import ProgramRef
from streamsched.domain.run import RunFact, RunState, advance, status_event
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.runs import Assignment, Ending, Stop
from streamsched.ports.topics import PROGRAM_STATUS, public_topic
from streamsched.store import decisions, groups, outbox
from streamsched.store.execution import FACTS, PostgresRunBook, assigned
from streamsched.store.pool import translated
from streamsched.store.sql import queries

_SQL: Final = queries("crowd")


class PostgresRunCrowd:
    """See `ports.runs.RunCrowd`. Each call is one transaction, and one more for each run that is not plain."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._single = PostgresRunBook(pool)

    async def claim(
        self, runs: Sequence[str], *, runner: str, log_path: str | None, now: datetime
    ) -> Sequence[Assignment]:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                definitions = {
                    row["id"]: schedule_from_json(row["definition"])
                    for row in await connection.fetch(_SQL["lock_schedules"], runs)
                }
                rows = await connection.fetch(_SQL["claim"], runs, runner, log_path, now)
        claimed = [assigned(row, definitions.get(row["schedule"])) for row in rows]
        for run in set(runs) - {each.run for each in claimed}:
            assignment = await self._single.claim(run, runner=runner, log_path=log_path, now=now)
            if assignment is not None:
                claimed.append(assignment)
        return claimed

    async def beat(self, runs: Sequence[str], *, runner: str, now: datetime) -> Mapping[str, Stop | None]:
        with translated():
            rows = await self._pool.fetch(_SQL["beat"], runs, runner, now)
        for row in rows:
            if row["state"] == RunState.STARTING:
                with suppress(ConflictError):  # it has ended meanwhile
                    await self._single.started(row["id"], runner=runner, now=now)
        return {
            row["id"]: None if row["stop_requested"] is None else Stop(row["stop_requested"], row["stop_at_once"])
            for row in rows
        }

    async def finish(self, endings: Mapping[str, Ending], *, said: Mapping[str, Event]) -> Sequence[str]:
        plain = {run: each for run, each in endings.items() if each.state is RunState.COMPLETED}
        ended: list[str] = []
        if plain:
            with translated():
                async with self._pool.acquire() as connection, connection.transaction():
                    await connection.execute(_SQL["lock_programs"], list(plain))
                    rows = await connection.fetch(_SQL["live"], list(plain))
                    ended = [row["id"] for row in rows]
                    if rows:
                        await _end(connection, rows, plain, said)
        ended += [run for run, each in endings.items() if run not in plain and await self._single.finish(run, each)]
        return ended


async def _end(connection: Any, rows: Sequence[Any], endings: Mapping[str, Ending], said: Mapping[str, Event]) -> None:
    out: list[OutboxRecord] = []
    lines: list[tuple[datetime, str, str, str, str]] = []
    ends: list[tuple[str, str, str, datetime, int | None]] = []
    for row in rows:
        run, ending, state = row["id"], endings[row["id"]], RunState(row["state"])
        if state is RunState.STARTING and ending.exit_code is not None:  # it was quicker than the news of its start
            state = advance(state, RunFact.STARTED)
            out += _announced(row, state, ending)
            lines.append((ending.at, "run", run, "run.started", ""))
        state = advance(state, FACTS[ending.state])
        out += _announced(row, state, ending)
        if (event := said.get(run)) is not None:
            out.append(OutboxRecord(public_topic(event.fact), event.key, event_codec.encode(event)))
        lines.append((ending.at, "run", run, f"run.{state.lower()}", ending.reason))
        ends.append((run, state, ending.reason, ending.at, ending.exit_code))
    await connection.execute(_SQL["finish"], *(list(column) for column in zip(*ends, strict=True)))
    await outbox.copy(connection, out)
    await decisions.copy(connection, lines)
    await connection.execute(_SQL["wake"], sorted({row["program"] for row in rows}))
    await groups.free(connection, *(row["id"] for row in rows))


def _announced(row: Any, state: RunState, ending: Ending) -> list[OutboxRecord]:
    error = None if state in (RunState.COMPLETED, RunState.RUNNING) else ending.reason
    program = ProgramRef.parse(row["program"])
    event = status_event(row["id"], program, state, at=ending.at, arguments=row["arguments"], error=error)
    return [] if event is None else [OutboxRecord(PROGRAM_STATUS, event.key, event_codec.encode(event))]
