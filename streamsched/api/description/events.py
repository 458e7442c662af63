"""Schemas of events: what is sent, what became of it, and what was found in the log."""

from __future__ import annotations

from typing import Final

from streamsched.api.description.shared_schemas import MAYBE_TEXT
from streamsched.codec.shape.schemas import (
    Definitions,
    answer,
    any_text,
    anything,
    array,
    boolean,
    integer,
    nullable,
    object_by_name,
    one_of,
    ref,
    text,
)

_VERDICT: Final = answer(
    {
        "at": any_text("2026-03-01T06:00:00Z"),
        "source": any_text("feeds"),
        "verdict": any_text("used"),
        "text": any_text("was used by job default.flights.weekly.1.1"),
        "then": array(any_text()),
    },
    {
        "schedule": any_text("default.flights.weekly"),
        "generation": integer(1),
        "next": integer(1),
        "leaves": anything([]),
        "cells": anything([]),
        "why": anything(),
        "late": anything(),
        "key": any_text("partition:default.flights"),
        "place": any_text(),
        "path": any_text(),
        "reason": any_text(),
        "since": any_text(),
        "job": {"type": "object"},
        "progress": {"type": "object"},
    },
)
_REFUSED: Final = array(
    answer({"index": integer(1), "path": any_text("$.data.dataset"), "reason": any_text("must be text")})
)
_ACCEPTED: Final = answer(
    {"accepted": integer(1), "ids": array(any_text("e1")), "errors": _REFUSED},
    {
        "unheard": nullable(array(any_text("partition:default.flights"))),
        "keyless": array(
            answer(
                {
                    "id": any_text("e1"),
                    "key": any_text("partition:default.clicks"),
                    "why": any_text("it has no key: hour is missing"),
                }
            )
        ),
        "refused": integer(2000, about="All, when `errors` lists only the first."),
    },
)
OF_EVENTS: Final[Definitions] = {
    "EventList": answer(
        {
            "events": array(
                answer(
                    {
                        "id": any_text("e1"),
                        "source": any_text("feeds"),
                        "at": any_text("2026-03-01T06:00:00Z"),
                        "position": any_text("partitions/0/17"),
                        "time": MAYBE_TEXT,
                        "key": MAYBE_TEXT,
                        "what": MAYBE_TEXT,
                        "problem": MAYBE_TEXT,
                    }
                )
            ),
            "searched": integer(1000),
            "searchedAll": boolean(example=False),
        }
    ),
    "AcceptedEvents": _ACCEPTED,
    "RefusedEvents": {
        "type": "object",
        "description": "A problem with the members of the answer to accepted events.",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": any_text("urn:streamsched:problem:bad-request"),
            "title": any_text("Bad Request"),
            "status": integer(400),
            "detail": any_text("no event was accepted: $.data.dataset: must be text"),
            "accepted": integer(0),
            "errors": _REFUSED,
            "refused": integer(2000, about="All refused events, when not all are listed."),
        },
    },
    "EventReport": answer(
        {
            "event": any_text("e1"),
            "summary": any_text("1 schedule used it."),
            "verdicts": array(_VERDICT),
            "hints": array(any_text()),
            "behind": anything(),
        }
    ),
    "AnyText": text("a line", pattern="^.*$"),
    "AnyEvents": one_of(
        ref("Event"),
        array(one_of(ref("Event"), {"type": "object"})),
        {"type": "object", "description": "A CDAP notification."},
    ),
    "Names": object_by_name(any_text()),
    "MaybeText": MAYBE_TEXT,
}
