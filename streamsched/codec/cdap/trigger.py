"""Triggers as CDAP's REST says them, both ways.

Our native JSON (`codec.trigger`) is CDAP's shape, widened. What is different here:

| field | native | here |
|---|---|---|
| `cronExpression` without a `dialect` | Unix | Quartz, five or six fields |
| `timeZone` | IANA | Java's ids are read too |
| `programId` | namespace, application, program | also `"type": "Workflow"`, `"version": "-SNAPSHOT"` |

An expression in Unix cron is shown in Quartz's words, with the original in `unix`, which counts as long as
`cronExpression` still says the same; one that Quartz cannot say is shown as it is, with its `dialect`. What else CDAP
has no word for is as in our native JSON; `codec.cdap.extension` finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from streamsched.codec import trigger as native
from streamsched.codec.cdap.cron import to_quartz
from streamsched.codec.cdap.zone import iana
from streamsched.codec.reading import below
from streamsched.domain.dialect import Dialect
from streamsched.domain.errors import DecodeError
from streamsched.domain.names import AppRef
from streamsched.domain.trigger import Trigger

#: What CDAP calls the version of an app that has none.
VERSION: Final = "-SNAPSHOT"
#: Deeper than any trigger the native codec takes; what lies below is left to its refusal.
_DEEPEST: Final = 150

_Restate = Callable[[dict[str, Any], str], dict[str, Any]]


def to_json(trigger: Trigger) -> dict[str, Any]:
    """The canonical JSON: equal triggers give equal JSON."""
    return _each(native.to_json(trigger), _spoken, "$")


def from_json(obj: object, path: str = "$", *, app: AppRef | None = None) -> Trigger:
    """Reads a trigger; names without a namespace, and programs without an app, are those of `app`.

    Raises:
        DecodeError: a field is missing, of the wrong kind or unknown; the path names it.
        InvalidDefinitionError: the trigger could never hold.
    """
    return native.from_json(_each(obj, _heard, path), path, app=app)


def _each(obj: Any, restate: _Restate, path: str, depth: int = 0) -> Any:
    """`obj` with every object in it that has a `type` restated, from the inside out."""
    if depth > _DEEPEST:
        return obj
    if isinstance(obj, list):
        return [_each(element, restate, below(path, place), depth + 1) for place, element in enumerate(obj)]
    if isinstance(obj, Mapping):
        inner = {name: _each(value, restate, below(path, name), depth + 1) for name, value in obj.items()}
        return restate(inner, path) if isinstance(inner.get("type"), str) else inner
    return obj


def _spoken(trigger: dict[str, Any], _: str) -> dict[str, Any]:
    match trigger:
        case {"type": "PROGRAM_STATUS", "programId": program}:
            return {**trigger, "programId": {**program, "type": "Workflow", "version": VERSION}}
        case {"type": "TIME", "cronExpression": expression, **others}:
            dialect = others.pop("dialect", Dialect.UNIX)
            if dialect == Dialect.UNIX and (quartz := to_quartz(expression)) is not None:
                return {**trigger, "cronExpression": quartz, "unix": expression}
            if dialect == Dialect.QUARTZ and _is_cdaps(expression):
                return {"type": "TIME", "cronExpression": expression, **others}
            return {**trigger, "dialect": str(dialect)}
        case _:
            return trigger


def _heard(trigger: dict[str, Any], path: str) -> dict[str, Any]:
    if trigger["type"].upper() != "TIME":
        return trigger
    if isinstance(zone := trigger.get("timeZone"), str):
        trigger = {**trigger, "timeZone": iana(zone)}
    expression = trigger.get("cronExpression")
    if trigger.get("dialect") is not None or not isinstance(expression, str):
        return trigger
    if isinstance(unix := trigger.get("unix"), str):
        trigger = {name: value for name, value in trigger.items() if name != "unix"}
        if to_quartz(unix) == expression:
            return {**trigger, "cronExpression": unix}
    if not _is_cdaps(expression):
        raise DecodeError(
            below(path, "cronExpression"),
            f"Invalid cron entry format in '{expression}'. Cron entry must contain 5 or 6 fields.",
        )
    return {**trigger, "dialect": Dialect.QUARTZ.value}


def _is_cdaps(expression: str) -> bool:
    """Quartz reads a year too; CDAP does not."""
    return len(expression.split()) in (5, 6)
