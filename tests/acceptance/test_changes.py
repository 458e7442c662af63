"""Definitions change while events come, on a whole scheduler (`streamsched dev`, the log in PostgreSQL): what counts
afterwards, what is kept, and that no event is ever judged by a definition older than the last one acknowledged (G4).

`CHANGES=1000 pytest tests/acceptance/test_changes.py` is the nightly size.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from random import Random
from typing import Any

import asyncpg
import httpx
import pytest

from streamsched.cli.server import find_url
from streamsched.codec import event as event_codec
from streamsched.codec.events import native
from streamsched.domain.events.event import Event
from streamsched.log.drivers import open_broker
from streamsched.log.topics import PARTITIONS
from streamsched.ports.broker import Broker, Outgoing
from streamsched.store.server.embedded_server import start_server
from tests.support.dev_process import DevProcess
from tests.support.shard_cluster import landed

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(900)]

CHANGES = int(os.environ.get("CHANGES", "200"))
KEEP, RESET = {"keep": True}, {"keep": False}
SHARDS = 4


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    """One scheduler for all tests of this module."""
    made = DevProcess(tmp_path_factory.mktemp("changes"))
    made.start(STREAMSCHED_SHARDS=str(SHARDS))
    try:
        yield made
    finally:
        made.close()


class SchedulerClient:
    """A client of it: its API, its log, and its tables to look into."""

    def __init__(self, api: httpx.AsyncClient, broker: Broker, database: Any) -> None:
        self.api = api
        self.broker = broker
        self.database = database
        self.emitted = 0

    async def ask(self, method: str, path: str, body: object = None, **params: object) -> Any:
        answer = await self.api.request(method, f"/v1/{path}", json=body, params=params)  # type: ignore[arg-type]
        assert answer.is_success, answer.text
        return answer.json()

    async def deploy(self, name: str, **schedule: object) -> str:
        """An app with one schedule of that name, over the dataset of that name; the schedule's id."""
        await self.ask("PUT", f"apps/default/{name}", _app(name, **schedule))
        return f"default.{name}.{name}"

    async def update(self, schedule: str, definition: dict[str, Any], **params: object) -> dict[str, Any]:
        return await self.ask("PUT", f"schedules/{schedule}", definition, **params)

    async def emit(self, dataset: str, *, partition: int | None = None) -> str:
        """One partition lands, over HTTP or straight to a partition of the log that our own partitioner would not have
        chosen; the event's id, once it is acknowledged.
        """
        self.emitted += 1
        event = landed(self.emitted, dataset)
        if partition is None:
            await self.ask("POST", "events", as_json(event))
        else:
            raw = event_codec.encode(event)
            await self.broker.append([Outgoing(PARTITIONS, partition, event.key.encode(), raw)])
        return event.id

    async def judged(self, *events: str) -> dict[str, list[tuple[str, int]]]:
        """Verdict and generation of each, once each has one."""

        async def found() -> dict[str, list[tuple[str, int]]]:
            rows = await self.database.fetch(
                "SELECT event, verdict, coalesce(generation, 0) AS generation FROM verdicts WHERE event = ANY ($1)",
                list(events),
            )
            reported: dict[str, list[tuple[str, int]]] = {}
            for row in rows:
                reported.setdefault(row["event"], []).append((row["verdict"], row["generation"]))
            return reported if reported.keys() == set(events) else {}

        return await until(found)

    async def jobs(self, schedule: str) -> list[list[str]]:
        """The events of each job, in order."""
        rows = await self.database.fetch(
            "SELECT ready -> 'events' AS events FROM jobs WHERE schedule = $1 ORDER BY generation, sequence", schedule
        )
        return [[event["id"] for event in row["events"]] for row in rows]

    async def job_count(self, schedule: str, count: int) -> list[list[str]]:
        async def found() -> list[list[str]]:
            jobs = await self.jobs(schedule)
            return jobs if len(jobs) == count else []

        return await until(found)

    async def accumulated(self, schedule: str) -> list[str]:
        """The events that count and have gone into no job yet."""
        progress = (await self.ask("GET", f"schedules/{schedule}"))["progress"]
        return [event["id"] for node in ends(progress or {}) for event in node.get("events", ())]

    async def shown(self, schedule: str, *events: str) -> None:
        """Returns once the read model of progress, which follows the log behind the verdicts, shows these events."""

        async def found() -> bool:
            return set(events) <= set(await self.accumulated(schedule))

        await until(found)


