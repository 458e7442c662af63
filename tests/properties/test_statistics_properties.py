"""Statistics of commits that come later: run events in any order, with repeats, against a model that knows two sets."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.records import signal as signal_codec
from streamsched.dialects.openlineage.codec.facts import facts
from streamsched.dialects.openlineage.codec.run_event import decode
from streamsched.domain.events.event import Event, PartitionsAdded, schedule_key
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.signals.signal import Occurred, Put, Signal, Subscribe
from streamsched.domain.signals.verdict import Verdict
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.event_slice import join_slices
from streamsched.domain.triggers.on_correction import RERUN, OnCorrection
from streamsched.domain.triggers.trigger import (
    AllOf,
    AnyOf,
    Measure,
    Partitions,
    Quiet,
    Silence,
    Total,
    Trigger,
    event_keys,
)
from streamsched.log.topics import SIGNALS
from streamsched.ports.broker import Chunk, Record
from streamsched.stream.agents.event_home import EventHome
from streamsched.stream.agents.signal_decoder import SignalDecoder
from streamsched.testing.examples import examples
from tests.support.engine import Engine
from tests.support.id_table import IdTable
from tests.support.timed_strategies import START, STEP

FLIGHTS: Final = DatasetRef("default", "lake_flights")
KEY: Final = f"partition:{FLIGHTS}"
HORIZON: Final = timedelta(days=4)
PLACES: Final = ("/lake/flights", "/other/flights")
KNOWN: Final = {f"file{place}": FLIGHTS for place in PLACES}


@dataclass
class SmallCluster:
    """The home of the dataset's events, and of schedules that listen to it."""

    triggers: dict[str, Trigger]
    engines: dict[bytes, Engine] = field(default_factory=dict)
    verdicts: dict[str, list[Verdict]] = field(default_factory=dict)
    whys: dict[str, list[str]] = field(default_factory=dict)
    forwarded: list[tuple[bytes, bytes]] = field(default_factory=list)
    rows: dict[bytes, bytes] = field(default_factory=dict)
    seen: IdTable = field(default_factory=IdTable)
    number: int = 0

    def __post_init__(self) -> None:
        self.home = self.began()
        for name, trigger in self.triggers.items():
            ref = ScheduleRef("default", "cluster", name)
            engine = self.engines[schedule_key(ref).encode()] = Engine(ref)
            engine.tell(START, Put(ref, 1, True, trigger, Consumption.CUMULATIVE))
            for key in event_keys(trigger):
                self.signalled(Subscribe(key, ref, 1), 0)

    def began(self) -> EventHome:
        return EventHome(
            shard=0,
            shards=3,
            subscriptions=self.rows,
            seen=self.seen,
            emit=lambda topic, partition, key, value: None,
            decoder=SignalDecoder(),
            forward=lambda home, schedule, value, signal, time_ms: self.forwarded.append((schedule, value)),
            horizon=HORIZON,
        )

    def restart(self) -> None:
        """The home starts over from its changelog."""
        self.seen = IdTable(self.seen.changelog)
        self.home = self.began()
        asyncio.run(self.home.prepare())

    def signalled(self, signal: Signal, at: int) -> None:
        record = Record(self.number, *signal_codec.encode(signal), 1 + at)
        self.number += 1
        self.home.process(Chunk(SIGNALS, 0, [record], self.number), record)
        self.home.store()

    def came(self, event: Event, at: int = 0) -> None:
        """An event reaches its home, and from there the schedules. `at`: milliseconds for the log, steps for them."""
        self.forwarded.clear()
        self.signalled(Occurred(event), at)
        for key, value in self.forwarded:
            signal = signal_codec.decode(key, value)
            assert signal_codec.encode(signal)[1] == value
            name = key.decode().rpartition(".")[2]
            judged = self.engines[key].tell(START + at * STEP, signal).verdict
            assert judged is not None
            self.verdicts.setdefault(name, []).append(judged.verdict)
            self.whys.setdefault(name, []).append(judged.why)

    def jobs(self, name: str) -> list[int]:
        """What each job of a schedule was made of: the sum over its leaves."""
        engine = self.engines[schedule_key(ScheduleRef("default", "cluster", name)).encode()]
        return [sum(part.count for part in job.contributions) for _, job in engine.jobs]


