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
from streamsched.store.execution import FACTS, PostgresRunBook, assigned, satisfaction
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
        claimed = [assigned(row, satisfaction(row), definitions.get(row["schedule"])) for row in rows]
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
        ended = await self._end(plain, said) if plain else []
        ended += [run for run, each in endings.items() if run not in plain and await self._single.finish(run, each)]
        return ended

    async def _end(self, endings: Mapping[str, Ending], said: Mapping[str, Event], tries: int = 3) -> list[str]:
        """What can be written without the programs' locks is written before: nobody is decided about under them."""
        with translated():
            try:
                async with self._pool.acquire() as connection, connection.transaction():
                    rows = await connection.fetch(_SQL["going_on"], list(endings))
                    if not rows:
                        return []
                    ends = _Ends()
                    for row in rows:
                        ends.add(row, endings[row["id"]], said.get(row["id"]))
                    await outbox.copy(connection, ends.out)
                    await decisions.copy(connection, ends.lines)
                    runs = [row["id"] for row in rows]
                    await connection.execute(_SQL["lock_programs"], list(ends.programs))
                    locked = await connection.fetch(_SQL["live"], runs)
                    if [(row["id"], row["state"]) for row in rows] != [(row["id"], row["state"]) for row in locked]:
                        raise ConflictError("a run went on while its end was being written")  # rolls everything back
                    for how, alike in ends.alike.items():
                        await connection.execute(
                            _SQL["finish"], *how, *(list(each) for each in zip(*alike, strict=True))
                        )
                    await connection.execute(_SQL["wake"], list(ends.programs))
                    await groups.free(connection, *runs)
                    return runs
            except ConflictError:
                if tries == 1:
                    raise
        return await self._end(endings, said, tries - 1)


class _Ends:
    """What the ends of runs leave."""

    def __init__(self) -> None:
        self.out: list[OutboxRecord] = []
        self.lines: list[tuple[datetime, str, str, str, str]] = []
        self.alike: dict[tuple[str, int | None], list[tuple[str, str, datetime]]] = {}
        self.programs: dict[str, ProgramRef] = {}

    def add(self, row: Any, ending: Ending, said: Event | None) -> None:
        run, state, name = row["id"], RunState(row["state"]), row["program"]
        program = self.programs.get(name) or self.programs.setdefault(name, ProgramRef.parse(name))
        if state is RunState.STARTING and ending.exit_code is not None:  # it was quicker than the news of its start
            state = advance(state, RunFact.STARTED)
            self.out += _announced(row, program, state, ending)
            self.lines.append((ending.at, "run", run, "run.started", ""))
        state = advance(state, FACTS[ending.state])
        self.out += _announced(row, program, state, ending)
        if said is not None:
            self.out.append(OutboxRecord(public_topic(said.fact), said.key, event_codec.encode(said)))
        self.lines.append((ending.at, "run", run, f"run.{state.lower()}", ending.reason))
        self.alike.setdefault((state, ending.exit_code), []).append((run, ending.reason, ending.at))


def _announced(row: Any, program: ProgramRef, state: RunState, ending: Ending) -> list[OutboxRecord]:
    error = None if state in (RunState.COMPLETED, RunState.RUNNING) else ending.reason
    event = status_event(row["id"], program, state, at=ending.at, arguments=row["arguments"], error=error)
    return [] if event is None else [OutboxRecord(PROGRAM_STATUS, event.key, event_codec.encode(event))]
