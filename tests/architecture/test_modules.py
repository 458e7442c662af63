"""The rules of the code that a linter does not know."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "streamsched").rglob("*.py"), *(ROOT / "brokers").rglob("*.py")])
NAMES_THAT_SAY_NOTHING = {"utils", "util", "helpers", "helper", "manager", "common", "misc", "base", "core"}


def path_in_tree(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def trees() -> Mapping[str, ast.Module]:
    """The modules of the product, by path."""
    return {path_in_tree(path): ast.parse(path.read_text()) for path in SOURCES}


def test_a_module_is_named_by_a_noun_of_its_room() -> None:
    assert not [path_in_tree(path) for path in SOURCES if path.stem in NAMES_THAT_SAY_NOTHING]


def test_a_class_name_means_one_thing_where_it_is_read() -> None:
    """Within a room a public class has its name alone, and one of `domain`, which every room reads, everywhere. Two
    rooms that do not read each other may have the same word for a thing of their own: no module imports both, so none
    is imported under another name. Classes with an underscore are known in their module only.
    """
    places: defaultdict[str, list[str]] = defaultdict(list)
    renamed: list[str] = []
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("streamsched"):
                renamed += [f"{name}:{node.lineno}: {each.name}" for each in node.names if _is_class_renamed(each)]

    for name, found in places.items():
        rooms = ["/".join(place.split("/")[:2]) for place in found]
        alone = len(set(rooms)) == len(rooms) and (len(rooms) == 1 or "streamsched/domain" not in rooms)
        assert alone, f"{name} means several things: {found}"
    assert not renamed, f"a class has one name: {renamed}"


def _is_class_renamed(imported: ast.alias) -> bool:
    return imported.asname is not None and imported.name[0].isupper() and not imported.name.isupper()


def test_only_the_clock_reads_the_clock() -> None:
    found = [
        f"{name}:{node.lineno} reads {node.value.id}.{node.attr}()"
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and f"{node.value.id}.{node.attr}" in {"datetime.now", "datetime.utcnow", "date.today", "time.time"}
        and name != "streamsched/ports/clock.py"
    ]
    assert not found, f"take a Clock or `now` as an argument: {found}"


def test_a_public_module_says_what_it_is_for() -> None:
    assert not [name for name, tree in trees().items() if tree.body and not ast.get_docstring(tree)]


def test_the_package_shows_exactly_what_it_lists() -> None:
    import streamsched

    visible = {
        name
        for name, value in vars(streamsched).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("streamsched")
    }

    late = set(streamsched._LAZY)  # there once they are asked for

    assert visible | late == set(streamsched.__all__) - {"__version__"}
    assert all(getattr(streamsched, name).__module__.startswith("streamsched.") for name in late)


def test_importing_the_package_costs_little() -> None:
    heavy = "pyspark", "faust", "asyncpg", "starlette", "sqlalchemy", "pandas"
    code = f"import sys, streamsched, streamsched.emit; print([m for m in {heavy!r} if m in sys.modules])"

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"


def test_every_named_query_says_its_intent() -> None:
    for path in (ROOT / "streamsched").rglob("store/**/*.sql"):
        blocks = re.split(r"^-- name: ", path.read_text(), flags=re.MULTILINE)[1:]
        assert blocks, f"{path_in_tree(path)} names no query"
        for block in blocks:
            name, _, rest = block.partition("\n")
            assert rest.lstrip().startswith("--"), f"{path_in_tree(path)}: query '{name}' has no comment of intent"


def test_what_is_logged_is_spelt_in_one_way() -> None:
    for path in SOURCES:
        if "\nlog = structlog.get_logger()" not in path.read_text():
            continue
        for node in ast.walk(trees()[path_in_tree(path)]):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("log."):
                event = str(node.args[0].value) if isinstance(node.args[0], ast.Constant) else "room.action"
                assert re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", event), f"{path_in_tree(path)}:{node.lineno} says '{event}'"
                assert "again_in" not in {fact.arg for fact in node.keywords}, (
                    f"{path_in_tree(path)}:{node.lineno}: again_in_s"
                )
