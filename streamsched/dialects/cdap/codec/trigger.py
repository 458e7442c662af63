"""Triggers in CDAP's REST dialect, both ways.

Native JSON (`codec.triggers.trigger`) is an extension of CDAP's shape. The differences:

| field | native | here |
|---|---|---|
| `cronExpression` without a `dialect` | Unix | Quartz, five or six fields |
| `timeZone` | IANA | also Java's ids |
| `programId` | namespace, application, program | also `"type": "Workflow"`, `"version": "-SNAPSHOT"` |
| `numPartitions`, `triggerMB` | numbers | also as texts |

A Unix cron expression is written in Quartz's dialect, with the original in `unix`; on reading, `unix` is used if
`cronExpression` still is its translation. An expression that Quartz cannot express is written unchanged, with its
`dialect`. Other extensions are as in native JSON; `codec.extension` finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from streamsched.codec.triggers import trigger as native
from streamsched.codec.triggers.quartz import to_quartz
from streamsched.dialects.cdap.codec.primitive import plain
from streamsched.dialects.cdap.codec.zone import iana
from streamsched.domain.errors import DecodeError
from streamsched.domain.json_value import Json, member_path
from streamsched.domain.names import AppRef
from streamsched.domain.time.dialect import Dialect
from streamsched.domain.triggers.trigger import Trigger

#: CDAP's version of an app without versions.
VERSION: Final = "-SNAPSHOT"
#: Deeper than any trigger the native codec accepts; deeper levels are passed on unchanged, and refused there.
_DEEPEST: Final = 150

_Restate = Callable[[dict[str, Any], str], dict[str, Any]]


def to_json(trigger: Trigger) -> dict[str, Any]:
    """The canonical JSON: equal triggers give equal JSON."""
    return _restate_each(native.to_json(trigger), _from_native, "$")


def from_json(obj: Json, path: str = "$", *, app: AppRef | None = None) -> Trigger:
    """Decodes a trigger; names without a namespace, and programs without an app, belong to `app`.

    Raises:
        DecodeError: a field is missing, of the wrong kind or unknown; the path names it.
        InvalidDefinitionError: the trigger could never hold.
    """
    return native.from_json(_restate_each(obj, _to_native, path), path, app=app)


def _restate_each(obj: Json, restate: _Restate, path: str, depth: int = 0) -> Any:
    """`obj` with `restate` applied to every object in it that has a `type`, innermost first."""
    if depth > _DEEPEST:
        return obj
    if isinstance(obj, list):
        return [
            _restate_each(element, restate, member_path(path, index), depth + 1) for index, element in enumerate(obj)
        ]
    if isinstance(obj, Mapping):
        inner = {name: _restate_each(value, restate, member_path(path, name), depth + 1) for name, value in obj.items()}
        return restate(inner, path) if isinstance(inner.get("type"), str) else inner
    return obj


def _from_native(trigger: dict[str, Any], _: str) -> dict[str, Any]:
    match trigger:
        case {"type": "PROGRAM_STATUS", "programId": program}:
            return {**trigger, "programId": {**program, "type": "Workflow", "version": VERSION}}
        case {"type": "TIME", "cronExpression": expression, **others}:
            dialect = others.pop("dialect", Dialect.UNIX)
            if dialect == Dialect.UNIX and (quartz := to_quartz(expression)) is not None:
                return {**trigger, "cronExpression": quartz, "unix": expression}
            if dialect == Dialect.QUARTZ and _has_cdap_fields(expression):
                return {"type": "TIME", "cronExpression": expression, **others}
            return {**trigger, "dialect": str(dialect)}
        case _:
            return trigger


def _to_native(trigger: dict[str, Any], path: str) -> dict[str, Any]:
    if trigger["type"].upper() != "TIME":
        return plain(trigger)
    if isinstance(zone := trigger.get("timeZone"), str):
        trigger = {**trigger, "timeZone": iana(zone, member_path(path, "timeZone"))}
    expression = trigger.get("cronExpression")
    if trigger.get("dialect") is not None or not isinstance(expression, str):
        return trigger
    if isinstance(unix := trigger.get("unix"), str):
        trigger = {name: value for name, value in trigger.items() if name != "unix"}
        if to_quartz(unix) == expression:
            return {**trigger, "cronExpression": unix}
    if not _has_cdap_fields(expression):
        raise DecodeError(
            member_path(path, "cronExpression"),
            f"Invalid cron entry format in '{expression}'. Cron entry must contain 5 or 6 fields, separated by one "
            "space.",
        )
    return {**trigger, "dialect": Dialect.QUARTZ.value}


def _has_cdap_fields(expression: str) -> bool:
    """Whether it has a number of fields that CDAP accepts, separated by one space each; unlike Quartz it does not
    accept a year.
    """
    return len(expression.split(" ")) in (5, 6) and len(expression.split()) == len(expression.split(" "))
