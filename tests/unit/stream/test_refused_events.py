"""An event with too many correlation keys is refused by its schedule alone, visibly, and it can be replayed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from structlog.testing import capture_logs

from streamsched.admin import dead_letters as letters
from streamsched.admin.state import show
from streamsched.codec.records import findings
from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.names import DatasetRef
from streamsched.domain.signals.finding import AtSchedule, Finding
from streamsched.domain.signals.verdict import JudgedEvent, Verdict
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.correlation import OnFull, Per
from streamsched.domain.triggers.trigger import AllOf, Partitions
from streamsched.log.topics import VERDICTS
from streamsched.stream.shards.shard import ShardSettings
from tests.support.shard_cluster import NOON, ShardCluster, landed, schedule

A, B = DatasetRef("default", "a"), DatasetRef("default", "b")
QUICK = ShardSettings(idle_s=0.05)


class NothingAway:
    async def read_hidden(self, topic: str) -> Mapping[int, int]:
        return {}

    async def hide(self, topic: str, positions: Mapping[int, int]) -> None: ...


def join(at_most: int, full: OnFull = OnFull.REFUSE) -> Per:
    return Per(AllOf((Partitions(A, 1), Partitions(B, 1))), ("date",), at_most=at_most, full=full)


def dates(name: str, dataset: DatasetRef, *days: str) -> Event:
    rows = tuple(Partition(f"date={day}", {"date": day}) for day in days)
    return Event(name, "test", NOON, PartitionsAdded(dataset, rows, len(rows)))


async def found(cluster: ShardCluster, name: str) -> list[Finding]:
    await cluster.settle()
    return [
        each
        for record in await cluster.records(VERDICTS)
        for each in findings.decode(record.value or b"", at=datetime.fromtimestamp(record.time_ms / 1000, UTC))
        if each.event == name
    ]


async def test_a_refused_event_is_a_dead_letter_and_counts_when_it_is_replayed(cluster: ShardCluster) -> None:
    await cluster.start(QUICK)
    await cluster.put(schedule("full"), join(2))
    await cluster.put(schedule("wide"), join(100))
    await cluster.put(schedule("canary"), Partitions(DatasetRef("default", "flights"), 1))
    await cluster.settle()

    with capture_logs() as logs:
        await cluster.emit(dates("e1", A, "1", "2"))
        await cluster.emit(dates("e2", A, "3", "4"))
        await cluster.emit(landed(0))
        await cluster.settle()

    assert {each.verdict for each in await found(cluster, "e2")} == {Verdict.REFUSED, Verdict.COUNTED}
    (refused,) = [each.reason for each in await found(cluster, "e2") if each.verdict is Verdict.REFUSED]
    assert isinstance(refused, AtSchedule)
    assert refused.schedule == schedule("full")
    assert "2 correlation keys may be open" in refused.judged.why
    (line,) = [line for line in logs if line["event"] == "schedule.losses"]
    assert (line["refused"], line["expired"], line["dropped"]) == (1, 0, 0)
    assert [each.partition(":")[0] for each in line["first"]] == [str(schedule("full"))]
    (letter,) = await letters.dead_letters(cluster.broker, NothingAway())
    assert letter.key == f"schedule:{schedule('full')}".encode()
    assert "2 correlation keys may be open" in letter.reason
    assert [job.schedule for job in await cluster.jobs()] == [schedule("canary")]
    assert sum(shard._app.homes.schedules.refused_events for shard in cluster.shards if shard._app) == 1

    await cluster.emit(dates("e3", B, "1", "2", "3", "4"))  # closes two keys and opens two
    await cluster.settle()
    await letters.replay(cluster.broker, letter)
    await cluster.settle()

    counted = [each.reason for each in await found(cluster, "e2") if each.verdict is Verdict.COUNTED]
    assert {each.schedule for each in counted if isinstance(each, AtSchedule)} == {schedule("full"), schedule("wide")}
    assert [job.key for job in await cluster.jobs() if job.schedule == schedule("full")] == ["1", "2", "3", "4"]
    assert (await show(cluster.broker, schedule("full")))["progress"]["refused_events"] == 1


async def test_an_event_without_a_key_is_unmatched_with_the_reason_and_counted_by_its_schedule(
    cluster: ShardCluster,
) -> None:
    await cluster.start(QUICK)
    await cluster.put(schedule("hours"), Per(Partitions(A), ("date",), Grain.HOUR))
    await cluster.emit(dates("e1", A, "5am"))
    await cluster.emit(dates("e2", A, "2026-03-01T05", "6am"))

    (none,) = [each.reason for each in await found(cluster, "e1")]
    (some,) = [each.reason for each in await found(cluster, "e2")]

    assert isinstance(none, AtSchedule)
    assert isinstance(some, AtSchedule)
    assert none.judged == JudgedEvent(Verdict.UNMATCHED, why="it has no key: date='5am' names no hour")
    assert (some.judged.verdict, some.judged.cells) == (Verdict.COUNTED, ("2026-03-01T05",))
    assert some.judged.why == "1 of its 2 partitions have no key: date='6am' names no hour"
    progress = (await show(cluster.broker, schedule("hours")))["progress"]
    assert (progress["keyless_events"], progress["keyless_why"]) == (2, "date='6am' names no hour")


async def test_the_state_of_a_schedule_with_open_keys_is_plain_json(cluster: ShardCluster) -> None:
    await cluster.start(QUICK)
    await cluster.put(schedule(), join(2, OnFull.DROP_OLDEST))
    await cluster.emit(dates("e1", A, "1", "2", "3"))
    await cluster.settle()

    said = json.loads(json.dumps(await show(cluster.broker, schedule())))

    assert set(said["open"]) == {"2", "3"}
    assert '"id": "e1"' in json.dumps(said["open"]["2"])
    assert (said["progress"]["lost_keys"], said["progress"]["dropped_keys"]) == (1, 1)
