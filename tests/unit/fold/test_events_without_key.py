"""An event without a key has a verdict with the reason, and the schedule counts it; roll-ups in zones; kept keys."""

from __future__ import annotations

import gc
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from streamsched.codec.records import state as state_codec
from streamsched.codec.views.explanation import losses
from streamsched.domain.events.event import CustomHappened, Event, Partition, PartitionsAdded
from streamsched.domain.events.match import Match, OneOf
from streamsched.domain.names import DatasetRef, EventName, ScheduleRef
from streamsched.domain.signals.signal import Occurred, Put
from streamsched.domain.signals.verdict import JudgedEvent, Verdict
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.correlation import KEYS_AT_ONCE, Per
from streamsched.domain.triggers.keys.key_value import HIVE_NULL
from streamsched.domain.triggers.trigger import CustomEvent, Partitions, Trigger
from tests.support.engine import Engine

REF = ScheduleRef("default", "joins", "each")
A, GO = DatasetRef("default", "a"), EventName("default", "go")
START = datetime(2026, 1, 1, tzinfo=UTC)
HOURS = Per(Partitions(A, 100), ("hour",), Grain.HOUR)


def engine(trigger: Trigger) -> Engine:
    made = Engine(REF)
    made.tell(START, Put(REF, 1, True, trigger))
    return made


def landed(*rows: dict[str, str], name: str = "e") -> Occurred:
    parts = tuple(Partition("/".join(f"{k}={v}" for k, v in row.items()), row) for row in rows)
    return Occurred(Event(name, "test", START, PartitionsAdded(A, parts, max(1, len(parts)))))


def judged(made: Engine, *rows: dict[str, str]) -> JudgedEvent:
    verdict = made.tell(START, landed(*rows)).verdict
    assert verdict is not None
    return verdict


@pytest.mark.parametrize(
    ("rows", "verdict", "why"),
    [
        ([{"hour": "5am"}], Verdict.UNMATCHED, "it has no key: hour='5am' names no hour"),
        ([{"day": "x"}], Verdict.UNMATCHED, "it has no key: hour is missing"),
        ([], Verdict.UNMATCHED, "it has no key: it names no partition"),
        ([{"hour": "5am"}] * 3, Verdict.UNMATCHED, "none of its 3 partitions has a key: hour='5am' names no hour"),
        (
            [{"hour": "2026-03-01T05"}, {"hour": HIVE_NULL}],
            Verdict.COUNTED,
            f"1 of its 2 partitions have no key: hour is {HIVE_NULL}, which is no value",
        ),
        ([{"hour": "2026-03-01T05"}], Verdict.COUNTED, ""),
    ],
)
def test_the_verdict_says_what_has_no_key(rows: list[dict[str, str]], verdict: Verdict, why: str) -> None:
    made = engine(HOURS)

    found = judged(made, *rows)

    assert (found.verdict, found.why) == (verdict, why)
    assert made.state is not None
    assert made.state.keyless == bool(why)
    assert why.endswith(made.state.keyless_why)


def test_a_schedule_counts_them_and_keeps_the_reason_of_the_last_through_its_stored_state() -> None:
    made = engine(HOURS)
    for text in ("5am", "6am"):
        judged(made, {"hour": text})
    judged(made, {"hour": "2026-03-01T05"})
    assert made.state is not None

    stored = state_codec.decode(state_codec.encode(made.state))

    assert (stored.keyless, stored.keyless_why) == (2, "hour='6am' names no hour")
    assert losses(stored) == {"keyless_events": 2, "keyless_why": "hour='6am' names no hour"}
    assert losses(engine(HOURS).state or stored) == {}


def test_a_key_without_a_grain_never_is_hives_null() -> None:
    made = engine(Per(Partitions(A), ("region",)))

    assert judged(made, {"region": HIVE_NULL}).why.startswith(f"it has no key: region is {HIVE_NULL}")
    assert not made.jobs


