"""Paths of errors as they are in the `tasks.json` that was given: the definition that is made of it has other names.

>>> document = {"a/b": {"depends_on": {"app_name": ["c"]}}}
>>> given_path("$.tasks.a-b.depends_on.task[0]", document, {"a/b": "a-b"})
"$['a/b'].depends_on.app_name[0]"
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.graph.task import DEFAULT_GROUP
from streamsched.domain.json_value import member_path

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


def given_path(path: str, document: Any, names: Mapping[str, str]) -> str:
    """The path in the document of what an error is about: as far as the document has it.

    Args:
        names: the names of tasks here, by their name in the document.
    """
    parts: list[str | int] = [int(n) if n else name or quoted for name, n, quoted in _PART.findall(path)]
    original = {here: there for there, here in names.items()}
    if len(parts) > 1 and parts[0] in _OF_AN_APP and parts[0] not in document:
        parts = parts[1:]
    if parts and isinstance(parts[0], str):
        parts[0] = original.get(parts[0], parts[0])
    found = "$"
    value: Any = document
    while parts:
        part: Any = _find_part(parts[0], value)
        if part is not None:
            parts = parts[1:]
        elif isinstance(value, Mapping) and DEFAULT_GROUP in value:
            part = DEFAULT_GROUP
        elif isinstance(value, list) and len(value) == 1:
            part = 0
        elif isinstance(parts[0], int) and isinstance(value, Mapping):
            parts = parts[1:]
            continue
        else:
            return found
        found, value = member_path(found, part), value[part]
    return found


def _find_part(part: str | int, value: Any) -> str | int | None:
    """The part under its name in the document; None when the value has none."""
    if isinstance(part, int):
        return part if isinstance(value, list) and part < len(value) else None
    if not isinstance(value, Mapping):
        return None
    return next((each for each in (part, *_FIELDS.get(part, ())) if each in value), None)


@contextmanager
def given_paths(document: Any, names: Mapping[str, str]) -> Generator[None]:
    """Within the block, errors have paths of the document that was given, not of what was made of it.

    Raises:
        InvalidDefinitionError: in place of an `InvalidError`, with the path in the document.
    """
    try:
        yield
    except InvalidError as exc:
        raise InvalidDefinitionError(given_path(exc.path, document, names), exc.reason) from exc
