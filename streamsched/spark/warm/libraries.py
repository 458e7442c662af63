"""Which modules of a process are of installed libraries, and whether they are still the same on disk.

A program's own modules are no libraries: each run imports them anew. Standard library only: zygotes import it.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

#: Libraries by which a program changes others before it imports those.
_PATCHING: Final = ("gevent", "eventlet")
_OWN: Final = str(Path(__file__).parents[2])
#: When a file was written (ns) and its size (bytes); None of a file that is not there.
Stamp = tuple[int, int] | None


class Surroundings:
    """What a program may change before it imports a library, as it was before the program was imported."""

    def __init__(self) -> None:
        self._began_ns = time.time_ns()
        self._environ = dict(os.environ)
        self._path = list(sys.path)

    def change(self, own: Mapping[str, Stamp]) -> str:
        """Why the libraries cannot be imported before the program; empty when they can."""
        changed = [name for name in {*self._environ, *os.environ} if self._environ.get(name) != os.environ.get(name)]
        if changed:
            return f"its code sets {min(changed)} in the environment"
        if sys.path != self._path:
            return "its code changes sys.path"
        if None in own.values() or any(stamp[0] > self._began_ns for stamp in own.values() if stamp):
            return "its code has changed meanwhile"
        patching = [name for name in _PATCHING if name in sys.modules]
        return f"its code uses {patching[0]}" if patching else ""


class Loaded(NamedTuple):
    """The modules that a program has imported.

    Attributes:
        libraries: names of those of libraries, in order of import.
        own: the stamps of the files of all others.
    """

    libraries: Sequence[str]
    own: Mapping[str, Stamp]


def loaded_libraries(program: str) -> Loaded:
    """What this process has imported; the top-level module `program` is no library."""
    roots = _roots()
    libraries: list[str] = []
    own: set[str] = set()
    for name, module in list(sys.modules.items()):
        path = _file(name, module)
        if path and path.startswith(roots) and name.partition(".")[0] != program:
            libraries.append(name)
        elif path:
            own.add(path)
    return Loaded(libraries, _stamps(own))


def foreign_module() -> str:
    """A module of this process that is of no library; empty when there is none."""
    roots = _roots()
    found = [(name, _file(name, module)) for name, module in list(sys.modules.items())]
    return next((name for name, path in found if path and not path.startswith(roots)), "")


class Versions:
    """The files of the libraries in this process, those of the program, and the names in folders that come before them
    on the import path.

    Args:
        own: stamps of the program's files.
    """

    def __init__(self, own: Mapping[str, Stamp]) -> None:
        roots = _roots()
        modules = [(name, _file(name, module)) for name, module in list(sys.modules.items())]
        paths = {path for _, path in modules if path and path.startswith(roots)}
        self._tops = frozenset(name.partition(".")[0] for name, path in modules if path in paths)
        self._files = {**_stamps({*paths, sys.executable}), **own}
        real = [os.path.realpath(each or ".") for each in sys.path]
        self._folders = _stamps(each for each in real if not f"{each}/".startswith(roots) and each not in roots)

    def change(self) -> str:
        """Which file has changed since, or hides a library now; empty when none does."""
        for path, stamp in self._files.items():
            if _stamp(path) != stamp:
                return f"{path} has changed"
        for folder, stamp in self._folders.items():
            if _stamp(folder) != stamp and (hidden := self.hidden_library(folder)):
                return f"{folder} has a module {hidden} too"
        return ""

    def hidden_library(self, folder: str) -> str:
        """A library whose name a file of the folder has too; empty when there is none."""
        with suppress(OSError):
            names = {entry.name.partition(".")[0] for entry in Path(folder).iterdir()}
            return min(names & self._tops, default="")
        return ""


def _roots() -> tuple[str, ...]:
    """The folders of libraries, with a separator at the end."""
    paths = sysconfig.get_paths()
    known = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    with suppress(AttributeError):  # of site in old virtual environments
        known += site.getsitepackages()
    return tuple({f"{os.path.realpath(each)}/" for each in known} | {f"{os.path.realpath(_OWN)}/"})


def _file(name: str, module: Any) -> str:
    """The resolved file of a module; empty without one, and of a module that goes by another name."""
    spec = getattr(module, "__spec__", None)
    origin = getattr(spec, "origin", None)
    if spec is None or spec.name != name or not spec.has_location or not isinstance(origin, str):
        return ""
    return os.path.realpath(origin)


def _stamps(paths: Iterable[str]) -> dict[str, Stamp]:
    return {path: _stamp(path) for path in paths}


def _stamp(path: str) -> Stamp:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
