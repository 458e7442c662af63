"""Schemas of expectations and of who is notified (`codec.schedules.expectation`, `codec.schedules.recipient`)."""

from __future__ import annotations

from typing import Final

from streamsched.codec.schedules.recipient import recipient_schema
from streamsched.codec.shape.schemas import (
    Definitions,
    array,
    choice,
    drop_members,
    integer,
    name,
    one_of,
    record,
    ref,
    text,
)
from streamsched.domain.expectations.expectation import LAST_DAY, MOST_LAG, Frequency

_TIME: Final = r"^(usual|([01]?[0-9]|2[0-3])?:[0-5][0-9])$"
_GIVEN: Final = {"not": {"type": "null"}}
_ABSENT: Final = {"type": "null"}
_EXPECTATION: Final = record(
    {"by": text("08:00", pattern=_TIME, about="A time of day, of an hour a minute such as `:15`, or `usual`.")},
    {
        "name": name("flights"),
        "dataset": text("default.flights"),
        "schedule": text("default.shop.daily"),
        "every": choice(Frequency),
        "timeZone": text("Europe/Berlin"),
        "on": one_of(text("MON-FRI"), array(text("MON"), maxItems=7), integer(1, least=1, most=LAST_DAY)),
        "calendar": one_of(ref("Calendar"), name("exchange")),
        "partition": text("day={day}", about="The partition of a dataset that must be there."),
        "key": text("day={day}", about="The key of a schedule whose run must have completed."),
        "lag": integer(1, most=MOST_LAG, about="How many periods ago the period lies that `partition` or `key` name."),
        "program": name("rescue", about="A program of the app that a miss starts."),
    },
    "What must be there, and by when.",
    anyOf=[
        {"required": ["dataset"], "properties": {"dataset": _GIVEN, "schedule": _ABSENT, "key": _ABSENT}},
        {"required": ["schedule"], "properties": {"schedule": _GIVEN, "dataset": _ABSENT, "partition": _ABSENT}},
    ],
)
EXPECTATIONS: Final[Definitions] = {
    "Expectation": _EXPECTATION,
    "NamedExpectation": drop_members(_EXPECTATION, "name"),
    "Recipient": recipient_schema(),
}
