"""Every state ever written can be read: `tests/golden/state/v<version>-<name>.json`, never changed, only added to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streamsched.codec.records import state
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import (
    CustomHappened,
    Event,
    Outcome,
    Partition,
    PartitionsAdded,
    ProgramReached,
    StreamSize,
    Ticked,
)
from streamsched.domain.events.event_list import EventList
from streamsched.domain.events.lateness import Late, OnLate
from streamsched.domain.events.match import ANYTHING, Glob, Match, OneOf
from streamsched.domain.fold.accumulation import Accumulation
from streamsched.domain.fold.cell import TimedNodeState, cell_of
from streamsched.domain.fold.fold import Definition, TriggerState
from streamsched.domain.fold.plan import build_plan
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import (
    AllOf,
    At,
    AtLeast,
    Cron,
    CustomEvent,
    Every,
    Measure,
    Partitions,
    Per,
    ProgramStatus,
    Quiet,
    Silence,
    StreamGrowth,
    Then,
    Total,
    Unless,
    Within,
    leaf_id,
)
from tests.support.states import state_of

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
NINE = EventList(Event(f"e{n}", "pfs", NOON, PartitionsAdded(FLIGHTS, (Partition(f"day={n}"),), 1)) for n in range(9))
SMALLER = Event("e3", "sizes", NOON, StreamSize(StreamRef("default", "clicks"), 20, absolute=False))
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


def commits(dataset: DatasetRef, count: int = 1, match: Match = ANYTHING) -> Partitions:
    """What a PARTITION means that does not say `distinct`: it was stored before there was a choice."""
    return Partitions(dataset, count, match, distinct=False)


EVERYTHING = (
    commits(FLIGHTS, 7)
    & commits(FLIGHTS, 2)
    & (commits(WEATHER, 9) | ProgramStatus(LOAD, frozenset({Outcome.FAILED, Outcome.KILLED}), 2))
    & StreamGrowth(StreamRef("default", "clicks"), 2**31 + 1)
    & CustomEvent(EventName("default", "approved"), 2)
    & (NIGHTLY | Every(timedelta(minutes=90)) | At(datetime(2014, 1, 1, tzinfo=UTC)))
)

EAST = Match.from_values({"region": OneOf(frozenset({"EU", "AP"})), "day": Glob("2013-*")})
EASTERN = Event(
    "e7",
    "pfs/default.flights",
    NOON,
    PartitionsAdded(FLIGHTS, (Partition("r", {"region": "EU", "day": "2013-01-07"}, bytes=60),), 1),
)
WIDER = AtLeast(
    2,
    (
        commits(FLIGHTS, 2, EAST),
        Total(FLIGHTS, Measure.BYTES, 500, EAST, distinct=False),
        Total(WEATHER, Measure.ROWS, 9, distinct=False),
        CustomEvent(EventName("default", "approved"), 2, Match.from_values({"by": OneOf(frozenset({"Zoë"}))})),
    ),
)

CLICKS = StreamGrowth(StreamRef("default", "clicks"), 50)
STATES = {
    "v3-new": state_of(SCHEDULE, commits(FLIGHTS)),
    "v3-disabled": state_of(SCHEDULE, Cron("0 4 * * *"), generation=12, enabled=False),
    "v3-fired-stream": state_of(SCHEDULE, CLICKS, {leaf_id(CLICKS): Accumulation(0, 170)}, generation=2, sequence=41),
    "v3-wider-leaves": state_of(
        SCHEDULE,
        WIDER,
        {
            leaf_id(WIDER.triggers[0]): Accumulation(1, None, EventList([EASTERN])),  # type: ignore[arg-type]
            leaf_id(WIDER.triggers[1]): Accumulation(60, None, EventList([EASTERN])),  # type: ignore[arg-type]
            leaf_id(WIDER.triggers[3]): Accumulation(1, None, EventList([APPROVED])),  # type: ignore[arg-type]
        },
        generation=4,
    ),
    "v3-everything": state_of(
        SCHEDULE,
        EVERYTHING,
        {
            "partitions:default.flights:7": Accumulation(2, None, EventList([LANDED])),
            "partitions:default.flights:2": Accumulation(2, None, EventList([LANDED])),
            "partitions:other.weather.hourly:9": Accumulation(5, None, EventList([UNNAMED])),
            "program:default.flights.load:failed+killed:2": Accumulation(1, None, EventList([FAILED])),
            "stream:default.clicks:2147483649": Accumulation(30, 70, EventList([GROWN])),
            "event:default.approved:2": Accumulation(1, None, EventList([APPROVED])),
            leaf_id(NIGHTLY): Accumulation(1, None, EventList([TICK])),
        },
        generation=3,
        sequence=5,
    ),
}
WAITING = Within(Quiet(commits(FLIGHTS), timedelta(minutes=10), timedelta(hours=1)), timedelta(hours=6))
SILENT = Silence(CustomEvent(EventName("default", "beat")), timedelta(days=1))
TIMED = WAITING & SILENT & Unless(Then(CLICKS, WAITING, timedelta(hours=2)), ProgramStatus(LOAD))
AGAIN = Event("e8", "pfs", NOON, PartitionsAdded(FLIGHTS, (Partition("year=2013/month=1", rows=7),), 1))
DISTINCT = AllOf((Partitions(FLIGHTS, 7), Total(FLIGHTS, Measure.ROWS, 9)))
STATES |= {
    "v3-paired": state_of(
        SCHEDULE,
        commits(FLIGHTS, 5),
        {"partitions:default.flights:5": Accumulation(4, None, EventList([LANDED, LANDED, UNNAMED]).drop_first(1))},
        consumption=Consumption.PAIRED,
    ),
    "v3-cut": state_of(
        SCHEDULE,
        CLICKS,
        {leaf_id(CLICKS): Accumulation(20, 170, EventList([GROWN, GROWN]).drop_first(1, SMALLER))},
        consumption=Consumption.PAIRED,
    ),
    "v3-timed": TriggerState(
        Definition(SCHEDULE, 3, True, TIMED, late=Late(timedelta(hours=1), OnLate.SIDE_OUTPUT)),
        2,
        cell_of(
            build_plan(TIMED),
            {"partitions:default.flights:1#1.2": Accumulation(2, None, EventList([LANDED]))},
            {0: TimedNodeState(NOON, NOON), 1: TimedNodeState(NOON), 2: TimedNodeState(last=NOON, held=True)},
            asked=NOON + timedelta(minutes=10),
        ),
    ),
    "v3-pausing": TriggerState(
        Definition(SCHEDULE, 4, False, commits(FLIGHTS, 5), keeping=True),
        0,
        cell_of(build_plan(commits(FLIGHTS, 5)), {"partitions:default.flights:5": Accumulation(9, None, NINE)}),
    ),
    "v3-distinct": state_of(
        SCHEDULE,
        DISTINCT,
        {
            leaf_id(DISTINCT.triggers[0]): Accumulation(2, None, EventList([LANDED, AGAIN])),  # type: ignore[arg-type]
            leaf_id(DISTINCT.triggers[1]): Accumulation(7, None, EventList([LANDED, AGAIN])),  # type: ignore[arg-type]
        },
        generation=2,
    ),
    "v3-correlating": TriggerState(
        Definition(SCHEDULE, 1, True, Per(commits(FLIGHTS) & commits(WEATHER), ("year", "month"))), 12, lost=2
    ),
    "v3-periods": TriggerState(
        Definition(
            SCHEDULE,
            1,
            True,
            Per(commits(FLIGHTS), ("day", "hour"), Grain.HOUR, rolled_up_to=Grain.DAY, zone="Europe/Berlin"),
        ),
        3,
        keyless=12,
        keyless_why="hour='5am' names no hour",
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
        pytest.param(b'"v":3', b'"v":4', "$.v", id="a version of the future"),
        pytest.param(b"0,[0],null", b"0,[1],null", "$.cell.slots[0]", id="an event that is not there"),
        pytest.param(b"[[0,1,", b"[[1,1,", "$.cell.slots[0]", id="a leaf of another trigger"),
        pytest.param(b'"numPartitions":1', b'"numPartitions":0', "$.trigger.numPartitions", id="an impossible trigger"),
        pytest.param(b"[[0,1,", b"[[0,-1,", "$.cell.slots[0]", id="a count"),
    ],
)
def test_a_state_that_contradicts_itself_is_refused(old: bytes, new: bytes, path: str) -> None:
    leaf = leaf_id(commits(FLIGHTS))
    raw = state.encode(state_of(SCHEDULE, commits(FLIGHTS), {leaf: Accumulation(1, None, EventList([LANDED]))}))
    assert old in raw

    with pytest.raises(DecodeError) as refused:
        state.decode(raw.replace(old, new))

    assert refused.value.path == path
