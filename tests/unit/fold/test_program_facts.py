"""What a program is given about why it runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from streamsched.codec.views import trigger_context as facts
from streamsched.domain.events.event import (
    CustomHappened,
    Event,
    Fact,
    Outcome,
    Partition,
    PartitionsAdded,
    ProgramReached,
    StreamSize,
    Ticked,
)
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef
from streamsched.domain.triggers.trigger import (
    Cron,
    CustomEvent,
    Every,
    Leaf,
    Partitions,
    ProgramStatus,
    StreamGrowth,
    leaf_id,
)

NOON = datetime(2017, 5, 9, 12, tzinfo=UTC)
NOON_MS = 1494331200000
SCHEDULE = ScheduleRef("default", "orders", "nightly")
LINES, OTHERS = Partitions(DatasetRef("default", "lines"), 5), Partitions(DatasetRef("default", "others"), 6)
NIGHTLY = Cron("0 4 * * *")
UP = ProgramStatus(ProgramRef("default", "up", "UpWF"))
GROWTH = StreamGrowth(StreamRef("default", "clicks"), 10 * 1_048_576)
GO = CustomEvent(EventName("default", "go"))


def part(leaf: Leaf, count: int, *happened: Fact) -> Contribution:
    return Contribution(
        leaf_id(leaf), count, tuple(Event(f"e{i}", "test", NOON, fact) for i, fact in enumerate(happened))
    )


def job(*parts: Contribution) -> ReadyJob:
    return ReadyJob(SCHEDULE, 3, 7, NOON + timedelta(seconds=1), parts)


def tick(leaf: Cron | Every, hours: int = 0) -> Ticked:
    return Ticked(SCHEDULE, 3, leaf_id(leaf), NOON + timedelta(hours=hours))


def test_our_own_shape_tells_everything_per_leaf() -> None:
    day = PartitionsAdded(DatasetRef("default", "lines"), (Partition("day=7", {"day": "7"}, 10, 2),), 7)

    reported = facts.native(job(part(LINES, 7, day), part(NIGHTLY, 2, tick(NIGHTLY), tick(NIGHTLY, 24))))

    assert reported == {
        "job": "default.orders.nightly.3.7",
        "schedule": "default.orders.nightly",
        "generation": 3,
        "sequence": 7,
        "satisfied_at": "2017-05-09T12:00:01Z",
        "logical_start_time": "2017-05-10T12:00:00Z",
        "leaves": [
            {
                "leaf": "partitions:default.lines:5:distinct",
                "count": 7,
                "events": [
                    {
                        "id": "e0",
                        "source": "test",
                        "time": "2017-05-09T12:00:00Z",
                        "type": "partitions.added",
                        "data": {
                            "dataset": "default.lines",
                            "partitions": [{"key": "day=7", "values": {"day": "7"}, "bytes": 10, "rows": 2}],
                            "count": 7,
                        },
                    }
                ],
            },
            {
                "leaf": "cron:0 4 * * *@UTC",
                "count": 2,
                "events": [
                    {
                        "id": f"e{i}",
                        "source": "test",
                        "time": "2017-05-09T12:00:00Z",
                        "type": "tick",
                        "data": {
                            "schedule": "default.orders.nightly",
                            "generation": 3,
                            "leaf": "cron:0 4 * * *@UTC",
                            "due_at": due,
                        },
                    }
                    for i, due in enumerate(["2017-05-09T12:00:00Z", "2017-05-10T12:00:00Z"])
                ],
            },
        ],
    }


def test_without_a_tick_there_is_no_logical_start_time() -> None:
    assert "logical_start_time" not in facts.native(job(part(GO, 1, CustomHappened(GO.name))))


def test_cdaps_shape_has_one_info_for_each_distinct_leaf() -> None:
    ran = ProgramReached(UP.program, "r1", Outcome.SUCCEEDED, {"a": "b"}, NOON)
    again = ProgramReached(UP.program, "r2", Outcome.SUCCEEDED)
    lines = PartitionsAdded(LINES.dataset, (), 7)
    grown = StreamSize(GROWTH.stream, 15_000_000, absolute=True)

    info = facts.triggering_schedule_info(
        job(
            part(NIGHTLY, 1, tick(NIGHTLY)),
            part(LINES, 7, lines),
            part(UP, 2, ran, again),
            part(GROWTH, 11_000_000, grown),
            part(GO, 1, CustomHappened(GO.name)),
        ),
        trigger=NIGHTLY & LINES & (OTHERS | UP | LINES | Every(timedelta(hours=1)) | GROWTH | GO),
        description="every night",
        properties={"k": "v"},
    )

    assert info == {
        "name": "nightly",
        "description": "every night",
        "properties": {"k": "v"},
        "triggerInfos": [
            {"cronExpression": "0 4 * * *", "logicalStartTime": NOON_MS, "type": "TIME"},
            {
                "datasetNamespace": "default",
                "datasetName": "lines",
                "expectedNumPartitions": 5,
                "actualNumPartitions": 7,
                "type": "PARTITION",
            },
            {
                "datasetNamespace": "default",
                "datasetName": "others",
                "expectedNumPartitions": 6,
                "actualNumPartitions": 0,
                "type": "PARTITION",
            },
            {
                "namespace": "default",
                "applicationName": "up",
                "programType": "WORKFLOW",
                "program": "UpWF",
                "runId": "r1",
                "programStatus": "COMPLETED",
                "workflowToken": {},
                "runtimeArguments": {"a": "b"},
                "type": "PROGRAM_STATUS",
            },
            {
                "streamNamespace": "default",
                "streamName": "clicks",
                "triggerMB": 10,
                "streamSize": 15_000_000,
                "basePollingTime": NOON_MS,
                "baseStreamSize": 4_000_000,
                "type": "STREAM_SIZE",
            },
        ],
    }


def test_an_interval_is_a_time_without_a_cron_expression() -> None:
    hourly = Every(timedelta(hours=1))

    info = facts.triggering_schedule_info(job(part(hourly, 1, tick(hourly))), trigger=hourly)

    assert info["triggerInfos"] == [{"logicalStartTime": NOON_MS, "type": "TIME"}]
