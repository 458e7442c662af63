"""What the published designs ask for, as `tests/designs/` has it, and the page that shows it."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tests.architecture.reference.markdown import table

_FOLDER: Final = Path(__file__).parents[2] / "designs"
#: The order of the page.
_NAMES: Final = ("cdap", "pagerduty", "dapr", "stolos")
#: The end of the note of a row that is no requirement.
NOTHING: Final = "nothing to build."
_OPENING: Final = """\
# What the designs ask for, and what shows it

Four published designs say what a scheduler of this kind should do: CDAP's redesign of its scheduler, the design of
PagerDuty's scheduler, the proposal of Dapr's distributed scheduler, and the README of Stolos. Here are their
requirements, each in a row, in words close to theirs, with what became of it: it works, it differs on purpose, or it is
not done. The numbers lead to the tests and commands below each table.
"""


class Status(StrEnum):
    """What became of a requirement."""

    WORKS = "works"
    DIFFERS = "differs"
    NOT_DONE = "not done"


@dataclass(frozen=True, slots=True)
class Row:
    """A requirement. `shown_by`: tests as `tests/….py::test_…`, and commands; `note` is Markdown."""

    says: str
    status: Status
    shown_by: tuple[str, ...]
    note: str


@dataclass(frozen=True, slots=True)
class Design:
    """A document with its requirements by section, in its order."""

    title: str
    document: str
    sections: dict[str, tuple[Row, ...]]

    def rows(self) -> Iterator[Row]:
        for rows in self.sections.values():
            yield from rows


def designs() -> list[Design]:
    return [_design(tomllib.loads((_FOLDER / f"{name}.toml").read_text())) for name in _NAMES]


def designs_page() -> str:
    found = designs()
    lines = [_OPENING, *table(["design", *Status, "nothing to build"], map(_counts, found)), ""]
    undone = [[design.title, row.says, row.note] for design in found for row in design.rows() if _is_undone(row)]
    lines += ["## What is not done", "", *table(["design", "it asks for", "why not"], undone), ""]
    for design in found:
        lines += [f"## {design.title}", "", f"{design.document[0].upper()}{design.document[1:]}.", ""]
        for title, rows in design.sections.items():
            lines += [f"### {title}", "", *_section(rows), ""]
    return "\n".join(lines)


def is_requirement(row: Row) -> bool:
    return not row.note.endswith(NOTHING)


def _is_undone(row: Row) -> bool:
    return row.status is Status.NOT_DONE and is_requirement(row)


def _design(content: dict[str, Any]) -> Design:
    return Design(
        content["title"],
        content["document"],
        {
            section["title"]: tuple(
                Row(row["says"], Status(row["status"]), tuple(row.get("shown_by", ())), row.get("note", ""))
                for row in section["rows"]
            )
            for section in content["sections"]
        },
    )


def _counts(design: Design) -> list[str]:
    counted = Counter(row.status if is_requirement(row) else None for row in design.rows())
    return [design.title, *(str(counted[status]) for status in Status), str(counted[None])]


def _section(rows: tuple[Row, ...]) -> list[str]:
    """A table, and below it what its numbers stand for."""
    shown = list(dict.fromkeys(each for row in rows for each in row.shown_by))
    numbers = {each: str(number) for number, each in enumerate(shown, start=1)}
    cells = (
        [row.says, f"{row.status}: {row.note}" if row.note else row.status, ", ".join(numbers[e] for e in row.shown_by)]
        for row in rows
    )
    listed = [f"{numbers[each]}. `{each}`" for each in shown]
    return [*table(["it asks for", "here", "shown by"], cells), *(["", *listed] if listed else [])]
