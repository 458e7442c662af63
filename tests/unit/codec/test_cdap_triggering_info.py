"""What started a run, as CDAP says it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from streamsched.dialects.cdap.codec.triggering_info import to_json
from streamsched.domain.events.event import CustomHappened, Outcome, PartitionsAdded, ProgramReached
from streamsched.domain.jobs.job import Contribution
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.triggers.trigger import Every, Trigger
from tests.unit.fold.test_program_facts import GO, LINES, NIGHTLY, OTHERS, SCHEDULE, UP, job, part, tick

LANDED = part(LINES, 7, PartitionsAdded(LINES.dataset, (), 7))
ENDED = part(UP, 1, ProgramReached(UP.program, "r1", Outcome.SUCCEEDED, {"a": "b"}))
HAPPENED = part(GO, 1, CustomHappened(GO.name))


def info(trigger: Trigger, *parts: Contribution, **properties: str) -> dict[str, Any] | None:
    program = ProgramRef("default", "orders", "join")
    return to_json(job(*parts), Schedule(SCHEDULE, program, trigger, properties=properties))


@pytest.mark.parametrize(
    ("trigger", "parts", "types"),
    [
        (NIGHTLY, [part(NIGHTLY, 1, tick(NIGHTLY))], "TIME"),
        (LINES, [LANDED], "PARTITION"),
        (UP, [ENDED], "PROGRAM_STATUS"),
        (NIGHTLY | LINES, [LANDED], ("OR", ["PARTITION"])),
        (UP | NIGHTLY | OTHERS, [ENDED], ("OR", ["PROGRAM_STATUS", "PARTITION"])),
        (UP & LINES, [ENDED, LANDED], ("AND", ["PROGRAM_STATUS", "PARTITION"])),
        (LINES & GO, [LANDED, HAPPENED], ("AND", ["PARTITION"])),
        (GO, [HAPPENED], None),
        (UP, [LANDED], None),
        (UP, [], None),
        (UP & LINES, [HAPPENED], None),
    ],
)
def test_an_info_has_the_type_of_its_trigger_and_a_part_for_each_leaf(
    trigger: Trigger, parts: list[Contribution], types: object
) -> None:
    found = info(trigger, *parts)

    inner = None if found is None else [each["type"] for each in found.get("triggeringInfos", [])]
    assert (None if found is None else (found["type"], inner) if inner else found["type"]) == types


def test_a_tick_without_cron_has_no_expression() -> None:
    hourly = Every(timedelta(hours=1))

    found = info(hourly, part(hourly, 1, tick(hourly)))

    assert found is not None
    assert found.keys() == {"type", "scheduleId", "runtimeArguments"}


def test_the_mapping_is_among_the_members_of_a_composite() -> None:
    found = info(UP & LINES, ENDED, LANDED, **{"triggering.properties.mapping": '{"arguments": []}'})
    assert found is not None
    assert found["triggeringPropertyMapping"] == {"arguments": []}
