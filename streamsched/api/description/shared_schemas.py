"""What the descriptions of several routes share: problems, changes, plans and losses."""

from __future__ import annotations

from typing import Final

from streamsched.codec.shape.schemas import (
    Definitions,
    answer,
    any_text,
    anything,
    array,
    boolean,
    choice,
    extend,
    instant,
    integer,
    nullable,
    number,
    record,
    ref,
    text,
)

#: Names in answers, as examples.
APP: Final = any_text("default.flights")
SCHEDULE: Final = any_text("default.flights.weekly")
PROGRAM: Final = any_text("default.flights.join")
JOB: Final = any_text("default.flights.weekly.1.1")
RUN: Final = any_text("default.flights.weekly.1.1.r1")
STATE: Final = choice(("enabled", "paused", "disabled", "error"))
WHEN: Final = nullable(instant())
MAYBE_TEXT: Final = nullable(any_text("a text"))
REASON: Final = {"reason": text("moved to the new cluster", about="Stored in the history.")}
_ACTION: Final = choice(("created", "updated", "unchanged", "deleted", "kept"))


_CHANGED_PROGRAM: Final = answer({"id": PROGRAM, "action": any_text("created"), "reason": MAYBE_TEXT})
_FIELDS: Final = {
    "fields": array(answer({"field": any_text("timeout"), "before": anything("1h"), "after": anything("2h")}))
}
_JOIN: Final = {
    "join": any_text(
        "joins per run of default.flights.extract", "How a trigger that is an `&` of programs counts their ends."
    )
}
_CHANGED_SCHEDULE: Final = answer(
    {
        "id": SCHEDULE,
        "action": any_text("created"),
        "generation": integer(1),
        "enabled": boolean(),
        "state": STATE,
        "keeps": boolean(example=False),
        "reason": MAYBE_TEXT,
    },
    {"dropped": ref("Dropped"), **_JOIN},
)
_ELSEWHERE: Final = {
    "waitingElsewhere": answer(
        {"schedules": array(any_text("finance.pay.critical")), "others": integer(0)},
        about="Schedules of other namespaces that wait for a removed program. They stay as they are: those that the "
        "caller may view, and how many others.",
    )
}
_BROKEN: Final = {
    "brokenJoins": array(
        answer({"schedule": SCHEDULE, "ancestor": PROGRAM, "program": PROGRAM, "text": any_text("joins per run of …")}),
        about="Schedules that count ends of programs per run of an ancestor, which leads to one of these no more.",
    )
}
_CHANGED_EXPECTATION: Final = answer(
    {
        "id": any_text("default.shop.flights"),
        "action": any_text("created"),
        "when": any_text("default.flights by 08:00 Europe/Berlin every day"),
    }
)
_ON_FAILURE: Final = nullable(
    answer(
        {"before": array(ref("Recipient")), "after": array(ref("Recipient"))},
        about="Who is notified of failures, where that changes.",
    )
)
_CHANGES: Final = {
    "programs": array(_CHANGED_PROGRAM),
    "schedules": array(_CHANGED_SCHEDULE),
    "expectations": array(_CHANGED_EXPECTATION),
    "onFailure": _ON_FAILURE,
    **_ELSEWHERE,
}
_STAKE: Final = {"leaf": any_text("partition:default.flights"), "have": integer(3), "need": integer(7)}
_PLANNED: Final = answer(
    {
        "id": SCHEDULE,
        "action": any_text("updated"),
        "reason": MAYBE_TEXT,
        "keeps": boolean(example=False),
        "loses": boolean(),
        **_FIELDS,
        "accumulated": array(answer({**_STAKE, "fits": boolean()})),
        "waitingJobs": integer(1),
        "openKeys": integer(0),
        "parkedSignals": integer(0),
    },
    _JOIN,
)

SHARED: Final[Definitions] = {
    "Reason": record({}, REASON, "Why; stored in the history."),
    "Nothing": record({}),
    "Problem": answer(
        {
            "type": any_text("urn:streamsched:problem:bad-request"),
            "title": any_text("Bad Request"),
            "status": {**integer(400, least=400, most=599)},
            "detail": any_text("$.trigger.numPartitions: must be at least 1 but is 0"),
        },
        {
            "path": any_text("$.trigger.numPartitions", "JSON path into the body, or the name of a parameter."),
            "reason": any_text("must be at least 1 but is 0"),
            "kind": any_text("schedule"),
            "name": any_text("default.flights.weekly"),
            "retriable": boolean(example=False, about="Whether the same request can succeed later."),
            "namespace": any_text("sales", "The namespace whose quota the request would exceed."),
            "quota": any_text("schedules"),
            "limit": integer(100),
            "used": number(98.0),
            "wanted": integer(5, about="What the request would add."),
        },
        "A problem as in RFC 9457.",
    ),
    "Changes": answer({"app": APP, **_CHANGES}, {"installation": any_text(), "endedJobs": array(JOB), **_BROKEN}),
    "ProgramChanges": answer(_CHANGES, _BROKEN),
    "PendingChanges": answer(
        {
            "app": APP,
            **_CHANGES,
            "change": any_text("1-2"),
            "pending": integer(2),
            "acknowledged": boolean(example=False),
        },
        _BROKEN,
    ),
    "Change": answer({"change": any_text("1-2"), "pending": integer(0), "acknowledged": boolean()}),
    "Dropped": answer(
        {
            "accumulated": array(answer(_STAKE)),
            "waitingJobs": integer(0),
            "openKeys": integer(0),
            "parkedSignals": integer(0),
        },
        about="What a schedule lost.",
    ),
    "Plan": answer(
        {
            "dryRun": boolean(),
            "plan": any_text("3f1c", "Identifies the plan; a change that is sent with it does this or nothing."),
            "differs": boolean(),
            "loses": boolean(about="Accumulated events, waiting jobs or schedules would be lost."),
            "deployedFrom": MAYBE_TEXT,
            "expectations": array(extend(_CHANGED_EXPECTATION, answer(_FIELDS))),
            "onFailure": _ON_FAILURE,
            "programs": array(extend(_CHANGED_PROGRAM, answer(_FIELDS))),
            "schedules": array(_PLANNED),
            **_ELSEWHERE,
        },
        {"app": APP, "installation": any_text("postgresql://host/streamsched"), **_BROKEN},
    ),
}
