"""Output of commands: tables and sentences for people, JSON for programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from streamsched.cli.naming import short_name, without_default
from streamsched.cli.table import Column, ColumnKind, layout, plain_text
from streamsched.domain.errors import ConfigurationError
from streamsched.domain.time.duration import duration_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree


class Format(StrEnum):
    """Output formats."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def is_structured(self) -> bool:
        """Whether the output is for programs."""
        return self in {Format.JSON, Format.YAML, Format.NAME}

    @property
    def is_wide(self) -> bool:
        """Whether tables have all columns on unbroken lines, wider than the terminal if needed."""
        return self is Format.WIDE


FORMATS = (
    "Output format: `table` or `wide` (all columns, unbroken) for people; `json`, `yaml`, or `name` (ids, one per "
    "line) for programs."
)
FormatOption = Annotated[Format, typer.Option("-o", "--output", help=FORMATS)]

#: Members that name an object, the first that it has.
_NAMES = ("id", "run", "job", "name", "schedule", "backfill", "app", "key")
_IDS = frozenset({"id", "run", "job", "schedule", "backfill", "app"})

#: Members whose values are ids of schedules, programs, jobs or runs.
_NAMED = frozenset({"id", "job", "schedule", "program", "runs", "joined"})

_CAPITAL = re.compile("(?<=[a-z])[A-Z]")
#: An instant of UTC within a sentence.
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z")

_COLOURS = {
    "COMPLETED": "green",
    "LAUNCHED": "cyan",
    "RUNNING": "cyan",
    "STARTING": "cyan",
    "FAILED": "red",
    "LAUNCH_FAILED": "red",
    "LOST": "red",
    "KILLED": "yellow",
    "ABORTED": "yellow",
    "TIMED_OUT": "yellow",
}


def console(*, stderr: bool = False) -> Console:
    """A console for standard output or error. Lines are not wrapped or cut, and changed only at a terminal, where
    characters that would control it are shown as escapes.
    """
    from rich.console import Console

    from streamsched.cli.shell.visible_text import VisibleText

    made = Console(width=terminal_width() or 200, highlight=False, soft_wrap=True, emoji=False, stderr=stderr)
    if made.is_terminal:
        made.push_render_hook(VisibleText())
    return made


