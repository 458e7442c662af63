"""What the descriptions of several routes share: problems, changes, plans and losses."""

from __future__ import annotations

from typing import Final

from streamsched.codec.shape.schemas import (
    Definitions,
    answer,
    any_text,
    boolean,
    choice,
    instant,
    integer,
    nullable,
    number,
    record,
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
}
