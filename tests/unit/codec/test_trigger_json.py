"""Triggers as JSON: CDAP's shape, read liberally, refused with the path of the offending field."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given

from streamsched.codec.triggers.trigger import from_json, to_json
from streamsched.domain.errors import InvalidError
from streamsched.domain.events.event import Outcome
from streamsched.domain.names import AppRef, DatasetRef, EventName, ProgramRef, StreamRef
from streamsched.domain.triggers.correlation import OnFull, Per
from streamsched.domain.triggers.trigger import At, CustomEvent, Every, Partitions, ProgramStatus, StreamGrowth, Trigger
from streamsched.testing.definitions import triggers


@given(triggers)
def test_a_trigger_survives_the_way_through_json(trigger: Trigger) -> None:
    assert from_json(to_json(trigger)) == trigger


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (
            {"type": "partition", "dataset": "lines", "numPartitions": 5},
            Partitions(DatasetRef("shop", "lines"), 5, distinct=False),
        ),
        (
            {"type": "PARTITION", "dataset": "raw.a.b", "numPartitions": 1},
            Partitions(DatasetRef("raw", "a.b"), 1, distinct=False),
        ),
        (
            {"type": "Partition", "dataset": {"dataset": "lines"}, "numPartitions": 2},
            Partitions(DatasetRef("shop", "lines"), 2, distinct=False),
        ),
        (
            {"type": "program-status", "programId": "join", "programStatuses": ["completed", "FAILED"]},
            ProgramStatus(ProgramRef("shop", "orders", "join"), frozenset({Outcome.SUCCEEDED, Outcome.FAILED})),
        ),
        (
            {
                "type": "PROGRAM_STATUS",
                "programId": {
                    "application": "up",
                    "version": "-SNAPSHOT",
                    "type": "Workflow",
                    "program": "UpWF",
                    "namespace": "default",
                    "entity": "PROGRAM",
                },
                "programStatuses": ["started"],
                "times": 3,
            },
            ProgramStatus(ProgramRef("default", "up", "UpWF"), frozenset({Outcome.STARTED}), 3),
        ),
        (
            {"type": "STREAM_SIZE", "streamId": "clicks", "triggerMB": 2},
            StreamGrowth(StreamRef("shop", "clicks"), 2_097_152),
        ),
        ({"type": "STREAM_SIZE", "streamId": "x.clicks", "bytes": 7}, StreamGrowth(StreamRef("x", "clicks"), 7)),
        ({"type": "EVERY", "interval": "1h 30m"}, Every(timedelta(minutes=90))),
        (
            {"type": "AT", "instant": "2013-01-08T04:00:00+01:00"},
            At(datetime(2013, 1, 8, 3, tzinfo=UTC)),
        ),
        ({"type": "EVENT", "event": "file-arrived", "times": None}, CustomEvent(EventName("shop", "file-arrived"))),
    ],
)
def test_liberal_spellings_read_as_the_same_value(written: dict[str, Any], read: Trigger) -> None:
    assert from_json(written, app=AppRef("shop", "orders")) == read


def _nested(depth: int) -> dict[str, Any]:
    obj: dict[str, Any] = {"type": "PARTITION", "dataset": "a", "numPartitions": 1}
    for _ in range(depth):
        obj = {"type": "AND", "triggers": [obj]}
    return obj


def test_a_hundred_levels_are_read_and_more_are_refused_without_exhausting_the_stack() -> None:
    assert to_json(from_json(_nested(100)))
    with pytest.raises(InvalidError, match="nested deeper than 100"):
        from_json(_nested(900))


ONE = {"type": "PARTITION", "dataset": "default.lines", "numPartitions": 1}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (7, "$.trigger: must be an object but is a number"),
        ({}, "$.trigger.type: is missing"),
        ({"type": 3}, "$.trigger.type: must be a text but is a number"),
        (
            {"type": "MOON"},
            "$.trigger.type: unknown trigger type 'MOON' "
            "(known: AND, AT, AT_LEAST, EVENT, EVERY, OR, PARTITION, PER, PROGRAM_STATUS, QUIET, SILENCE, "
            "SINCE_LAST_RUN, STREAM_SIZE, THEN, TIME, TOTAL, UNLESS, WITHIN)",
        ),
        (
            {"type": "AND", "triggers": [ONE, {**ONE, "numPartitions": 0}]},
            "$.trigger.triggers[1].numPartitions: must be at least 1 but is 0",
        ),
        ({**ONE, "numPartitions": "1"}, "$.trigger.numPartitions: must be a whole number but is '1'"),
        ({**ONE, "numPartitions": True}, "$.trigger.numPartitions: must be a whole number but is True"),
        (
            {**ONE, "dataset": 5},
            "$.trigger.dataset: must be an object or a text such as namespace.name but is a number",
        ),
        ({**ONE, "dataset": {"namespace": "a"}}, "$.trigger.dataset.dataset: is missing"),
        (
            {**ONE, "dataset": {"dataset": "a", "nmespace": "b"}},
            "$.trigger.dataset.nmespace: unknown field (known: dataset, entity, namespace)",
        ),
        (
            {**ONE, "count": 3},
            "$.trigger.count: unknown field (known: dataset, distinct, match, numPartitions, type)",
        ),
        ({"type": "OR", "triggers": []}, "$.trigger.triggers: must name at least one trigger"),
        ({"type": "OR", "triggers": [None]}, "$.trigger.triggers[0]: must be an object but is null"),
        ({"type": "OR", "triggers": ONE}, "$.trigger.triggers: must be a list but is an object"),
        (
            {"type": "PROGRAM_STATUS", "programId": "a.b.c", "programStatuses": ["INITIALIZING"]},
            "$.trigger.programStatuses[0]: must be one of RUNNING, COMPLETED, FAILED, KILLED but is 'INITIALIZING'",
        ),
        (
            {"type": "PROGRAM_STATUS", "programId": "a.b.c", "programStatuses": []},
            "$.trigger.programStatuses: names no status, so it could never hold",
        ),
        (
            {"type": "PROGRAM_STATUS", "programId": "join", "programStatuses": ["FAILED"]},
            "$.trigger.programId: 'join' is not of the form namespace.app.name",
        ),
        ({"type": "STREAM_SIZE", "streamId": "s"}, "$.trigger.bytes: is missing (or give triggerMB)"),
        (
            {"type": "STREAM_SIZE", "streamId": "s", "bytes": 1, "triggerMB": 1},
            "$.trigger.bytes: says the size a second time, beside triggerMB",
        ),
        (
            {"type": "EVERY", "interval": "soon"},
            "$.trigger.interval: 'soon' is no duration; write numbers with units, as in 90s, 15m, 2h30m, 1d",
        ),
        ({"type": "EVERY", "interval": "1ms"}, "$.trigger.interval: must be at least one second but is 0:00:00.001000"),
        (
            {"type": "AT", "instant": "2013-01-08T04:00:00"},
            "$.trigger.instant: must name its offset from UTC, as in 2013-01-08T04:00:00Z",
        ),
        ({"type": "AT", "instant": "noon"}, "$.trigger.instant: must be an ISO 8601 instant but is 'noon'"),
        (
            {"type": "EVERY", "interval": "1h", "start": 3},
            "$.trigger.start: must be an ISO 8601 instant but is a number",
        ),
    ],
)
def test_a_refusal_names_the_offending_field(written: object, message: str) -> None:
    with pytest.raises(InvalidError) as refused:
        from_json(written, "$.trigger")
    assert str(refused.value) == message


@pytest.mark.parametrize("full", list(OnFull))
def test_what_happens_when_the_keys_are_full_is_written_only_where_it_loses_something(full: OnFull) -> None:
    per = Per(Partitions(DatasetRef("default", "flights"), 2), ("date",), at_most=5, full=full)

    written = to_json(per)

    assert from_json(written) == per
    assert written.get("then") == (None if full is OnFull.REFUSE else "drop_oldest")


def test_a_word_that_says_nothing_about_full_keys_is_refused_with_its_path() -> None:
    written = {**to_json(Per(Partitions(DatasetRef("default", "flights"), 2), ("date",))), "then": "explode"}

    with pytest.raises(InvalidError, match=r"\$\.then: .*refuse.*drop_oldest"):
        from_json(written)
