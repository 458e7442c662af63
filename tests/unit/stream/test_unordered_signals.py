"""A schedule whose result depends on the order of its events waits for the slowest shard, for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from streamsched.codec.records import barrier as codec
from streamsched.codec.records import findings
from streamsched.domain.errors import DecodeError
from streamsched.domain.fold.plan import build_plan
from streamsched.domain.names import DatasetRef, EventName
from streamsched.domain.signals.barrier import Barrier, Round, Stage, begin_round
from streamsched.domain.signals.finding import AtSchedule
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import ArrivalTime, Drop, Occurred, arrival_time
from streamsched.domain.signals.verdict import Verdict
from streamsched.domain.triggers.trigger import (
    AllOf,
    Cron,
    CustomEvent,
    Partitions,
    Quiet,
    Silence,
    Then,
    Trigger,
    Unless,
    Within,
)
from streamsched.log.topics import BARRIERS_KEY, DEAD_LETTER, PARTITIONS, SIGNALS, TRIGGERS_CHANGELOG, VERDICTS
from streamsched.ports.broker import Chunk, Outgoing, Record, TopicPartition
from streamsched.stream import barrier_state
from streamsched.stream.agents import arrival_order
from streamsched.stream.agents.barriers import Barriers
from streamsched.stream.agents.unordered_signals import UnorderedSignals
from streamsched.stream.app import ShardSpec, make_app
from streamsched.stream.barrier_state import BarrierState, Passing
from streamsched.stream.shards.shard import Shard, ShardSettings
from streamsched.stream.turn import Turn
from streamsched.testing.clock import SettableClock
from tests.support.shard_cluster import NOON, ShardCluster, event_ids, landed, schedule

SHARDS = 3
A, B = (Partitions(DatasetRef("default", name)) for name in ("early", "late"))
HOUR = timedelta(hours=1)
#: The shard that reads the public partition of `early` here; the home of the schedule and of both keys are others.
SLOW = 2
QUICK = ShardSettings(idle_s=0.01)


def name_at_home(shard: int) -> str:
    """A name of a schedule whose home is this shard."""
    return next(name for n in range(100) if home(f"schedule:default.town.{(name := f's{n}')}", SHARDS) == shard)


async def start(cluster: ShardCluster, *numbers: int, settings: ShardSettings = QUICK) -> None:
    """Starts these shards only."""
    cluster.shards = [Shard(cluster.broker, number, settings) for number in numbers]
    await asyncio.gather(*(shard.start() for shard in cluster.shards))


async def waiting(cluster: ShardCluster, clock: SettableClock, trigger: Trigger) -> str:
    """An event of `early` that the slow shard has not read, and one of `late` that came later to the schedule."""
    name = name_at_home(0)
    await start(cluster, 0, 1, 2)
    await cluster.put(schedule(name), trigger)
    await cluster.settle()
    await cluster.stop()
    await start(cluster, 0, 1)
    await cluster.emit(landed(1, "early"), partition=SLOW)
    clock.advance(timedelta(seconds=1))
    await cluster.emit(landed(1, "late"), partition=0)
    await cluster.settle()
    return name


async def held(cluster: ShardCluster) -> int:
    rows = {each.key: each.value for each in await cluster.records(TRIGGERS_CHANGELOG) if each.key}
    return sum(b"unordered." in key and value is not None for key, value in rows.items())


async def whys(cluster: ShardCluster) -> Sequence[tuple[Verdict, str]]:
    found = [
        each.reason
        for record in await cluster.records(VERDICTS)
        for each in findings.decode(record.value or b"", at=datetime.now(UTC))
    ]
    return [(each.judged.verdict, each.judged.why) for each in found if isinstance(each, AtSchedule)]


async def test_the_later_event_waits_for_the_earlier_one(cluster: ShardCluster, clock: SettableClock) -> None:
    await waiting(cluster, clock, Then(A, B))
    assert await cluster.jobs() == []
    assert await held(cluster) == 1

    await cluster.stop()
    await start(cluster, 0, 1, 2)
    await cluster.settle()

    (job,) = await cluster.jobs()
    assert event_ids(job) == ["early-1", "late-1"]
    assert await held(cluster) == 0


async def test_a_job_is_satisfied_when_the_log_took_its_last_event(cluster: ShardCluster, clock: SettableClock) -> None:
    await waiting(cluster, clock, Then(A, B))
    sent = clock.now()
    clock.advance(HOUR)

    await cluster.stop()
    await start(cluster, 0, 1, 2)
    await cluster.settle()

    (job,) = await cluster.jobs()
    assert job.satisfied_at == sent


async def test_what_needs_no_order_does_not_wait(cluster: ShardCluster, clock: SettableClock) -> None:
    await waiting(cluster, clock, A | B)

    assert [event_ids(job) for job in await cluster.jobs()] == [["late-1"]]
    assert all(not (each.key or b"").startswith(codec.PREFIX) for each in await cluster.records(SIGNALS))


async def test_a_shard_that_is_away_holds_a_schedule_up_for_the_bound(
    cluster: ShardCluster, clock: SettableClock
) -> None:
    await waiting(cluster, clock, Unless(B, A))
    await cluster.stop()

    await start(cluster, 0, 1, settings=ShardSettings(idle_s=0.01, order_s=0.05))
    async with asyncio.timeout(20):
        while not await cluster.jobs():  # noqa: ASYNC110 - the log has no event for it
            await asyncio.sleep(0.01)

    assert await held(cluster) == 0
    (judged,) = await whys(cluster)
    assert judged == (Verdict.COUNTED, "order unknown: a shard did not say in time that it has no earlier event")

    await cluster.stop()
    await start(cluster, 0, 1, 2)
    await cluster.emit(landed(2, "late"), partition=0)  # answers that come late are of a round that is over
    await cluster.settle()
    assert [event_ids(job) for job in await cluster.jobs()] == [["late-1"], ["late-2"]]


async def test_a_round_begins_where_none_is_remembered(cluster: ShardCluster, clock: SettableClock) -> None:
    """As on the new shard of a schedule that was moved while it waited."""
    await waiting(cluster, clock, Then(A, B))
    await cluster.stop()
    await cluster.broker.append([Outgoing(TRIGGERS_CHANGELOG, n, BARRIERS_KEY, None) for n in range(SHARDS)])

    await start(cluster, 0, 1, 2)
    async with asyncio.timeout(20):
        while not await cluster.jobs():  # noqa: ASYNC110 - the log has no event for it
            await asyncio.sleep(0.01)

    assert [event_ids(job) for job in await cluster.jobs()] == [["early-1", "late-1"]]


async def test_a_definition_takes_its_place_among_what_waits(cluster: ShardCluster, clock: SettableClock) -> None:
    """Events sent before it are judged by the former one, though it came while they waited (promise G4)."""
    name = await waiting(cluster, clock, Then(A, B))
    clock.advance(timedelta(seconds=1))
    await cluster.put(schedule(name), Then(B, A), generation=2)
    clock.advance(timedelta(seconds=1))
    await cluster.emit(landed(2, "late"), partition=0)
    await cluster.settle()
    assert await held(cluster) == 3

    await cluster.stop()
    await start(cluster, 0, 1, 2)
    clock.advance(timedelta(seconds=1))
    await cluster.emit(landed(2, "early"), partition=SLOW)
    await cluster.settle()

    assert [(job.generation, event_ids(job)) for job in await cluster.jobs()] == [
        (1, ["early-1", "late-1"]),
        (2, ["late-2", "early-2"]),
    ]


async def test_a_schedule_that_is_deleted_while_it_waits_leaves_nothing(
    cluster: ShardCluster, clock: SettableClock
) -> None:
    name = await waiting(cluster, clock, Then(A, B))
    await cluster.drop(schedule(name), Then(A, B), 2)
    await cluster.settle()

    await cluster.stop()
    await start(cluster, 0, 1, 2)
    await cluster.settle()

    assert await held(cluster) == 0
    assert await cluster.jobs() == []  # the earlier event found no listener any more


async def test_no_more_signals_wait_than_may(
    cluster: ShardCluster, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrival_order, "MOST_UNORDERED", 5)
    await waiting(cluster, clock, Unless(B, A))
    await cluster.emit(*(landed(n, "late") for n in range(2, 9)), partition=0)
    await cluster.settle()

    assert await held(cluster) == 5
    assert [event_ids(job) for job in await cluster.jobs()] == [[f"late-{n}"] for n in range(1, 4)]


async def test_more_than_one_turn_judges_follow_in_turns_of_their_own(
    cluster: ShardCluster, clock: SettableClock
) -> None:
    await waiting(cluster, clock, Then(A, Partitions(DatasetRef("default", "late"), 2_500)))
    await cluster.emit(*(landed(n, "late") for n in range(2, 2_501)), partition=0)
    await cluster.settle(60)
    assert await held(cluster) == 2_500

    await cluster.stop()
    await start(cluster, 0, 1, 2)
    await cluster.settle(60)

    (job,) = await cluster.jobs()
    assert len(event_ids(job)) == 2_501
    continued = [each for each in await cluster.records(SIGNALS) if b'"continued"' in (each.value or b"")]
    assert len(continued) == 2


@pytest.mark.parametrize("value", [b"", b"{}", b'{"signal":"barrier","stage":"asked","asker":7,"round":1}'])
async def test_a_barrier_that_cannot_be_read_is_a_dead_letter(cluster: ShardCluster, value: bytes) -> None:
    await cluster.start()

    await cluster.broker.append([Outgoing(SIGNALS, 0, b"barrier:0", value)])
    await cluster.settle()

    assert len(await cluster.dead_letters()) == 1


E_, TICK = CustomEvent(EventName("default", "e")), Cron("0 6 * * *")


@pytest.mark.parametrize(
    ("trigger", "needed"),
    [
        (Then(A, B), True),
        (Unless(A, B), True),
        (Within(A & B, HOUR), True),
        (Quiet(Then(A, B), HOUR), True),
        (A & TICK, True),
        (A | B, False),
        (AllOf((A, B, E_)), False),
        (Then(A, A), False),  # one key has one home, and its events come in their order
        (Within(Partitions(DatasetRef("default", "early"), 3), HOUR), False),
        (Quiet(A & B, HOUR), False),  # only the last of all counts
        (Silence(A, HOUR), False),
        (TICK, False),
    ],
    ids=str,
)
def test_only_what_depends_on_the_order_of_keys_needs_it(trigger: Trigger, *, needed: bool) -> None:
    assert build_plan(trigger).needs_order is needed


ASKED = Barrier(Stage.ASKED, 1, 7, (0, 2), 1_772_366_400_000)


def test_a_barrier_comes_back_equal() -> None:
    for stage in Stage:
        key, value = codec.encode(ASKED._replace(stage=stage))
        assert key == b"barrier:1"
        assert codec.decode(value, shards=3) == ASKED._replace(stage=stage)


def test_what_a_shard_remembers_comes_back_equal() -> None:
    ends = {TopicPartition(PARTITIONS, 0): 7, TopicPartition(SIGNALS, 1): 2**53}
    for now in (None, Round(ASKED, 4), Round(ASKED, 0, lapsed=True, singly=True)):
        state = BarrierState(7, now, (Passing(ASKED, ends), Passing(ASKED, {})))
        assert barrier_state.decode(barrier_state.encode(state), shards=3) == state


@pytest.mark.parametrize("raw", [b"{}", b'{"v":2,"number":1,"passing":[]}', b'{"v":1,"number":1,"passing":[{}]}'])
def test_what_is_no_memory_of_barriers_is_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        barrier_state.decode(raw, shards=3)


def test_a_barrier_of_a_shard_that_is_not_there_is_refused() -> None:
    with pytest.raises(DecodeError, match="names shard 2 of 2"):
        codec.decode(codec.encode(ASKED)[1], shards=2)


def test_a_round_is_over_when_every_shard_has_answered_through_every_home() -> None:
    now = begin_round(7, 1, frozenset({2, 0}), ASKED.frontier_ms, shards=3)
    answer = ASKED._replace(stage=Stage.ANSWERED)
    for missing in range(5, -1, -1):
        assert now.advance(answer._replace(round=6)) is now
        now = now.advance(answer)
        assert now == Round(ASKED, missing)
    assert now.advance(answer) is now
    assert now.advance(ASKED._replace(stage=Stage.LAPSED)) is now


def barriers_of_shard(turn: Turn) -> Barriers:
    """Those of shard 0 of three."""
    spec = ShardSpec(number=0, shards=3, unkeyed_partitions=1, dedupe_horizon=HOUR)
    return make_app(turn, spec).homes.barriers


def barrier_record(barrier: Barrier) -> tuple[Chunk, Record]:
    record = Record(0, *codec.encode(barrier), 7)
    return Chunk(SIGNALS, 0, [record], 1), record


def test_a_shard_that_lags_remembers_the_latest_barrier_of_each_asker() -> None:
    """An asker begins a round after the last one has lapsed, and waits for no answer to that any more."""
    turn, at = Turn(), TopicPartition(PARTITIONS, 0)
    barriers = barriers_of_shard(turn)
    for number in range(1, 1_001):
        for asker in (1, 2):
            barriers.process(*barrier_record(ASKED._replace(asker=asker, round=number)))
        barriers.set_ends({at: number})
        barriers.end_turn({at: 0})
    assert max(len(each.value or b"") for each in turn.take() if each.key == BARRIERS_KEY) < 400

    barriers.end_turn({at: 1_000})
    passed = [codec.decode(each.value or b"", shards=3) for each in turn.take() if each.topic == SIGNALS]
    assert [(each.stage, each.asker, each.round) for each in passed] == [
        (Stage.PASSED, asker, 1_000) for asker in (1, 2) for _ in ASKED.homes
    ]


@pytest.mark.parametrize("stage", [Stage.ASKED, Stage.PASSED, Stage.ANSWERED])
def test_a_barrier_that_fails_every_turn_and_is_of_no_round_is_a_dead_letter(stage: Stage) -> None:
    turn = Turn()
    barriers = barriers_of_shard(turn)

    barriers.refuse(*barrier_record(ASKED._replace(stage=stage)), ZeroDivisionError("unexpected"))

    assert [each.topic for each in turn.take()] == [DEAD_LETTER]


def test_signals_are_due_by_time_and_those_of_one_time_as_they_came() -> None:
    table: dict[bytes, bytes] = {}
    kept = UnorderedSignals(table)
    for number, (logged_ms, happened_us) in enumerate([(5, 0), (3, 9), (5, 0), (4, 0), (3, 8), (3, 9)]):
        time = ArrivalTime(logged_ms, happened_us)
        kept.add(b"schedule:a", time, Record(number, b"schedule:a", b"v %d" % number, 99))
    kept.add(b"schedule:b", ArrivalTime(1, 0), Record(9, b"schedule:b", b"w", 99))

    for found in (kept, UnorderedSignals(table)):  # as it is, and as a new owner reads it
        assert [(each.offset, each.time_ms) for each in found.due(b"schedule:a", 4, 100)] == [
            (4, 3),
            (1, 3),
            (5, 3),
            (3, 4),
        ]
        assert [each.value for each in found.due(b"schedule:a", 9, 2)] == [b"v 4", b"v 1"]
        assert found.newest_ms == 5
    kept.remove(b"schedule:a", 4)
    assert [each.offset for each in UnorderedSignals(table).due(b"schedule:a", 9, 9)] == [0, 2]
    kept.remove(b"schedule:a", 2)
    assert not kept.has_due([b"schedule:a"], 9)
    assert list(UnorderedSignals(table).places()) == [b"schedule:b"]


def test_within_a_millisecond_of_the_log_events_arrived_as_they_happened() -> None:
    """Its clock is no finer; a client that waits for each answer sends several within one."""
    first, second = (NOON + timedelta(microseconds=n) for n in (100, 200))
    occurred = [Occurred(replace(landed(n), time=at), logged_ms=7) for n, at in enumerate((first, second))]

    assert arrival_time(occurred[0], 99) < arrival_time(occurred[1], 99)
    late = Occurred(landed(3), timedelta(hours=1), logged_ms=7)
    assert arrival_time(occurred[1], 99) < arrival_time(late, 99)  # when it happened says nothing
    assert arrival_time(Drop(schedule(), 1), 7) == arrival_time(late, 99)
    assert arrival_time(replace_logged(late), 6) < arrival_time(occurred[0], 99)


def replace_logged(signal: Occurred) -> Occurred:
    """The same without a time of the log."""
    return signal._replace(logged_ms=0)
