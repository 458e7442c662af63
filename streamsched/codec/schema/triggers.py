"""Schemas of triggers and calendars (`codec.triggers`)."""

from __future__ import annotations

from typing import Any, Final

from streamsched.codec.shape.schemas import (
    NAMESPACE,
    Definitions,
    Schema,
    anything,
    array,
    boolean,
    choice,
    constant,
    duration,
    instant,
    integer,
    name,
    object_by_name,
    one_of,
    record,
    ref,
    text,
)
from streamsched.domain.time.calendar import WEEKDAYS, OnClosed
from streamsched.domain.time.dialect import Dialect, InGap, InOverlap
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.correlation import OnFull
from streamsched.domain.triggers.keys.known_set import MOST_VALUES
from streamsched.domain.triggers.on_correction import CorrectionPolicy
from streamsched.domain.triggers.trigger import Measure, OnExpiry

_DATE: Final = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
#: A name in a namespace, as text; without a dot it is in the app's namespace.
_DOTTED: Final = r"^([a-zA-Z0-9_]+\.)?[$a-zA-Z0-9_-]+$"
_STATUSES: Final = ("COMPLETED", "FAILED", "KILLED", "RUNNING")
_IGNORED: Final = anything("DATASET", "Ignored.")


def _reference(noun: str, example: str) -> Schema:
    """A dataset, stream or event."""
    return one_of(
        text(f"default.{example}", pattern=_DOTTED),
        record(
            {noun: name(example, "^[$.a-zA-Z0-9_-]+$")},
            {"namespace": name("default", NAMESPACE), "entity": _IGNORED},
        ),
    )


_PROGRAM: Final = one_of(
    text("join", pattern=r"^([a-zA-Z0-9_]+\.[a-zA-Z0-9_-]+\.)?[a-zA-Z0-9_-]+$"),
    record(
        {"program": name("join")},
        {
            "namespace": name("default", NAMESPACE),
            "application": name("flights"),
            "entity": _IGNORED,
            "type": _IGNORED,
            "version": _IGNORED,
        },
    ),
    about="`namespace.app.program`, within an app `program`, or an object.",
)


def _trigger(kind: str, required: dict[str, Schema], optional: dict[str, Schema] | None = None, **rules: Any) -> Schema:
    return record({"type": constant(kind), **required}, optional, **rules)


_MATCH: Final = {"match": ref("Match")}
_COUNTED: Final = {**_MATCH, "times": integer(1, least=1)}
_COMMITS: Final = {**_MATCH, "distinct": boolean(about="Whether a partition that is written again counts once.")}
_DATASET: Final = {"dataset": _reference("dataset", "flights")}
_NESTED: Final = ref("Trigger")
_SEVERAL: Final = {"triggers": array(_NESTED, minItems=1)}
_CALENDAR: Final = one_of(ref("Calendar"), text("exchange"), about="A calendar, or in an app the name of one.")
_VALUES: Final = array(text("eu"), minItems=1, maxItems=MOST_VALUES, uniqueItems=True)
_ON_TIME: Final = {"calendar": _CALENDAR, "timeZone": text("Europe/Berlin"), "jitter": duration("5m")}

