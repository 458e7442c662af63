"""Layout of tables for a terminal. Identifiers are never cut or wrapped.

A table that is too wide is narrowed in steps: texts wrap; times stand on two lines; optional columns are omitted and
named below the table; finally each row becomes a block of lines. Identifiers, times and reasons are never omitted.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from rich.cells import cell_len

#: Spaces between two cells.
_GAP: Final = 2
#: Characters of zero width that some scripts need.
_JOINERS: Final = "\u200c\u200d"
#: Least width of wrapped texts, in terminal columns.
_NARROWEST: Final = 18
#: Words up to this width are not broken.
_LONG_WORD: Final = 40


class ColumnKind(Enum):
    """How a column can be narrowed."""

    ID = auto()
    WORD = auto()
    TEXT = auto()
    TIME = auto()
    REASON = auto()


#: Columns that are never omitted, unless they are empty.
_KEPT: Final = frozenset({ColumnKind.ID, ColumnKind.TIME, ColumnKind.REASON})


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: the member of a row that the column shows.
        title: the heading; the name when empty.
        kind: an ID, which names the row, and a WORD are never wrapped; a TEXT and a REASON are; a TIME is an instant,
            which is shown in local time with its offset, and can stand on two lines.
        breakable: words of a TEXT can be broken at any width, as those of a REASON; otherwise only words wider than
            `_LONG_WORD`.
        optional: 0: the column is always shown. Otherwise, if it is a WORD or a TEXT, it can be omitted, higher numbers
            first.
        style: maps the text of a cell to its Rich style.
    """

    name: str
    title: str = ""
    kind: ColumnKind = ColumnKind.WORD
    optional: int = 0
    breakable: bool = False
    style: Callable[[str], str] | None = None

    def __post_init__(self) -> None:
        if self.optional and self.kind in _KEPT:
            raise ValueError(f"column {self.name} is never omitted")

    @property
    def head(self) -> str:
        return self.title or self.name

    @property
    def wraps(self) -> bool:
        """Whether a cell can stand on several lines."""
        return self.kind in {ColumnKind.TEXT, ColumnKind.TIME, ColumnKind.REASON}


@dataclass(frozen=True, slots=True)
class StyledText:
    """Text with one style."""

    text: str
    style: str = ""


Line = tuple[StyledText, ...]


def layout(rows: Sequence[Mapping[str, str]], columns: Sequence[Column], width: int | None) -> list[Line]:
    """The lines of a table: the headings, the rows in order, and a note that names the omitted columns. Optional
    columns, times and reasons that are empty in all rows are omitted first, without a note.

    `width` is in terminal columns; with None nothing is wrapped or omitted. A line is wider than `width` only where a
    single identifier or word is. Cells can have several lines.
    """
    columns = shown = list(columns)
    widths = _natural(rows, shown)
    if width is not None:
        if _total(widths) > width:
            columns = [column for column in shown if not _is_empty(rows, column)]
            shown, widths = list(columns), _natural(rows, columns)
        widths = _narrow_widths(rows, shown, widths, width)
        while _total(widths) > width and any(column.optional for column in shown):
            shown.remove(max(shown, key=lambda column: column.optional))
            widths = _narrow_widths(rows, shown, _natural(rows, shown), width)
        if _total(widths) > width:
            return _blocks(rows, columns, width)
    lines = [_line([StyledText(column.head, "bold") for column in shown], list(widths.values()))]
    for row in rows:
        lines += _row(row, shown, list(widths.values()))
    return [*lines, *_omitted_lines(columns, shown)]


def _is_empty(rows: Sequence[Mapping[str, str]], column: Column) -> bool:
    """Whether it can be omitted because it shows nothing."""
    omittable = column.optional or column.kind in {ColumnKind.TIME, ColumnKind.REASON}
    return bool(omittable) and all(row.get(column.name, "") in {"", "-"} for row in rows)


def _natural(rows: Sequence[Mapping[str, str]], columns: Sequence[Column]) -> dict[str, int]:
    """The width of each column at which nothing wraps."""
    found: dict[str, int] = {}
    for column in columns:
        cells = (line for row in rows for line in row.get(column.name, "").split("\n"))
        found[column.name] = max([cell_len(column.head), *map(cell_len, cells)])
    return found


