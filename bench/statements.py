"""The statements that a PostgreSQL server executes, counted from its own log: the embedded server has no
`pg_stat_statements`.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import asyncpg

#: A line of the log begins with its time; others continue the one before.
_BEGINS: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_LINE: Final = re.compile(
    r"LOG:  duration: (?P<ms>[\d.]+) ms(?:  (?P<step>statement|parse|bind|execute)(?: [^:]*)?: (?P<sql>.*))?", re.DOTALL
)
_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_VALUE: Final = re.compile(r"'(?:[^']|'')*'|\b\d+\b")
_LONGEST: Final = 110


@dataclass(slots=True)
class Statement:
    """How often one was executed, and the milliseconds that it took, with parsing and binding."""

    calls: int = 0
    ms: float = 0.0


@dataclass(slots=True)
class Statements:
    """By their texts, shortened, without comments and values."""

    found: defaultdict[str, Statement] = field(default_factory=lambda: defaultdict(Statement))

    @property
    def calls(self) -> int:
        return sum(each.calls for each in self.found.values())

    def read(self, log: str) -> None:
        """What a server has written with `log_min_duration_statement = 0`."""
        for entry in _entries(log):
            line = _LINE.search(entry)
            if line is not None and line["sql"] is not None:
                statement = self.found[_name(line["sql"])]
                statement.ms += float(line["ms"])
                statement.calls += line["step"] in {"statement", "execute"}

    def table(self, most: int, per: int, what: str) -> Iterator[str]:
        """The most frequent ones, then those that took longest."""
        for by, of in (("calls", lambda each: each[1].calls), ("time", lambda each: each[1].ms)):
            yield f"top {most} by {by}: calls and ms per {what}"
            for name, each in sorted(self.found.items(), key=of, reverse=True)[:most]:
                yield f"{each.calls / per:>9.2f} {each.ms / per:>8.3f}  {name}"


@asynccontextmanager
async def counted_statements(url: str, folder: Path) -> AsyncIterator[Statements]:
    """Those of all sessions of the server of a data folder within the block; complete after it. `url`: of a superuser.
    Writing them down costs time: do not measure that.
    """
    connection, found = await asyncpg.connect(url), Statements()
    log = folder / "log"
    try:
        await _log_all(connection, "0")
        began = log.stat().st_size
        yield found
        await _log_all(connection, "-1")
        with log.open(errors="replace") as lines:
            lines.seek(began)
            found.read(lines.read())
    finally:
        await connection.close()


async def _log_all(connection: asyncpg.Connection, value: str) -> None:
    await connection.execute(f"ALTER SYSTEM SET log_min_duration_statement = {value}")
    await connection.execute("SELECT pg_reload_conf()")
    await asyncio.sleep(0.5)  # each session reads it before its next statement


def _entries(log: str) -> Iterator[str]:
    entry: list[str] = []
    for line in log.splitlines():
        if _BEGINS.match(line) and entry:
            yield "\n".join(entry)
            entry = []
        entry.append(line)
    yield "\n".join(entry)


def _name(sql: str) -> str:
    return " ".join(_VALUE.sub("?", _COMMENT.sub(" ", sql)).split())[:_LONGEST]