def terminal_width() -> int | None:
    """The width from COLUMNS or the terminal, in characters; None when neither is known, as in a pipe."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_json(value: object) -> None:
    """Prints JSON, indented on a terminal and there without characters that control it, otherwise on one line."""
    if not sys.stdout.isatty():
        typer.echo(json.dumps(value, ensure_ascii=False))
        return
    text = json.dumps(value, indent=2, ensure_ascii=False)
    typer.echo("".join(each if plain_text(each) == each else json.dumps(each)[1:-1] for each in text))


def print_answer(
    found: Any, output: Format, show: Callable[[Any], object], *, names: Callable[[Any], Iterable[str]] | None = None
) -> None:
    """Prints an answer: for programs, or for people by `show`, which prints it or returns a text. `names`: as of
    `print_structured`.
    """
    if not print_structured(found, output, names=names) and isinstance(said := show(found), str):
        console().print(said, markup=False)


def print_structured(value: Any, output: Format, *, names: Callable[[Any], Iterable[str]] | None = None) -> bool:
    """Prints a value if the output is for programs; returns whether it is. `names`: those in the value; default:
    `names_of`.

    Raises:
        ConfigurationError: with `name`, the value has no names.
    """
    match output:
        case Format.YAML:
            import yaml

            text = yaml.safe_dump(value, allow_unicode=True, sort_keys=False, width=10_000)
            typer.echo(plain_text(text) if sys.stdout.isatty() else text, nl=False)
        case Format.NAME:
            print_names((names or names_of)(value))
        case Format.JSON:
            print_json(value)
        case Format.TABLE | Format.WIDE:
            return False
    return True


def print_names(names: Iterable[str]) -> None:
    """Prints names, one per line."""
    for each in names:
        typer.echo(plain_text(each))


def names_of(value: Any) -> list[str]:
    """The names of the objects in a list; of an object its own name, else those of the objects in its lists. Ids are
    without the default namespace.

    Raises:
        ConfigurationError: it has none.
    """
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        own = next((name for name in _NAMES if isinstance(found.get(name), str)), None)
        if own is not None:
            return [short_name(found[own]) if own in _IDS else found[own]]
        lists = [each for each in found.values() if isinstance(each, list)]
        if not lists:
            raise ConfigurationError("this output has no names: use `-o json` or `-o yaml`")
        return [name for each in lists for name in names_of(each)]
    return [
        name
        for each in cast("list[Any]", value)
        for name in (names_of(each) if isinstance(each, dict) else [str(each)])
    ]


def print_table(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[Column | str], *, wide: bool = False, empty: str
) -> None:
    """Prints the given members of the rows as a table that fits the terminal, or the sentence `empty` without rows. A
    plain name is a column that is never wrapped. A `wide` table has all columns, on unbroken lines.
    """
    from rich.text import Text

    out = console()
    shown = [Column(each) if isinstance(each, str) else each for each in columns]
    cells = [{column.name: _column_cell(row.get(column.name), column) for column in shown} for row in rows]
    if not cells:
        out.print(empty, style="dim")
        return
    for line in layout(cells, shown, None if wide else terminal_width()):
        out.print(Text.assemble(*((piece.text, piece.style) for piece in line)))


def print_record(found: Mapping[str, Any]) -> None:
    """Prints the members of an object that are not empty, one per line; names without the default namespace."""
    from rich.text import Text

    out = console()
    rows = {_title(name): _shorten(name, value) for name, value in found.items() if value not in (None, [], {}, "")}
    margin = max(map(len, rows), default=0) + 2
    for name, value in rows.items():
        first, *others = cell(moment(value) if isinstance(value, str) else value).split("\n")
        out.print(Text.assemble((name.ljust(margin), "bold"), (first, state_style(first))))
        for line in others:
            out.print(Text(" " * margin + line))


def _title(name: str) -> str:
    """A member in words: `next at` for `nextAt`."""
    return _CAPITAL.sub(lambda found: f" {found[0].lower()}", name)


def _shorten(name: str, value: object) -> object:
    if name not in _NAMED:
        return value
    return [short_name(str(each)) for each in value] if isinstance(value, list) else short_name(str(value))


def state_style(state: str) -> str:
    """The Rich style of the state of a job or run."""
    return _COLOURS.get(state.partition(" ")[0], "")


def _column_cell(value: object, column: Column) -> str:
    if isinstance(value, str) and column.kind is ColumnKind.TIME:
        return cell(moment(value))
    return cell(local_times(value) if isinstance(value, str) and column.kind is ColumnKind.REASON else value)


def cell(value: object) -> str:
    """The text of a value."""
    match value:
        case None:
            return "-"
        case True:
            return "yes"
        case False:
            return "no"
        case list():
            return ", ".join(cell(each) for each in value)
        case dict():
            return plain_text(json.dumps(value, ensure_ascii=False))
        case _:
            return plain_text(value)


def colour_state(state: str) -> str:
    """A state as Rich markup."""
    style = state_style(state)
    return f"[{style}]{state}[/]" if style else escape_text(state)


def duration(begin: str | None, end: str | None) -> str | None:
    """The time between two ISO instants, rounded to seconds; None when one is missing."""
    if begin is None or end is None:
        return None
    length = datetime.fromisoformat(end) - datetime.fromisoformat(begin)
    return duration_text(timedelta(seconds=max(0, round(length.total_seconds()))))


def count_text(count: int, noun: str) -> str:
    """The count with its noun, which takes an s in the plural."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def moment(text: str) -> str:
    """An ISO instant in local time with its offset (`Z`: UTC), without fractions of seconds; unchanged other texts, and
    instants that have no local time in the years 1 to 9999.

    >>> moment("1 day")
    '1 day'
    """
    if len(text) < 19 or text[4:5] != "-" or "T" not in text:
        return text
    try:
        instant = datetime.fromisoformat(text)
        local = instant.astimezone()
    except (ValueError, OverflowError):
        return text
    return local.isoformat(" ", "seconds").replace("+00:00", "Z") if instant.tzinfo else text


def local_times(sentence: str) -> str:
    """A sentence of the API with its instants as `moment` writes them.

    >>> local_times("due at 12:00Z on each day")
    'due at 12:00Z on each day'
    """
    return _INSTANT.sub(lambda found: moment(found[0].replace(" ", "T")), sentence)


def progress_tree(node: Mapping[str, Any]) -> Tree:
    """The progress of a trigger as a tree with the count of each part."""
    from rich.tree import Tree

    tree = Tree(_progress_line(node))
    _grow(tree, node)
    return tree


def _grow(tree: Tree, node: Mapping[str, Any]) -> None:
    for child in node.get("children", ()):
        _grow(tree.add(_progress_line(child)), child)


def _progress_line(node: Mapping[str, Any]) -> str:
    mark = "[green]✓[/]" if node.get("holds") else "[yellow]…[/]"
    text = escape_text(without_default(str(node.get("text", ""))))
    due = f", {node['then']} {moment(node['due_at'])}" if node.get("due_at") else ""
    missing = f", missing {escape_text(node['missing_text'])}" if node.get("missing_text") else ""
    return f"{mark} {text}: {node.get('have', 0)} of {node.get('need', 0)}{missing}{due}"


def escape_text(text: str) -> str:
    """The text with Rich markup and control characters escaped."""
    return plain_text(text).replace("[", r"\[")
