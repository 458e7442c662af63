"""Spans of jobs and runs as they are stored: one of each, also after kills; a receiver that is away delays nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.config import Settings
from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.spans import TraceSpan
from streamsched.launcher.span_export import GIVE_UP, SpanExport
from streamsched.log.topics import topic_specs
from streamsched.ports.runs import RunEnd
from streamsched.roles.services import open_traces
from streamsched.store.connections import open_pool
from streamsched.store.jobs.spans import SpanStore
from streamsched.store.runs.run_store import PostgresRunStore
from streamsched.store.sql import queries
from streamsched.telemetry.metrics import Metrics
from streamsched.telemetry.traces.settings import TraceSettings
from tests.integration.launcher.conftest import SHARDS, World, schedule
from tests.integration.store.conftest import explained

pytestmark = pytest.mark.postgres

CONTEXT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
DAILY = schedule("daily")


class Receiver:
    """Keeps what it accepts."""

    def __init__(self) -> None:
        self.away = False
        self.accepted: list[TraceSpan] = []

    async def send(self, spans: Sequence[TraceSpan]) -> bool:
        if not self.away:
            self.accepted += spans
        return not self.away

    @property
    def names(self) -> list[str]:
        return sorted(each.name for each in self.accepted)


class Traced(World):
    """An installation whose jobs and runs have spans."""

    def __init__(self, dsn: str, pool: object, broker: object) -> None:
        super().__init__(dsn, pool, broker)  # type: ignore[arg-type]
        self.receiver, self.metrics = Receiver(), Metrics()
        self.export = self.made()

    def made(self, **settings: object) -> SpanExport:
        given = replace(TraceSettings(), **settings)  # type: ignore[arg-type]
        return SpanExport(SpanStore(self.pool), self.receiver, given, self.clock, self.metrics)

    async def ran(self, sequence: int) -> str:
        """A job and its run, which has ended."""
        job = replace(self.ready(DAILY, sequence), traceparent=CONTEXT)
        await self.satisfy(job)
        await self.launcher.run_once()
        run, runs = f"{job.id}.r1", PostgresRunStore(self.pool)
        self.clock.advance(timedelta(seconds=1))
        assert await runs.claim(run, runner="h:1:1", log_path=None, now=self.clock.now()) is not None
        await runs.mark_started(run, runner="h:1:1", now=self.clock.now())
        self.clock.advance(timedelta(seconds=9))
        assert await runs.finish(run, RunEnd(RunState.COMPLETED, "exit code 0", self.clock.now(), 0))
        return run

    async def states(self) -> dict[str, str]:
        rows = [*await self.stored_jobs(), *await self.stored_runs()]
        return {row.id: row.spans for row in rows}


@pytest.fixture
async def traced(database: str) -> AsyncIterator[Traced]:
    pool = await open_pool(database, min_size=1, max_size=6, spans=True)
    world = Traced(database, pool, MemoryBroker(MemoryLog()))
    await world.broker.create_topics(topic_specs(SHARDS, timedelta(days=1)))
    await world.define(DAILY)
    yield world
    await world.notifier.close()
    await pool.close()


async def test_every_span_is_sent_once_with_the_stored_times(traced: Traced) -> None:
    run = await traced.ran(1)

    await traced.export.run_once()
    await traced.export.run_once()

    assert traced.receiver.names == ["complete", "decide", "job", "launch", "run"]
    ran = next(each for each in traced.receiver.accepted if each.name == "run")
    stored = await traced.runs.get(run)
    assert (ran.began_at, ran.ended_at) == (stored.started_at, stored.ended_at)
    assert ran.context.trace_id == stored.trace == CONTEXT[3:35]
    assert set((await traced.states()).values()) == {"sent"}


async def test_who_dies_before_settling_sends_the_same_spans_again(traced: Traced) -> None:
    await traced.ran(1)

    class Dies(SpanStore):
        async def settle(self, due: object, *, sent: bool) -> None:
            raise RuntimeError

    dying = SpanExport(Dies(traced.pool), traced.receiver, TraceSettings(), traced.clock, traced.metrics)
    with pytest.raises(RuntimeError):
        await dying.run_once()
    await traced.made().run_once()

    first, again = traced.receiver.accepted[:5], traced.receiver.accepted[5:]
    assert first == again


async def test_while_the_receiver_is_away_spans_stay_due_and_are_given_up_in_the_end(traced: Traced) -> None:
    await traced.ran(1)
    traced.receiver.away = True
    pauses = [await traced.export.run_once() for _ in range(8)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 60.0
    assert set((await traced.states()).values()) == {"due"}

    traced.clock.advance(GIVE_UP + timedelta(seconds=20))
    await traced.ran(2)
    traced.receiver.away = False
    await traced.export.run_once()

    assert traced.receiver.names == ["complete", "decide", "job", "launch", "run"]
    assert sorted((await traced.states()).values()) == ["dropped", "dropped", "sent", "sent"]
    assert b'streamsched_spans_dropped_total{why="not accepted in time"} 2.0' in traced.metrics.render()


async def test_a_row_that_cannot_be_read_holds_up_no_other(traced: Traced) -> None:
    await traced.ran(1)
    await traced.put_text("jobs", [])
    [bad] = [job.id for job in await traced.stored_jobs()]
    await traced.ran(2)

    await traced.export.run_once()

    assert traced.receiver.names == ["complete", "decide", "job", "launch", "run"]
    states = await traced.states()
    assert (states[bad], states[f"{bad}.r1"]) == ("dropped", "dropped")


async def test_more_than_a_batch_is_sent_without_a_pause(traced: Traced) -> None:
    for sequence in range(1, 4):
        await traced.ran(sequence)
    export = traced.made(batch=1)

    assert [await export.run_once() for _ in range(4)] == [0.0, 0.0, 0.0, 5.0]
    assert len(traced.receiver.accepted) == 15


async def test_without_spans_nothing_is_due(world: World) -> None:
    await world.define(DAILY)
    await world.satisfy(world.ready(DAILY, 1))
    await world.launcher.run_once()
    assert [row.spans for row in (*await world.stored_jobs(), *await world.stored_runs())] == [None, None]


async def test_due_spans_are_found_by_their_index(traced: Traced) -> None:
    columns = "id, schedule, generation, sequence, program, state, satisfied_at, created_at, ready, ended_at, spans"
    await traced.pool.execute(
        f"INSERT INTO jobs ({columns}) SELECT format('default.app.s%s.1.1', n), format('default.app.s%s', n), 1, 1, "
        "'p', 'LAUNCHED', now(), now(), '{}', now(), 'sent' FROM generate_series(1, 20000) n"
    )
    await traced.ran(1)
    async with traced.pool.acquire() as connection:
        await connection.execute("ANALYZE jobs")
        plan = await explained(connection, queries("jobs/spans")["due_jobs"], 512)
    scans = [node["Index Name"] for node in plan if node.get("Relation Name") == "jobs" or "Index Name" in node]
    assert "jobs_spans_due" in scans


def test_nothing_is_imported_while_it_is_off() -> None:
    settings = Settings.from_env({}, database_url="postgresql://x")
    assert open_traces(settings, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, Metrics()) is None
    on = settings.replace(traces=True)
    assert open_traces(on, {"OTEL_SDK_DISABLED": "true"}, Metrics()) is None