def test_what_another_leaf_counts_or_no_leaf_wants_is_not_without_a_key() -> None:
    either = Per(Partitions(A), ("x",)) | Per(Partitions(A), ("y",))
    eu = Per(Partitions(A, match=Match.from_values({"region": OneOf(frozenset({"EU"}))})), ("hour",), Grain.HOUR)

    counted = judged(engine(either), {"x": "1"})
    assert (counted.verdict, counted.cells, counted.why) == (Verdict.COUNTED, ("1",), "")
    assert judged(engine(either), {"z": "1"}).why == "it has no key: x is missing"
    assert judged(engine(eu), {"region": "US", "hour": "5am"}).why == ""
    assert judged(engine(eu), {"region": "EU", "hour": "5am"}).why == "it has no key: hour='5am' names no hour"


def test_an_attribute_of_an_event_may_be_missing() -> None:
    made = engine(Per(CustomEvent(GO), ("customer",)))

    found = made.tell(START, Occurred(Event("e", "test", START, CustomHappened(GO, {"client": "a"})))).verdict

    assert found == JudgedEvent(Verdict.UNMATCHED, why="it has no key: customer is missing")


@pytest.mark.parametrize(
    ("day", "hours"),
    [("2026-03-28", 24), ("2026-03-29", 23), ("2026-10-25", 25)],
)
def test_a_day_of_berlin_is_complete_with_the_hours_that_it_has(day: str, hours: int) -> None:
    made = engine(Per(Partitions(A), ("hour",), Grain.HOUR, Grain.DAY, zone="Europe/Berlin"))
    midnight = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC)
    instants = [midnight + timedelta(hours=n) for n in range(hours)]

    for number, instant in enumerate(instants):
        assert not made.jobs
        text = instant.isoformat() if number % 2 else f"{instant:%Y-%m-%d %H:00:00} UTC"
        made.tell(START, landed({"hour": text}, name=text))

    assert [job.key for _, job in made.jobs] == [day]


def test_hours_in_the_layout_of_hive_roll_up_to_their_day() -> None:
    made = engine(Per(Partitions(A), ("day", "hour"), Grain.HOUR, Grain.DAY))

    made.tell(START, landed(*({"day": "2026-03-01", "hour": f"{n}"} for n in range(24))))

    assert [job.key for _, job in made.jobs] == ["2026-03-01"]


def test_open_keys_of_texts_go_on_as_the_periods_that_they_name() -> None:
    def join(grain: Grain | None) -> Trigger:
        return Per(Partitions(A, 2), ("date",), grain) & Per(CustomEvent(GO), ("date",), grain)

    made = engine(join(None))
    for text in ("2026-03-01", "20260302", "2026-3-3", "20260303", "monday"):
        made.tell(START, landed({"date": text}, name=text))

    made.tell(START, Put(REF, 2, True, join(Grain.DAY), keep=True))

    assert set(made.cells) == {"2026-03-01", "2026-03-02", "2026-03-03", "20260303", "monday"}
    made.tell(START, landed({"date": "2026-03-02", "part": "2"}, name="more"))
    made.tell(START, Occurred(Event("go", "test", START, CustomHappened(GO, {"date": "20260302"}))))
    assert [job.key for _, job in made.jobs] == ["2026-03-02"]


@pytest.mark.parametrize("days", [1, 31])
def test_the_hours_of_a_month_in_one_event_cost_less_than_a_fold_may(days: int) -> None:
    made = engine(Per(Partitions(A), ("hour",), Grain.HOUR, Grain.MONTH, zone="Europe/Berlin"))
    rows = [{"hour": f"2026-01-{n // 24 + 1:02}T{n % 24:02}"} for n in range(24 * days)]
    gc.disable()
    try:
        began = time.process_time()
        made.tell(START, landed(*rows))
        took = time.process_time() - began
    finally:
        gc.enable()

    assert len(made.jobs) == (days == 31)
    assert took < 1.0  # it took eight seconds, where two are the most


def test_100_000_partitions_without_a_key_are_one_verdict_with_one_example() -> None:
    made = engine(HOURS)

    found = judged(made, *({"hour": f"no hour {n}"} for n in range(100_000)))

    assert found.why == "none of its 100000 partitions has a key: hour='no hour 0' names no hour"
    assert made.state is not None
    assert made.state.keyless == 1
    assert KEYS_AT_ONCE < 100_000
