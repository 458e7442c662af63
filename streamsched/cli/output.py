"""What commands print: tables and sentences for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option("-o", "--output", help="For people, or for programs.")]

_COLOURS = {
    "COMPLETED": "green",
    "LAUNCHED": "green",
    "RUNNING": "cyan",
    "STARTING": "cyan",
    "FAILED": "red",
    "LAUNCH_FAILED": "red",
    "LOST": "red",
    "KILLED": "yellow",
    "ABORTED": "yellow",
    "TIMED_OUT": "yellow",
}


def console() -> Console:
    """Standard output; wide lines are not folded when it is no terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 200, highlight=False, soft_wrap=True)


def print_json(value: object) -> None:
    """Indented on a terminal, else one line."""
    typer.echo(json.dumps(value, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False))


def print_table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, empty: str) -> None:
    """A table of the named members, or the sentence `empty`."""
    from rich.table import Table

    table = Table(*(column.replace("_", " ") for column in columns), box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(cell(row.get(column)) for column in columns))
    out = console()
    if table.row_count:
        out.print(table)
    else:
        out.print(empty, style="dim")


def cell(value: object) -> str:
    """A value as a table shows it; instants to the second, in UTC."""
    match value:
        case None:
            return "-"
        case True:
            return "yes"
        case False:
            return "no"
        case list():
            return ", ".join(map(str, value))
        case str() if value in _COLOURS:
            return f"[{_COLOURS[value]}]{value}[/]"
        case str():
            return escaped(moment(value))
        case _:
            return escaped(str(value))


def moment(text: str) -> str:
    """An ISO instant without its fractions; any other text as it is."""
    if len(text) < 19 or text[4:5] != "-" or "T" not in text:
        return text
    try:
        return datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M:%SZ")
    except ValueError:
        return text


def progress_tree(node: Mapping[str, Any]) -> Tree:
    """An explanation as a tree: what holds, and "3 of 7" of what does not."""
    from rich.tree import Tree

    tree = Tree(_progress_line(node))
    _grow(tree, node)
    return tree


def _grow(tree: Tree, node: Mapping[str, Any]) -> None:
    for child in node.get("children", ()):
        _grow(tree.add(_progress_line(child)), child)


def _progress_line(node: Mapping[str, Any]) -> str:
    mark = "[green]✓[/]" if node.get("holds") else "[yellow]…[/]"
    due = f", {node['then']} {moment(node['due_at'])}" if node.get("due_at") else ""
    return f"{mark} {escaped(str(node.get('text', '')))}: {node.get('have', 0)} of {node.get('need', 0)}{due}"


def escaped(text: str) -> str:
    """Text that Rich must not read as markup."""
    return text.replace("[", r"\[")
