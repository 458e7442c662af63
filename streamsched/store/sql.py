"""Named queries: the SQL of a module is in the file beside it, each query headed by `-- name: <query>`. Rows of several
columns are typed, by a NamedTuple a query. Long lists are written in slices."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from importlib.resources import files
from types import MappingProxyType
from typing import Final, Generic, LiteralString, NamedTuple, TypeVar, cast

from streamsched.store.connections import Connection, Executor

_HEAD = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_R = TypeVar("_R")
_Row = TypeVar("_Row", bound=NamedTuple)
#: Rows that one statement writes: building and encoding more would hold up the event loop, and take memory for all.
_SLICE: Final = 500
#: Fewer rows are written by a statement, which takes one round trip; COPY takes two, and less time for each row.
COPIED: Final = 64


def queries(name: str, package: str = "streamsched.store") -> Mapping[str, LiteralString]:
    """The queries of `<name>.sql` below the package by name, with their comments, which appear in the server's
    log. Typed `LiteralString`: the type checker refuses queries concatenated from other strings.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the file has text before its first query, or a name twice.
    """
    text = files(package).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    before, *parts = _HEAD.split(text)
    if any(line.strip() and not line.startswith("--") for line in before.splitlines()):
        raise ValueError(f"{name}.sql has a statement before its first '-- name:'")
    names = parts[::2]
    if len(set(names)) < len(names):
        raise ValueError(f"{name}.sql names a query twice")
    bodies = [body.strip().rstrip(";") for body in parts[1::2]]
    return MappingProxyType(cast("dict[str, LiteralString]", dict(zip(names, bodies, strict=True))))


class Select(Generic[_Row]):
    """A query and the type of its rows: a NamedTuple that has its columns in their order, which
    tests/integration/store/test_rows.py compares with the schema.
    """

    def __init__(self, sql: LiteralString, row: type[_Row]) -> None:
        self.sql: LiteralString = sql
        self.row = row

    async def fetch(self, executor: Executor, *args: object) -> list[_Row]:
        """All rows, in the order of the query."""
        return [self.row._make(record) for record in await executor.fetch(self.sql, *args)]

    async def fetchrow(self, executor: Executor, *args: object) -> _Row | None:
        """The first row; None without one."""
        record = await executor.fetchrow(self.sql, *args)
        return None if record is None else self.row._make(record)

    async def batches(self, connection: Connection, size: int, *args: object) -> AsyncIterator[list[_Row]]:
        """All rows, in the order of the query, so many at a time, by a cursor of the open transaction."""
        cursor = await connection.cursor(self.sql, *args)
        while records := await cursor.fetch(size):
            yield [self.row._make(record) for record in records]

    async def rows(self, connection: Connection, *args: object, prefetch: int) -> AsyncIterator[_Row]:
        """All rows, read in batches of `prefetch`; the connection is in a transaction."""
        async for record in connection.cursor(self.sql, *args, prefetch=prefetch):
            yield self.row._make(record)

    async def fetch_one(self, executor: Executor, *args: object) -> _Row:
        """The row of a query that always has exactly one."""
        (record,) = await executor.fetch(self.sql, *args)
        return self.row._make(record)


async def fetch_value(executor: Executor, sql: LiteralString, kind: type[_R], *args: object) -> _R:
    """The value of a query that always has exactly one row, of one column, which is never NULL."""
    ((found,),) = await executor.fetch(sql, *args)
    if not isinstance(found, kind):
        raise TypeError(f"a query gave {found!r}, not {kind.__name__}")
    return found


def slices(rows: Sequence[_R]) -> Iterator[Sequence[_R]]:
    """The rows in order, a statement's worth at a time."""
    for start in range(0, len(rows), _SLICE):
        yield rows[start : start + _SLICE]
