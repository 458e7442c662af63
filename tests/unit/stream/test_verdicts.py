"""Every event that comes in leaves a verdict, and the verdicts leave with the turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from streamsched.codec import event as event_codec
from streamsched.codec.records import findings
from streamsched.codec.records import signal as signal_codec
from streamsched.domain.events.event import CustomHappened, Event, Ticked
from streamsched.domain.events.lateness import Late, OnLate
from streamsched.domain.events.match import Match, OneOf
from streamsched.domain.names import DatasetRef, EventName
from streamsched.domain.signals.finding import AtSchedule, Duplicate, Finding, NoListener, Undecodable
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Occurred
from streamsched.domain.signals.verdict import Verdict
from streamsched.domain.triggers.leaf import leaf_id
from streamsched.domain.triggers.trigger import CustomEvent, Every, Partitions
from streamsched.log.topics import EVENTS, LATE, PARTITIONS, SIGNALS, VERDICTS
from streamsched.ports.broker import Outgoing
from streamsched.stream.shards.shard import ShardSettings
from streamsched.testing.clock import SettableClock
from tests.support.shard_cluster import NOON, ShardCluster, landed, schedule

FLIGHTS = DatasetRef("default", "flights")


async def found(cluster: ShardCluster) -> Sequence[Finding]:
    await cluster.settle()
    return [
        finding
        for record in await cluster.records(VERDICTS)
        for finding in findings.decode(record.value or b"", at=datetime.fromtimestamp(record.time_ms / 1000, UTC))
    ]


async def test_a_counted_event_says_where_and_towards_which_job(cluster: ShardCluster) -> None:
    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 2), generation=3)
    for number in range(3):
        await cluster.emit(landed(number))
        await cluster.settle()

    counted = await found(cluster)

    assert [(each.event, each.source, each.verdict) for each in counted] == [
        (f"flights-{n}", "test", Verdict.COUNTED) for n in range(3)
    ]
    reasons = [each.reason for each in counted if isinstance(each.reason, AtSchedule)]
    assert [(each.schedule, each.generation, each.next_job) for each in reasons] == [
        (schedule(), 3, number) for number in (1, 1, 2)
    ]
    assert reasons[0].judged.leaves == ("partitions:default.flights:2:distinct",)
    assert counted[0].at == NOON


async def test_a_repeat_says_when_it_was_seen_first(cluster: ShardCluster, clock: SettableClock) -> None:
    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 5))
    await cluster.emit(landed(0))
    await cluster.settle()
    clock.advance(timedelta(minutes=5))

    await cluster.emit(landed(0))

    first, again = await found(cluster)
    assert (first.verdict, again.verdict) == (Verdict.COUNTED, Verdict.DUPLICATE)
    assert again.since == NOON
    assert again.at == NOON + timedelta(minutes=5)
    assert again.reason == Duplicate("partition:default.flights")


async def test_an_event_without_listeners_says_so(cluster: ShardCluster) -> None:
    await cluster.start()

    await cluster.emit(landed(0))

    (unheard,) = await found(cluster)
    assert unheard.reason == NoListener("partition:default.flights")


async def test_an_event_no_leaf_accepts_is_unmatched(cluster: ShardCluster) -> None:
    name = EventName("default", "approved")
    await cluster.start()
    await cluster.put(schedule(), CustomEvent(name, match=Match.from_values({"by": OneOf(frozenset({"ops"}))})))

    await cluster.emit(Event("e", "test", NOON, CustomHappened(name, {"by": "dev"})))

    (unmatched,) = await found(cluster)
    assert unmatched.verdict is Verdict.UNMATCHED


async def test_each_listener_gives_its_own_verdict(cluster: ShardCluster) -> None:
    await cluster.start()
    await cluster.put(schedule("a"), Partitions(FLIGHTS, 2))
    await cluster.put(schedule("b"), Partitions(FLIGHTS, 3), enabled=False)

    await cluster.emit(landed(0))

    verdicts = {
        str(each.reason.schedule): each.verdict for each in await found(cluster) if isinstance(each.reason, AtSchedule)
    }
    assert verdicts == {"default.town.a": Verdict.COUNTED, "default.town.b": Verdict.DISABLED}


async def test_a_dead_letter_is_found_by_the_id_it_claims_or_by_its_place(cluster: ShardCluster) -> None:
    await cluster.start()

    bad = [b'{"id":"a","source":"s","type":"custom","data":{"name":5}}', b"{"]
    await cluster.broker.append([Outgoing(EVENTS, 0, None, value) for value in bad])

    claimed, nameless = await found(cluster)
    assert (claimed.event, claimed.source, claimed.verdict) == ("a", "s", Verdict.DEAD_LETTERED)
    assert claimed.reason == Undecodable("events/0/0", "$.data.name", claimed.reason.reason)  # type: ignore[union-attr]
    assert (nameless.event, nameless.source) == ("log:events/0/1", "")


@pytest.mark.parametrize("then", OnLate)
async def test_a_late_event_says_when_it_happened_and_what_the_policy_did(cluster: ShardCluster, then: OnLate) -> None:
    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 9), late=Late(timedelta(hours=1), then))
    happened = NOON - timedelta(hours=2)

    await cluster.emit(replace(landed(0), time=happened), landed(1))

    late, in_time = sorted(await found(cluster), key=lambda each: each.event)
    assert late.verdict is (Verdict.COUNTED if then is OnLate.ACCEPT else Verdict.LATE)
    assert isinstance(late.reason, AtSchedule)
    assert (late.since, late.reason.late) == (happened, then)
    assert (in_time.verdict, in_time.since) == (Verdict.COUNTED, None)
    aside = [
        event_codec.decode(each.value or b"", fallback_id="", fallback_time=NOON)
        for each in await cluster.records(LATE)
    ]
    assert [event.id for event in aside] == (["flights-0"] if then is OnLate.SIDE_OUTPUT else [])


async def test_a_backlog_makes_nothing_late(cluster: ShardCluster, clock: SettableClock) -> None:
    await cluster.put(schedule(), Partitions(FLIGHTS, 2), late=Late(timedelta(hours=1)))
    await cluster.emit(landed(0), landed(1))
    clock.advance(timedelta(hours=5))

    await cluster.start()

    assert [each.verdict for each in await found(cluster)] == [Verdict.COUNTED, Verdict.COUNTED]
    assert len(await cluster.jobs()) == 1


@pytest.mark.parametrize("spelling", ["ours", "cloudevent"])
async def test_how_late_an_event_came_is_the_same_after_a_restart(
    cluster: ShardCluster, clock: SettableClock, spelling: str
) -> None:
    """On the edge: late by the microseconds that do not travel would be late for one worker and not for the next."""
    event = replace(landed(0), time=NOON - timedelta(hours=1, microseconds=300))
    said = event_codec.encode(event)
    if spelling == "cloudevent":
        body = {"specversion": "1.0", "type": "streamsched.partitions.added", **orjson.loads(said), "delay": 7}
        said = orjson.dumps({**body, "type": "streamsched.partitions.added"})
    await cluster.put(schedule(), Partitions(FLIGHTS, 1), late=Late(timedelta(hours=1)))
    await cluster.broker.append([Outgoing(PARTITIONS, 0, None, said)])
    clock.advance(timedelta(minutes=5))

    await cluster.start()

    (counted,) = await found(cluster)
    assert counted.verdict is Verdict.COUNTED
    values = {record.value for record in await cluster.records(SIGNALS) if b"flights-0" in (record.value or b"")}
    logged_ms = int(NOON.timestamp()) * 1000
    assert [signal_codec.decode(b"", value or b"") for value in values] == [
        Occurred(event, timedelta(hours=1), logged_ms=logged_ms)
    ]


async def test_ticks_and_control_have_none(cluster: ShardCluster) -> None:
    await cluster.start()
    hourly = Every(timedelta(hours=1))
    await cluster.put(schedule(), Partitions(FLIGHTS, 2) | hourly)
    tick = Event("t", "timers", NOON, Ticked(schedule(), 1, leaf_id(hourly), NOON))
    key = f"schedule:{schedule()}".encode()
    await cluster.broker.append([Outgoing(SIGNALS, home(key, cluster.count), *signal_codec.encode(Occurred(tick)))])
    await cluster.settle()
    assert len(await cluster.jobs()) == 1
    await cluster.drop(schedule(), Partitions(FLIGHTS, 2), 2)

    assert await found(cluster) == []


async def test_one_turn_is_one_record_a_station(cluster: ShardCluster) -> None:
    await cluster.put(schedule(), Partitions(FLIGHTS, 1000))
    await cluster.emit(*(landed(n) for n in range(100)), *(landed(n, "nowhere") for n in range(100)))
    await cluster.start()

    assert len(await found(cluster)) == 200
    assert len(await cluster.records(VERDICTS)) <= 2 * cluster.count


async def test_who_wants_no_verdicts_gets_none(cluster: ShardCluster) -> None:
    await cluster.start(ShardSettings(verdicts=False))
    await cluster.put(schedule(), Partitions(FLIGHTS, 2))

    await cluster.emit(landed(0), landed(1, "nowhere"), landed(0))
    await cluster.broker.append([Outgoing(PARTITIONS, 0, None, b"{")])

    assert await found(cluster) == []
