"""Completeness of keys is worked out in one place: who calls it, who reads its answer, and that nobody counts apart."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.test_modules import trees

HOME = "streamsched/domain/triggers/completeness.py"
#: One caller for each surface. What a key has, for pages, commands and the API: the explanation of a trigger.
CALLERS = {
    "streamsched/domain/fold/explain.py": "what a key has: API, pages and commands",
    "streamsched/domain/schedules/arguments.py": "the arguments of runs",
}
#: Of the explanation, who turns the value into what a surface shows.
READERS = {
    "streamsched/codec/views/explanation.py": "open keys: `schedule keys`, its route and the tree of a schedule",
    "streamsched/api/dataset_view.py": "a dataset: `dataset show`, its route and its page",
}
#: How the periods of an event were written, which is the same question about the same periods.
WRITES = {"streamsched/api/dataset_view.py": "a dataset"}
#: Who may divide periods into finer ones, or events into periods: the trigger itself, and what fills it again.
DIVIDERS = {
    HOME,
    "streamsched/domain/time/period.py",
    "streamsched/domain/triggers/correlation.py",
    "streamsched/domain/triggers/keyed_event.py",
    "streamsched/domain/backfills/items.py",
    "streamsched/domain/fold/accumulation.py",
}
_DIVIDING = {"count_of_parts", "event_slices"}


def called(tree: ast.Module) -> Iterator[str]:
    """The names of what a module calls, also under another name that it imports it as."""
    names = {
        each.asname or each.name: each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for each in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name):
                    yield names.get(name, name)
                case ast.Attribute(value=ast.Attribute(attr="template")):
                    pass  # ids of jobs have parts too
                case ast.Attribute(attr=name):
                    yield name
                case _:
                    pass


def imported(tree: ast.Module) -> set[str]:
    """The names that a module imports from where completeness is worked out; the module itself as "*"."""
    home = HOME.removesuffix(".py").replace("/", ".")
    room, _, module = home.rpartition(".")
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=name, names=names) if name == home:
                found |= {each.name for each in names}
            case ast.ImportFrom(module=name, names=names) if name == room:
                found |= {"*" for each in names if each.name == module}
            case ast.Import(names=names):
                found |= {"*" for each in names if each.name == home}
            case _:
                pass
    return found


def reads(tree: ast.Module) -> bool:
    """Whether a module reads the completeness of an explanation."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "completeness" and isinstance(node.ctx, ast.Load)
        for node in ast.walk(tree)
    )


def test_each_surface_has_one_caller() -> None:
    importers = {name: names for name, tree in trees().items() if (names := imported(tree))}
    assert {name for name, names in importers.items() if "completeness" in names} == set(CALLERS)
    assert {name for name, names in importers.items() if "key_writes" in names} == set(WRITES)
    assert not [name for name, names in importers.items() if "*" in names], "import what you call by its name"
    calls = {
        name: count
        for name, tree in trees().items()
        if name in importers and (count := sum(each == "completeness" for each in called(tree)))
    }
    assert calls == dict.fromkeys(CALLERS, 1)


def test_what_a_key_has_is_shown_from_the_explanation() -> None:
    assert {name for name, tree in trees().items() if reads(tree)} == set(READERS)


def test_the_page_of_a_dataset_and_its_route_call_the_same_function() -> None:
    callers = {name for name, tree in trees().items() if "dataset_view" in set(called(tree))}
    assert callers == {"streamsched/api/routes/datasets/dataset.py", "streamsched/web/pages/inputs/datasets.py"}


def test_nobody_else_divides_periods_or_counts_them() -> None:
    """A module that did could tell another completeness than the one that is shown elsewhere."""
    found = {
        name
        for name, tree in trees().items()
        if _DIVIDING & set(called(tree)) or ("parts" in set(called(tree)) and _knows_periods(tree))
    }
    assert found <= DIVIDERS, f"ask {HOME}: {sorted(found - DIVIDERS)}"
    assert {HOME, "streamsched/domain/triggers/correlation.py"} <= found


def test_commands_print_what_the_api_says() -> None:
    """They have neither triggers nor events to count."""
    for name, tree in trees().items():
        if name.startswith("streamsched/cli/"):
            assert not imported(tree), name
            assert not _DIVIDING & set(called(tree)), name


def _knows_periods(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.ImportFrom) and node.module == "streamsched.domain.time.period" for node in ast.walk(tree)
    )