def complete(run: int, place: int = 0, rows: int | None = None, size: int | None = None) -> Event:
    """The commit of a `COMPLETE`."""
    sizes = {"rowCount": rows, "size": size}
    output: dict[str, Any] = {"namespace": "file", "name": PLACES[place]}
    if rows is not None or size is not None:
        output["outputFacets"] = {"outputStatistics": {name: n for name, n in sizes.items() if n is not None}}
    said = {
        "eventType": "COMPLETE",
        "eventTime": "2026-01-02T03:04:05Z",
        "run": {"runId": f"r-{run}"},
        "job": {"namespace": "spark", "name": "load"},
        "outputs": [output],
    }
    found = decode(json.dumps(said).encode())
    assert found is not None
    return facts(found, namespace="default", known=KNOWN).datasets[0].event


@dataclass
class Adding:
    """A total: it adds up to `enough`, then makes a job of all it has. `distinct`: the newest of each run counts."""

    enough: int
    distinct: bool = False
    has: dict[object, int] = field(default_factory=dict)
    jobs: list[int] = field(default_factory=list)
    number: int = 0

    def add(self, run: int, amount: int) -> None:
        self.number += 1
        key = run if self.distinct else -self.number
        if amount or key in self.has:
            self.has[key] = amount
        if sum(self.has.values()) >= self.enough:
            self.jobs.append(sum(self.has.values()))
            self.has = {}


#: run, place, rows, bytes; a run event without rows and bytes has no statistics.
SAID = st.tuples(st.integers(0, 2), st.integers(0, 1), st.none() | st.integers(0, 900), st.none() | st.integers(0, 900))


