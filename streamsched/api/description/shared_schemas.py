"""Schemas that no shape has: reasons, problems, and bodies that are no JSON or in any dialect."""

from __future__ import annotations

from typing import Final

from streamsched.codec.shape.schemas import (
    Definitions,
    answer,
    any_text,
    array,
    boolean,
    integer,
    number,
    one_of,
    record,
    ref,
    text,
)
from streamsched.parts import additions

REASON: Final = {"reason": text("moved to the new cluster", about="Stored in the history.")}

SHARED: Final[Definitions] = {
    "Reason": record({}, REASON, "Why; stored in the history."),
    "Archive": text("bytes of a tar archive", contentMediaType="application/x-tar"),
    "AnyText": text("a line", pattern="^.*$"),
    "AnyEvents": one_of(
        ref("Event"),
        array(one_of(ref("Event"), {"type": "object"})),
        *({"type": "object", "description": f"A {form.name}."} for _, form in additions("events")),
    ),
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
