"""Arguments of the runs that started a run, by CDAP's property of a schedule."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.events.event import Event, Outcome, ProgramReached
from streamsched.domain.jobs.argument_mapping import PROPERTY, read_mapping
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedules.arguments import arguments, check_properties
from streamsched.domain.schedules.provenance import ArgumentSource, argument_sources
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.domain.triggers.trigger import AllOf, Per, ProgramStatus, leaf_id

NOW = datetime(2013, 1, 8, tzinfo=UTC)
UP, OTHER = ProgramRef("default", "up", "load"), ProgramRef("sales", "other", "load")
BOTH = (ProgramStatus(UP, frozenset({Outcome.SUCCEEDED}), 1), ProgramStatus(OTHER, frozenset({Outcome.SUCCEEDED}), 1))
PROGRAM = Program(ProgramRef("default", "down", "report"), BashJob("true"), {"day": "default"})
UP_ID = {"namespace": "default", "pipelineName": "up"}


def mapping(*entries: Any, **members: Any) -> dict[str, str]:
    return {PROPERTY: json.dumps({"arguments": [*entries], **members})}


def schedule(properties: dict[str, str]) -> Schedule:
    return Schedule(ScheduleRef("default", "down", "report"), PROGRAM.ref, AllOf(BOTH), properties=properties)


def ready(up: dict[str, str], other: dict[str, str]) -> ReadyJob:
    """A job that both programs started, the first one by two runs of which the later one has no arguments."""
    runs = ((BOTH[0], UP, (up, {})), (BOTH[1], OTHER, (other,)))
    parts = tuple(
        Contribution(
            leaf_id(leaf),
            len(given),
            tuple(
                Event(f"{program}.{n}", "s", NOW, ProgramReached(program, f"r{n}", Outcome.SUCCEEDED, each))
                for n, each in enumerate(given)
            ),
        )
        for leaf, program, given in runs
    )
    return ReadyJob(ScheduleRef("default", "down", "report"), 1, 1, NOW, parts)


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ([{"source": "in", "target": "out", "pipelineId": UP_ID}], {"out": "a"}),
        ([{"source": "in", "target": None, "pipelineId": UP_ID}], {"in": "a"}),
        ([{"source": "in", "target": "out"}], {"out": "b"}),
        ([{"source": "in", "target": "out", "pipelineId": {**UP_ID, "namespace": "sales"}}], {}),
        ([{"source": "absent", "target": "out"}], {}),
        ([{"target": "out"}], {}),
        (
            [{"source": "only", "target": "x"}, {"source": "in", "target": "y", "pipelineId": UP_ID}],
            {"x": "1", "y": "a"},
        ),
    ],
)
def test_an_argument_of_a_run_that_ended_is_one_of_the_run_that_it_starts(
    entries: list[Any], found: dict[str, str]
) -> None:
    given = mapping(*entries)
    made = arguments(PROGRAM, schedule(given), ready({"in": "a", "only": "1"}, {"in": "b"}))

    names = {"in", "out", "x", "y"}
    assert {name: value for name, value in made.items() if name in names} == found


def test_it_overrides_properties_and_defaults_and_its_source_is_the_trigger() -> None:
    own = schedule({**mapping({"source": "in", "target": "day"}), "day": "property"})
    job = ready({"in": "a"}, {})
    made = arguments(PROGRAM, own, job)

    assert made["day"] == "a"
    assert argument_sources(made, PROGRAM, {}, own, job)["day"] is ArgumentSource.TRIGGER


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("no", "is not JSON"),
        ("[]", "its $ must be an object"),
        ('{"arguments": {}}', "its $.arguments must be a list"),
        ('{"arguments": 5}', "its $.arguments must be a list"),
        ('{"arguments": ["a"]}', "its $.arguments[0] must be an object"),
        ('{"arguments": [{"source": 5}]}', "its $.arguments[0].source must be a text"),
        ('{"arguments": [{"pipelineId": "up"}]}', "its $.arguments[0].pipelineId must be an object"),
        (
            '{"arguments": [{"pipelineId": {"namespace": "default"}}]}',
            "its $.arguments[0].pipelineId must be a namespace and a pipelineName",
        ),
        ('{"arguments": null, "pluginProperties": [{"stageName": "File"}]}', None),
        ("{}", None),
    ],
)
def test_what_is_no_mapping_is_refused_and_gives_nothing(said: str, reason: str | None) -> None:
    own = schedule({PROPERTY: said})

    assert "in" not in arguments(PROGRAM, own, ready({"in": "a"}, {}))
    if reason is None:
        check_properties(own)
        return
    with pytest.raises(InvalidDefinitionError) as refused:
        check_properties(own)
    assert str(refused.value) == f"$.properties['{PROPERTY}']: {reason}"


def test_a_column_of_the_key_is_no_target() -> None:
    keyed = replace(schedule(mapping({"source": "in", "target": "day"})), trigger=Per(AllOf(BOTH), ("day",)))

    with pytest.raises(InvalidDefinitionError, match="gives argument 'day', which each run has from its key"):
        check_properties(keyed)
    assert [each.target for each in read_mapping(keyed.properties)] == ["day"]