@examples(300)
@given(st.lists(SAID, max_size=25), st.booleans(), st.booleans())
def test_each_commit_counts_once_and_so_do_its_statistics(
    said: list[tuple[int, int, int | None, int | None]], distinct: bool, restarts: bool
) -> None:
    cluster = SmallCluster(
        {
            "rows": Total(FLIGHTS, Measure.ROWS, 1000, distinct=distinct),
            "bytes": Total(FLIGHTS, Measure.BYTES, 700, distinct=distinct),
            "commits": Partitions(FLIGHTS, 2, distinct=False),
            "one": Partitions(FLIGHTS, 1),
        }
    )
    rows, size = Adding(1000, distinct), Adding(700, distinct)
    commits, stated = set[tuple[int, int]](), set[tuple[int, int]]()

    for run, place, some_rows, some_bytes in said:
        if restarts:
            cluster.restart()
        cluster.came(complete(run, place, some_rows, some_bytes))
        has = some_rows is not None or some_bytes is not None
        if (run, place) not in commits or (has and (run, place) not in stated):
            rows.add(run, some_rows or 0)
            size.add(run, some_bytes or 0)
        commits.add((run, place))
        if has:
            stated.add((run, place))

    assert cluster.jobs("commits") == [2] * (len(commits) // 2)
    assert cluster.jobs("one") == [1] * len(commits)
    assert cluster.jobs("rows") == rows.jobs
    assert cluster.jobs("bytes") == size.jobs


def test_statistics_before_and_after_the_jobs_of_totals() -> None:
    cluster = SmallCluster({"rows": Total(FLIGHTS, Measure.ROWS, 1000), "commits": Partitions(FLIGHTS, 1)})

    cluster.came(complete(0))
    cluster.came(complete(1, rows=1500))
    cluster.came(complete(0, rows=400))
    for _ in range(2):
        cluster.came(complete(0, rows=400))
        cluster.came(complete(1, rows=1500))
        cluster.came(complete(1))
    cluster.came(complete(2, rows=600))

    assert cluster.jobs("rows") == [1500, 1000]
    assert cluster.jobs("commits") == [1, 1, 1]
    assert cluster.verdicts["rows"] == [Verdict.UNMATCHED, Verdict.COUNTED, Verdict.COUNTED, Verdict.COUNTED]
    assert cluster.verdicts["commits"] == [Verdict.COUNTED, Verdict.COUNTED, Verdict.UNMATCHED, Verdict.COUNTED]
    assert [cluster.whys["rows"][2], cluster.whys["commits"][2]] == [
        "the bytes and rows of a commit that came before",
        "it brings bytes and rows of a commit that came before, and no leaf adds those up",
    ]


def test_statistics_complete_a_commit_and_a_total_together() -> None:
    both = AllOf((Partitions(FLIGHTS, 1), Total(FLIGHTS, Measure.ROWS, 1000)))
    cluster = SmallCluster({"both": both})

    cluster.came(complete(0))
    assert cluster.jobs("both") == []
    cluster.came(complete(0, rows=1500))

    assert cluster.jobs("both") == [1 + 1500]
    (engine,) = cluster.engines.values()
    ((_, job),) = engine.jobs
    commit, statistics = (part.events[0] for part in job.contributions)
    for union in (join_slices(commit, statistics), join_slices(statistics, commit)):
        assert isinstance(union.fact, PartitionsAdded)
        assert [(each.key, each.rows) for each in union.fact.partitions] == [("run=r-0", 1500)]


def test_statistics_correct_nothing_and_open_no_key() -> None:
    """A run that has fired stays finished; where only totals fire it, a key opens with the statistics."""
    commits, rows = Partitions(FLIGHTS, 1), Total(FLIGHTS, Measure.ROWS, 1000)
    quiet = OnCorrection(2 * STEP)
    cluster = SmallCluster(
        {
            "commits": Per(commits, ("run",), on_correction=RERUN),
            "either": Per(AnyOf((commits, rows)), ("run",), on_correction=RERUN),
            "later": Per(AnyOf((commits, rows)), ("run",), on_correction=quiet),
            "rows": Per(rows, ("run",), on_correction=RERUN),
            "keyless": Per(rows, ("day",)),
        }
    )

    cluster.came(complete(0))
    cluster.came(complete(0, rows=1500))
    for engine in cluster.engines.values():
        engine.wake_up(START + 100 * STEP)

    assert [cluster.jobs(name) for name in ("commits", "either", "later", "rows", "keyless")] == [
        [1],
        [1],
        [1],
        [1500],
        [],
    ]
    fired = "it brings bytes and rows of a commit that came before, and key r-0 has fired since"
    assert [cluster.whys[name][1] for name in ("either", "later")] == [fired] * 2
    (keyless,) = (engine.state for key, engine in cluster.engines.items() if key.endswith(b"keyless"))
    assert keyless is not None
    assert keyless.keyless == 1


def test_statistics_are_no_sign_of_life_where_commits_are_counted() -> None:
    silent = Silence(Partitions(FLIGHTS, 1), 3 * STEP)
    rested = Quiet(Partitions(FLIGHTS, 1), 3 * STEP)
    cluster = SmallCluster({"silent": silent, "rested": rested})

    cluster.came(complete(0))
    cluster.came(complete(0, rows=1500), 2)
    for engine in cluster.engines.values():
        engine.wake_up(START + 4 * STEP)

    assert [[at for at, _ in engine.jobs] for engine in cluster.engines.values()] == [[START + 3 * STEP]] * 2


def test_only_commits_that_wait_for_statistics_are_known_by_more_than_their_id() -> None:
    cluster = SmallCluster({})
    cluster.came(complete(0, rows=1))
    assert cluster.home.known_ids == 1
    cluster.came(complete(1))
    assert cluster.home.known_ids == 3
    cluster.came(complete(1, rows=1))
    cluster.came(complete(1, rows=1))
    assert cluster.home.known_ids == 4


def test_statistics_after_the_horizon_are_a_commit_as_any_repeat_is() -> None:
    cluster = SmallCluster({"rows": Total(FLIGHTS, Measure.ROWS, 1000), "commits": Partitions(FLIGHTS, 1)})
    cluster.came(complete(0))
    cluster.came(complete(0, rows=1500), int(HORIZON.total_seconds() * 1000))

    assert (cluster.jobs("rows"), cluster.jobs("commits")) == ([1500], [1, 1])
