"""Notifications as CDAP sends them, written and read back."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given

from streamsched.codec import event as events
from streamsched.codec.events.native import to_plain
from streamsched.dialects.cdap.codec.notification import from_json, to_json
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.ancestors import NO_ANCESTORS
from streamsched.domain.events.event import Event, PartitionsAdded, ProgramReached, Ticked
from streamsched.domain.names import ScheduleRef
from streamsched.testing import strategies as world

GOLDEN = Path(__file__).parents[2] / "golden" / "cdap" / "notifications.json"
NOW = datetime(2017, 5, 9, 22, 24, tzinfo=UTC)


def read(said: Any) -> Event:
    return events.decode(orjson.dumps(said), fallback_id="n1", fallback_time=NOW)


def known_to_cdap(event: Event) -> Event:
    """The event as CDAP can tell it: no run that committed, no statistics that follow, no ancestors, ends in
    milliseconds, no empty error.
    """
    fact = event.fact
    if isinstance(fact, PartitionsAdded):
        return replace(event, fact=replace(fact, run="", statistics_follow=False))
    if not isinstance(fact, ProgramReached):
        return event
    ended = fact.ended_at and fact.ended_at - timedelta(microseconds=fact.ended_at.microsecond % 1000)
    return replace(event, fact=replace(fact, ended_at=ended, error=fact.error or None, ancestors=NO_ANCESTORS))


@given(world.events(world.facts_from_outside()))
def test_any_event_from_outside_survives_the_way_through_a_notification(event: Event) -> None:
    assert read(to_plain(to_json(event))) == known_to_cdap(event)


@pytest.mark.parametrize("said", json.loads(GOLDEN.read_text()), ids=lambda said: said["notificationType"])
def test_what_cdap_sends_is_read_and_written_as_it_was(said: Any) -> None:
    written = to_plain(to_json(from_json(said, fallback_id="n1", fallback_time=NOW)))

    event_id = "r1.failed" if said["notificationType"] == "PROGRAM_STATUS" else "n1"
    assert {name: written[name] for name in said} == said
    assert (written["id"], written["source"]) == (event_id, "cdap")


def status(run: str, program_status: str = "COMPLETED", **more: Any) -> dict[str, Any]:
    of = {"namespace": "default", "application": "up", "version": "1", "type": "Workflow", "program": "wf", "run": run}
    properties = {"programRunId": json.dumps(of), "programStatus": program_status, **more}
    return {"notificationType": "PROGRAM_STATUS", "properties": properties}


def test_a_status_without_an_id_is_identified_by_its_run_and_status() -> None:
    run = "6d5f1a94-1f7b-11e7-8a1f-0242ac110002"

    assert read(status(run)).id == read(status(run, endTime="1494368640000")).id == f"{run}.completed"
    assert read(status(run, "FAILED")).id == f"{run}.failed"
    assert read({**status(run), "id": "own"}).id == "own"
    assert read({**status(run), "id": None}).id == f"{run}.completed"


@pytest.mark.parametrize(
    ("run", "made"),
    [("log:program-status/0/7", "log%3Aprogram-status%2F0%2F7.completed"), ("a\nb", "a%0Ab.completed")],
)
def test_any_name_of_a_run_makes_an_id(run: str, made: str) -> None:
    assert read(status(run)).id == made


def test_a_tick_is_cdaps_time_which_clients_may_not_send() -> None:
    tick = Event("t", "timers", NOW, Ticked(ScheduleRef("default", "orders", "nightly"), 1, "cron:0 4 * * *@UTC", NOW))

    said = to_plain(to_json(tick))

    assert json.loads(said["properties"]["userOverrides"]) == {"logical.start.time": "1494368640000"}
    assert json.loads(said["properties"]["scheduleId"])["schedule"] == "nightly"
    with pytest.raises(DecodeError, match="notificationType: must be one of"):
        read(said)


def test_a_wrong_size_among_partitions_of_ours_is_named_by_its_place() -> None:
    properties = {"datasetId": "dataset:default.lines", "partitions": '[{"key": "day=1", "bytes": -1}]'}

    with pytest.raises(DecodeError) as refused:
        read({"notificationType": "PARTITION", "properties": properties})
    assert refused.value.path == "$.properties.partitions[0].bytes"
    assert isinstance(
        read({"notificationType": "PARTITION", "properties": {**properties, "partitions": '["d=1"]'}}).fact,
        PartitionsAdded,
    )


@given(world.events(world.facts_from_outside()))
def test_the_forms_of_the_design_say_the_same(event: Event) -> None:
    said = to_plain(to_json(event))
    kind, properties = said.pop("notificationType"), said.pop("properties")

    wanted = known_to_cdap(event)
    assert read({**said, "eventType": kind, "payload": properties}) == wanted
    assert read({**said, "triggerType": kind.lower(), "properties": properties}) == wanted


def test_a_message_of_the_design_is_timed_by_its_timestamp() -> None:
    payload = {"datasetId": "dataset:default.lines", "partitionKeys": '[{"time":["java.lang.Long",1494368640000]}]'}

    event = read({"timestamp": 1_494_368_640_123, "eventType": "PARTITION", "payload": payload})

    assert event.time == datetime(2017, 5, 9, 22, 24, 0, 123_000, tzinfo=UTC)
    assert isinstance(event.fact, PartitionsAdded)
    assert [each.key for each in event.fact.partitions] == ["time=1494368640000"]


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({"eventType": "PARTITION", "payload": {}}, "$.payload.datasetId"),
        ({"eventType": "TIME", "payload": {}}, "$.eventType"),
        ({"triggerType": "PARTITION", "properties": 1}, "$.properties"),
        ({"timestamp": 1e300, "triggerType": "PARTITION", "properties": {"datasetId": "a.b"}}, "$.timestamp"),
        ({"timestamp": 10**30, "triggerType": "PARTITION", "properties": {"datasetId": "a.b"}}, "$.timestamp"),
        ({"timestamp": 2**63 - 1, "triggerType": "PARTITION", "properties": {"datasetId": "a.b"}}, "$.timestamp"),
        ({"eventType": "PARTITION"}, "$.type"),
    ],
)
def test_a_wrong_member_is_named(said: Any, path: str) -> None:
    with pytest.raises(DecodeError) as failed:
        events.decode(json.dumps(said).encode(), fallback_id="n1", fallback_time=NOW)

    assert failed.value.path == path