def _narrow_widths(
    rows: Sequence[Mapping[str, str]], columns: Sequence[Column], widths: Mapping[str, int], width: int
) -> dict[str, int]:
    """The widths with the widest texts narrowed just enough to fit, or as far as allowed if they cannot fit. Times are
    put on two lines if the texts cannot be narrowed enough.
    """
    least = {column.name: _least(rows, column) for column in columns if column.wraps}
    times = {column.name: least.pop(column.name) for column in columns if column.kind is ColumnKind.TIME}
    found = dict(widths)
    for folded in ({}, times):
        found.update(folded)
        for cap in range(max(width, _NARROWEST), _NARROWEST - 1, -1):
            found.update({name: max(floor, min(widths[name], cap)) for name, floor in least.items()})
            if _total(found) <= width:
                return found
    return found


def _least(rows: Sequence[Mapping[str, str]], column: Column) -> int:
    """The least width of a column that wraps at which only breakable words are broken."""
    if column.breakable or column.kind is ColumnKind.REASON:
        return cell_len(column.head)
    words = (word for row in rows for word in row.get(column.name, "").split())
    return max([cell_len(column.head), *(min(cell_len(word), _LONG_WORD) for word in words)])


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def _row(row: Mapping[str, str], columns: Sequence[Column], widths: Sequence[int]) -> list[Line]:
    cells = [_cell(row, column, width) for column, width in zip(columns, widths, strict=True)]
    height = max(map(len, cells))
    return [_line([cell[at] if at < len(cell) else StyledText("") for cell in cells], widths) for at in range(height)]


def _cell(row: Mapping[str, str], column: Column, width: int) -> list[StyledText]:
    text = row.get(column.name, "")
    style = column.style(text) if column.style else ""
    lines = [part for line in text.split("\n") for part in (_wrap(line, width) if column.wraps else [line])]
    return [StyledText(line, style) for line in lines]


def _wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken at spaces where possible."""
    if cell_len(text) <= width:
        return [text]
    lines, used = [""], 0
    for word in _words(text, width):
        needed = cell_len(word)
        if lines[-1] and used + 1 + needed <= width:
            lines[-1] += f" {word}"
            used += 1 + needed
        elif lines[-1]:
            lines.append(word)
            used = needed
        else:
            lines[-1], used = word, needed
    return lines


def _words(text: str, width: int) -> list[str]:
    """The words of a text; those wider than `width` in pieces."""
    words: list[str] = []
    for word in text.split(" "):
        piece, used = "", 0
        for letter in word if cell_len(word) > width else ():
            size = cell_len(letter)
            if piece and used + size > width:
                words.append(piece)
                piece, used = "", 0
            piece, used = piece + letter, used + size
        words.append(piece or word)
    return words


def _blocks(rows: Sequence[Mapping[str, str]], columns: Sequence[Column], width: int) -> list[Line]:
    """Each row as a block: its first cell, and below it a line for each other cell that is not empty."""
    lines: list[Line] = []
    margin = max((cell_len(column.head) for column in columns[1:]), default=0) + 4
    for row in rows:
        first, *others = columns
        lines += [(StyledText(each.text, "bold"),) for each in _cell(row, first, width)]
        for column in others:
            cells = _cell(row, column, max(width - margin, _least([row], column)))
            if cells[0].text in {"", "-"}:
                continue
            for number, cell in enumerate(cells):
                head = f"  {column.head}" if number == 0 else ""
                lines.append((StyledText(head + " " * (margin - cell_len(head)), "dim"), cell))
    return lines


def _line(cells: Sequence[StyledText], widths: Sequence[int]) -> Line:
    pieces: list[StyledText] = []
    for number, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        pieces.append(cell)
        if number + 1 < len(cells):
            pieces.append(StyledText(" " * (width - cell_len(cell.text) + _GAP)))
    while pieces and not pieces[-1].text.strip():
        pieces.pop()
    return tuple(pieces)


def _omitted_lines(columns: Sequence[Column], shown: Sequence[Column]) -> list[Line]:
    names = ", ".join(column.head for column in columns if column not in shown)
    note = f"columns not shown: {names}; use `-o wide`"
    return [(StyledText(line, "dim"),) for line in textwrap.wrap(note, 78)] if names else []


def plain_text(value: Any) -> str:
    """The value as text. Characters that move the cursor, change the writing direction or cannot be encoded are shown
    as escapes; line breaks are kept.
    """
    return "".join(_visible_letter(letter) for letter in str(value))


def _visible_letter(letter: str) -> str:
    if letter == "\n" or letter.isprintable() or letter in _JOINERS or unicodedata.category(letter) == "Zs":
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
