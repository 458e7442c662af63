"""Seeded faults in the rules: how many of them do the tests notice?

`python -m tests.mutation --seed 1 -n 40` changes one place at a time of `streamsched/domain` and `streamsched/launcher`
in a copy of the tree (a comparison, a boundary, a condition, a number, a sign), and runs the tests that reach the
changed line, found by one run with coverage. It prints one line a mutant and `RESULT {json}` with how many were caught.
The same seed names the same places as long as the two rooms are the same; two commits are compared by their shares.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
ROOMS: Final = ("streamsched/domain", "streamsched/launcher")
#: What decides without services; the tests that are asked.
TESTS: Final = ("tests/unit", "tests/properties", "tests/simulation")
#: Seconds for the tests of one mutant; a mutant that makes them hang is caught.
PATIENCE: Final = 300
#: The most tests that are run for a mutant, drawn by the seed from those that reach its line.
MOST_TESTS: Final = 600

_COMPARISONS: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One place of one file with another text.

    Attributes:
        path: of the file, relative to the root.
        line: of the place, from 1.
        before, after: the text of the expression.
        text: the whole file with the fault.
    """

    path: str
    line: int
    before: str
    after: str
    text: str


def mutants(path: Path, root: Path = ROOT) -> Iterator[Mutant]:
    """All faults of a file, in the order of its lines."""
    text = path.read_text("utf-8")
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    raw = text.encode()
    for node in _expressions(ast.parse(text)):
        after = _with_fault(node)
        if after is None:
            continue
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        changed = raw[:begin] + f"({after})".encode() + raw[end:]
        yield Mutant(str(path.relative_to(root)), node.lineno, raw[begin:end].decode(), after, changed.decode())


def _expressions(tree: ast.Module) -> Iterator[ast.expr]:
    """The expressions inside functions, without annotations, defaults and messages of errors."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for statement in function.body:
            yield from _below(statement)


def _below(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Raise | ast.Assert | ast.JoinedStr):
        return
    if isinstance(node, ast.expr):
        yield node
    for field, child in ast.iter_fields(node):
        for each in child if isinstance(child, list) else [child]:
            if isinstance(each, ast.AST) and field != "annotation":
                yield from _below(each)


def _with_fault(node: ast.expr) -> str | None:
    match node:
        case ast.Compare(ops=[op]) if type(op) in _COMPARISONS:
            return ast.unparse(ast.Compare(node.left, [_COMPARISONS[type(op)]()], node.comparators))
        case ast.BoolOp(op=op, values=values):
            return ast.unparse(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ast.unparse(operand)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            return ast.unparse(ast.BinOp(left, ast.Sub() if isinstance(op, ast.Add) else ast.Add(), right))
        case ast.Constant(value=bool() as value):
            return repr(not value)
        case ast.Constant(value=int() as value):
            return repr(value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            return ast.unparse(ast.Call(ast.Name(_CALLS[name]), node.args, node.keywords))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return ast.unparse(ast.IfExp(test, orelse, body))
        case _:
            return None


def sample(root: Path, seed: int, count: int) -> list[Mutant]:
    """So many faults, at most one on a line and three in a file; the same for the same files and seed."""
    found = [each for room in ROOMS for path in sorted((root / room).rglob("*.py")) for each in mutants(path, root)]
    random.Random(seed).shuffle(found)
    chosen: list[Mutant] = []
    for each in found:
        same = [other for other in chosen if other.path == each.path]
        if len(same) < 3 and each.line not in {other.line for other in same}:
            chosen.append(each)
        if len(chosen) == count:
            break
    return chosen


def reaching(root: Path, data: Path) -> Mapping[tuple[str, int], list[str]]:
    """The tests that run a line, by file and line, from one run of them with coverage."""
    if not data.exists():
        subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile"),
                *("-m", "not long", "-p", "no:randomly", "--cov-context=test", "--cov-report="),
                *(f"--cov={room}" for room in ROOMS),
                *TESTS,
            ],
            cwd=root,
            env=_environment(root, COVERAGE_FILE=str(data)),
            check=False,
            stdout=sys.stderr,
        )
    from coverage import CoverageData  # an extra of development only

    read = CoverageData(str(data))
    read.read()
    found: dict[tuple[str, int], list[str]] = {}
    for file in read.measured_files():
        path = file.partition("/streamsched/")[2]
        for line, contexts in read.contexts_by_lineno(file).items():
            tests = sorted({context.rpartition("|")[0] for context in contexts if "::" in context})
            found[f"streamsched/{path}", line] = tests
    return found


def _environment(root: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{root}:{root / 'brokers'}", **more}


def caught_by(root: Path, mutant: Mutant, tests: Sequence[str]) -> str | None:
    """The first test that fails with the fault, `hangs`; None: none does."""
    path = root / mutant.path
    sound = path.read_text("utf-8")
    path.write_text(mutant.text, "utf-8")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:randomly", "-p", "no:cacheprovider", *tests],
            cwd=root,
            env=_environment(root),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "hangs"
    finally:
        path.write_text(sound, "utf-8")
    if done.returncode == 0:
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0] if failed else f"exit code {done.returncode}"


def say(line: str) -> None:
    """One line, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-n", type=int, default=40, help="so many mutants")
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout, such as of the commit before")
    parser.add_argument("--list", action="store_true", help="name the mutants only")
    asked = parser.parse_args(arguments)
    chosen = sample(asked.root, asked.seed, asked.n)
    if asked.list:
        for each in chosen:
            say(f"{each.path}:{each.line}: {each.before} → {each.after}")
        return 0
    with tempfile.TemporaryDirectory(prefix="ss-mutation-") as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(asked.root, copy, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__", ".streamsched"))
        tests = reaching(copy, Path(folder) / "coverage")
        caught = 0
        for number, each in enumerate(chosen, 1):
            reached = tests.get((each.path, each.line), [])
            begin = time.monotonic()
            by = (
                caught_by(copy, each, random.Random(asked.seed).sample(reached, min(len(reached), MOST_TESTS)))
                if reached
                else None
            )
            caught += by is not None
            verdict = f"caught by {by}" if by else "SURVIVES" if reached else "NOT REACHED"
            say(
                f"{number:3} {each.path}:{each.line}: {each.before} → {each.after}\n    {verdict}"
                f" ({len(reached)} tests, {time.monotonic() - begin:.0f} s)"
            )
    say(f"RESULT {json.dumps({'seed': asked.seed, 'mutants': len(chosen), 'caught': caught})}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
