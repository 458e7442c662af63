"""Where the tasks of a `tasks.json` are: a file, a folder of files, an HTTP server, or what an entry point reads.

An entry point of group `streamsched.task_sources` has the scheme of an address as its name, such as `redis` for
`redis://host/tasks`. It is a `TaskSource`.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Mapping
from hashlib import sha256
from http.client import HTTPException
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlsplit

from streamsched.define.loading import read_data
from streamsched.domain.errors import DecodeError, InvalidError, UnavailableError
from streamsched.domain.json_value import member_path

GROUP: Final = "streamsched.task_sources"
#: Seconds that an answer may take, and its most bytes.
_WITHIN_S: Final = 30
_MOST_BYTES: Final = 64 * 1024 * 1024
_SUFFIXES: Final = frozenset({".json", ".yaml", ".yml"})

#: Reads the tasks at an address: the value of a `tasks.json`. Raises a `StreamschedError`; may block.
TaskSource = Callable[[str], Any]


def find_source(address: str) -> TaskSource:
    """What reads an address: a path, `-` for standard input, or a URL.

    Raises:
        InvalidError: nothing that is installed reads its scheme.
    """
    scheme, separator, _ = address.partition("://")
    if not separator:
        return from_folder if Path(address).is_dir() else from_file
    if scheme in ("http", "https"):
        return from_http
    known = {point.name: point for point in entry_points(group=GROUP)}
    if scheme not in known:
        names = ", ".join(sorted({"http", "https", *known}))
        raise InvalidError("SOURCE", f"no '{scheme}' of group {GROUP} is installed here (known: {names})")
    try:
        return known[scheme].load()
    except Exception as exc:  # third-party code
        raise InvalidError("SOURCE", f"'{scheme}' cannot be loaded: {type(exc).__name__}: {exc}") from exc


def from_file(address: str) -> Any:
    """The value of a JSON or YAML file, or of standard input.

    Raises:
        NotFoundError: the file does not exist.
        DecodeError: it is neither JSON nor YAML.
    """
    return read_data(Path(address))


def from_folder(address: str) -> Mapping[str, Any]:
    """The tasks of all JSON and YAML files of a folder, by the names of the files. Files whose name begins with a dot,
    and folders in it, are not read.

    Raises:
        InvalidError: there is no such file, or two have a task of one name.
        DecodeError: one is no object of tasks.
    """
    files = sorted(
        each
        for each in Path(address).iterdir()
        if each.suffix.lower() in _SUFFIXES and not each.name.startswith(".") and each.is_file()
    )
    if not files:
        raise InvalidError("SOURCE", f"{address} has no file that ends in {', '.join(sorted(_SUFFIXES))}")
    found: dict[str, Any] = {}
    owner: dict[str, Path] = {}
    for each in files:
        value = read_data(each)
        if not isinstance(value, Mapping):
            raise DecodeError(str(each), "must be an object of tasks by name")
        for name, task in value.items():
            if name in found:
                raise InvalidError(f"{each} {member_path('$', str(name))}", f"is defined in {owner[name]}, too")
            found[name], owner[name] = task, each
    return found


def from_http(address: str) -> Any:
    """The JSON that a server answers to a GET.

    Raises:
        UnavailableError: it does not answer, or with another status than 200.
        DecodeError: it is not JSON, or too large.
    """
    if not urlsplit(address).hostname:
        raise InvalidError("SOURCE", f"{address} names no server")
    try:
        with urllib.request.urlopen(address, timeout=_WITHIN_S) as answer:
            raw = answer.read(_MOST_BYTES + 1)
    except (URLError, OSError, ValueError, HTTPException) as exc:
        raise UnavailableError(f"{address} cannot be read: {exc}") from exc
    if len(raw) > _MOST_BYTES:
        raise DecodeError(address, f"must have at most {_MOST_BYTES} bytes")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as exc:
        raise DecodeError(address, f"is not valid JSON: {exc}") from exc


class WatchedTasks:
    """Tasks that are deployed whenever their source has others than before."""

    def __init__(self, read: Callable[[], Any], deploy: Callable[[Any], None]) -> None:
        self._read = read
        self._deploy = deploy
        self._deployed = b""

    def step(self) -> bool:
        """Reads the source; whether it was deployed. What failed is tried again by the next call.

        Raises:
            StreamschedError: it cannot be read or deployed; what was deployed before stays.
        """
        value = self._read()
        digest = sha256(json.dumps(value, ensure_ascii=True, default=str).encode()).digest()
        if digest == self._deployed:
            return False
        self._deploy(value)
        self._deployed = digest
        return True
