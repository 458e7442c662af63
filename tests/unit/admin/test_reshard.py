"""Another number of shards changes nothing that anybody could see: not the jobs, not a state, whenever it is killed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog, MemoryWriter

from streamsched.admin.changelog import table
from streamsched.admin.known_ids import rehomed_ids
from streamsched.admin.reshard import compare_tables, move_rows, reshard
from streamsched.admin.state import show
from streamsched.codec.records import known_ids as codec
from streamsched.codec.records import wakeup as wakeup_codec
from streamsched.codec.records.formats import NEWEST
from streamsched.codec.records.state import SEPARATOR
from streamsched.domain.errors import ConfigurationError, ConflictError
from streamsched.domain.events.event import CustomHappened, Event, Partition, PartitionsAdded
from streamsched.domain.fold.effect import Wake
from streamsched.domain.names import DatasetRef, EventName
from streamsched.domain.signals.home import home, key_hash
from streamsched.domain.signals.signal import Woken
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.timed import OnExpiry, Quiet, Within
from streamsched.domain.triggers.trigger import CustomEvent, Partitions, Trigger
from streamsched.log.generation import of_generation, read_layout
from streamsched.log.topics import CHANGELOGS, SUBSCRIPTIONS_CHANGELOG, TRIGGERS_CHANGELOG, WAKEUPS
from streamsched.ports.broker import Outgoing
from streamsched.ports.intake import ProgressBatch
from streamsched.ports.leases import Lease, LeaseHolder, Membership, shard_lease
from streamsched.stream.dedupe.known_ids import KnownIds
from streamsched.stream.shards.shard import ShardSettings
from streamsched.testing.clock import SettableClock
from tests.support.id_table import IdTable
from tests.support.shard_cluster import ShardCluster, event_ids, schedule

UNKEYED = 3
QUICK = ShardSettings(idle_s=0.05, verdicts=False)
ME = LeaseHolder("reshard", "localhost", 1)
TTL = timedelta(seconds=5)
RETENTION = timedelta(days=7)


class KilledError(Exception):
    """The process is gone."""


@dataclass
class Mortal(MemoryBroker):
    """A log whose user dies at its n-th write."""

    log: MemoryLog
    lives: float = float("inf")
    largest: int = 0

    def __post_init__(self) -> None:
        super().__init__(self.log)

    def spend(self) -> None:
        self.lives -= 1
        if self.lives < 0:
            raise KilledError

    async def writer(self, name: str) -> MemoryWriter:
        self.spend()
        return Pen(self, name)

    async def create_topics(self, specs: Sequence) -> None:
        self.spend()
        await super().create_topics(specs)


class Pen(MemoryWriter):
    def __init__(self, broker: Mortal, name: str) -> None:
        super().__init__(broker.log, name)
        self._broker = broker

    async def commit(self, records: Sequence[Outgoing]) -> None:
        self._broker.spend()
        size = sum(len(record.key or b"") + len(record.value or b"") for record in records)
        self._broker.largest = max(self._broker.largest, size)
        await super().commit(records)
        self._broker.spend()


@dataclass
class Rack:
    """Leases, which run out when reported."""

    leases: dict[str, Lease] = field(default_factory=dict)
    workers: set[str] = field(default_factory=set)
    formats: dict[str, int] = field(default_factory=dict)

    async def heartbeat(self, holder: LeaseHolder, held: Mapping[str, int], ttl: timedelta) -> Membership:
        self.workers.add(holder.id)
        return Membership(dict.fromkeys(sorted(self.workers), 2), tuple(self.leases.values()))

    async def claim(
        self, names: Iterable[str], owner: str, ttl: timedelta, *, reads: int | None = None
    ) -> Mapping[str, int]:
        free = [name for name in names if name not in self.leases or self.leases[name].owner == owner]
        self.leases |= {name: Lease(name, owner, 1, 5.0, None) for name in free}
        return dict.fromkeys(free, 1)

    async def renew(self, held: Mapping[str, int], owner: str, ttl: timedelta) -> frozenset[str]:
        return frozenset(held)

    async def allow(self, held: Mapping[str, int], owner: str, version: int) -> frozenset[str]:
        self.formats |= dict.fromkeys(held, version)
        return frozenset(held)

    async def want(self, names: Sequence[str], worker: str) -> None: ...

    async def release(self, held: Mapping[str, int], owner: str) -> None:
        for name in held:
            self.leases.pop(name, None)

    async def leave(self, worker: str) -> None:
        self.workers.discard(worker)

    def run_out(self) -> None:
        self.leases.clear()
        self.workers.clear()


@dataclass
class Model:
    """A read model that keeps positions alone."""

    at: dict[int, int] = field(default_factory=dict)

    async def positions(self, topic: str) -> Mapping[int, int]:
        return dict(self.at)

    async def save(self, topic: str, copied: ProgressBatch) -> bool:
        self.at[copied.partition] = copied.next
        return True

    async def forget_positions(self, topic: str) -> None:
        self.at.clear()


@dataclass
class Site:
    """A cluster that may be resharded."""

    log: MemoryLog
    rack: Rack = field(default_factory=Rack)
    model: Model = field(default_factory=Model)
    woken: dict[bytes | None, Wake] = field(default_factory=dict)
    largest: int = 0

    async def reshard(self, shards: int, *, lives: float = float("inf")) -> None:
        broker = Mortal(self.log, lives)
        await reshard(
            log_=broker, leases=self.rack, me=ME, progress=self.model, shards=shards, retention=RETENTION, ttl=TTL,
            settings=QUICK,
        )  # fmt: skip
        self.largest = broker.largest

    async def wake(self, cluster: ShardCluster, now: datetime) -> bool:
        """Answers the wake-ups that are due and have not been answered, as the timers would."""
        records = await cluster.records(WAKEUPS)
        asked = {record.key: wakeup_codec.decode(record.value) for record in records if record.value is not None}
        due = [wake for key, wake in asked.items() if wake.at and wake.at <= now and self.woken.get(key) != wake]
        self.woken |= {key: wake for key, wake in asked.items() if wake in due}
        await cluster.signal(*(Woken(wake.schedule, wake.generation, wake.cell, wake.at) for wake in due if wake.at))
        return bool(due)

    async def cluster(self) -> ShardCluster:
        broker = MemoryBroker(self.log)
        layout = await read_layout(broker)
        if layout is None:
            return await ShardCluster.create(broker, UNKEYED)
        return ShardCluster(of_generation(broker, layout.generation), layout.shards)


async def test_large_rows_move_in_commits_that_every_log_takes() -> None:
    site = Site(MemoryLog(SettableClock()))
    cluster = await site.cluster()
    rows = {b"default.a.s%d\x1fday=%d" % (number, number): b"1".rjust(1 << 20) for number in range(20)}
    for key, value in rows.items():
        at = home(key.partition(SEPARATOR)[0], UNKEYED)
        await cluster.broker.append([Outgoing(TRIGGERS_CHANGELOG, at, key, value)])

    await site.reshard(1)

    assert await table((await site.cluster()).broker, TRIGGERS_CHANGELOG, 0) == rows
    assert site.largest <= 8 << 20


async def tale(rng: random.Random, cuts: Mapping[int, int], *, mortal: bool = False) -> list[object]:
    """The jobs of a tale, whose cluster gets another number of shards after some of its steps. One that is `mortal`
    dies over it at the first write, then at the second …, until one comes to the end."""
    clock = SettableClock(datetime(2013, 1, 7, tzinfo=UTC))
    site = Site(MemoryLog(clock))
    cluster = await site.cluster()
    await cluster.start(QUICK)
    names = [f"s{n}" for n in range(8)]
    triggers = {name: trigger(rng) for name in names}
    generations = dict.fromkeys(names, 1)
    for name in names:
        await cluster.put(schedule(name), triggers[name])
    for step in range(24):
        await cluster.settle()
        clock.advance(timedelta(minutes=rng.choice((0, 1, 50))))
        await site.wake(cluster, clock.now())
        await cluster.settle()
        for number in range(rng.randrange(8)):
            reported = event(rng, step, number)
            await cluster.emit(reported, partition=home(reported.key, UNKEYED))
            await cluster.settle()  # what is about different things has no order of its own
        if rng.random() < 0.3:
            name = rng.choice(names)
            generations[name] += 1
            triggers[name] = trigger(rng)
            await cluster.put(schedule(name), triggers[name], generations[name], keep=rng.random() < 0.5)
        burst = [landed(rng.randrange(4), rng.randrange(3), f"b{step}-{n}") for n in range(rng.randrange(6))][:1] * 3
        for number, reported in enumerate(burst):
            await cluster.emit(replace(reported, id=f"b{step}-{number // 2}"), partition=home(reported.key, UNKEYED))
        if step in cuts:
            await cluster.stop()  # with whatever is unread
            for life in count() if mortal else (1_000_000,):
                try:
                    await site.reshard(cuts[step], lives=life)
                except KilledError:
                    site.rack.run_out()
                else:
                    break
            cluster = await site.cluster()
            assert cluster.count == cuts[step]
            await cluster.start(QUICK)
    await cluster.settle()
    clock.advance(timedelta(days=2))
    while await site.wake(cluster, clock.now()):
        await cluster.settle()
    jobs = [(str(job.schedule), job.generation, job.sequence, job.key, event_ids(job)) for job in await cluster.jobs()]
    shown = [await show(cluster.broker, schedule(name)) for name in names]
    await cluster.stop()
    return [*jobs, *({key: value for key, value in each.items() if key != "shard"} for each in shown)]


def trigger(rng: random.Random) -> Trigger:
    data = [DatasetRef("default", f"d{n}") for n in range(4)]
    first = Partitions(rng.choice(data), rng.randint(1, 5))
    second = CustomEvent(EventName("default", f"e{rng.randrange(3)}"), rng.randint(1, 3))
    both = first & second
    match rng.randrange(6):
        case 0:
            return first
        case 1:
            return first | second
        case 2:
            return Within(both, timedelta(hours=1), rng.choice(list(OnExpiry)))
        case 3:
            return Quiet(first, timedelta(minutes=10))
        case 4:
            return Per(Partitions(data[0], 2) & Partitions(data[1], 2), ("n",))
        case _:
            return both


def event(rng: random.Random, step: int, number: int) -> Event:
    """Some come twice."""
    again = rng.random() < 0.1
    name, at = f"{step}-{0 if again else number}", datetime(2013, 1, 7, tzinfo=UTC)
    if rng.random() < 0.3:
        return Event(f"c{name}", "test", at, CustomHappened(EventName("default", f"e{rng.randrange(3)}"), {}))
    return landed(rng.randrange(4), rng.randrange(3), f"p{name}")


def landed(dataset: int, key: int, name: str) -> Event:
    fact = PartitionsAdded(DatasetRef("default", f"d{dataset}"), (Partition(f"n={key}", {"n": str(key)}),), 1)
    return Event(name, "test", datetime(2013, 1, 7, tzinfo=UTC), fact)


@pytest.mark.parametrize("seed", range(6))
async def test_a_log_that_was_cut_gives_the_jobs_and_states_of_one_that_was_not(seed: int) -> None:
    steps = random.Random(f"cuts-{seed}")
    cuts = {step: steps.choice((1, 2, 3, 5, 8)) for step in steps.sample(range(24), 3)}

    whole = await tale(random.Random(seed), {})
    cut = await tale(random.Random(seed), cuts)

    assert cut == whole
    assert len(whole) > 20


async def test_a_process_that_dies_half_way_has_changed_nothing_and_the_next_one_comes_to_the_end() -> None:
    whole = await tale(random.Random(99), {})

    assert await tale(random.Random(99), {11: 5}, mortal=True) == whole


async def test_it_refuses_while_a_worker_runs_or_a_lease_stands() -> None:
    site = Site(MemoryLog())
    await site.cluster()
    site.rack.workers.add("w")
    with pytest.raises(ConflictError, match="workers run: w"):
        await site.reshard(5)
    site.rack.workers.clear()
    await site.rack.claim(["role-relay"], "launcher", TTL)
    with pytest.raises(ConflictError, match="leases are held: role-relay"):
        await site.reshard(5)

    assert await read_layout(MemoryBroker(site.log)) is None


async def test_a_worker_of_before_can_neither_go_on_nor_start_again() -> None:
    site = Site(MemoryLog())
    before = await site.cluster()
    await before.start(QUICK)
    asleep = before.shards
    await site.reshard(5)
    assert {site.rack.formats[shard_lease(shard)] for shard in range(5)} == {NEWEST}  # older releases do not read it
    await before.emit(event(random.Random(1), 1, 1))

    with pytest.raises(ConfigurationError, match="was retired"):
        await before.start(QUICK)
    for shard in (*asleep, *before.shards):
        await shard.stop()
    after = await site.cluster()
    await after.start(QUICK)
    await after.settle()
    await after.stop()


def test_rows_go_home_with_their_bytes_and_a_row_that_was_not_at_home_is_found() -> None:
    key = b"schedule:default.a.s"
    rows = {key: b"1", key + b"\x1fday": b"2", key + b"\x1fday\x1f0.0": b"3"}
    before = {(topic, shard): {} for topic in CHANGELOGS for shard in range(2)}
    before[TRIGGERS_CHANGELOG, home(key, 2)] = rows

    moved = move_rows(before, 2, 7)

    assert moved[TRIGGERS_CHANGELOG, home(key, 7)] == rows
    assert sum(map(len, moved.values())) == 3
    with pytest.raises(ConflictError, match="whose home is"):
        move_rows({(TRIGGERS_CHANGELOG, 1 - home(key, 2)): rows}, 2, 7)


def test_what_reads_back_otherwise_is_not_published() -> None:
    wanted = {(SUBSCRIPTIONS_CHANGELOG, 0): {b"k": b"v"}}

    assert compare_tables(wanted, wanted, wanted) == 0
    with pytest.raises(ConflictError, match="reads back 0 of 1 rows"):
        compare_tables(wanted, {}, wanted)


def test_known_ids_move_with_their_event_keys() -> None:
    """Those of closed buckets, of an open one, and of a bucket that is half sealed."""
    hour = 3_600_000
    tables, everything = {shard: IdTable() for shard in range(3)}, list[tuple[bytes, bytes, int]]()
    for shard, kept in tables.items():
        ids = KnownIds(kept.write, 24 * hour)
        for number in range(9_000):
            key = b"event:default.go-%d" % number
            if home(key, 3) == shard:
                digest, time_ms = codec.digest(key, b"test", b"1"), number * hour // 500
                ids.add(digest, time_ms, key_hash(key), now_ms=time_ms)
                everything.append((key, digest, time_ms))
                if number % 100 == 0:
                    ids.flush()
        ids.flush()

    before = {shard: table.changelog for shard, table in tables.items()}
    moved = rehomed_ids(before, 3, 2)

    after = {shard: KnownIds(lambda key, value: None, 24 * hour) for shard in moved}
    for shard, rows in moved.items():
        asyncio.run(after[shard].restore(dict(rows)))
    for key, digest, time_ms in everything:
        assert [after[shard].first_ms(digest) for shard in (home(key, 2), 1 - home(key, 2))] == [time_ms, None]
    assert sum(map(len, after.values())) == len(everything) == 9_000
    assert rehomed_ids(before, 3, 2) == moved
    with pytest.raises(ConflictError, match="knows an id whose home is"):
        rehomed_ids({1: before[0]}, 3, 2)
