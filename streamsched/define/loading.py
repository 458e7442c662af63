"""Finds the app a user means: in a Python file or module, or in a YAML or JSON file.

pipeline.py    pipeline.py:app    package.pipelines    package.pipelines:app    pipeline.yaml    pipeline.json
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from streamsched.codec.schedule import app_from_json
from streamsched.define.app import App, located
from streamsched.define.yaml import YamlError, read_yaml
from streamsched.domain.app import AppDefinition
from streamsched.domain.errors import (
    DecodeError,
    InvalidDefinitionError,
    InvalidError,
    NotFoundError,
    StreamschedError,
)

_DATA: Final = frozenset({".yaml", ".yml", ".json"})


def load_app(target: str) -> AppDefinition:
    """The definition that `target` names; relative main files count from the folder of the file that names them.

    Python is executed, with its folder (or, for a module, the current one) first on the import path meanwhile.

    Raises:
        NotFoundError: no such file or module.
        InvalidError: nothing there is an app, several are, or the definition is wrong; the path names the file.
    """
    if Path(target).suffix.lower() in _DATA:
        return _from_data(Path(target))
    place, _, attribute = target.partition(":")
    if place.endswith(".py") or "/" in place:
        path = Path(place)
        if not path.is_file():
            raise NotFoundError("file", place)
        module = _from_file(path)
    else:
        module, path = _from_import(place)
    with _named(place):
        return _chosen(module, attribute, place).definition(path.resolve().parent)


def read_data(path: Path) -> Any:
    """The JSON value of a JSON or YAML file; `-` is standard input.

    Raises:
        NotFoundError: no such file.
        DecodeError: it is neither.
    """
    if str(path) == "-":
        return _yaml_value(sys.stdin.buffer.read())
    if not path.is_file():
        raise NotFoundError("file", str(path))
    with _named(str(path)):
        return _json(path) if path.suffix.lower() == ".json" else _yaml(path)


def _from_data(path: Path) -> AppDefinition:
    if not path.is_file():
        raise NotFoundError("file", str(path))
    obj = read_data(path)
    with _named(str(path)):
        app = app_from_json(obj)
    programs = tuple(located(program, path.resolve().parent) for program in app.programs)
    return replace(app, programs=programs)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as exc:
        raise DecodeError("$", f"is no JSON: {exc}") from exc


def _yaml(path: Path) -> Any:
    return _yaml_value(path.read_bytes())


def _yaml_value(raw: bytes) -> Any:
    try:
        return read_yaml(raw)
    except YamlError as exc:
        raise DecodeError("$", f"is no YAML: {exc}") from exc


def _from_file(path: Path) -> ModuleType:
    name = f"streamsched_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidDefinitionError(str(path), "is no Python file")
    module = importlib.util.module_from_spec(spec)
    # Classes of the file look for their module while it is executed (dataclasses do).
    sys.modules[name] = module
    with _first_on_path(path.resolve().parent), _executing(str(path)):
        spec.loader.exec_module(module)
    return module


def _from_import(name: str) -> tuple[ModuleType, Path]:
    with _first_on_path(Path.cwd()), _executing(name):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as exc:
            if exc.name is not None and (name == exc.name or name.startswith(f"{exc.name}.")):
                raise NotFoundError("module", name) from exc
            raise
    return module, Path(module.__file__) if module.__file__ else Path.cwd() / "nowhere.py"


def _chosen(module: ModuleType, attribute: str, place: str) -> App:
    if attribute:
        found = getattr(module, attribute, None)
        if not isinstance(found, App):
            what = "is not there" if found is None else f"is a {type(found).__name__}, not an App"
            raise InvalidDefinitionError("$", f"'{attribute}' {what}")
        return found
    apps = {name: value for name, value in vars(module).items() if isinstance(value, App)}
    if not apps:
        raise InvalidDefinitionError("$", "defines no App at its top level, as in: app = App('flights')")
    if len({id(app) for app in apps.values()}) > 1:
        choices = ", ".join(f"{place}:{name}" for name in apps)
        raise InvalidDefinitionError("$", f"defines several Apps, choose one: {choices}")
    return next(iter(apps.values()))


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)


@contextmanager
def _executing(place: str) -> Iterator[None]:
    """Whatever the user's code raises becomes one error that names the line."""
    try:
        yield
    except InvalidError as exc:
        raise _renamed(exc, f"{place}{_line(exc, place)}") from exc
    except StreamschedError:
        raise
    except SyntaxError as exc:
        raise InvalidDefinitionError(f"{exc.filename or place}:{exc.lineno}", f"is no Python: {exc.msg}") from exc
    except Exception as exc:
        reason = f"failed when it was executed: {type(exc).__name__}: {exc}"
        raise InvalidDefinitionError(f"{place}{_line(exc, place)}", reason) from exc


def _line(exc: BaseException, place: str) -> str:
    """`:7` for the deepest line of the user's own file in the traceback."""
    frames = traceback.extract_tb(exc.__traceback__)
    wanted = Path(place).stem if place.endswith(".py") else place.rpartition(".")[2]
    lines = [frame.lineno for frame in frames if Path(frame.filename).stem == wanted]
    return f":{lines[-1]}" if lines else ""


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Errors name the file before the path inside it."""
    try:
        yield
    except InvalidError as exc:
        raise _renamed(exc, place) from exc


def _renamed(exc: InvalidError, place: str) -> InvalidError:
    return type(exc)(place if exc.path == "$" else f"{place} {exc.path}", exc.reason)
