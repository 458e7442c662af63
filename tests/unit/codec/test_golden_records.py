"""Every record that a release writes can be read by the ones after it: `tests/golden/records/<release>.json`, never
changed, only added to. States have files of their own (`tests/unit/fold/test_golden_states.py`), a whole log too
(`tests/integration/test_golden_log.py`). With UPDATE_DOCS=1 records that are new in this release are added.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, get_args

import pytest

from streamsched import __version__
from streamsched.codec import event as event_codec
from streamsched.codec.records import (
    barrier,
    cell,
    descent,
    findings,
    formats,
    halt,
    judged,
    known_ids,
    launch,
    layout,
    state,
    subscriptions,
    wakeup,
    withheld,
)
from streamsched.codec.records import signal as signals
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
from streamsched.domain.fold.effect import Wake
from streamsched.domain.fold.halt import Halt
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.jobs.submission import Rerun, Submission
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef
from streamsched.domain.signals.barrier import Barrier, Round, Stage
from streamsched.domain.signals.finding import AtSchedule, Duplicate, Finding, NoListener, Undecodable
from streamsched.domain.signals.layout import Layout
from streamsched.domain.signals.signal import Drop, Occurred, Put, Replay, Signal, Subscribe, Unsubscribe, Woken
from streamsched.domain.signals.subscription import SubscribedSchedule, Subscriptions
from streamsched.domain.signals.verdict import JudgedEvent, Verdict
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.timed import Quiet, Within
from streamsched.domain.triggers.trigger import CustomEvent, Partitions, Per
from streamsched.log.dead_letters import dead_letter
from streamsched.ports.broker import Chunk, Record, TopicPartition
from streamsched.stream import backlogs, barrier_state, crash_guard, turn
from streamsched.stream.backlogs import Backlogs
from streamsched.stream.barrier_state import BarrierState, Passing
from streamsched.stream.crash_guard import Records, ShardAttempt, Span
from tests.support.made_files import assert_written, only_added

GOLDEN = Path(__file__).parents[2] / "golden" / "records"
NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
SCHEDULE, LOAD = ScheduleRef("default", "flights", "join"), ProgramRef("default", "flights", "load")
FLIGHTS = DatasetRef("default", "flights")
AFFINITY = 0xC72F6F04
TRIGGER = Per(Quiet(Partitions(FLIGHTS, 3), timedelta(minutes=10)) & CustomEvent(EventName("other", "go")), ("day",))

LANDED = Event(
    "e1",
    "pfs/default.flights",
    NOON,
    PartitionsAdded(FLIGHTS, (Partition("day=7", {"day": "7"}, bytes=2**63 - 1, rows=0), Partition("day=8")), 2),
)
GROWN = Event("e2", "sizes", NOON, StreamSize(StreamRef("default", "clicks"), 2**31 + 1, absolute=True))
FAILED = Event(
    "e3",
    "runs",
    NOON,
    ProgramReached(LOAD, "default.flights.load.1.r1", Outcome.FAILED, {"day": "7"}, NOON, "exit 1"),
)
APPROVED = Event("e4 “é”", "people", NOON, CustomHappened(EventName("default", "approved"), {"by": "Zoë"}))
TICK = Event("t5", "timers", NOON, Ticked(SCHEDULE, 3, "cron:0 4 * * *", datetime(2026, 3, 1, 4, tzinfo=UTC)))
EVENTS = {"partitions": LANDED, "stream-size": GROWN, "program-status": FAILED, "custom": APPROVED}


class Sample(NamedTuple):
    """A record as this release writes it, how one of its kind is read, and what is read then."""

    key: bytes
    value: bytes
    read: Callable[[bytes, bytes], object]
    found: object


def signal_sample(signal: Signal, affinity: int | None = None) -> Sample:
    return Sample(*signals.encode(signal, affinity), signals.decode, signal)


def event_sample(event: Event) -> Sample:
    read = partial(event_codec.decode, fallback_id="-", fallback_time=NOON)
    return Sample(event.key.encode(), event_codec.encode(event), lambda _, value: read(value), event)


def launch_sample(job: ReadyJob) -> Sample:
    return Sample(b"", launch.encode(job), lambda _, value: launch.decode(value), job)


def finding_sample(reason: findings.FindingReason, since: datetime | None = None) -> Sample:
    milliseconds = [] if since is None else [int(since.timestamp() * 1000)]
    (value,) = findings.encode([findings.FindingGroup(reason, ["e1", "pfs"], milliseconds)])
    read = partial(findings.decode, at=NOON)
    return Sample(b"", value, lambda _, raw: list(read(raw)), [Finding("e1", "pfs", NOON, reason, since)])


def wakeup_sample(wake: Wake) -> Sample:
    return Sample(*wakeup.encode(wake), lambda _, value: wakeup.decode(value), wake)


def subscriptions_sample(affinity: int | None) -> Sample:
    found = Subscriptions("partition:default.flights", {SCHEDULE: SubscribedSchedule(3, affinity)})
    raw = subscriptions.encode(found)
    return Sample(found.key.encode(), raw, lambda key, value: subscriptions.decode(key.decode(), value), found)


def page_sample() -> Sample:
    events = EventList(Event(f"e{n}", "pfs", NOON, CustomHappened(EventName("default", "go"), {})) for n in range(40))
    number = cell.page_numbers(events).start
    raw = cell.encode_page(events, number)
    first, page = cell.decode_page(raw)
    assert list(page) == list(events)[first : first + len(page)]
    return Sample(b"", raw, lambda _, value: cell.decode_page(value), (first, page))


def known_ids_samples() -> dict[str, Sample]:
    entries = [known_ids.entry(known_ids.digest(b"k", b"pfs", b"e%d" % n), 1_772_366_400_250, n) for n in range(3)]
    batch = known_ids.encode_batch(1_772_366_400_000, 2**64 - 1, b"".join(entries))
    cells = [b"".join(entries[:2]), b"", b"", entries[2]]
    part = known_ids.encode_part(1_772_366_400_000, 2**64 - 1, 1_772_366_400_250, 2, cells)

    def read_part(_: bytes, value: bytes) -> object:
        found = known_ids.decode_part(value)
        return found, list(known_ids.entries(value, found.start))

    return {
        "known_ids batch": Sample(
            known_ids.batch_key(7, 2),
            batch,
            lambda key, value: (known_ids.place(key), known_ids.decode_batch(value)),
            (known_ids.RecordKey(7, False, 2), known_ids.Batch(1_772_366_400_000, 2**64 - 1, b"".join(entries))),
        ),
        "known_ids part": Sample(known_ids.part_key(7, 1), part, read_part, read_part(b"", part)),
    }


def judged_sample() -> Sample:
    key, value = signals.encode(Occurred(APPROVED, logged_ms=1_772_366_400_250))
    at = judged.JudgedAt(2**40, 1_772_366_400_300)
    return Sample(key, judged.encode(value, at), lambda _, raw: judged.decode(raw), (at, value))


def dead_letter_sample() -> Sample:
    record = Record(17, b"k", b"\xff", 1_772_366_400_250)
    letter = dead_letter(Chunk("events", 2, [record], 18), record, DecodeError("$", "is not JSON"), partition=0)
    assert letter.value is not None
    return Sample(b"k", letter.value, lambda _, value: json.loads(value), json.loads(letter.value))


BARRIER = Barrier(Stage.ASKED, 1, 9, (0, 2), 1_772_366_400_250)
POSITIONS = {TopicPartition("events", 0): 585, TopicPartition("signals", 0): 2**40}
BARRIERS = BarrierState(9, Round(BARRIER, 2, lapsed=True, singly=False), (Passing(BARRIER, POSITIONS),))
RECORDS = Records((Span(TopicPartition("events", 0), 5, 9),), 4, 2)
ATTEMPT = ShardAttempt("worker-1", RECORDS, RECORDS)
BACKLOGS = {TopicPartition("events", 0): Backlogs(900, {"": 5, "default": 17})}
LAYOUT = Layout(2, 8, 4)
HALT = Halt("ValueError", "no", "put 3", NOON, 3, "0.1.0", 4, 5, 6, NOON)
JOB = ReadyJob(
    SCHEDULE,
    3,
    9,
    NOON,
    (Contribution("a", 2, (LANDED, FAILED)), Contribution("b", 1, (LANDED,))),
    "7",
    backlog=True,
    traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    corrects="default.flights.join.3.8",
)
SUBMISSION = Submission(
    "default.flights.join.at-2",
    "asked for",
    {"day": "7"},
    {"day": "7"},
    Rerun("default.flights.join.3.8", "default.flights.join.3.8.r1", NOON, submitted=True),
    muted=True,
    backfill="b1",
    logical_at=NOON,
    node="n",
)

SAMPLES: dict[str, Sample] = {
    **{f"event {name}": event_sample(event) for name, event in EVENTS.items()},
    **{f"signal occurred {name}": signal_sample(Occurred(event)) for name, event in EVENTS.items()},
    "signal occurred tick": signal_sample(Occurred(TICK)),
    "signal occurred late": signal_sample(Occurred(LANDED, timedelta(hours=9), logged_ms=1_772_366_400_250)),
    "signal occurred statistics": signal_sample(Occurred(LANDED, statistics=True, logged_ms=1_772_366_400_250)),
    "signal put": signal_sample(Put(SCHEDULE, 3, True, TRIGGER), AFFINITY),
    "signal put policies": signal_sample(
        Put(
            SCHEDULE,
            3,
            False,
            Within(TRIGGER.trigger, timedelta(hours=6)),
            Consumption.PAIRED,
            keep=True,
            late=Late(timedelta(hours=1), OnLate.SIDE_OUTPUT),
            started=41,
            draining=True,
            backlog=True,
        )
    ),
    "signal drop": signal_sample(Drop(SCHEDULE, 3), AFFINITY),
    "signal replay": signal_sample(Replay(SCHEDULE, 3), AFFINITY),
    "signal woken": signal_sample(Woken(SCHEDULE, 3, "day=7", NOON), AFFINITY),
    "signal subscribe": signal_sample(Subscribe("partition:default.flights", SCHEDULE, 3, AFFINITY)),
    "signal subscribe without affinity": signal_sample(Subscribe("partition:default.flights", SCHEDULE, 3)),
    "signal unsubscribe": signal_sample(Unsubscribe("partition:default.flights", SCHEDULE, 3)),
    "barrier": Sample(*barrier.encode(BARRIER), lambda _, value: barrier.decode(value, shards=3), BARRIER),
    "judged": judged_sample(),
    "launch": launch_sample(JOB),
    "launch submission": launch_sample(ReadyJob(SCHEDULE, 3, 0, NOON, (), "", SUBMISSION)),
    "launch submission to a program": launch_sample(
        ReadyJob(None, 0, 0, NOON, (), "", Submission("default.flights.load.at-3"))
    ),
    "wakeup": wakeup_sample(Wake(SCHEDULE, 3, "day=7", NOON)),
    "wakeup cancelled": wakeup_sample(Wake(SCHEDULE, 3, "", None)),
    **{
        f"findings {verdict}": finding_sample(
            AtSchedule(SCHEDULE, 3, 9, JudgedEvent(verdict, ("a", "b"), ("7",), "why"), OnLate.DROP), NOON
        )
        for verdict in Verdict
        if verdict not in (Verdict.DUPLICATE, Verdict.NO_LISTENER, Verdict.DEAD_LETTERED)
    },
    "findings duplicate": finding_sample(Duplicate("event:default.go"), NOON),
    "findings no_listener": finding_sample(NoListener("event:default.go")),
    "findings dead_lettered": finding_sample(Undecodable("events/0/17", "$.data", "is missing")),
    "dead_letters": dead_letter_sample(),
    "layout": Sample(b"layout", layout.encode(LAYOUT), lambda _, value: layout.decode(value), LAYOUT),
    "subscriptions": subscriptions_sample(AFFINITY),
    "subscriptions without affinity": subscriptions_sample(None),
    "cell page": page_sample(),
    "halt": Sample(b"", halt.encode(HALT), lambda _, value: halt.decode(value), HALT),
    **known_ids_samples(),
    "turn positions": Sample(
        b"\0position", turn.encode_positions(POSITIONS), lambda _, value: turn.decode_positions(value), POSITIONS
    ),
    "crash_guard attempt": Sample(
        b"\0attempt", crash_guard.encode(ATTEMPT), lambda _, value: crash_guard.decode(value), ATTEMPT
    ),
    "barrier_state": Sample(
        b"\0barriers",
        barrier_state.encode(BARRIERS),
        lambda _, value: barrier_state.decode(value, shards=3),
        BARRIERS,
    ),
    "backlogs": Sample(
        b"\0backlogs", backlogs.encode(BACKLOGS) or b"", lambda _, value: backlogs.decode(value), BACKLOGS
    ),
}
#: Modules that encode records, and those whose records are in other golden files or which only derive from others.
MODULES: tuple[ModuleType, ...] = (
    *(barrier, cell, findings, halt, judged, known_ids, launch, layout, signals, subscriptions, wakeup),
    *(turn, crash_guard, barrier_state, backlogs),
)
ELSEWHERE: tuple[ModuleType, ...] = (state, descent, formats, withheld)


def golden(release: str) -> dict[str, dict[str, str]]:
    path = GOLDEN / f"{release}.json"
    return json.loads(path.read_text()) if path.exists() else {}


RELEASES = sorted({path.stem for path in GOLDEN.glob("*.json")} | {__version__})


@pytest.fixture(scope="module", autouse=True)
def _new_records() -> None:
    made = {
        name: {"key": each.key.decode("latin-1"), "value": each.value.decode("latin-1")}
        for name, each in SAMPLES.items()
    }
    kept = only_added(golden(__version__), made)
    assert_written(GOLDEN / f"{__version__}.json", f"{json.dumps(kept, indent=1)}\n", "this test with UPDATE_DOCS=1")


@pytest.mark.parametrize("release", RELEASES)
def test_records_of_a_release_are_read(release: str) -> None:
    for name, record in golden(release).items():
        sample, key, value = SAMPLES[name], record["key"].encode("latin-1"), record["value"].encode("latin-1")
        assert sample.read(key, value) == sample.found, name


@pytest.mark.parametrize("name", SAMPLES)
def test_this_release_writes_the_same_bytes_as_ever(name: str) -> None:
    record = golden(__version__)[name]
    assert (SAMPLES[name].key, SAMPLES[name].value) == (
        record["key"].encode("latin-1"),
        record["value"].encode("latin-1"),
    )


def test_every_signal_verdict_and_module_has_a_golden_record() -> None:
    assert {type(each.found) for each in SAMPLES.values()} >= set(get_args(Signal))
    assert {name.removeprefix("findings ") for name in SAMPLES if name.startswith("findings ")} == set(Verdict)
    kinds = {name.split(" ")[0] for name in SAMPLES}
    assert {each.__name__.rsplit(".", 1)[-1] for each in MODULES} <= kinds
    package = Path(inspect.getfile(state)).parent
    there = {path.stem for path in package.glob("*.py")} - {"__init__"}
    assert there <= {each.__name__.rsplit(".", 1)[-1] for each in (*MODULES, *ELSEWHERE)}
