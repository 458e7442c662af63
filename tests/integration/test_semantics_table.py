"""Cases that schedulers answer differently, in one table: what happens, and the jobs that are wanted of it.

Each runs through real shards on the log in PostgreSQL. S1 to S10 are those that were run on other schedulers; where
they differ from one another, ours is what a reader of the definition would expect. Time passes by the wake-ups that
schedules ask for, so no case waits.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamsched.domain.events.event import Event, Outcome, Partition, PartitionsAdded
from streamsched.domain.events.lateness import Late, OnLate
from streamsched.domain.events.match import Glob, Match
from streamsched.domain.names import DatasetRef, EventName, StreamRef
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.correlation import OnFull, Per
from streamsched.domain.triggers.trigger import (
    AtLeast,
    CustomEvent,
    Measure,
    OnExpiry,
    Partitions,
    ProgramStatus,
    Quiet,
    Silence,
    StreamGrowth,
    Then,
    Total,
    Unless,
    Within,
)
from tests.support.shard_cluster import ShardCluster

from .semantics import (
    DAY,
    HOUR,
    LATEST,
    LOAD,
    LONG_AGO,
    NIGHTLY,
    PAIRED,
    SOON,
    Case,
    Change,
    Restart,
    Wake,
    answered,
    custom,
    day,
    grew,
    land,
    of,
    ran,
    tick,
)

pytestmark = pytest.mark.postgres

X, Y, BEAT = of("x"), of("y"), CustomEvent(EventName("default", "beat"))
BY_DAY = Per(X & Y, ("date",))
HOURLY = Per(X, ("hour",), Grain.HOUR, rolled_up_to=Grain.DAY)


def hours(some: range) -> list[Event]:
    return [land(f"x{hour:02}", hour=f"{day(7)}T{hour:02}") for hour in some]


CASES = [
    Case("S1 a job for each event", X, [[land(f"x{n}") for n in range(50)]], [f"x{n}" for n in range(50)]),
    Case(
        "S2 x, x, y, y under AND", X & Y, [land("x1"), land("x2"), land("y1"), land("y2")], ["x1 y1", "x2 y2"], PAIRED
    ),
    Case("S3 AND per key, different keys", BY_DAY, [land("x1", date=day(1)), land("y1", date=day(2))], []),
    Case(
        "S4 AND per key, both keys",
        BY_DAY,
        [land("x1", date=day(1)), land("x2", date=day(2)), land("y1", date=day(1)), land("y2", date=day(2))],
        [f"{day(1)}: x1 y1", f"{day(2)}: x2 y2"],
    ),
    Case(
        "S5 every two of six at once",
        of("x", 2),
        [[land(f"x{n}") for n in range(6)]],
        ["x0 x1", "x2 x3", "x4 x5"],
        PAIRED,
    ),
    Case("S6 the second happened earlier", of("x", 2), [land("x1"), replace(land("x2"), time=SOON - HOUR)], ["x1 x2"]),
    Case(
        "S7 three of one, two of another",
        of("x", 3) & of("y", 2),
        [[land(f"{d}{n}") for n in range(3) for d in "xy"]],
        ["x0 x1 x2 y0 y1"],
    ),
    Case("S8 paused, dropping", X, [Change(X, enabled=False), land("x1"), land("x2"), Change(X), land("x3")], ["x3"]),
    Case(
        "S8 paused, keeping",
        X,
        [Change(X, keep=True, enabled=False), land("x1"), land("x2"), Change(X, keep=True)],
        ["x1 x2"],
    ),
    Case(
        "S9 edited, starting anew", of("x", 4), [land("x1"), land("x2"), land("x3"), Change(of("x", 2)), land("x4")], []
    ),
    Case(
        "S9 edited, keeping",
        of("x", 4),
        [land("x1"), land("x2"), land("x3"), Change(of("x", 4) & Y, keep=True), land("x4"), land("y1")],
        ["x1 x2 x3 x4 y1"],
    ),
    Case("S10 one event, many listeners", X, [land("x1")], ["x1"] * 40, listeners=40),
    Case(
        "a threshold lowered, keeping",
        of("x", 7),
        [land("x1"), land("x2"), land("x3"), Change(of("x", 3), keep=True)],
        ["x1 x2 x3"],
    ),
    Case("a repeated id", of("x", 2), [land("x1"), land("x1"), land("x2")], ["x1 x2"]),
    Case("OR with a shared input", (X & Y) | of("x", 2), [land("x1"), land("x2"), land("y1")], ["x1 x1 x2 x2"]),
    Case("two of three", AtLeast(2, (X, Y, of("z"))), [land("x1"), land("z1"), land("y1")], ["x1 z1"]),
    Case("seven come where five are wanted", of("x", 5), [land("x1", count=7)], ["x1"]),
    Case("the two left over count on", of("x", 5), [land("x1", count=7), land("x2", count=3)], ["x1", "x1 x2"], PAIRED),
    Case("the newest of each", X & Y, [land("x1"), land("x2"), land("y1")], ["x2 y1"], LATEST),
    Case(
        "only what matches",
        of("x", 2, region="EU"),
        [land("x1", region="EU"), land("x2", region="US"), land("x3", region="EU")],
        ["x1 x3"],
    ),
    Case(
        "a day that is written three times",
        of("x", 2),
        [land("x1", key="d"), land("x2", key="d"), land("x3", key="d"), land("x4")],
        ["x3 x4"],
    ),
    Case(
        "a day that is written three times, each commit counted",
        Partitions(DatasetRef("default", "x"), 2, distinct=False),
        [land("x1", key="d"), land("x2", key="d"), land("x3", key="d")],
        ["x1 x2"],
    ),
    Case(
        "a day that is written again, across a restart",
        of("x", 2),
        [land("x1", key="d"), Restart(), land("x2", key="d"), Restart(), land("x3")],
        ["x2 x3"],
    ),
    Case(
        "a day that is written again after its job",
        X & Y,
        [land("x1", key="d"), land("y1"), land("x2", key="d"), land("y2")],
        ["x1 y1", "x2 y2"],
    ),
    Case(
        "the oldest days, one of them written again",
        of("x", 2) & Y,
        [land("x1", key="d"), land("x2"), land("x3", key="d"), land("x4"), land("y1"), land("y2"), land("x5")],
        ["x2 x3 y1", "x4 x5 y2"],
        PAIRED,
    ),
    Case(
        "the newest size of a day",
        Total(DatasetRef("default", "x"), Measure.BYTES, 100),
        [land("x1", key="d", size=90), land("x2", key="d", size=20), land("x3", size=70), land("x4", size=10)],
        ["x2 x3 x4"],
    ),
    Case(
        "from each commit to each day, keeping",
        Partitions(DatasetRef("default", "x"), 9, distinct=False),
        [land("x1", key="d"), land("x2", key="d"), land("x3"), Change(of("x", 3), keep=True), land("x4")],
        ["x2 x3 x4"],
    ),
    Case(
        "a sum of bytes, across a restart",
        Total(DatasetRef("default", "x"), Measure.BYTES, 100),
        [land("x1", size=60), Restart(), land("x2", size=60)],
        ["x1 x2"],
    ),
    Case("a restart half way", of("x", 3), [land("x1"), Restart(), land("x2"), Restart(), land("x3")], ["x1 x2 x3"]),
    Case(
        "a stream's first whole size is where it begins",
        StreamGrowth(StreamRef("default", "clicks"), 50),
        [grew("c1", 1000, absolute=True), grew("c2", 1049, absolute=True), grew("c3", 1051, absolute=True)],
        ["c2 c3"],
    ),
    Case(
        "a stream is cut off",
        StreamGrowth(StreamRef("default", "clicks"), 50),
        [grew("c1", 1000, absolute=True), grew("c2", 50, absolute=True)],
        ["c2"],
    ),
    Case(
        "a program fails where success is wanted",
        ProgramStatus(LOAD, times=2),
        [ran("r1"), ran("r2", Outcome.FAILED), ran("r3")],
        ["r1 r3"],
    ),
    Case("a tick and a file", NIGHTLY & X, [land("x1"), tick("t1")], ["t1 x1"]),
    Case(
        "a tick of a definition that is gone",
        NIGHTLY & X,
        [land("x1"), Change(NIGHTLY & X, keep=True), tick("t1"), tick("t2", 2)],
        ["t2 x1"],
    ),
    Case("in order", Then(X, Y), [land("y1"), land("x1"), land("y2")], ["x1 y2"]),
    Case(
        "in order, but too late", Then(X, Y, HOUR), [land("x1"), Wake(), land("y1"), land("x2"), land("y2")], ["x2 y2"]
    ),
    Case(
        "a sequence with a gap",
        Then(X, Then(Y, of("z"))),
        [land("x1"), land("z1"), land("y1"), land("z2")],
        ["x1 y1 z2"],
    ),
    Case("a without b, b comes", Unless(X, Y, HOUR), [land("x1"), land("y1"), Wake()], []),
    Case("a without b, b does not come", Unless(X, Y, HOUR), [land("y1"), land("x1"), Wake(), land("y2")], ["x1"]),
    Case("half of it in time, then start over", Within(X & Y, HOUR), [land("x1"), Wake(), land("y1")], []),
    Case("half of it in time, then fire", Within(X & Y, HOUR, OnExpiry.FIRE), [land("x1"), Wake(), land("y1")], ["x1"]),
    Case("all of it in time", Within(X & Y, HOUR, OnExpiry.FIRE), [land("x1"), land("y1"), Wake()], ["x1 y1"]),
    Case("a burst is one job", Quiet(X, HOUR), [land("x1"), land("x2"), land("x3"), Wake(), land("x4")], ["x1 x2 x3"]),
    Case("a deadline across a restart", Within(X & Y, HOUR, OnExpiry.FIRE), [land("x1"), Restart(), Wake()], ["x1"]),
    Case("silence, once", Silence(BEAT, HOUR), [custom("b1"), Wake(), Wake()], [""]),  # type: ignore[arg-type]
    Case("silence broken, and again", Silence(BEAT, HOUR), [Wake(), custom("b1"), Wake()], ["", ""]),  # type: ignore[arg-type]
    Case(
        "a late event is left out",
        of("x", 2),
        [land("x1"), replace(land("x2"), time=LONG_AGO), land("x3")],
        ["x1 x3"],
        late=Late(DAY, OnLate.DROP),
    ),
    Case(
        "a late event counts",
        of("x", 2),
        [land("x1"), replace(land("x2"), time=LONG_AGO)],
        ["x1 x2"],
        late=Late(DAY, OnLate.ACCEPT),
    ),
    Case(
        "hours make a day",
        HOURLY,
        [hours(range(23)), land("x05again", hour=f"{day(7)}T05"), hours(range(23, 24))],
        [f"{day(7)}: " + " ".join(f"x{n:02}" for n in range(24))],
    ),
    Case(
        "twenty hours are enough",
        replace(HOURLY, of=20),
        [hours(range(20))],
        [f"{day(7)}: " + " ".join(f"x{n:02}" for n in range(20))],
    ),
    Case(
        "a day for each of its hours",
        Per(Y, ("date",), Grain.DAY, fanned_out_to=Grain.HOUR) & Per(X, ("hour",), Grain.HOUR),
        [land("y1", date=day(7)), hours(range(2))],
        [f"{day(7)}T00: x00 y1", f"{day(7)}T01: x01 y1"],
    ),
    Case(
        "a commit of several days",
        BY_DAY,
        [
            Event(
                "x1",
                "test",
                SOON,
                PartitionsAdded(
                    DatasetRef("default", "x"), tuple(Partition(day(n), {"date": day(n)}) for n in (1, 2)), 2
                ),
            ),
            land("y2", date=day(2)),
        ],
        [f"{day(2)}: x1 y2"],
    ),
    Case(
        "a key that expires, then its other half",
        replace(BY_DAY, expires=HOUR),
        [land("x1", date=day(1)), Wake(), land("y1", date=day(1))],
        [],
    ),
    Case(
        "more open keys than are allowed: the event that would open one is refused",
        replace(BY_DAY, at_most=2),
        [
            land("x1", date=day(1)),
            land("x2", date=day(2)),
            land("x3", date=day(3)),
            land("y1", date=day(1)),
            land("y3", date=day(3)),
        ],
        [f"{day(1)}: x1 y1"],
    ),
    Case(
        "more open keys than are allowed: the oldest is dropped",
        replace(BY_DAY, at_most=2, full=OnFull.DROP_OLDEST),
        [
            land("x1", date=day(1)),
            land("x2", date=day(2)),
            land("x3", date=day(3)),
            land("y1", date=day(1)),
            land("y3", date=day(3)),
        ],
        [f"{day(3)}: x3 y3"],
    ),
    Case(
        "the run for that day",
        Per(X & ProgramStatus(LOAD), ("date",)),
        [land("x1", date=day(1)), ran("r1", date=day(2)), ran("r2", date=day(1))],
        [f"{day(1)}: r2 x1"],
    ),
    Case(
        "each key has its own deadline",
        Within(BY_DAY, HOUR, OnExpiry.FIRE),
        [land("x1", date=day(1)), Wake(), land("x2", date=day(2)), land("y2", date=day(2))],
        [f"{day(1)}: x1", f"{day(2)}: x2 y2"],
    ),
    Case(
        "patterns",
        CustomEvent(EventName("default", "beat"), 1, Match.from_values({"ref": Glob("refs/heads/*")})),
        [custom("b1", ref="refs/tags/a"), custom("b2", ref="refs/heads/a")],
        ["b2"],
    ),
]


@pytest.mark.parametrize("some", [CASES[n::4] for n in range(4)], ids=lambda some: f"{len(some)} cases")
async def test_every_case_has_the_jobs_that_are_wanted(cluster: ShardCluster, some: list[Case]) -> None:
    answers: dict[str, list[str]] = {}
    for case in some:
        answers[case.name] = await answered(cluster, case)

    assert answers == {case.name: case.jobs for case in some}
