"""Schemas of CDAP's interface, of which the shapes are those of its makers."""

from __future__ import annotations

from typing import Final

from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import answer, any_text, array, constant, integer, like, one_of, ref, texts

_RECORD: Final = answer(
    {
        "type": constant("App"),
        "name": any_text("flights"),
        "version": any_text("-SNAPSHOT"),
        "description": any_text(""),
    }
)

SCHEDULE: Final = NamedSchema(
    "CdapSchedule",
    like(
        {
            "program": {"programName": "join", "programType": "WORKFLOW"},
            "trigger": {
                "type": "PARTITION",
                "dataset": {"namespace": "default", "dataset": "lines"},
                "numPartitions": 5,
            },
            "constraints": [{"type": "CONCURRENCY", "maxConcurrency": 1, "waitUntilMet": True}],
            "timeoutMillis": 86_400_000,
        },
        "CDAP's `ScheduleDetail`, or its older `ScheduleSpecification`.",
    ),
)
DONE: Final = NamedSchema("CdapDone", constant("OK"))
SCHEDULES: Final = NamedSchema("CdapSchedules", array(ref("CdapSchedule")), [SCHEDULE])
APPS: Final = NamedSchema(
    "CdapApps",
    one_of(
        array(_RECORD),
        answer({"applications": array(_RECORD)}, {"nextPageToken": any_text("flights")}),
    ),
)
APP: Final = NamedSchema(
    "CdapApp",
    answer(
        {
            "name": any_text("flights"),
            "appVersion": any_text("-SNAPSHOT"),
            "description": any_text(""),
            "programs": array(
                answer(
                    {
                        "type": constant("Workflow"),
                        "app": any_text("flights"),
                        "name": any_text("join"),
                        "description": any_text(""),
                    }
                )
            ),
            "schedules": array(ref("CdapSchedule")),
            "datasets": array(answer({"name": any_text("lines"), "type": constant("partitionedFileSet")})),
        }
    ),
    [SCHEDULE],
)
STATUS: Final = NamedSchema("CdapStatus", answer({"status": any_text("SCHEDULED")}))
TICKS: Final = NamedSchema(
    "CdapTicks",
    array(
        answer(
            {
                "id": any_text("DEFAULT.default:flights:-SNAPSHOT:WORKFLOW:join:weekly"),
                "time": integer(1_772_000_000_000),
            }
        )
    ),
)
TICKS_OF_PROGRAMS: Final = NamedSchema("CdapTicksOfPrograms", array({"type": "object"}))
PROGRAMS: Final = NamedSchema(
    "CdapPrograms",
    array(like({"appId": "flights", "programType": "WORKFLOW", "programId": "join"}, "A program."), maxItems=1000),
)
_PROGRAM: Final = {
    "appId": any_text("flights"),
    "programType": any_text("WORKFLOW"),
    "programId": any_text("join"),
    "error": any_text("'program:default.flights.-SNAPSHOT.nobody' was not found."),
}
STARTS: Final = NamedSchema(
    "CdapStarts",
    array(
        like(
            {"appId": "flights", "programType": "WORKFLOW", "programId": "join", "runtimeargs": {"region": "EU"}},
            "A program and the arguments of its run.",
        ),
        maxItems=1000,
    ),
)
_STATUS_CODE: Final = {"statusCode": integer(200)}
STARTED: Final = NamedSchema(
    "CdapStarted", array(answer(_STATUS_CODE, {**_PROGRAM, "runId": any_text("default.flights.join.manual-1.r1")}))
)
STATUSES: Final = NamedSchema("CdapStatuses", array(answer(_STATUS_CODE, {**_PROGRAM, "status": any_text("RUNNING")})))
RUN: Final = NamedSchema(
    "CdapRun",
    answer(
        {
            "runid": any_text("default.flights.weekly.1.1.r1"),
            "starting": integer(1_772_000_000),
            "status": any_text("COMPLETED"),
            "properties": answer({"runtimeArgs": any_text('{"region":"EU"}')}),
        },
        {
            "start": integer(1_772_000_001),
            "end": integer(1_772_000_060),
            "triggeringInfo": like(
                {
                    "type": "TIME",
                    "scheduleId": {
                        "namespace": "default",
                        "application": "flights",
                        "version": "-SNAPSHOT",
                        "schedule": "weekly",
                        "entity": "SCHEDULE",
                    },
                    "runtimeArguments": {},
                    "cronExpression": "0 4 * * *",
                },
                "What started it: TIME, PARTITION, PROGRAM_STATUS, or AND and OR with `triggeringInfos`.",
            ),
        },
    ),
)
RUNS: Final = NamedSchema("CdapRuns", array(ref("CdapRun")), [RUN])
ARGUMENTS: Final = NamedSchema("CdapArguments", texts("region", "EU"))
PREFERENCES: Final = NamedSchema("CdapPreferences", texts("region", "EU"))
