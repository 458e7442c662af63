"""An administrator's commands beside a worker that runs, on the log in PostgreSQL: what they see, mend, leave alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast

import asyncpg
import pytest

from streamsched.admin import dead_letters, resync, state
from streamsched.admin.changelog import lags
from streamsched.admin.checks.check_result import CheckLevel, worst_level
from streamsched.admin.doctor import examine
from streamsched.admin.installation import open_installation
from streamsched.admin.topics import check_topics, create_topics
from streamsched.codec.records import signal as signal_codec
from streamsched.config import Settings
from streamsched.domain.errors import (
    ConflictError,
    DecodeError,
    FencedError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from streamsched.domain.events.event import partition_key
from streamsched.domain.names import DatasetRef
from streamsched.domain.schedules.pause import Pause
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Drop, Put, Subscribe, Unsubscribe
from streamsched.log.topics import APP_ID, CHANGELOGS, PARTITIONS, SIGNALS
from streamsched.ports import leases
from streamsched.ports.broker import Broker, Outgoing, Reader, TopicPartition, Writer
from streamsched.testing.clock import SettableClock
from tests.integration.admin.site import SHARDS, Site, affinity, schedule, until
from tests.support.shard_cluster import landed

pytestmark = pytest.mark.postgres


async def test_what_a_shard_knows_of_a_schedule_is_shown(site: Site) -> None:
    await site.cluster.emit(landed(1, "x"), landed(2, "x"))
    await until(lambda: site.counts("x", 2))

    found = await site.state("x")

    assert (found["generation"], found["enabled"], found["fired"]) == (1, True, 0)
    assert [event["id"] for event in found["progress"]["events"]] == ["x-1", "x-2"]
    with pytest.raises(NotFoundError):
        await site.state("typo")


async def test_an_installation_that_is_left_alone_agrees_also_while_it_changes(site: Site) -> None:
    assert await site.faults() == []
    await site.catalog.pause(schedule("x").ref, Pause()).apply()
    await site.catalog.disable(schedule("y").ref).apply()
    await site.catalog.delete(schedule("z").ref).apply()
    assert await site.faults() == []

    async def churn() -> None:
        for number in range(40):
            await site.catalog.update(
                replace(schedule("x", 2 + number % 2), description=str(number)), keep=True
            ).apply()

    changing = asyncio.create_task(churn())
    while not changing.done():
        assert await site.faults() == []
    await changing


async def test_what_the_shards_forgot_is_reported_again_and_counts_from_there(site: Site) -> None:
    x, y, z = (schedule(name).ref for name in "xyz")
    await site.cluster.signal(Drop(y, 1), affinity=affinity("y"))  # without a judge
    await site.cluster.signal(
        Unsubscribe(partition_key(DatasetRef("default", "x")), x, 1),  # deaf
        Subscribe(partition_key(DatasetRef("default", "nowhere")), z, 1),  # in vain
        Put(schedule("ghost").ref, 4, True, schedule("ghost").trigger),  # of no deployed schedule
    )

    assert await site.faults() == [
        "x: does not listen to partition:default.x",
        "y: its shard has no definition, PostgreSQL 1",
        "ghost: a shard has its state, but PostgreSQL no such schedule",
        "z: is subscribed to partition:default.nowhere, which it does not need",
    ]
    assert await site.mend() == 4
    assert await site.faults() == []
    assert await site.mend() == 0

    await site.cluster.emit(landed(1, "x"), landed(1, "y"), landed(1, "z"))
    for name in "xyz":
        await until(lambda name=name: site.counts(name, 1))


async def test_a_state_under_a_key_that_names_no_schedule_holds_up_no_other(site: Site) -> None:
    """Somebody has written a definition to the log by hand."""
    _, value = signal_codec.encode(Put(schedule("ghost").ref, 4, True, schedule("ghost").trigger))
    odd = b"schedule:by hand"
    await site.cluster.broker.append([Outgoing(SIGNALS, home(odd, SHARDS), odd, value)])
    await site.cluster.signal(Drop(schedule("y").ref, 1), affinity=affinity("y"))

    assert await site.faults() == ["y: its shard has no definition, PostgreSQL 1"]


async def test_a_log_that_is_newer_than_the_tables_is_said_and_not_guessed_at(site: Site) -> None:
    await site.cluster.signal(Put(schedule("x").ref, 7, True, schedule("x").trigger), affinity=affinity("x"))

    (fault,) = await site.faults()

    assert "older backup" in fault
    assert await site.mend() == 0
    for _ in range(7):
        with suppress(ConflictError):
            await site.catalog.disable(schedule("x").ref).apply()
            await site.catalog.enable(schedule("x").ref).apply()
    assert await site.faults() == []


async def test_nothing_is_compared_before_the_shards_have_read_what_was_said(site: Site) -> None:
    await site.stop()
    await site.cluster.signal(Drop(schedule("y").ref, 1), affinity=affinity("y"))

    with pytest.raises(UnavailableError, match="do launcher and workers run"):
        await resync.examine(
            broker=site.at.broker, reader=site.at.reader, outbox=site.at.outbox, numbers=site.at.numbers, patience=0.5
        )


async def test_state_goes_out_and_comes_back_while_no_worker_runs(site: Site) -> None:
    await site.cluster.emit(landed(1, "x"), landed(2, "x"), landed(1, "y"))
    await until(lambda: site.counts("x", 2))
    await until(lambda: site.counts("y", 1))
    lines = [line async for line in state.export(site.at.broker)]
    await site.cluster.emit(landed(2, "y"), landed(3, "x"))
    await until(lambda: site.counts("y", 2))
    await until(lambda: site.counts("x", 0))  # it fired

    with pytest.raises(ConflictError, match="workers run"):
        await site.restore(lines)
    await site.stop()
    assert await site.restore(lines) > 0
    assert await site.restore(lines) == 0

    assert (await site.have("x"), await site.have("y")) == (2, 1)
    await site.start()
    await site.cluster.emit(landed(3, "y"), landed(4, "y"))
    await until(lambda: site.counts("y", 0))  # one before the export and two now: it fired
    assert await site.faults() == []


async def test_no_worker_runs_while_state_is_imported(site: Site) -> None:
    await until(lambda: site.counts("x", 0))
    lines = [line async for line in state.export(site.at.broker)]
    await site.stop()
    health, ttl = leases.LeaseHolder("launcher", "localhost", 2), timedelta(seconds=60)
    await site.at.leases.heartbeat(health, {}, ttl)
    with pytest.raises(ConflictError, match="launcher"):
        await site.restore(lines)
    await site.at.leases.leave(health.id)

    behind = Behind(site.at.broker, [await site.at.broker.writer(f"{APP_ID}-{shard}") for shard in range(SHARDS)])
    site.at = replace(site.at, broker=cast("Broker", behind))
    await site.restore(lines)

    assert behind.fenced == {(topic, shard) for topic in CHANGELOGS for shard in range(SHARDS)}


@dataclass
class Behind:
    """A log on which unregistered workers write to each table at the moment when it is read."""

    log: Broker
    writers: Sequence[Writer]
    fenced: set[tuple[str, int]] = field(default_factory=set)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)

    async def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        for topic, shard in positions:
            if topic in CHANGELOGS:
                try:
                    await self.writers[shard].commit([Outgoing(topic, shard, b"k", b"unseen")])
                except FencedError:
                    self.fenced.add((topic, shard))
        return await self.log.reader(positions)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda lines: lines[1:], "line 1"),
        (lambda lines: [lines[0].replace(b'"shards":3', b'"shards":4'), *lines[1:]], "this installation has 3"),
        (lambda lines: [*lines[:2], b'{"topic":"signals","shard":0,"key":"eA==","value":"eA=="}'], "not a table"),
        (lambda lines: [lines[0], lines[1].replace(b'"value":"', b'"value":"!')], "base64"),
        (lambda lines: [lines[0], b"{"], "line 2"),
        (lambda lines: lines[:-1], "cut off"),
        (lambda lines: lines[:1], "line 2.*cut off"),
        (lambda lines: [lines[0], *lines[2:]], "some are missing"),
        (lambda lines: [*lines, lines[1]], "follows the end"),
        (lambda lines: [*lines[:2], lines[1].replace(b'"shard":', b'"shard":-1'), *lines[2:]], "at least 0"),
    ],
    ids=["no head", "other shards", "another topic", "spoilt", "no json", "cut", "head", "hole", "more", "no shard"],
)
async def test_what_is_no_export_changes_nothing(
    site: Site, spoil: Callable[[list[bytes]], list[bytes]], words: str
) -> None:
    assert await site.faults() == []  # the shards have read what was deployed
    await site.stop()
    lines = [line async for line in state.export(site.at.broker)]

    with pytest.raises(DecodeError, match=words):
        await site.restore(spoil(lines))

    assert [line async for line in state.export(site.at.broker)] == lines


async def test_dead_letters_are_listed_shown_sent_again_and_put_away(site: Site) -> None:
    away, broker = site.at.archived_letters, site.at.broker
    await broker.append([Outgoing(PARTITIONS, 1, b"k", b'{"id":"1"}'), Outgoing(PARTITIONS, 2, None, b"\xff")])
    await until(lambda: _letters(site, 2))

    newest, _ = await dead_letters.dead_letters(broker, away, limit=2)
    found = {one.value: one for one in await dead_letters.dead_letters(broker, away)}
    one = found[b'{"id":"1"}']
    assert (one.topic, one.partition, one.key, one.path) == (PARTITIONS, 1, b"k", one.path)
    assert await dead_letters.dead_letter(broker, one.id) == one
    assert len(await dead_letters.dead_letters(broker, away, limit=1)) == 1
    assert newest in found.values()

    await dead_letters.replay(broker, one)
    await until(lambda: _letters(site, 3))  # it still cannot be read

    assert await dead_letters.purge(broker, away) == 3
    assert await dead_letters.dead_letters(broker, away) == []
    assert await dead_letters.dead_letter(broker, one.id) == one, "put away is not gone"
    assert await dead_letters.purge(broker, away) == 0
    with pytest.raises(NotFoundError):
        await dead_letters.dead_letter(broker, "0/99999")
    with pytest.raises(InvalidError):
        await dead_letters.dead_letter(broker, "typo")
    with pytest.raises(ConflictError, match="not a public topic"):
        await dead_letters.replay(broker, replace(one, topic="signals"))


async def test_the_check_up_says_what_is_missing(site: Site, database: str) -> None:
    await until(lambda: _well(site, "shards"))
    found = await site.doctor()
    assert found["shards"] is found["topics"] is found["schema"] is found["permissions"] is CheckLevel.OK
    assert found["history in jobs_history"] is found["history in work_decisions"] is CheckLevel.OK
    assert found["relay"] is CheckLevel.FAILED, "in this test it plays without a lease"
    assert sum(sum(lag.values()) for lag in (await lags(site.at.broker, SHARDS)).values()) < 100

    await site.stop()
    await site.pool.execute("UPDATE leases SET expires_at = now() - interval '1 s'")
    await site.pool.execute("UPDATE alembic_version SET version_num = '0001'")
    await site.at.broker.append([Outgoing(PARTITIONS, 0, None, b"?")])
    found = await site.doctor()
    assert found["shards"] is found["schema"] is CheckLevel.FAILED


async def test_the_check_up_goes_on_without_a_database_or_a_clock(site: Site) -> None:
    clock = SettableClock((await site.at.probe.facts()).now + timedelta(minutes=5))
    findings = await examine(
        broker=site.at.broker, probe=site.at.probe, clock=clock, specs=site.at.specs, revisions=site.at.revisions
    )
    skewed = next(each for each in findings if each.check == "clock of the database")
    assert (skewed.health, worst_level(findings)) == (CheckLevel.FAILED, CheckLevel.FAILED)
    assert "300" in skewed.found or "299" in skewed.found


async def test_topics_are_checked_and_made(database: str) -> None:
    async with open_installation(Settings.from_env({}, database_url=database, shards=SHARDS)) as at:
        assert {report.wrong for report in await check_topics(at.broker, at.specs)} == {"is missing"}
        assert {report.wrong for report in await create_topics(at.broker, at.specs)} == {""}
        assert {report.wrong for report in await create_topics(at.broker, at.specs)} == {""}

        others = [replace(spec, partitions=spec.partitions + 1) for spec in at.specs]
        assert all("partitions" in report.wrong for report in await check_topics(at.broker, others))
        assert all(report.wrong for report in await create_topics(at.broker, others))


async def _letters(site: Site, count: int) -> bool:
    return len(await dead_letters.dead_letters(site.at.broker, site.at.archived_letters)) >= count


async def _well(site: Site, check: str) -> bool:
    return (await site.doctor()).get(check) is CheckLevel.OK


async def test_a_reader_that_has_stopped_is_named(site: Site, database: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        await connection.execute("INSERT INTO history_readers VALUES ('stopped', 0)")
        await connection.execute("SELECT setval('decisions_ids', 20000)")
        assert (await site.doctor())["reader of the history for stopped"] is CheckLevel.WARNING
        await connection.execute("UPDATE history_readers SET position = 15000 WHERE name = 'stopped'")
        assert "reader of the history for stopped" not in await site.doctor()
        await connection.execute("INSERT INTO intake_positions VALUES ('verdicts', 0, -20000), ('verdicts', 9999, 0)")
        assert (await site.doctor())["reader of verdicts"] is CheckLevel.WARNING
    finally:
        await connection.close()


async def test_a_transaction_that_keeps_dead_rows_is_named(site: Site, database: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM jobs")
        held = (await site.at.probe.facts()).snapshot

        assert held is not None
        assert held.holder.startswith(f"process {connection.get_server_pid()} of ")
        assert "idle in transaction" in held.holder
        assert held.age >= 0
    finally:
        await connection.close()
