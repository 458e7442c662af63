"""Rows of queries are typed: each NamedTuple has the columns that PostgreSQL gives, in their order, of their types."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import types
import typing
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import date, datetime, timedelta
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import asyncpg
import pytest

from streamsched import store
from streamsched.parts import parts
from streamsched.store.sql import Select, queries

pytestmark = pytest.mark.postgres

#: Where queries are: the room, and the stores of dialects.
_STORES: Final = [
    store,
    *(import_module(f"{part.package}.store") for part in parts() if find_spec(f"{part.package}.store")),
]
#: What asyncpg gives for a type of PostgreSQL.
_PYTHON: Final = {
    "bool": (bool,),
    "bytea": (bytes,),
    "date": (date,),
    "float8": (float,),
    "int2": (int,),
    "int4": (int,),
    "int8": (int,),
    "interval": (timedelta,),
    "jsonb": (Any, dict, list, str),
    "name": (str,),
    "text": (str,),
    "timestamp": (datetime,),
    "timestamptz": (datetime,),
}


@cache
def _selects() -> Mapping[str, Select[Any]]:
    modules = [
        import_module(each.name)
        for room in _STORES
        for each in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
    ]
    return {
        f"{module.__name__}.{name}": value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, Select)
    }


def _texts() -> Iterator[tuple[str, str]]:
    """Name and text of each query."""
    for room, path in _files("*.sql"):
        file = path.relative_to(str(room.__path__[0])).with_suffix("")
        for name, text in queries(str(file), room.__name__).items():
            yield f"{room.__name__} {file}: {name}", text


def _files(pattern: str) -> Iterator[tuple[types.ModuleType, Path]]:
    for room in _STORES:
        yield from ((room, path) for path in sorted(Path(str(room.__path__[0])).rglob(pattern)))


@pytest.fixture
async def connection(database: str) -> AsyncIterator[asyncpg.Connection]:
    """In a transaction that has made the table that imports make for themselves."""
    connection = await asyncpg.connect(database)
    async with connection.transaction():
        for name, text in _texts():
            if name.endswith(": stage"):
                await connection.execute(text)
        yield connection
    await connection.close()


async def test_each_row_type_has_the_columns_of_its_query(connection: asyncpg.Connection) -> None:
    wrong = {
        name: found
        for name, select in _selects().items()
        if (found := _mismatch((await connection.prepare(select.sql)).get_attributes(), select.row))
    }

    assert not wrong


class _Wrong(NamedTuple):
    name: str
    number: str


async def test_a_row_type_with_a_wrong_column_or_type_is_found(connection: asyncpg.Connection) -> None:
    order = await connection.prepare("SELECT 1 AS number, 'a' AS name")
    kind = await connection.prepare("SELECT 'a' AS name, 1 AS number")
    found = [_mismatch(each.get_attributes(), _Wrong) for each in (order, kind)]

    assert found == ["columns ['number', 'name'], fields ['name', 'number']", "number is int4, not <class 'str'>"]


async def test_each_query_of_several_columns_has_a_row_type(connection: asyncpg.Connection) -> None:
    typed = {each.sql for each in _selects().values()}
    untyped = [
        name
        for name, text in _texts()
        if text not in typed and len((await connection.prepare(text)).get_attributes()) > 1
    ]

    assert not untyped


def test_no_row_or_connection_is_of_any_type() -> None:
    found = [
        f"{path.name}:{each.lineno} {each.arg}"
        for _, path in _files("*.py")
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.arg)
        and each.arg.strip("_") in {"row", "rows", "record", "records", "connection", "executor", "pool"}
        and each.annotation is not None
        and re.search(r"\b(Any|Record)\b", ast.unparse(each.annotation))
    ]

    assert not found


def _mismatch(columns: tuple[asyncpg.Attribute, ...], row: type[Any]) -> str | None:
    names = [each.name for each in columns]
    if names != list(row._fields):
        return f"columns {names}, fields {list(row._fields)}"
    hints = typing.get_type_hints(row)
    wrong = [
        f"{each.name} is {each.type.name}, not {hints[each.name]}"
        for each in columns
        if not _fits(each.type, hints[each.name])
    ]
    return "; ".join(wrong) or None


def _fits(column: asyncpg.Type, hint: Any) -> bool:
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    kinds = [typing.get_origin(each) or each for each in parts if each is not type(None)]
    if column.kind == "array":
        return kinds == [list]
    return all(
        kind in _PYTHON[column.name] or (inspect.isclass(kind) and Any in _PYTHON[column.name]) for kind in kinds
    )
