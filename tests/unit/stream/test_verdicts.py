"""Every event that comes in leaves a verdict, and the verdicts leave with the turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from streamsched.codec import event as event_codec
from streamsched.codec import findings
from streamsched.codec import signal as signal_codec
from streamsched.domain.event import CustomHappened, Event, Ticked
from streamsched.domain.finding import AtSchedule, Finding, Repeated, Unheard, Unread
from streamsched.domain.home import home
from streamsched.domain.lateness import Late, OnLate
from streamsched.domain.leaf import leaf_id
from streamsched.domain.match import Match, OneOf
from streamsched.domain.names import DatasetRef, EventName
from streamsched.domain.signal import Occurred
from streamsched.domain.trigger import CustomEvent, Every, Partitions
from streamsched.domain.verdict import Verdict
from streamsched.ports.broker import Outgoing
from streamsched.ports.topics import EVENTS, LATE, PARTITIONS, SIGNALS, VERDICTS
from streamsched.stream.shard import ShardSettings
from streamsched.testing.clock import SettableClock
from streamsched.testing.town import NOON, Town, landed, schedule

FLIGHTS = DatasetRef("default", "flights")


async def found(town: Town) -> Sequence[Finding]:
    await town.settled()
    return [
        finding
        for record in await town.records(VERDICTS)
        for finding in findings.decode(record.value or b"", at=datetime.fromtimestamp(record.time_ms / 1000, UTC))
    ]


async def test_a_counted_event_says_where_and_towards_which_job(town: Town) -> None:
    await town.start()
    await town.put(schedule(), Partitions(FLIGHTS, 2), generation=3)
    for number in range(3):
        await town.emit(landed(number))
        await town.settled()

    counted = await found(town)

    assert [(each.event, each.source, each.verdict) for each in counted] == [
        (f"flights-{n}", "test", Verdict.COUNTED) for n in range(3)
    ]
    grounds = [each.ground for each in counted if isinstance(each.ground, AtSchedule)]
    assert [(each.schedule, each.generation, each.next_job) for each in grounds] == [
        (schedule(), 3, number) for number in (1, 1, 2)
    ]
    assert grounds[0].judged.leaves == ("partitions:default.flights:2",)
    assert counted[0].at == NOON


async def test_a_repeat_says_when_it_was_seen_first(town: Town, clock: SettableClock) -> None:
    await town.start()
    await town.put(schedule(), Partitions(FLIGHTS, 5))
    await town.emit(landed(0))
    await town.settled()
    clock.advance(timedelta(minutes=5))

    await town.emit(landed(0))

    first, again = await found(town)
    assert (first.verdict, again.verdict) == (Verdict.COUNTED, Verdict.DUPLICATE)
    assert again.since == NOON
    assert again.at == NOON + timedelta(minutes=5)
    assert again.ground == Repeated("partition:default.flights")


async def test_an_event_nobody_listens_to_says_so(town: Town) -> None:
    await town.start()

    await town.emit(landed(0))

    (unheard,) = await found(town)
    assert unheard.ground == Unheard("partition:default.flights")


async def test_an_event_no_leaf_accepts_is_unmatched(town: Town) -> None:
    name = EventName("default", "approved")
    await town.start()
    await town.put(schedule(), CustomEvent(name, match=Match.of({"by": OneOf(frozenset({"ops"}))})))

    await town.emit(Event("e", "test", NOON, CustomHappened(name, {"by": "dev"})))

    (unmatched,) = await found(town)
    assert unmatched.verdict is Verdict.UNMATCHED


async def test_each_listener_gives_its_own_verdict(town: Town) -> None:
    await town.start()
    await town.put(schedule("a"), Partitions(FLIGHTS, 2))
    await town.put(schedule("b"), Partitions(FLIGHTS, 3), enabled=False)

    await town.emit(landed(0))

    verdicts = {
        str(each.ground.schedule): each.verdict for each in await found(town) if isinstance(each.ground, AtSchedule)
    }
    assert verdicts == {"default.town.a": Verdict.COUNTED, "default.town.b": Verdict.DISABLED}


async def test_a_dead_letter_is_found_by_the_id_it_claims_or_by_its_place(town: Town) -> None:
    await town.start()

    bad = [b'{"id":"a","source":"s","type":"custom","data":{"name":5}}', b"{"]
    await town.broker.append([Outgoing(EVENTS, 0, None, value) for value in bad])

    claimed, nameless = await found(town)
    assert (claimed.event, claimed.source, claimed.verdict) == ("a", "s", Verdict.DEAD_LETTERED)
    assert claimed.ground == Unread("events/0/0", "$.data.name", claimed.ground.reason)  # type: ignore[union-attr]
    assert (nameless.event, nameless.source) == ("log:events/0/1", "")


@pytest.mark.parametrize("then", OnLate)
async def test_a_late_event_says_when_it_happened_and_what_the_policy_did(town: Town, then: OnLate) -> None:
    await town.start()
    await town.put(schedule(), Partitions(FLIGHTS, 9), late=Late(timedelta(hours=1), then))
    happened = NOON - timedelta(hours=2)

    await town.emit(replace(landed(0), time=happened), landed(1))

    late, in_time = sorted(await found(town), key=lambda each: each.event)
    assert late.verdict is (Verdict.COUNTED if then is OnLate.ACCEPT else Verdict.LATE)
    assert isinstance(late.ground, AtSchedule)
    assert (late.since, late.ground.late) == (happened, then)
    assert (in_time.verdict, in_time.since) == (Verdict.COUNTED, None)
    aside = [
        event_codec.decode(each.value or b"", fallback_id="", fallback_time=NOON) for each in await town.records(LATE)
    ]
    assert [event.id for event in aside] == (["flights-0"] if then is OnLate.SIDE else [])


async def test_a_backlog_makes_nothing_late(town: Town, clock: SettableClock) -> None:
    await town.put(schedule(), Partitions(FLIGHTS, 2), late=Late(timedelta(hours=1)))
    await town.emit(landed(0), landed(1))
    clock.advance(timedelta(hours=5))

    await town.start()

    assert [each.verdict for each in await found(town)] == [Verdict.COUNTED, Verdict.COUNTED]
    assert len(await town.jobs()) == 1


@pytest.mark.parametrize("spelling", ["ours", "cloudevent"])
async def test_how_late_an_event_came_is_the_same_after_a_restart(
    town: Town, clock: SettableClock, spelling: str
) -> None:
    """On the edge: late by the microseconds that do not travel would be late for one worker and not for the next."""
    event = replace(landed(0), time=NOON - timedelta(hours=1, microseconds=300))
    said = event_codec.encode(event)
    if spelling == "cloudevent":
        body = {"specversion": "1.0", "type": "streamsched.partitions.added", **orjson.loads(said), "delay": 7}
        said = orjson.dumps({**body, "type": "streamsched.partitions.added"})
    await town.put(schedule(), Partitions(FLIGHTS, 1), late=Late(timedelta(hours=1)))
    await town.broker.append([Outgoing(PARTITIONS, 0, None, said)])
    clock.advance(timedelta(minutes=5))

    await town.start()

    (counted,) = await found(town)
    assert counted.verdict is Verdict.COUNTED
    values = {record.value for record in await town.records(SIGNALS) if b"flights-0" in (record.value or b"")}
    assert [signal_codec.decode(b"", value or b"") for value in values] == [Occurred(event, timedelta(hours=1))]


async def test_ticks_and_control_have_none(town: Town) -> None:
    await town.start()
    hourly = Every(timedelta(hours=1))
    await town.put(schedule(), Partitions(FLIGHTS, 2) | hourly)
    tick = Event("t", "timers", NOON, Ticked(schedule(), 1, leaf_id(hourly), NOON))
    key = f"schedule:{schedule()}".encode()
    await town.broker.append([Outgoing(SIGNALS, home(key, town.count), *signal_codec.encode(Occurred(tick)))])
    await town.settled()
    assert len(await town.jobs()) == 1
    await town.drop(schedule(), Partitions(FLIGHTS, 2), 2)

    assert await found(town) == []


async def test_one_turn_is_one_record_a_station(town: Town) -> None:
    await town.put(schedule(), Partitions(FLIGHTS, 1000))
    await town.emit(*(landed(n) for n in range(100)), *(landed(n, "nowhere") for n in range(100)))
    await town.start()

    assert len(await found(town)) == 200
    assert len(await town.records(VERDICTS)) <= 2 * town.count


async def test_who_wants_no_verdicts_gets_none(town: Town) -> None:
    await town.start(ShardSettings(verdicts=False))
    await town.put(schedule(), Partitions(FLIGHTS, 2))

    await town.emit(landed(0), landed(1, "nowhere"), landed(0))
    await town.broker.append([Outgoing(PARTITIONS, 0, None, b"{")])

    assert await found(town) == []
