"""What started a run, in the form in which CDAP keeps it from 6.7 on (`TriggeringInfo`).

    {"type": "TIME", "scheduleId", "runtimeArguments": {}, "cronExpression"}
    {"type": "PROGRAM_STATUS", "scheduleId", "runtimeArguments": of the run that ended, "programRunId"}
    {"type": "PARTITION", "scheduleId", "runtimeArguments": {}, "datasetNamespace", "datasetName",
     "expectedNumPartitions", "actualNumPartitions"}
    {"type": "AND" or "OR", "scheduleId", "triggeringInfos": [those above], "triggeringPropertyMapping"?: the property}

The parts are those of `triggeringScheduleInfo` (`codec.views.trigger_context`). Triggers that CDAP does not have are an
AND of their parts, or their only part.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from streamsched.codec.json.scalar import loads
from streamsched.codec.views.trigger_context import triggering_schedule_info
from streamsched.dialects.cdap.codec.notification import program_run_id, schedule_id
from streamsched.dialects.cdap.codec.timeout import trigger_shown
from streamsched.domain.errors import DecodeError
from streamsched.domain.jobs.argument_mapping import PROPERTY
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.triggers.trigger import AllOf, AnyOf, leaf_id, leaves

#: Members of a part of `triggeringScheduleInfo` that CDAP keeps in others, or not.
_OTHERS: Final = frozenset({"type", "logicalStartTime"})


def to_json(ready: ReadyJob, schedule: Schedule) -> dict[str, Any] | None:
    """What started the runs of a job, by the trigger that its schedule has; None where no part of this counted: of a
    job by hand, or of an earlier trigger.
    """
    trigger, owner = trigger_shown(schedule), {"scheduleId": schedule_id(schedule.ref)}
    if {part.leaf for part in ready.contributions}.isdisjoint(map(leaf_id, leaves(trigger))):
        return None
    found = triggering_schedule_info(ready, trigger=trigger)["triggerInfos"]
    infos = [{"type": each["type"], **owner, **_members(each)} for each in found]
    if not isinstance(trigger, AllOf | AnyOf) and len(infos) <= 1:
        return infos[0] if infos else None
    kind = "OR" if isinstance(trigger, AnyOf) else "AND"
    return {"type": kind, **owner, "triggeringInfos": infos, **_property_mapping(schedule.properties)}


def _members(info: Mapping[str, Any]) -> dict[str, Any]:
    if info["type"] != "PROGRAM_STATUS":
        return {"runtimeArguments": {}, **{name: value for name, value in info.items() if name not in _OTHERS}}
    program = ProgramRef(info["namespace"], info["applicationName"], info["program"])
    return {
        "runtimeArguments": info["runtimeArguments"],
        "programRunId": program_run_id(program, info["runId"]),
    }


def _property_mapping(properties: Mapping[str, str]) -> dict[str, Any]:
    with suppress(KeyError, DecodeError):
        return {"triggeringPropertyMapping": loads(properties[PROPERTY])}
    return {}
