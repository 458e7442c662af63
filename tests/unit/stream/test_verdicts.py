"""Every event that comes in leaves a verdict, and the verdicts leave with the turn."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from streamsched.codec import findings
from streamsched.domain.event import CustomHappened, Event
from streamsched.domain.finding import AtSchedule, Finding, Repeated, Unheard, Unread
from streamsched.domain.match import Match, OneOf
from streamsched.domain.names import DatasetRef, EventName
from streamsched.domain.trigger import CustomEvent, Partitions
from streamsched.domain.verdict import Verdict
from streamsched.ports.broker import Outgoing
from streamsched.ports.topics import EVENTS, PARTITIONS, VERDICTS
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


async def test_ticks_and_control_have_none(town: Town) -> None:
    await town.start()
    await town.put(schedule(), Partitions(FLIGHTS, 2))
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
