"""Run events of OpenLineage: what they become, with those that the listener of Spark sent, and what is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamsched.dialects.openlineage.codec.facts import LineageFacts, facts, plain_name
from streamsched.dialects.openlineage.codec.run_event import MOST_OUTPUTS, RunEvent, decode
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import Event, Outcome, PartitionsAdded, ProgramReached
from streamsched.domain.names import DatasetRef

SPARK = Path(__file__).parents[2] / "golden" / "openlineage" / "spark-1.53.0.jsonl"

RUN: dict[str, Any] = {
    "eventType": "COMPLETE",
    "eventTime": "2026-01-02T03:04:05.678Z",
    "run": {"runId": "r-1"},
    "job": {"namespace": "airflow", "name": "dag.load"},
    "outputs": [{"namespace": "s3://lake", "name": "flights"}],
}


def decoded(event: object) -> RunEvent:
    found = decode(json.dumps(event).encode())
    assert found is not None
    return found


def became(event: object, known: dict[str, DatasetRef] | None = None) -> LineageFacts:
    return facts(decoded(event), namespace="default", known=known or {})


def every(found: LineageFacts) -> Iterator[Event]:
    yield from (each.event for each in found.datasets)
    if found.program is not None:
        yield found.program


def test_a_spark_application_is_one_program_and_each_write_one_commit() -> None:
    events: list[Event] = []
    for line in SPARK.read_bytes().splitlines():
        run = decode(line)
        assert run is not None
        events += every(facts(run, namespace="default", known={}))

    said = [
        (str(fact.dataset), fact.partitions[0].rows, fact.partitions[0].bytes)
        if isinstance(fact := event.fact, PartitionsAdded)
        else (str(fact.program), fact.outcome)
        for event in events
        if isinstance(event.fact, PartitionsAdded | ProgramReached)
    ]
    assert said == [
        ("default.probe.my_job", Outcome.STARTED),
        ("default.lake_flights", 1000, 6946),
        ("default.lake_counts", 3, 759),
        ("default.probe.my_job", Outcome.SUCCEEDED),
    ]
    assert len({event.id for event in events}) == len(events)
    last = events[-1].fact
    assert isinstance(last, ProgramReached)
    assert (last.arguments["parent_job"], last.ended_at) == ("streamsched/app.sched", events[-1].time)


@pytest.mark.parametrize(
    ("kind", "outcome", "commits"),
    [
        ("START", Outcome.STARTED, 0),
        ("COMPLETE", Outcome.SUCCEEDED, 1),
        ("FAIL", Outcome.FAILED, 0),
        ("ABORT", Outcome.KILLED, 0),
        ("RUNNING", None, 0),
        ("OTHER", None, 0),
        (None, None, 0),
    ],
)
def test_each_type_of_event(kind: str | None, outcome: Outcome | None, commits: int) -> None:
    found = became({**RUN, "eventType": kind})

    program = found.program
    assert (None if program is None else program.fact.outcome) == outcome  # type: ignore[union-attr]
    assert len(found.datasets) == commits


def test_the_same_run_event_becomes_the_same_events() -> None:
    first, again = (list(every(became({**RUN, "eventTime": time}))) for time in (RUN["eventTime"],) * 2)

    assert first == again
    assert [event.id for event in first][-1] == "r-1.complete"


def test_an_action_of_an_application_is_no_program() -> None:
    parent = {"run": {"runId": "r-0"}, "job": {"namespace": "probe", "name": "etl"}}
    action = {**RUN["job"], "facets": {"jobType": {"jobType": "SQL_JOB"}}}

    alone = became({**RUN, "job": action})
    part = became({**RUN, "job": action, "run": {"runId": "r-1", "facets": {"parent": parent}}})

    assert alone.program is not None
    assert part.program is None
    assert len(part.datasets) == 1


def test_datasets_are_known_by_location_or_symlink_and_else_named_by_a_rule() -> None:
    known = {"s3://lake/flights": DatasetRef("air", "flights"), "hive://h:9083/db.t": DatasetRef("air", "t")}
    symlink = {"symlinks": {"identifiers": [{"namespace": "hive://h:9083", "name": "db.t", "type": "TABLE"}]}}
    outputs = [
        {"namespace": "s3://lake/", "name": "/flights"},
        {"namespace": "file", "name": "/warehouse/t", "facets": symlink},
        {"namespace": "file", "name": "/data/new flights"},
        {"namespace": "file", "name": "/data/new flights"},
    ]

    found = became({**RUN, "outputs": outputs}, known)

    assert [str(each.dataset) for each in found.datasets] == ["air.flights", "air.t", "default.data_new_flights"]


def test_a_file_set_announces_its_commits_itself() -> None:
    found = became({**RUN, "outputs": [{"namespace": "file", "name": "/data/flights/_staging/c1/data"}]})

    assert found.datasets == ()
    assert [each.location for each in found.ignored] == ["file/data/flights/_staging/c1/data"]


@pytest.mark.parametrize(
    ("statistics", "follow"),
    [(None, True), ({}, True), ({"fileCount": 3}, True), ({"rowCount": 0}, False), ({"size": 1}, False)],
)
def test_a_commit_without_rows_and_bytes_waits_for_them_under_the_same_id(
    statistics: dict[str, int] | None, follow: bool
) -> None:
    output = {**RUN["outputs"][0], "outputFacets": {"outputStatistics": statistics}}

    (plain,), (found,) = became(RUN).datasets, became({**RUN, "outputs": [output]}).datasets

    assert isinstance(found.event.fact, PartitionsAdded)
    assert (found.event.fact.statistics_follow, found.event.id) == (follow, plain.event.id)


def test_names_stay_names() -> None:
    assert plain_name("///") == plain_name("日本") == "_"
    longest = plain_name("x" * 5000)
    assert len(longest) == 200
    assert longest != plain_name("x" * 4999)


def test_an_event_without_a_run_is_none() -> None:
    assert decode(b'{"eventTime": "2026-01-01T00:00:00Z", "job": {"namespace": "a", "name": "b"}}') is None
    assert decode(b'{"eventTime": "2026-01-01T00:00:00Z", "dataset": {"namespace": "a", "name": "b"}}') is None


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"eventType": "DONE"}, "$.eventType"),
        ({"eventType": 7}, "$.eventType"),
        ({"eventTime": None}, "$.eventTime"),
        ({"eventTime": "2026-01-01T00:00:00"}, "$.eventTime"),
        ({"eventTime": "0001-01-01T00:00:00+23:00"}, "$.eventTime"),
        ({"run": None}, "$.run"),
        ({"run": {"runId": ""}}, "$.run.runId"),
        ({"run": {"runId": "x" * 129}}, "$.run.runId"),
        ({"run": {"runId": "a\nb"}}, "$.run.runId"),
        ({"run": {"runId": "r", "facets": []}}, "$.run.facets"),
        ({"run": {"runId": "r", "facets": {"parent": {"run": {}, "job": {}}}}}, "$.run.facets.parent.job.namespace"),
        ({"job": {"namespace": "a"}}, "$.job.name"),
        ({"job": {"namespace": "a", "name": "x" * 5000}}, "$.job.name"),
        ({"outputs": {}}, None),
        ({"outputs": {"a": 1}}, "$.outputs"),
        ({"outputs": [1]}, "$.outputs[0]"),
        ({"outputs": [RUN["outputs"][0], {"namespace": "a"}]}, "$.outputs[1].name"),
        (
            {"outputs": [{**RUN["outputs"][0], "outputFacets": {"outputStatistics": {"rowCount": -1}}}]},
            "$.outputs[0].outputFacets.outputStatistics.rowCount",
        ),
        (
            {"outputs": [{**RUN["outputs"][0], "outputFacets": {"outputStatistics": {"size": 2**63}}}]},
            "$.outputs[0].outputFacets.outputStatistics.size",
        ),
    ],
)
def test_bad_input_is_refused_with_the_path(change: dict[str, Any], path: str | None) -> None:
    if path is None:
        assert decoded({**RUN, **change}).outputs == ()
        return
    with pytest.raises(DecodeError) as caught:
        decoded({**RUN, **change})
    assert caught.value.path == path


def test_many_outputs_are_bounded() -> None:
    many = [{"namespace": "file", "name": f"/d/{number}"} for number in range(100_000)]
    with pytest.raises(DecodeError, match="has 100000 elements"):
        decoded({**RUN, "outputs": many})

    before = time.process_time()
    found = became({**RUN, "outputs": many[:MOST_OUTPUTS]})
    assert time.process_time() - before < 2
    assert len({each.event.id for each in found.datasets}) == MOST_OUTPUTS
