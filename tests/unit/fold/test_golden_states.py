"""Every state ever written can be read: `tests/golden/state/v<version>-<name>.json`, never changed, only added to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streamsched.codec import state
from streamsched.domain.consumption import Consumption
from streamsched.domain.errors import DecodeError
from streamsched.domain.event import (
    CustomHappened,
    Event,
    Outcome,
    Partition,
    PartitionsAdded,
    ProgramReached,
    StreamSize,
    Ticked,
)
from streamsched.domain.fold import Accumulation, TriggerState
from streamsched.domain.match import Glob, Match, OneOf
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef
from streamsched.domain.trigger import (
    At,
    AtLeast,
    Cron,
    CustomEvent,
    Every,
    Measure,
    Partitions,
    ProgramStatus,
    StreamGrowth,
    Total,
    leaf_id,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "state"
SCHEDULE = ScheduleRef("default", "flights", "join")
FLIGHTS, WEATHER = DatasetRef("default", "flights"), DatasetRef("other", "weather.hourly")
LOAD = ProgramRef("default", "flights", "load")
NOON = datetime(2013, 1, 7, 12, 0, 0, 250_000, tzinfo=UTC)

LANDED = Event(
    "e1",
    "pfs/default.flights",
    NOON,
    PartitionsAdded(
        FLIGHTS,
        (
            Partition("year=2013/month=1", {"year": "2013", "month": "1"}, bytes=1024, rows=27004),
            Partition("year=2013/month=2", {"year": "2013", "month": "2"}),
        ),
        2,
    ),
)
UNNAMED = Event("log:partitions/0/17", "unknown", NOON, PartitionsAdded(WEATHER, (), 5))
GROWN = Event("e3", "sizes", NOON, StreamSize(StreamRef("default", "clicks"), 70, absolute=True))
FAILED = Event(
    "e4",
    "runs",
    NOON,
    ProgramReached(LOAD, "default.flights.load.1.r1", Outcome.FAILED, {"day": "7"}, NOON, "exit 1"),
)
APPROVED = Event("e5 “é”", "people", NOON, CustomHappened(EventName("default", "approved"), {"by": "Zoë"}))
NIGHTLY = Cron("0 4 * * *", "Europe/Berlin")
TICK = Event("t6", "timers", NOON, Ticked(SCHEDULE, 3, leaf_id(NIGHTLY), datetime(2013, 1, 7, 3, tzinfo=UTC)))

EVERYTHING = (
    Partitions(FLIGHTS, 7)
    & Partitions(FLIGHTS, 2)
    & (Partitions(WEATHER, 9) | ProgramStatus(LOAD, frozenset({Outcome.FAILED, Outcome.KILLED}), 2))
    & StreamGrowth(StreamRef("default", "clicks"), 2**31 + 1)
    & CustomEvent(EventName("default", "approved"), 2)
    & (NIGHTLY | Every(timedelta(minutes=90)) | At(datetime(2014, 1, 1, tzinfo=UTC)))
)

EAST = Match.of({"region": OneOf(frozenset({"EU", "AP"})), "day": Glob("2013-*")})
EASTERN = Event(
    "e7",
    "pfs/default.flights",
    NOON,
    PartitionsAdded(FLIGHTS, (Partition("r", {"region": "EU", "day": "2013-01-07"}, bytes=60),), 1),
)
WIDER = AtLeast(
    2,
    (
        Partitions(FLIGHTS, 2, EAST),
        Total(FLIGHTS, Measure.BYTES, 500, EAST),
        Total(WEATHER, Measure.ROWS, 9),
        CustomEvent(EventName("default", "approved"), 2, Match.of({"by": OneOf(frozenset({"Zoë"}))})),
    ),
)

STATES = {
    "v1-new": TriggerState(SCHEDULE, 1, True, Partitions(FLIGHTS)),
    "v1-disabled": TriggerState(SCHEDULE, 12, False, Cron("0 4 * * *")),
    "v1-fired-stream": TriggerState(
        SCHEDULE,
        2,
        True,
        StreamGrowth(StreamRef("default", "clicks"), 50),
        41,
        {"stream:default.clicks:50": Accumulation(0, 170)},
    ),
    "v1-wider-leaves": TriggerState(
        SCHEDULE,
        4,
        True,
        WIDER,
        0,
        {
            leaf_id(WIDER.triggers[0]): Accumulation(1, None, (EASTERN,)),  # type: ignore[arg-type]
            leaf_id(WIDER.triggers[1]): Accumulation(60, None, (EASTERN,)),  # type: ignore[arg-type]
            leaf_id(WIDER.triggers[3]): Accumulation(1, None, (APPROVED,)),  # type: ignore[arg-type]
        },
    ),
    "v1-paired": TriggerState(
        SCHEDULE,
        1,
        True,
        Partitions(FLIGHTS, 5),
        7,
        {"partitions:default.flights:5": Accumulation(2, None, (LANDED,))},
        Consumption.PAIRED,
    ),
    "v1-everything": TriggerState(
        SCHEDULE,
        3,
        True,
        EVERYTHING,
        5,
        {
            "partitions:default.flights:7": Accumulation(2, None, (LANDED,)),
            "partitions:default.flights:2": Accumulation(2, None, (LANDED,)),
            "partitions:other.weather.hourly:9": Accumulation(5, None, (UNNAMED,)),
            "program:default.flights.load:failed+killed:2": Accumulation(1, None, (FAILED,)),
            "stream:default.clicks:2147483649": Accumulation(30, 70, (GROWN,)),
            "event:default.approved:2": Accumulation(1, None, (APPROVED,)),
            leaf_id(NIGHTLY): Accumulation(1, None, (TICK,)),
        },
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_a_state_written_by_any_version_is_read(name: str) -> None:
    assert state.decode((GOLDEN / f"{name}.json").read_bytes()) == STATES[name]


@pytest.mark.parametrize("name", [name for name in STATES if name.startswith(f"v{state.VERSION}-")])
def test_this_version_writes_the_same_bytes_as_ever(name: str) -> None:
    assert state.encode(STATES[name]) + b"\n" == (GOLDEN / f"{name}.json").read_bytes()


def test_every_golden_file_is_expected_to_be_something() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(STATES)


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        pytest.param(b'"v":1', b'"v":2', "$.v", id="a version of the future"),
        pytest.param(b'"events":[0]', b'"events":[1]', "$.leaves['partitions:default.flights:1'].events", id="a place"),
        pytest.param(b'"partitions:default.flights:1"', b'"gone"', "$.leaves['gone']", id="a leaf of another trigger"),
        pytest.param(b'"numPartitions":1', b'"numPartitions":0', "$.trigger.numPartitions", id="an impossible trigger"),
        pytest.param(b'"count":1,"e', b'"count":-1,"e', "$.leaves['partitions:default.flights:1'].count", id="a count"),
    ],
)
def test_a_state_that_contradicts_itself_is_refused(old: bytes, new: bytes, path: str) -> None:
    leaf = leaf_id(Partitions(FLIGHTS))
    raw = state.encode(
        TriggerState(SCHEDULE, 1, True, Partitions(FLIGHTS), 0, {leaf: Accumulation(1, None, (LANDED,))})
    )
    assert old in raw

    with pytest.raises(DecodeError) as refused:
        state.decode(raw.replace(old, new))

    assert refused.value.path == path