_LEAVES: Final[Definitions] = {
    "TIME": _trigger(
        "TIME",
        {"cronExpression": text("0 4 * * *")},
        {
            "dialect": choice(Dialect),
            "inGap": choice(InGap),
            "inOverlap": choice(InOverlap),
            "onClosed": choice(OnClosed),
            **_ON_TIME,
        },
    ),
    "EVERY": _trigger("EVERY", {"interval": duration()}, {"start": instant(), **_ON_TIME}),
    "AT": _trigger("AT", {"instant": instant()}),
    "SINCE_LAST_RUN": _trigger("SINCE_LAST_RUN", {"duration": duration("4h")}),
    "PARTITION": _trigger("PARTITION", {**_DATASET, "numPartitions": integer(7, least=1)}, _COMMITS),
    "TOTAL": _trigger(
        "TOTAL", {**_DATASET, "measure": choice(Measure), "amount": integer(1_000_000, least=1)}, _COMMITS
    ),
    "STREAM_SIZE": _trigger(
        "STREAM_SIZE",
        {"streamId": _reference("stream", "clicks")},
        {"bytes": integer(1_000_000, least=1), "triggerMB": integer(1, least=1)},
        anyOf=[{"required": [each], "properties": {each: {"type": "integer"}}} for each in ("bytes", "triggerMB")],
    ),
    "PROGRAM_STATUS": _trigger(
        "PROGRAM_STATUS",
        {"programId": _PROGRAM, "programStatuses": array(choice(_STATUSES), minItems=1)},
        _COUNTED,
    ),
    "EVENT": _trigger("EVENT", {"event": _reference("event", "approved")}, _COUNTED),
}
_COMPOSITE: Final[Definitions] = {
    "AND": _trigger(
        "AND",
        _SEVERAL,
        {"mixedRuns": boolean(about="Ends of programs count whatever runs they descend from; deployed as it is.")},
    ),
    "OR": _trigger("OR", _SEVERAL),
    "AT_LEAST": _trigger("AT_LEAST", {"count": integer(1, least=1), **_SEVERAL}),
    "THEN": _trigger("THEN", {"first": _NESTED, "second": _NESTED}, {"within": duration()}),
    "UNLESS": _trigger("UNLESS", {"trigger": _NESTED, "veto": _NESTED}, {"within": duration()}),
    "WITHIN": _trigger("WITHIN", {"trigger": _NESTED, "duration": duration()}, {"then": choice(OnExpiry)}),
    "QUIET": _trigger("QUIET", {"trigger": _NESTED, "duration": duration()}, {"atMost": duration("1h")}),
    "SILENCE": _trigger("SILENCE", {"of": _NESTED, "duration": duration()}),
    "PER": _trigger(
        "PER",
        {"trigger": _NESTED},
        {
            "by": array(text("day")),
            "runOf": one_of(
                _PROGRAM,
                record({"programId": _PROGRAM}),
                about="In place of `by`: the keys are the runs of this program that ends of programs descend from.",
            ),
            "grain": choice(Grain),
            "rolledUpTo": choice(Grain),
            "fannedOutTo": choice(Grain),
            "of": integer(24, least=1),
            "expires": duration("2d"),
            "atMost": integer(1000, least=1),
            "then": choice(OnFull),
            "zone": text("Europe/Berlin"),
            "each": record(
                {
                    "column": text("region"),
                    "values": _VALUES,
                },
                about="A known set: a key waits for each of these values of the column.",
            ),
            "calendar": _CALENDAR,
            "onCorrection": choice(CorrectionPolicy),
            "quiet": duration("10m"),
        },
    ),
}

TRIGGERS: Final[Definitions] = {
    "Calendar": record(
        {},
        {
            "name": text("exchange"),
            "weekdays": array(choice(WEEKDAYS)),
            "yearly": array(text("12-25", pattern="^(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$")),
            "dates": array(text("2026-12-24", pattern=f"^{_DATE}(/{_DATE})?$")),
            "open": array(text("2026-12-28", pattern=f"^{_DATE}$")),
        },
        "Closed days; `open` are exceptions. At least one day is closed.",
    ),
    "Match": object_by_name(
        one_of(text("EU"), array(text("AA")), record({"glob": text("2013-01-*")})),
        "region",
        "Filters by column, attribute or argument: a text, one of some texts, or a pattern.",
    ),
    "Trigger": one_of(
        *[_LEAVES[each] for each in ("PARTITION", *(each for each in _LEAVES if each != "PARTITION"))],
        *_COMPOSITE.values(),
        about="What makes a job of a schedule.",
    ),
}
