"""How large the repository is: one table for the working tree and, beside it, for given commits.

    python -m tests.architecture.figures --commit eb07b282^ --commit main

The product is `streamsched` and `brokers`. A room is a folder of `streamsched`; its single modules are summed as one
row, because modules and folders were renamed between commits. A cell without a number means that a tree has no such
room. The last column is the working tree divided by the first commit.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = ("streamsched", "brokers")
WIDTH: Final = 80
CELL: Final = 10
MOST_COMMITS: Final = 3
LONG: Final = 400

#: Texts of a repository by path below its root.
Tree = Mapping[str, str]


class Kind(StrEnum):
    """What a line of Python is. A line inside a text of several lines is code."""

    CODE = "code"
    DOCSTRING = "docstrings"
    IMPORT = "imports"
    COMMENT = "comments"
    BLANK = "blank"


@dataclass(slots=True)
class Figures:
    """The numbers of one tree."""

    rooms: Counter[tuple[str, Kind]] = field(default_factory=Counter)
    """Lines of Python of the product by room and kind."""
    counts: Counter[str] = field(default_factory=Counter)
    """All other numbers, by the label of their row."""


COUNTS: Final = (
    "modules",
    "modules above 400 lines",
    "Protocols",
    "SQL lines",
    "migrations",
    "ADRs",
    "lines of ADRs",
    "test modules",
    "test lines",
    "test modules above 400 lines",
)


def measure(tree: Tree) -> Figures:
    """Counts everything that the table shows of a tree."""
    figures = Figures()
    for name, text in tree.items():
        path = PurePosixPath(name)
        lines = text.count("\n") + (not text.endswith("\n") and text != "")
        counts = figures.counts
        match path.parts[0], path.suffix:
            case folder, ".py" if folder in PRODUCT:
                counts["modules"] += 1
                counts["modules above 400 lines"] += lines > LONG
                parsed = ast.parse(text)
                counts["Protocols"] += sum(map(_is_protocol, ast.walk(parsed)))
                for kind, number in Counter(classify(text, parsed)).items():
                    figures.rooms[room(path), kind] += number
            case folder, ".sql" if folder in PRODUCT:
                counts["SQL lines"] += lines
            case "migrations", ".py" if path.parent.name == "versions" and path.stem != "__init__":
                counts["migrations"] += 1
            case "streamsched", ".md" if path.parent.name == "adr" and path.stem != "README":
                counts["ADRs"] += 1
                counts["lines of ADRs"] += lines
            case "tests", ".py":
                counts["test modules"] += 1
                counts["test lines"] += lines
                counts["test modules above 400 lines"] += lines > LONG
    return figures


def room(path: PurePosixPath) -> str:
    """The row of a module of the product."""
    if path.parts[0] != "streamsched":
        return path.parts[0]
    return path.parts[1] if len(path.parts) > 2 else "(modules)"


def classify(text: str, parsed: ast.Module | None = None) -> Iterator[Kind]:
    """The kind of each line of a module, in order."""
    spans: dict[int, Kind] = {}
    for node in ast.walk(parsed or ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                kind = Kind.DOCSTRING
            case ast.Import() | ast.ImportFrom():
                kind = Kind.IMPORT
            case ast.Constant(value=str() | bytes()) | ast.JoinedStr() if node.end_lineno != node.lineno:
                kind = Kind.CODE
            case _:
                continue
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            if kind is not Kind.CODE or line not in spans:  # the text of a docstring is a constant too
                spans[line] = kind
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if number in spans:
            yield spans[number]
        elif not bare:
            yield Kind.BLANK
        else:
            yield Kind.COMMENT if bare.startswith("#") else Kind.CODE


def _is_protocol(node: ast.AST) -> bool:
    bases = node.bases if isinstance(node, ast.ClassDef) else []
    return any(ast.unparse(each).partition("[")[0].endswith("Protocol") for each in bases)


def render(columns: Mapping[str, Figures]) -> str:
    """The table: one column a tree, oldest first. With several, the ratio of the last to the first is added."""
    all_figures = list(columns.values())
    rooms = sorted({name for each in all_figures for name, _ in each.rooms})
    heads = [*columns, *(["ratio"] if len(columns) > 1 else [])]
    lines = [_line("", heads), "-" * WIDTH]
    for kind in Kind:
        lines.append(_row(f"product, {kind}", [_lines(each, kind=kind) for each in all_figures]))
    written = [_lines(each, kind=Kind.CODE) + _lines(each, kind=Kind.IMPORT) for each in all_figures]
    lines.append(_row("product, code and imports", written))
    lines.append(_row("product, all lines of Python", [_lines(each) for each in all_figures]))
    lines += ["", "code of each room"]
    for name in rooms:
        lines.append(_row(f"  {name}", [_lines(each, name, Kind.CODE) or None for each in all_figures]))
    lines.append("")
    for label in COUNTS:
        lines.append(_row(label, [each.counts[label] for each in all_figures]))
    return "\n".join(lines)


def _lines(figures: Figures, name: str | None = None, kind: Kind | None = None) -> int:
    return sum(
        number
        for (room_name, room_kind), number in figures.rooms.items()
        if name in {None, room_name} and kind in {None, room_kind}
    )


def _row(label: str, numbers: Sequence[int | None]) -> str:
    cells = ["" if each is None else f"{each:,}" for each in numbers]
    if len(numbers) > 1:
        first, last = numbers[0], numbers[-1]
        cells.append(f"{last / first:.2f}" if first and last is not None else "")
    return _line(label, cells)


def _line(label: str, cells: Sequence[str]) -> str:
    return (f"{label:<{WIDTH - CELL * len(cells)}}" + "".join(f"{each:>{CELL}}" for each in cells)).rstrip()


def read_working_tree(root: Path) -> Tree:
    """Every text that git follows or would follow."""
    names = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").decode().split("\0")
    paths = {name: root / name for name in names if name}
    return {name: path.read_text("utf-8") for name, path in paths.items() if _is_read(name) and path.is_file()}


def read_commit(root: Path, revision: str) -> Tree:
    """The texts of a commit, from `git archive`."""
    with tarfile.open(fileobj=io.BytesIO(_git(root, "archive", "--format=tar", revision))) as archive:
        members = [each for each in archive if each.isfile() and _is_read(each.name)]
        return {each.name: _content(archive, each) for each in members}


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    source = archive.extractfile(member)
    assert source is not None, "only files are asked for"
    return source.read().decode("utf-8")


def _is_read(name: str) -> bool:
    return PurePosixPath(name).suffix in {".py", ".sql", ".md"}


def _git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=root, stdout=subprocess.PIPE, check=True).stdout


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.architecture.figures", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--commit", action="append", default=[], metavar="REV", help="a commit, oldest first")
    commits: list[str] = parser.parse_args(arguments).commit
    if len(commits) > MOST_COMMITS:
        parser.error(f"at most {MOST_COMMITS} commits fit beside the working tree")
    columns = {revision[-CELL + 1 :]: measure(read_commit(ROOT, revision)) for revision in commits}
    columns["now"] = measure(read_working_tree(ROOT))
    sys.stdout.write(render(columns) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
