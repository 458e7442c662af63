"""Values read from JSON or YAML, and the paths to their members in messages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

#: What a document holds. `isinstance` tells objects (`Mapping`, `dict`) and lists from each other and from the rest.
Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")


def member_path(path: str, name: str | int) -> str:
    """The path of a field or an element of the value at `path`.

    >>> member_path("$.a", "b"), member_path("$.a", 2), member_path("$", "odd name")
    ('$.a.b', '$.a[2]', "$['odd name']")
    """
    if isinstance(name, int):
        return f"{path}[{name}]"
    return f"{path}.{name}" if _PLAIN.fullmatch(name) else f"{path}['{name}']"
