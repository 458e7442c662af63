"""Each dialect is a folder that can be deleted: the rest is whole without it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest

from streamsched.api.routing.routes import Route
from streamsched.cli.shell.command_table import commands
from streamsched.parts import Part, parts
from tests.architecture.openapi_difference import differences
from tests.architecture.test_modules import ROOT
from tests.support.described_answers import api_document
from tests.support.dev_process import DevProcess

NAMES = [each.name for each in parts()]
#: What runs in the copy of the tree, and what it reads there.
_LINKED = ("brokers", "migrations", "docs", "compose", "pyproject.toml")
_OPENAPI = "tests/unit/api/test_openapi.py"
_CONTRACTS = (
    "tests/contracts/test_memory_broker.py",
    f"{_OPENAPI}::test_the_document_is_openapi_3_1_with_valid_schemas",
    f"{_OPENAPI}::test_the_example_of_a_body_is_read_by_its_codec",
)


def test_every_dialect_is_found_and_has_what_it_says() -> None:
    folders = [path.name for path in (ROOT / "streamsched" / "dialects").iterdir() if (path / "__init__.py").is_file()]

    assert sorted(NAMES) == sorted(folders)
    for part in parts():
        for place in places(part):
            assert part.load(place) is not None
        for page in part.pages:
            assert (ROOT / "docs" / page).is_file(), page


def places(part: Part) -> Iterator[str]:
    """The places that a part names."""
    plain = "name", "rank", "pages", "commands", "imports", "clients"
    yield from filter(None, (getattr(part, each.name) for each in fields(part) if each.name not in plain))
    yield from (each.place for each in part.commands.values())
    yield from (*part.imports, *part.clients.values())


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_dialect_can_be_deleted(name: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    _copy_without(name, tree)
    environ = {**os.environ, "PYTHONPATH": f"{tree}:{tree / 'brokers'}"}

    # nothing mentions it, every module is imported, and contracts hold
    assert not _mentions(tree, f"streamsched.dialects.{name}")
    left = json.loads(_run(tree, environ, sys.executable, "-m", "tests.architecture.parts_left", *_CONTRACTS))

    # API and commands are as before, but for those of the dialect
    (part,) = (each for each in parts() if each.name == name)
    assert not list(differences(_api_without(part), left["api"]))
    assert left["commands"] == [each for each in commands() if each not in part.commands]
    imports = [place.partition(":")[2] for each in parts() if each is not part for place in each.imports]
    assert left["imports"] == [*imports, "preferences", "runs"]

    # it starts and answers
    dev = DevProcess(tmp_path)
    try:
        dev.start(PYTHONPATH=environ["PYTHONPATH"])
        url = json.loads((dev.state / "dev.json").read_text())["url"]
        served = httpx.get(f"{url}/v1/openapi.json", headers=dev.authorization)
    finally:
        dev.close()
    assert served.json() == left["api"]


def _copy_without(name: str, tree: Path) -> None:
    def ignored(folder: str, _: list[str]) -> set[str]:
        return {name} if folder == str(ROOT / "streamsched" / "dialects") else set()

    for each in ("streamsched", "tests"):
        shutil.copytree(ROOT / each, tree / each, ignore=ignored)
    for each in _LINKED:
        (tree / each).symlink_to(ROOT / each)


def _run(tree: Path, environ: Mapping[str, str], *command: str) -> str:
    done = subprocess.run(command, cwd=tree, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def _api_without(part: Part) -> Mapping[str, Any]:
    """The whole document without what a part has added."""
    document = json.loads(json.dumps(api_document()))
    routes: list[Route] = list(part.load(part.routes)) if part.routes else []
    for route in routes:
        del document["paths"][route.pattern][route.method.lower()]
        for shape in route.shapes:
            document["components"]["schemas"].pop(shape.name, None)
    if part.events:
        known = document["components"]["schemas"]["AnyEvents"]["anyOf"]
        known.remove({"type": "object", "description": f"A {part.load(part.events).name}."})
    document["paths"] = {path: methods for path, methods in document["paths"].items() if methods}
    return document


def _mentions(tree: Path, package: str) -> list[str]:
    files = (tree / "streamsched").rglob("*.py")
    return [str(path.relative_to(tree)) for path in files if package in path.read_text()]
