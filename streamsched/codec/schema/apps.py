"""Schemas of apps and of the tasks of their graphs (`codec.schedules.schedule`, `codec.graph`), and the schema of the
files that define apps, for editors.
"""

from __future__ import annotations

from typing import Final

from streamsched.codec.graph.reaction import SKIP, WANTED
from streamsched.codec.schedules.constraint import CONSTRAINTS
from streamsched.codec.schedules.expectation import EXPECTATIONS
from streamsched.codec.schema.programs import OWNED, PROGRAMS
from streamsched.codec.schema.schedules import SCHEDULES
from streamsched.codec.schema.triggers import TRIGGERS
from streamsched.codec.shape.schemas import (
    Definitions,
    Schema,
    any_text,
    array,
    choice,
    constant,
    duration,
    extend,
    name,
    object_by_name,
    one_of,
    record,
    ref,
    text,
)
from streamsched.domain.graph.job_template import ComponentKind
from streamsched.domain.json_value import Json
from streamsched.domain.schedules.app import MOST_IN_APP

#: Where the schema says what it is; it is not fetched.
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_VALUE: Final = one_of(text("AA"), {"type": "integer"})
_CONDITION: Final = one_of(
    text("default.flights"),
    {"type": "object", "description": "Fields of the trigger, and `by`, `format` and `back`."},
    array(_VALUE),
)
_ENTRY: Final[Schema] = {
    "type": "object",
    "properties": {
        "task": array(text("extract")),
        "job_id": array(_VALUE),
        "function": text("previous_day"),
        "ends": one_of(array(choice(WANTED)), array(_VALUE)),
        "partitions": _CONDITION,
        "event": _CONDITION,
        "cron": _CONDITION,
    },
    "additionalProperties": one_of(constant("all"), array(_VALUE)),
    "description": "Parents: tasks, with values of components; or events and clocks.",
}
_TICK: Final = record({"cronExpression": text("0 6 * * 1-5")}, {"timeZone": text("Europe/Berlin")})
_ARGUMENT: Final = record(
    {"of": text("date"), "format": text("%Y-%m-%d")},
    {
        "timeZone": text("Europe/Berlin"),
        "previous": _TICK,
        "next": _TICK,
        "back": duration("1d"),
        "ahead": duration("1d"),
    },
)
_TASK: Final = record(
    {"job_id": text("{date}")},
    {
        "components": object_by_name(choice(ComponentKind), "date"),
        "delimiter": text("_"),
        "validations": text("shop"),
        "arrives": any_text(),
        "title": any_text("sales/clean"),
        "depends_on": one_of(ref("Entry"), object_by_name(one_of(ref("Entry"), array(ref("Entry"))), "group")),
        "autofill_values": object_by_name(one_of(array(_VALUE), text("1:5")), "number"),
        "arguments": object_by_name(_ARGUMENT, "day"),
        "exit_codes": object_by_name(one_of(constant(SKIP), array(text("extract"))), "99"),
        "valid_if_or": object_by_name(one_of(array(_VALUE), text("function")), "client"),
    },
)


def _list_or_object(what: str, item: Schema, of_name: Schema, key: str) -> Schema:
    """A list, or an object by name."""
    most = MOST_IN_APP[what]
    return one_of(array(item, maxItems=most), object_by_name(of_name, key, maxProperties=most))


#: All named schemas of definitions.
DEFINITIONS: Final[Definitions] = {
    **TRIGGERS,
    **CONSTRAINTS,
    **PROGRAMS,
    **SCHEDULES,
    **EXPECTATIONS,
    "Entry": _ENTRY,
    "StoredTask": _TASK,
    "Task": extend(
        _TASK,
        record(
            {}, {"program": name("extract"), "schedule": {"type": "object", "description": "Fields of a schedule."}}
        ),
    ),
    "App": record(
        {},
        {
            **OWNED,
            "programs": _list_or_object("programs", ref("Program"), ref("NamedProgram"), "join"),
            "schedules": _list_or_object("schedules", ref("Schedule"), ref("NamedSchedule"), "weekly"),
            "calendars": object_by_name(ref("Calendar"), "exchange"),
            "tasks": object_by_name(ref("Task"), "report", maxProperties=MOST_IN_APP["tasks"]),
            "expectations": _list_or_object("expectations", ref("Expectation"), ref("NamedExpectation"), "flights"),
            "onFailure": array(ref("Recipient"), maxItems=MOST_IN_APP["onFailure"]),
        },
        "An app: programs and schedules that are deployed together.",
    ),
}


def reachable_definitions(schema: Schema, definitions: Definitions = DEFINITIONS) -> Schema:
    """The definitions that the schema names, directly or through others, by name."""
    found: Schema = {}
    waiting = list(_names(schema))
    while waiting:
        each = waiting.pop()
        if each not in found:
            found[each] = definitions[each]
            waiting += _names(definitions[each])
    return dict(sorted(found.items()))


def app_file_schema() -> Schema:
    """The schema of a YAML or JSON file that defines an app."""
    app = DEFINITIONS["App"]
    return {
        "$schema": _DIALECT,
        "title": "streamsched app",
        **app,
        "required": ["application"],
        "$defs": reachable_definitions(app),
    }


def _names(schema: Json) -> list[str]:
    match schema:
        case {"$ref": str(target)}:
            return [target.rpartition("/")[2]]
        case dict():
            return [each for value in schema.values() for each in _names(value)]
        case list():
            return [each for value in schema for each in _names(value)]
        case _:
            return []
