"""Triggers as CDAP's REST says them, both ways.

Our native JSON (`codec.trigger`) is CDAP's shape, widened. What is different here:

| field | native | here |
|---|---|---|
| `programId` | namespace, application, program | also `"type": "Workflow"`, `"version": "-SNAPSHOT"` |

What CDAP has no word for is written as in our native JSON and read back; `codec.cdap.extension` finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from streamsched.codec import trigger as native
from streamsched.domain.names import AppRef
from streamsched.domain.trigger import Trigger

#: What CDAP calls the version of an app that has none.
VERSION: Final = "-SNAPSHOT"
#: Deeper than any trigger the native codec takes; what lies below is left to its refusal.
_DEEPEST: Final = 150


def to_json(trigger: Trigger) -> dict[str, Any]:
    """The canonical JSON: equal triggers give equal JSON."""
    return _each(native.to_json(trigger), _spoken)


def from_json(obj: object, path: str = "$", *, app: AppRef | None = None) -> Trigger:
    """Reads a trigger; names without a namespace, and programs without an app, are those of `app`.

    Raises:
        DecodeError: a field is missing, of the wrong kind or unknown; the path names it.
        InvalidDefinitionError: the trigger could never hold.
    """
    return native.from_json(_each(obj, _heard), path, app=app)


def _each(obj: Any, restate: Callable[[dict[str, Any]], dict[str, Any]], depth: int = 0) -> Any:
    """`obj` with every object in it that has a `type` restated, from the inside out."""
    if depth > _DEEPEST:
        return obj
    if isinstance(obj, list):
        return [_each(element, restate, depth + 1) for element in obj]
    if isinstance(obj, Mapping):
        inner = {name: _each(value, restate, depth + 1) for name, value in obj.items()}
        return restate(inner) if isinstance(inner.get("type"), str) else inner
    return obj


def _spoken(trigger: dict[str, Any]) -> dict[str, Any]:
    if trigger["type"] == "PROGRAM_STATUS":
        return {**trigger, "programId": {**trigger["programId"], "type": "Workflow", "version": VERSION}}
    return trigger


def _heard(trigger: dict[str, Any]) -> dict[str, Any]:
    return trigger