async def until(found: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(60):
        while not (value := await found()):  # noqa: ASYNC110 - what is watched is in another process
            await asyncio.sleep(0.05)
    return value


def ends(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("children", ()):
        yield from ends(child)


def as_json(event: Event) -> dict[str, Any]:
    return native.to_json(event) | {"time": event.time.isoformat()}


def partitions(dataset: str, count: int) -> dict[str, Any]:
    return {"type": "PARTITION", "dataset": dataset, "numPartitions": count}


def definition(name: str, **more: object) -> dict[str, Any]:
    return {"program": "run", "trigger": partitions(name, 4), "onChange": "reset", **more}


def _app(name: str, **schedule: object) -> dict[str, Any]:
    return {"programs": {"run": {"type": "bash", "command": "true"}}, "schedules": {name: definition(name, **schedule)}}


@pytest.fixture
async def scheduler(dev: DevProcess) -> AsyncIterator[SchedulerClient]:
    dsn = start_server(dev.state / "postgres").url
    broker = await open_broker(dsn)
    database = await asyncpg.connect(dsn)
    await database.set_type_codec("jsonb", schema="pg_catalog", encoder=str, decoder=json.loads)
    async with httpx.AsyncClient(base_url=find_url(folder=dev.state), timeout=60, headers=dev.authorization) as api:
        yield SchedulerClient(api, broker, database)
    await database.close()
    await broker.close()


@pytest.mark.parametrize(("keep", "jobs"), [(False, 0), (True, 1)], ids=["reset", "keep"])
async def test_a_definition_edited_with_three_of_four_partitions_in(
    scheduler: SchedulerClient, keep: bool, jobs: int
) -> None:
    name = f"edited-{keep}"
    ref = await scheduler.deploy(name)
    events = [await scheduler.emit(name) for _ in range(3)]
    await scheduler.judged(*events)
    await scheduler.shown(ref, *events)
    preview = await scheduler.update(ref, definition(name, description="typo"), dry_run=True)
    assert [(one["have"], one["need"], one["fits"]) for one in preview["schedules"][0]["accumulated"]] == [(3, 4, True)]

    await scheduler.update(ref, definition(name, description="typo"), keep=keep)
    events.append(await scheduler.emit(name))
    await scheduler.judged(events[-1])

    assert await scheduler.job_count(ref, jobs) == [events][:jobs] if jobs else await scheduler.jobs(ref) == []
    assert (await scheduler.ask("GET", f"schedules/{ref}"))["generation"] == 2


@pytest.mark.parametrize("keep", [False, True], ids=["drop", "keep"])
async def test_three_events_while_paused_then_resumed(scheduler: SchedulerClient, keep: bool) -> None:
    name = f"paused-{keep}"
    ref = await scheduler.deploy(name, trigger=partitions(name, 1))
    await scheduler.ask("POST", f"schedules/{ref}/pause", {"keep": keep, "note": "upgrade"})
    events = [await scheduler.emit(name) for _ in range(3)]
    await scheduler.judged(*events)
    assert await scheduler.jobs(ref) == []

    await scheduler.ask("POST", f"schedules/{ref}/enable")

    if keep:
        assert await scheduler.job_count(ref, 1) == [events], "at once, and told of all three"
    else:
        last = await scheduler.emit(name)
        assert await scheduler.job_count(ref, 1) == [[last]]


async def test_a_pause_ends_by_itself(scheduler: SchedulerClient) -> None:
    ref = await scheduler.deploy("ending", trigger=partitions("ending", 1))
    paused = await scheduler.ask("POST", f"schedules/{ref}/pause", {"keep": True, "until": "2s"})
    assert not paused["enabled"]
    event = await scheduler.emit("ending")

    assert await scheduler.job_count(ref, 1) == [[event]]
    found = await scheduler.ask("GET", f"schedules/{ref}")
    assert (found["enabled"], found["pause"]) == (True, None)


async def test_what_an_equal_redeployment_meets_is_kept(scheduler: SchedulerClient) -> None:
    ref = await scheduler.deploy("equal")
    events = [await scheduler.emit("equal") for _ in range(3)]
    await scheduler.judged(*events)

    await scheduler.deploy("equal")
    events.append(await scheduler.emit("equal"))

    assert await scheduler.job_count(ref, 1) == [events]


async def test_no_event_is_judged_by_an_older_definition_than_the_last_acknowledged(scheduler: SchedulerClient) -> None:
    """Updates that keep and that reset, pauses of both kinds, and resumptions, in any order; events come right after
    each has returned, by HTTP and by a partitioner that is none of ours.
    """
    random = Random(4)
    ref = await scheduler.deploy("churn", trigger=partitions("churn", 3))
    stood: dict[str, int] = {}
    paused = False
    for number in range(CHANGES):
        verb = "enable" if paused and number % 2 else random.choice(["keep", "keep", "reset", "pause", "drop"])
        if verb in {"pause", "drop"} and paused:
            verb = "keep"
        if verb in {"keep", "reset"}:
            trigger = random.choice([partitions("churn", 3), partitions("churn", 2)])
            changed = definition("churn", trigger=trigger, description=str(number))
            found = await scheduler.update(ref, changed, keep=verb == "keep")
        elif verb == "enable":
            found, paused = await scheduler.ask("POST", f"schedules/{ref}/enable"), False
        else:
            found = await scheduler.ask(
                "POST", f"schedules/{ref}/pause", {"keep": verb == "pause", "note": str(number)}
            )
            paused = True
        partition = None if number % 2 else random.randrange(SHARDS)
        stood[await scheduler.emit("churn", partition=partition)] = found["generation"]

    judged = await scheduler.judged(*stood)

    older = [
        (event, verdicts)
        for event, verdicts in judged.items()
        for verdict, generation in verdicts
        if verdict == "counted" and generation < stood[event]
    ]
    assert older == []


async def test_a_schedule_that_is_only_ever_changed_by_keeping_loses_and_doubles_nothing(
    scheduler: SchedulerClient,
) -> None:
    random = Random(5)
    ref = await scheduler.deploy("kept", trigger=partitions("kept", 3))
    events: list[str] = []
    changes = CHANGES // 4
    for number in range(changes):
        if number % 3 == 1:
            await scheduler.ask("POST", f"schedules/{ref}/pause", {"keep": True})
        elif number % 3 == 2:
            await scheduler.ask("POST", f"schedules/{ref}/enable")
        else:
            same = definition("kept", trigger=partitions("kept", 3), description=str(number))
            await scheduler.update(ref, same, keep=True)
        events.append(await scheduler.emit("kept", partition=None if number % 2 else random.randrange(SHARDS)))
    if (changes - 1) % 3 == 1:
        await scheduler.ask("POST", f"schedules/{ref}/enable")
    await scheduler.judged(*events)

    async def accounted() -> bool:
        reported = [event for job in await scheduler.jobs(ref) for event in job]
        return len(reported) + len(await scheduler.accumulated(ref)) >= len(events)

    await until(accounted)
    reported = [event for job in await scheduler.jobs(ref) for event in job] + await scheduler.accumulated(ref)
    assert sorted(reported) == sorted(events)
