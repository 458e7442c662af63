"""Names of classes and sizes of folders."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "streamsched").rglob("*.py"), *(ROOT / "brokers").rglob("*.py")])
FOLDERS = sorted({path.parent for path in SOURCES})
MOST_MODULES = 16


def test_a_class_name_means_one_thing() -> None:
    """Classes whose name begins with an underscore are known in their module only and may repeat."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")

    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_folder_has_at_most_16_modules_of_its_own(folder: Path) -> None:
    modules = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")

    assert len(modules) <= MOST_MODULES, f"{len(modules)}: {', '.join(modules)}"
