"""Files of apps that a command is given: single targets, and the definitions in folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streamsched.domain.errors import InvalidDefinitionError, NotFoundError

if TYPE_CHECKING:
    from streamsched.domain.schedules.app import AppDefinition

_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})

Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET",
        help="YAML, JSON or Python files, FILE.py:ATTRIBUTE, MODULE[:ATTRIBUTE], or folders: all YAML and JSON files "
        "directly in them.",
    ),
]


def files_of(targets: Sequence[str]) -> list[str]:
    """The targets in the order given, each once; a folder as its YAML and JSON files in the order of their names.

    Raises:
        NotFoundError: a folder has no such file.
    """
    return list(dict.fromkeys(file for target in targets for file in _files(target)))


def load_apps(files: Sequence[str], namespace: str) -> Iterator[tuple[str, AppDefinition]]:
    """Each file with its app. `namespace`: as of `load_app`.

    Raises:
        InvalidDefinitionError: two files define the same app.
        InvalidError, NotFoundError: as `load_app`.
    """
    from streamsched.define.loading import load_app

    seen: dict[object, str] = {}
    for file in files:
        app = load_app(file, namespace=namespace)
        if app.ref in seen:
            raise InvalidDefinitionError(file, f"defines app '{app.ref}', and so does {seen[app.ref]}")
        seen[app.ref] = file
        yield file, app


def _files(target: str) -> Iterator[str]:
    folder = Path(target)
    if not folder.is_dir():
        yield target
        return
    found = sorted(str(each) for each in folder.iterdir() if each.suffix.lower() in _SUFFIXES and each.is_file())
    if not found:
        raise NotFoundError("YAML or JSON file in folder", target)
    yield from found
