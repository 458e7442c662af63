"""`POST /api/v1/lineage`: what run events become on the log, cues for watchers, and who may send them."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamsched.api.app import make_api
from streamsched.config import Settings
from streamsched.dialects.openlineage.settings import LineageSettings
from streamsched.dialects.openlineage.store.lineage_ends import LineageEnds
from streamsched.domain.errors import ConfigurationError
from streamsched.domain.events.event import Outcome, PartitionsAdded, ProgramReached
from streamsched.domain.names import DatasetRef, ProgramRef
from streamsched.domain.triggers.trigger import Measure, Partitions, Total
from streamsched.roles.api import api_services
from streamsched.roles.services import Services
from streamsched.spark.tables.watching import wait_for_cue
from streamsched.store.sql import queries
from tests.integration.api.test_events_api import logged
from tests.support.shard_cluster import ShardCluster, schedule
from tests.support.world import StoredWorld

pytestmark = pytest.mark.postgres

SPARK = Path(__file__).parents[2] / "golden" / "openlineage" / "spark-1.53.0.jsonl"
COMPLETE: dict[str, Any] = {
    "eventType": "COMPLETE",
    "eventTime": "2026-01-02T03:04:05Z",
    "run": {"runId": "r-1"},
    "job": {"namespace": "airflow", "name": "load"},
    "outputs": [
        {"namespace": "s3://lake", "name": "flights", "outputFacets": {"outputStatistics": {"rowCount": 7}}},
        {"namespace": "file", "name": "/data/other"},
    ],
}
URL = "/api/v1/lineage"


async def send(client: httpx.AsyncClient, event: Any, **params: str) -> httpx.Response:
    content, headers = json.dumps(event), {"Content-Type": "application/json"}
    return await client.post(URL, content=content, params=params, headers=headers)


async def test_what_the_listener_of_spark_sent(client: httpx.AsyncClient, services: Services) -> None:
    for line in SPARK.read_text().splitlines():
        answer = await send(client, json.loads(line))
        assert answer.status_code == 201, answer.text

    facts = [event.fact for event in await logged(services)]
    assert sorted(str(fact.dataset) for fact in facts if isinstance(fact, PartitionsAdded)) == [
        "default.lake_counts",
        "default.lake_flights",
    ]
    outcomes = [(str(fact.program), fact.outcome) for fact in facts if isinstance(fact, ProgramReached)]
    assert sorted(outcomes) == [("default.probe.my_job", "started"), ("default.probe.my_job", "succeeded")]


async def test_a_repeat_has_the_same_ids(client: httpx.AsyncClient) -> None:
    first, again = await send(client, COMPLETE), await send(client, COMPLETE)

    assert first.json() == again.json()
    assert len(first.json()["ids"]) == 3


def wrote(run: str, rows: int | None) -> dict[str, Any]:
    """One write of a Spark application, as its listener ends it. Without rows it has no facet of statistics."""
    sizes = {} if rows is None else {"outputFacets": {"outputStatistics": {"rowCount": rows, "size": 10 * rows}}}
    output = {"namespace": "s3://lake", "name": "flights", **sizes}
    return {**COMPLETE, "run": {"runId": run}, "outputs": [output]}


async def test_statistics_of_a_later_complete_count_once(client: httpx.AsyncClient, services: Services) -> None:
    flights = DatasetRef("default", "flights")
    cluster = ShardCluster(services.broker, services.settings.shards)
    await cluster.put(schedule("rows"), Total(flights, Measure.ROWS, 1000))
    await cluster.put(schedule("bytes"), Total(flights, Measure.BYTES, 10_000))
    await cluster.put(schedule("commits"), Partitions(flights, 1))
    await cluster.start()
    try:
        # none, then 1,500; with 400 at once; none, after the jobs of totals 600; each again, and with others, which
        # come too late
        said = [("r-1", None), ("r-2", None), ("r-1", 1500), ("r-3", 400), ("r-2", 600)]
        for run, rows in [*said, *said, ("r-1", 9000), ("r-3", None), ("r-3", 9000)]:
            answer = await send(client, wrote(run, rows))
            assert answer.status_code == 201, answer.text
            await cluster.settle()
        jobs = [(job.schedule, sum(part.count for part in job.contributions)) for job in await cluster.jobs()]
        letters = await cluster.dead_letters()
    finally:
        await cluster.stop()

    assert jobs == [
        *((schedule("bytes"), size) for size in (15_000, 10_000)),
        *((schedule("commits"), 1) for _ in range(3)),
        *((schedule("rows"), rows) for rows in (1500, 1000)),
    ]
    assert letters == []


async def test_the_first_end_of_a_run_counts(client: httpx.AsyncClient, services: Services) -> None:
    for kind in ("START", "COMPLETE", "FAIL", "COMPLETE", "ABORT"):
        answer = await send(client, {**COMPLETE, "eventType": kind})
        ignored = [each["reason"] for each in answer.json()["ignored"]]
        contradicts = kind in ("FAIL", "ABORT")
        assert [reason for reason in ignored if "has succeeded already" in reason] == ignored
        assert bool(ignored) == contradicts
    other = {**COMPLETE, "eventType": "FAIL", "run": {"runId": "r-2"}, "outputs": []}
    assert (await send(client, other)).json()["ignored"] == []

    ends = [
        (event.fact.run_id, event.fact.outcome)
        for event in await logged(services)
        if isinstance(event.fact, ProgramReached)
    ]
    assert set(ends) == {("r-1", "started"), ("r-1", "succeeded"), ("r-2", "failed")}


async def test_ends_are_forgotten_after_their_time_a_few_at_each(services: Services) -> None:
    pool, ends, now = services.pool, LineageEnds(services.pool), services.clock.now()
    await pool.execute(
        "INSERT INTO lineage_ends SELECT 'default.a.b', 'r' || n, 'failed', $1 FROM generate_series(1, 250) n",
        now - timedelta(days=31),
    )
    program = ProgramRef("default", "a", "b")
    assert await ends.end(program, "r1", Outcome.SUCCEEDED, now) is Outcome.FAILED
    for left in (51, 2):
        assert await ends.end(program, f"new-{left}", Outcome.SUCCEEDED, now) is Outcome.SUCCEEDED
        assert await StoredWorld(pool).size("lineage_ends") == left


async def test_a_watched_dataset_gets_a_cue_and_no_event(services: Services) -> None:
    settings = services.settings.replace(lineage_datasets="s3://lake/flights=default.flights")
    api = make_api(api_services(replace(services, settings=settings)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://localhost") as client:
        bookmark = "/v1/bookmarks/watch.default.flights"
        assert (await client.get(f"{bookmark}/cue")).json()["cues"] == 0
        await client.put(bookmark, json={"value": "3", "revision": 0})

        answer = (await send(client, COMPLETE)).json()

        assert answer["cued"] == ["default.flights"]
        assert len(answer["ids"]) == 2  # the other dataset and the program
        assert (await client.get(f"{bookmark}/cue")).json()["cues"] == 1
        assert (await client.get(bookmark)).json()["revision"] == 1
    datasets = [str(e.fact.dataset) for e in await logged(services) if isinstance(e.fact, PartitionsAdded)]
    assert datasets == ["default.data_other"]


async def test_cues_given_at_a_time_are_all_counted(services: Services) -> None:
    bookmarks = api_services(services).datasets.bookmarks
    names = [f"watch.default.d{number}" for number in range(20)]
    for name in names:
        await bookmarks.set(name, "", revision=0, now=services.clock.now())

    await asyncio.gather(*(bookmarks.cue(names if n % 2 else names[::-1]) for n in range(10)))

    assert [await bookmarks.count_cues(name) for name in names] == [10] * 20
    assert await bookmarks.cue(["none", *names[:1]]) == names[:1]


async def test_a_cue_reads_by_the_key(services: Services) -> None:
    pool = services.pool
    async with pool.acquire() as connection:
        await connection.execute(
            "INSERT INTO bookmarks (name, value, revision, changed_at) "
            "SELECT 'b' || n, repeat('x', 5000), 1, now() FROM generate_series(1, 20000) n"
        )
        await connection.execute("ANALYZE bookmarks")
        rows = await connection.fetch(f"EXPLAIN {queries('datasets/bookmarks')['cue']}", ["b1", "b2"])
    plan = "\n".join(row[0] for row in rows)
    assert "Seq Scan" not in plan, plan


async def test_another_namespace_and_other_bodies(client: httpx.AsyncClient, services: Services) -> None:
    assert (await send(client, COMPLETE, namespace="air")).status_code == 201
    assert {event.key.split(":")[1].split(".")[0] for event in await logged(services)} == {"air"}

    bad = await send(client, {**COMPLETE, "run": {}})
    assert (bad.status_code, bad.json()["path"]) == (400, "$.run.runId")
    assert (await send(client, COMPLETE, namespace="a/b")).status_code == 400
    assert (await client.post(URL, content=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})).status_code == 415
    design = {"eventTime": "2026-01-01T00:00:00Z", "job": {"namespace": "a", "name": "b"}}
    assert (await send(client, design)).json() == {"ids": [], "cued": [], "ignored": []}


REFUSED: tuple[tuple[dict[str, Any], int, str | None], ...] = (
    ({"run": None}, 400, "$.run"),
    ({"run": {"runId": "a\u0000b"}}, 400, "$.run.runId"),
    ({"eventTime": "yesterday"}, 400, "$.eventTime"),
    ({"eventTime": 1e300}, 400, "$.eventTime"),
    ({"job": {"namespace": "a", "name": "\ud800"}}, 400, "$"),
    ({"unknown": 10**400}, 400, "$"),
    (
        {"outputs": [{**COMPLETE["outputs"][1], "outputFacets": {"outputStatistics": {"size": 2**70}}}]},
        *(400, "$.outputs[0].outputFacets.outputStatistics.size"),
    ),
    ({"outputs": [COMPLETE["outputs"][1]] * 100_000}, 413, None),
)


async def test_what_cannot_be_read_is_refused_with_the_path_and_holds_up_nothing(
    client: httpx.AsyncClient, services: Services
) -> None:
    for change, status, path in REFUSED:
        refused, accepted = await asyncio.gather(send(client, {**COMPLETE, **change}), send(client, COMPLETE))
        assert (refused.status_code, refused.json().get("path"), accepted.status_code) == (status, path, 201)
    assert {event.id for event in await logged(services)} == set((await send(client, COMPLETE)).json()["ids"])


async def test_hostile_names_unknown_facets_and_odd_times_are_accepted(
    client: httpx.AsyncClient, services: Services
) -> None:
    names = [
        "../../etc/passwd",
        "'; DROP TABLE runs; --",
        "<script>alert(1)</script>",
        "\u202e\n\x1b[31m",
        "=1+1",
        "日本",
    ]
    outputs = [{"namespace": "file", "name": each, "facets": {"new": [{}]}, "new": 2**70} for each in names]
    for at in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"):
        run = {"runId": f"r-{at[:4]}", "facets": {"unknown": {"deep": [[[[None]]]]}}}
        job = {"namespace": names[1], "name": names[2]}
        answer = await send(client, {**COMPLETE, "eventTime": at, "run": run, "job": job, "outputs": outputs})
        assert answer.status_code == 201, answer.text

    events = await logged(services)
    assert len(events) == 2 * (len(names) + 1)
    assert {event.key.split(".", 1)[1] for event in events if isinstance(event.fact, ProgramReached)} == {
        "DROP_TABLE_runs_--.script_alert_1_script:succeeded"
    }


def test_the_setting_names_datasets_of_locations() -> None:
    def settings(listed: str) -> Settings:
        return Settings.from_env({}, database_url="postgresql://x", lineage_datasets=listed)

    found = (
        settings("s3://lake/flights=air.flights, /data/logs/ = logs,hive://h:9083/db.t=db.t")
        .group(LineageSettings)
        .datasets
    )
    assert {key: str(value) for key, value in found.items()} == {
        "s3://lake/flights": "air.flights",
        "file/data/logs": "default.logs",
        "hive://h:9083/db.t": "db.t",
    }
    for bad in ("s3://x", "=a", "s3://x=", "s3://x=a b"):
        with pytest.raises(ConfigurationError, match="STREAMSCHED_LINEAGE_DATASETS"):
            settings(bad)


def test_a_watcher_waits_for_a_cue() -> None:
    stopped = threading.Event()
    assert wait_for_cue(stopped, lambda: 1, 0, every=60)
    assert not wait_for_cue(stopped, lambda: None, 0, every=1.2)
    stopped.set()
    assert not wait_for_cue(stopped, lambda: 1, 0, every=60)
