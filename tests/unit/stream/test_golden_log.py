"""What a release has left in its log, a later one continues: `tests/golden/log/<release>.jsonl` is the whole log of two
shards, compacted, with state of most kinds in the changelogs. Never changed; with UPDATE_DOCS=1 that of a release
without one is written.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched import __version__
from streamsched.domain.events.event import CustomHappened, Event, Partition, PartitionsAdded, StreamSize
from streamsched.domain.names import DatasetRef, EventName, StreamRef
from streamsched.domain.signals.home import choose_affinity
from streamsched.domain.signals.signal import Put, Subscribe
from streamsched.domain.triggers.trigger import (
    CustomEvent,
    Partitions,
    Per,
    StreamGrowth,
    Then,
    Trigger,
    Unless,
    event_keys,
)
from streamsched.log.topics import CHANGELOGS, VERDICTS, topic_specs
from streamsched.ports.broker import Record
from streamsched.testing.clock import SettableClock
from tests.support.made_files import are_written
from tests.support.shard_cluster import NOON, ShardCluster, event_ids, schedule, schedule_name

GOLDEN = Path(__file__).parents[2] / "golden" / "log"
SHARDS = 2
LATER = NOON + timedelta(minutes=1)
RELEASES = sorted({path.stem for path in GOLDEN.glob("*.jsonl")} | {__version__})


def named(name: str, count: int = 1) -> CustomEvent:
    return CustomEvent(EventName("default", name), count)


TRIGGERS: dict[str, Trigger] = {
    "five": Partitions(DatasetRef("default", "flights"), 5),
    "hundred": named("go", 100),
    "days": Per(Partitions(DatasetRef("default", "flights")) & Partitions(DatasetRef("default", "weather")), ("day",)),
    "ordered": Then(named("first"), named("second"), timedelta(hours=2)),
    "guarded": Unless(named("second"), named("first"), timedelta(hours=2)),
    "grown": StreamGrowth(StreamRef("default", "clicks"), 100),
}


def landed(dataset: str, day: int) -> Event:
    partition = Partition(f"day={day}", {"day": str(day)}, bytes=day)
    return Event(f"{dataset}-{day}", "pfs", NOON, PartitionsAdded(DatasetRef("default", dataset), (partition,), 1))


def happened(name: str, number: int = 0) -> Event:
    return Event(f"{name}-{number}", "people", NOON, CustomHappened(EventName("default", name), {}))


def grown(number: int, size: int) -> Event:
    return Event(f"clicks-{number}", "sizes", NOON, StreamSize(StreamRef("default", "clicks"), size, absolute=True))


async def begin(cluster: ShardCluster) -> None:
    """What happens in the release that leaves the log."""
    for name, trigger in TRIGGERS.items():
        keys = sorted(event_keys(trigger))
        affinity = choose_affinity(keys, Counter()) if name in {"five", "hundred"} else None
        await cluster.signal(*(Subscribe(key, schedule(name), 1, affinity) for key in keys))
        await cluster.signal(Put(schedule(name), 1, True, trigger), affinity=affinity)
    await cluster.settle()
    await cluster.emit(*(landed("flights", day) for day in range(1, 4)), landed("weather", 9))
    await cluster.emit(*(happened("go", number) for number in range(70)), grown(1, 1_000), grown(2, 1_070))
    await cluster.settle()
    await cluster.emit(happened("first"))
    await cluster.settle()


async def go_on(cluster: ShardCluster) -> None:
    """What happens in the release that takes it over; the first event of each line has happened before."""
    await cluster.emit(landed("flights", 1), *(landed("flights", day) for day in (4, 5)), landed("weather", 2))
    await cluster.emit(*(happened("go", number) for number in range(60, 100)), grown(2, 1_070), grown(3, 1_100))
    await cluster.emit(happened("second"))
    await cluster.settle()


#: The jobs, and the events that each is given; the first report of a size only sets the level.
JOBS = {
    ("five", ""): [f"flights-{day}" for day in range(1, 6)],
    ("hundred", ""): [f"go-{number}" for number in range(100)],
    ("days", "2"): ["flights-2", "weather-2"],
    ("ordered", ""): ["first-0", "second-0"],
    ("grown", ""): ["clicks-2", "clicks-3"],
}


def read_log(path: Path, log: MemoryLog) -> None:
    for line in path.read_text().splitlines():
        topic, partition, end, records = json.loads(line)
        into = log.partition(topic, partition)
        into.end = end
        for offset, key, value, time_ms in records:
            into.records.append(Record(offset, _bytes(key), _bytes(value), time_ms))


def written_log(log: MemoryLog) -> Iterator[str]:
    for topic, partitions in sorted(log.topics.items()):
        for number, partition in enumerate(partitions):
            records = [(each.offset, _text(each.key), _text(each.value), each.time_ms) for each in partition.records]
            if partition.end:
                yield json.dumps([topic, number, partition.end, records])


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("latin-1")


async def new_cluster(clock: SettableClock) -> tuple[ShardCluster, MemoryLog]:
    log = MemoryLog(clock)
    return await ShardCluster.create(MemoryBroker(log), SHARDS), log


async def test_this_release_has_left_a_log() -> None:
    path = GOLDEN / f"{__version__}.jsonl"
    if are_written() and not path.exists():
        cluster, log = await new_cluster(SettableClock(NOON))
        await cluster.start()
        await begin(cluster)
        await cluster.stop()
        await cluster.broker.maintain()
        path.write_text("\n".join(written_log(log)) + "\n")
    assert path.exists()


@pytest.mark.parametrize("release", RELEASES)
async def test_the_log_of_a_release_is_continued(release: str) -> None:
    cluster, log = await new_cluster(SettableClock(LATER))
    read_log(GOLDEN / f"{release}.jsonl", log)
    await cluster.start()
    await go_on(cluster)
    jobs = {(schedule_name(job), job.key): sorted(set(event_ids(job)), key=_number) for job in await cluster.jobs()}
    duplicates = [each for each in await cluster.records(VERDICTS) if b'"duplicate"' in (each.value or b"")]
    await cluster.stop()

    assert jobs == JOBS
    assert duplicates
    assert not await cluster.dead_letters()


async def test_what_a_release_leaves_has_every_table() -> None:
    _, log = await new_cluster(SettableClock(NOON))
    read_log(GOLDEN / f"{__version__}.jsonl", log)
    keys = {record.key or b"" for name in CHANGELOGS for partition in log.topics[name] for record in partition.records}

    assert {spec.name for spec in topic_specs(SHARDS, timedelta(days=7))} >= set(log.topics)
    for part in (b"event:default.go", b"ids/", b"\0position", b"schedule:default.town.days\x1f", b"\x1f\x1f0.", b"@"):
        assert any(part in key for key in keys), part


def _number(event: str) -> tuple[str, int]:
    name, number = event.rsplit("-", 1)
    return name, int(number)
