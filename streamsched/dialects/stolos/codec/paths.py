"""Paths of errors as they are in the `tasks.json` that was given: the definition that is made of it has other names.

>>> document = {"a/b": {"depends_on": {"app_name": ["c"]}}}
>>> given_path("$.tasks.a-b.depends_on.task[0]", document, {"a/b": "a-b"})
"$['a/b'].depends_on.app_name[0]"
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.graph.task import DEFAULT_GROUP
from streamsched.domain.json_value import Json, member_path

_PART: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]")
#: Where an app has what is made of a task, by the name of the task.
_OF_AN_APP: Final = frozenset({"tasks", "programs", "schedules"})
#: The fields of a task there, by the field here.
_FIELDS: Final[Mapping[str, Sequence[str]]] = {
    "task": ("app_name",),
    "target": ("job_type",),
    "command": ("bash_cmd", "bash_opts"),
    "module": ("pymodule",),
    "main": ("pymodule",),
    "arguments": ("options",),
    "conf": ("spark_conf",),
}


def given_path(path: str, document: Json, names: Mapping[str, str]) -> str:
    """The path in the document of what an error is about: as far as the document has it.

    Args:
        names: the names of tasks here, by their name in the document.
    """
    parts: list[str | int] = [int(n) if n else name or quoted for name, n, quoted in _PART.findall(path)]
    original = {here: there for there, here in names.items()}
    if len(parts) > 1 and parts[0] in _OF_AN_APP and not _has(document, parts[0]):
        parts = parts[1:]
    if parts and isinstance(parts[0], str):
        parts[0] = original.get(parts[0], parts[0])
    found = "$"
    value: Json = document
    while parts:
        step = _find_part(parts[0], value)
        if step is not None:
            parts = parts[1:]
        elif (step := _find_only_part(value)) is None:
            if isinstance(parts[0], int) and isinstance(value, Mapping):
                parts = parts[1:]
                continue
            return found
        found, value = member_path(found, step[0]), step[1]
    return found


def _find_part(part: str | int, value: Json) -> tuple[str | int, Json] | None:
    """The part under its name in the document, with its value; None when the value has none."""
    if isinstance(part, int):
        return (part, value[part]) if isinstance(value, list) and part < len(value) else None
    if not isinstance(value, Mapping):
        return None
    return next(((each, value[each]) for each in (part, *_FIELDS.get(part, ())) if each in value), None)


def _find_only_part(value: Json) -> tuple[str | int, Json] | None:
    """The default group of an object, or the only element of a list."""
    if isinstance(value, Mapping) and DEFAULT_GROUP in value:
        return DEFAULT_GROUP, value[DEFAULT_GROUP]
    return (0, value[0]) if isinstance(value, list) and len(value) == 1 else None


def _has(document: Json, name: str | int) -> bool:
    return isinstance(document, Mapping) and name in document


@contextmanager
def given_paths(document: Json, names: Mapping[str, str]) -> Generator[None]:
    """Within the block, errors have paths of the document that was given, not of what was made of it.

    Raises:
        InvalidDefinitionError: in place of an `InvalidError`, with the path in the document.
    """
    try:
        yield
    except InvalidError as exc:
        raise InvalidDefinitionError(given_path(exc.path, document, names), exc.reason) from exc
