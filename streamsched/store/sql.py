"""Named queries: the SQL of a module is in the file beside it, each query headed by `-- name: <query>`. Long lists are
written in slices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from types import MappingProxyType
from typing import Final, LiteralString, TypeVar, cast

_HEAD = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_R = TypeVar("_R")
#: Rows that one statement writes: building and encoding more would hold up the event loop, and take memory for all.
_SLICE: Final = 500


def queries(name: str) -> Mapping[str, LiteralString]:
    """The queries of `<name>.sql` below `streamsched/store` by name, with their comments, which appear in the server's
    log. Typed `LiteralString`: the type checker refuses queries concatenated from other strings.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the file has text before its first query, or a name twice.
    """
    text = files("streamsched.store").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    before, *parts = _HEAD.split(text)
    if any(line.strip() and not line.startswith("--") for line in before.splitlines()):
        raise ValueError(f"{name}.sql has a statement before its first '-- name:'")
    names = parts[::2]
    if len(set(names)) < len(names):
        raise ValueError(f"{name}.sql names a query twice")
    bodies = [body.strip().rstrip(";") for body in parts[1::2]]
    return MappingProxyType(cast("dict[str, LiteralString]", dict(zip(names, bodies, strict=True))))


def slices(rows: Sequence[_R]) -> Iterator[Sequence[_R]]:
    """The rows in order, a statement's worth at a time."""
    for start in range(0, len(rows), _SLICE):
        yield rows[start : start + _SLICE]
