"""The keywords of calls of Airflow, and what became of each: carried, changed or refused, in exactly one of the three.

A keyword that is read several times, as one of `default_args` or in a loop, is what it was at the worst.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from streamsched.codec.moving.draft import ImportNote, NoteKind
from streamsched.dialects.airflow.codec.source.literal import LiteralReader, UnreadableError

_RANKS: Final = {kind: rank for rank, kind in enumerate(NoteKind)}
#: The keywords of dictionaries with keywords for tasks.
DEFAULTS: Final = "default_args"


class ImportTable:
    """The rows so far: those of keywords, and those of other parts of the file."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int, int, str], ImportNote] = {}
        self._number = 0

    def note(self, kind: NoteKind, line: int, subject: str, text: str, *, app: str = "") -> None:
        """Adds a row that is about no keyword; line 0 is the whole file."""
        self._number += 1
        self._rows[line, 1 << 30, self._number, ""] = ImportNote(
            kind, f"line {line}" if line else "all", text, subject, app
        )

    def settle(self, keyword: Keyword, kind: NoteKind, text: str, *, app: str = "") -> None:
        """Says what became of a keyword. The worst that is said of it stays."""
        key = keyword.key
        known = self._rows.get(key)
        if known is None or _RANKS[kind] > _RANKS[known.kind]:
            self._rows[key] = ImportNote(kind, f"line {keyword.line}", text, keyword.subject, app)

    def has(self, keyword: Keyword) -> bool:
        """Whether something was said of a keyword."""
        return keyword.key in self._rows

    def notes(self) -> tuple[ImportNote, ...]:
        """The rows in the order of the file."""
        return tuple(self._rows[key] for key in sorted(self._rows))


@dataclass(frozen=True, slots=True)
class Keyword:
    """A keyword as it stands in the file. `owner`: whose it is, for people."""

    owner: str
    name: str
    value: ast.expr
    line: int
    column: int

    @property
    def subject(self) -> str:
        """Such as `extract.retries`."""
        return f"{self.owner}.{self.name}"

    @property
    def key(self) -> tuple[int, int, int, str]:
        """Where it stands."""
        return self.line, self.column, 0, self.name


