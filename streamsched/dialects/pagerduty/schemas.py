"""Schemas of PagerDuty's scheduler, of which the shapes are those of its makers."""

from __future__ import annotations

from typing import Final

from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import answer, any_text, anything, array, integer, like

_TASK: Final = answer(
    {
        "key": any_text("TaskKey(2016-02-09T01:41:12.959Z,orders,1)"),
        "enqueueingTime": any_text("2016-02-09T01:31:12.959Z"),
        "partitionId": integer(3),
        "data": anything({"to": "x"}),
        "numberOfAttempts": integer(0),
        "status": any_text("Incomplete"),
        "details": {"type": "object", "examples": [{"attempts": []}]},
    }
)
_ERRORS: Final = {"errors": array(any_text("Unable to parse provided task key"))}

STATUS: Final = NamedSchema("PagerdutyStatus", answer({"status": any_text("OK")}))
TASK: Final = NamedSchema("PagerdutyTask", answer({"task": _TASK, **_ERRORS}))
TASKS: Final = NamedSchema("PagerdutyTasks", answer({"tasks": array(_TASK), **_ERRORS}))
PROBLEM: Final = NamedSchema("PagerdutyProblem", answer(_ERRORS))
DROP: Final = NamedSchema("PagerdutyDrop", like({"task": {"status": "Dropped"}}, "The task's new status."))
NEW_TASKS: Final = NamedSchema(
    "PagerdutyNewTasks",
    array(
        like(
            {
                "orderingId": "incident-1",
                "scheduledTime": "2126-02-09T01:41:12.959Z",
                "uniquenessKey": "notify-1",
                "taskData": {"a": "b"},
                "version": 1,
            },
            "A record as on the topic.",
        ),
        maxItems=1000,
    ),
)
REGISTERED: Final = NamedSchema(
    "PagerdutyRegistered",
    answer(
        {
            "tasks": array(answer({"key": any_text(), "verdict": any_text("made"), "id": any_text("5f0c")})),
            **_ERRORS,
        }
    ),
)
