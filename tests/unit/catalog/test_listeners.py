"""Hints for emitters: keys that no schedule listens to, events that have no key for those that do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from streamsched.catalog.listeners import KeylessEvent, Listeners
from streamsched.domain.errors import UnavailableError
from streamsched.domain.events.event import CustomHappened, Event, Partition, PartitionsAdded
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.schedule import Schedule, ScheduleRecord
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.trigger import CustomEvent, Partitions, Per, Trigger, event_keys
from streamsched.store.events.event_traces import CurrentSchedule
from streamsched.testing.clock import SettableClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CLICKS = DatasetRef("default", "clicks")
KEY = "partition:default.clicks"


def schedule(trigger: Trigger, namespace: str = "default", number: int = 0) -> CurrentSchedule:
    ref = ScheduleRef(namespace, "app", f"s{number}")
    definition = Schedule(ref, ProgramRef(namespace, "app", "p"), trigger)
    return CurrentSchedule(ScheduleRecord(definition, 1, True, NOW, NOW), None)


class Known:
    """Schedules by the event keys that they listen to. `asked` counts the queries."""

    def __init__(self, *schedules: CurrentSchedule, away: bool = False) -> None:
        self._schedules = schedules
        self._away = away
        self.asked = 0

    async def listeners(self, keys: Sequence[str]) -> Mapping[str, Sequence[CurrentSchedule]]:
        self.asked += 1
        if self._away:
            raise UnavailableError("the database is away")
        return {
            key: [each for each in self._schedules if key in event_keys(each.record.definition.trigger)] for key in keys
        }


def landed(*rows: dict[str, str]) -> Event:
    parts = tuple(Partition(str(row), row) for row in rows)
    return Event("e", "test", NOW, PartitionsAdded(CLICKS, parts, max(1, len(parts))))


def listeners(known: Known) -> Listeners:
    return Listeners(known, SettableClock(NOW))  # type: ignore[arg-type]


BY_HOUR = Per(Partitions(CLICKS), ("hour",), Grain.HOUR)


@pytest.mark.parametrize(
    ("triggers", "rows", "why"),
    [
        ([BY_HOUR], [{"day": "2026-03-01"}], "it has no key: hour is missing"),
        ([BY_HOUR], [{"hour": "5am"}], "it has no key: hour='5am' names no hour"),
        ([BY_HOUR], [{"hour": "2026-3-1 5"}], None),
        (
            [BY_HOUR],
            [{"hour": "x"}, {"hour": "2026-03-01T05"}],
            "1 of its 2 partitions have no key: hour='x' names no hour",
        ),
        ([BY_HOUR, Per(Partitions(CLICKS), ("day",))], [{"day": "x"}], None),
        ([BY_HOUR, Partitions(CLICKS)], [{"day": "x"}], None),
        ([BY_HOUR, Per(Partitions(CLICKS), ("minute",))], [{"day": "x"}], "it has no key: hour is missing"),
        ([BY_HOUR], [{"hour": f"{n}"} for n in range(101)], None),
        ([Per(Partitions(CLICKS), (f"c{n}",)) for n in range(21)], [{"day": "x"}], None),
    ],
)
async def test_an_event_without_a_key_for_any_listener_is_named(
    triggers: list[Trigger], rows: list[dict[str, str]], why: str | None
) -> None:
    known = Known(*(schedule(trigger, number=number) for number, trigger in enumerate(triggers)))

    found = await listeners(known).hints([landed(*rows)])

    assert found.unheard == []
    assert list(found.keyless) == ([] if why is None else [KeylessEvent("e", KEY, why)])


async def test_the_listeners_of_a_key_are_asked_for_once_in_a_while() -> None:
    known, clock = Known(schedule(BY_HOUR)), SettableClock(NOW)
    hints = Listeners(known, clock)  # type: ignore[arg-type]

    for _ in range(3):
        assert (await hints.hints([landed({"day": "x"})])).keyless
    assert known.asked == 1
    clock.advance(timedelta(seconds=6))
    assert (await hints.hints([landed({"day": "x"})])).keyless
    assert known.asked == 2


async def test_a_key_that_no_schedule_listens_to_is_named_and_when_that_is_unknown_nothing_is() -> None:
    go = Event("e", "test", NOW, CustomHappened(EventName("default", "go")))

    assert (await listeners(Known(schedule(BY_HOUR))).hints([go])).unheard == ["event:default.go"]
    assert (await listeners(Known(away=True)).hints([go])).unheard is None


async def test_the_columns_of_schedules_of_other_namespaces_are_not_shown() -> None:
    go = Event("e", "test", NOW, CustomHappened(EventName("default", "go")))
    foreign = schedule(Per(CustomEvent(EventName("default", "go")), ("secret",)), "finance")
    own = schedule(Per(CustomEvent(EventName("default", "go")), ("day",)))

    assert not (await listeners(Known(foreign)).hints([go])).keyless
    (found,) = (await listeners(Known(foreign, own)).hints([go])).keyless
    assert found.why == "it has no key: day is missing"


async def test_of_many_events_the_first_are_checked() -> None:
    found = await listeners(Known(schedule(BY_HOUR))).hints([landed({"day": "x"})] * 1000)

    assert len(found.keyless) == 20