class Keywords:
    """The keywords of one task, DAG or group of tasks, by name; the first given of a name counts."""

    def __init__(self, table: ImportTable, reader: LiteralReader, owner: str, app: str) -> None:
        self._table = table
        self._reader = reader
        self._found: dict[str, Keyword] = {}
        self._values: dict[str, Any] = {}
        self._open: list[Keyword] = []
        self.owner = owner
        self.app = app

    def add_call(self, call: ast.Call, positional: tuple[str, ...] = ()) -> None:
        """Adds the keywords of a call, those of known dictionaries behind `**`, and positional arguments by name."""
        for name, value in zip(positional, call.args, strict=False):
            self._add(Keyword(self.owner, name, value, value.lineno, value.col_offset))
        for value in call.args[len(positional) :]:
            keyword = Keyword(self.owner, "positional", value, value.lineno, value.col_offset)
            self._open.append(keyword)
        for each in call.keywords:
            if each.arg is None:
                self._add_unpacked(each)
            else:
                self._add(Keyword(self.owner, each.arg, each.value, each.lineno, each.col_offset))

    def _add_unpacked(self, unpacked: ast.keyword) -> None:
        keyword = Keyword(self.owner, "**", unpacked.value, unpacked.lineno, unpacked.col_offset)
        if self.add_dictionary(unpacked.value, self.owner):
            self._table.settle(keyword, NoteKind.CARRIED, "its entries are rows of their own", app=self.app)
        else:
            text = f"{UnreadableError(unpacked.value).text}: what it gives is not known"
            self._table.settle(keyword, NoteKind.REFUSED, text, app=self.app)

    def add_dictionary(self, node: ast.expr, owner: str) -> bool:
        """Adds the entries of a dictionary; False: it is none that can be read."""
        found = self._reader.literal(node)
        if isinstance(found, ast.Call) and isinstance(found.func, ast.Name) and found.func.id == "dict":
            if found.args or any(each.arg is None for each in found.keywords):
                return False
            for each in found.keywords:
                self._add(Keyword(owner, each.arg or "", each.value, each.lineno, each.col_offset))
            return True
        if not isinstance(found, ast.Dict):
            return False
        for key, value in zip(found.keys, found.values, strict=True):
            if key is None:
                if not self.add_dictionary(value, owner):
                    keyword = Keyword(owner, "**", value, value.lineno, value.col_offset)
                    self._table.settle(keyword, NoteKind.REFUSED, UnreadableError(value).text, app=self.app)
            elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                self._add(Keyword(owner, key.value, value, key.lineno, key.col_offset))
            else:
                keyword = Keyword(owner, "entry", key, key.lineno, key.col_offset)
                self._table.settle(keyword, NoteKind.REFUSED, "its name is not a plain text", app=self.app)
        return True

    def inherit(self, other: Keywords) -> None:
        """Takes those of `default_args` that are not given here."""
        for name, keyword in other._found.items():
            if name not in self._found:
                self._found[name] = keyword

    def copy(self) -> Keywords:
        """The same keywords, for another task of the same call."""
        other = Keywords(self._table, self._reader, self.owner, self.app)
        other._found, other._values, other._open = dict(self._found), dict(self._values), self._open
        return other

    def bind(self, name: str, value: Any) -> None:
        """Gives a value in place of a keyword's, as an element of what is expanded."""
        if name not in self._found:
            self._found[name] = Keyword(self.owner, name, ast.Constant(None), 0, 0)
        self._values[name] = value

    def _add(self, keyword: Keyword) -> None:
        if keyword.name in self._found:  # of a dictionary behind `**`; Python refuses this in one call
            text = "is given twice; the first counts"
            self._table.settle(keyword, NoteKind.REFUSED, text, app=self.app)
            return
        self._found[keyword.name] = keyword
        self._open.append(keyword)

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def names(self) -> Iterator[str]:
        """The names, in the order in which they are given."""
        return iter(self._found)

    def node(self, name: str) -> ast.expr:
        """The expression of a keyword that is given."""
        return self._found[name].value

    def line(self, name: str) -> int:
        """The line of a keyword that is given."""
        return self._found[name].line

    def value(self, name: str) -> Any:
        """The value of a keyword; None where it is not given.

        Raises:
            UnreadableError: it can only be known by executing the file.
        """
        if name not in self._found:
            return None
        if name not in self._values:
            try:
                self._values[name] = self._reader.read(self._found[name].value)
            except UnreadableError as exc:
                self._values[name] = exc
        found = self._values[name]
        if isinstance(found, UnreadableError):
            raise found
        return found

    def values(self) -> Mapping[str, Any]:
        """The values that can be read."""
        found: dict[str, Any] = {}
        for name in self._found:
            try:
                found[name] = self.value(name)
            except UnreadableError:
                continue
        return found

    def carry(self, name: str, text: str) -> None:
        """The keyword means here what it means there; does nothing where it is not given."""
        self._settle(name, NoteKind.CARRIED, text)

    def change(self, name: str, text: str) -> None:
        """The keyword is there, and means something else."""
        self._settle(name, NoteKind.CHANGED, text)

    def refuse(self, name: str, text: str) -> None:
        """The keyword is not carried."""
        self._settle(name, NoteKind.REFUSED, text)

    def _settle(self, name: str, kind: NoteKind, text: str) -> None:
        if name in self._found and self._found[name].line:
            self._table.settle(self._found[name], kind, text, app=self.app)

    def finish(self, text: str = "has no counterpart here") -> None:
        """Refuses what nothing was said about."""
        for keyword in (*self._open, *self._found.values()):
            if keyword.line and not self._table.has(keyword):
                self._table.settle(keyword, NoteKind.REFUSED, text, app=self.app)
