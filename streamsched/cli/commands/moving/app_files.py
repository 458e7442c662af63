"""Files of apps that an import writes, each with the table of the import as comments."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamsched.domain.errors import InvalidError

if TYPE_CHECKING:
    from streamsched.codec.moving.draft import Imported

_SUFFIXES: Final = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Writing:
    """Where and how apps are written.

    Attributes:
        to: a file, or a folder; empty: the current one.
        force: replace files that exist.
        strict: write nothing when something was refused.
        dry_run: write nothing.
    """

    to: str = ""
    force: bool = False
    strict: bool = False
    dry_run: bool = False


def write_apps(apps: Sequence[Mapping[str, Any]], found: Imported, writing: Writing, *, source: str) -> list[Path]:
    """Writes each app, all or, where one of the files exists already, none; returns the files. `source`: the name of
    what was imported.

    Raises:
        InvalidError: a file exists and `force` is not given, several apps are to be one file, or a file or folder
            cannot be written.
    """
    paths = _paths(_names(apps), writing.to)
    for path in paths:
        if not writing.force and os.path.lexists(path):
            raise InvalidError("--to", f"{path} exists; `--force` replaces it")
    for app, path in zip(apps, paths, strict=True):
        text = _text(app, found, source)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w" if writing.force else "x", encoding="utf-8") as opened:
                opened.write(text)
        except (OSError, ValueError) as exc:
            reason = getattr(exc, "strerror", None) or str(exc)
            raise InvalidError("--to", f"{path} cannot be written: {reason}") from exc
    return paths


def _names(apps: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of apps; with the namespace where several namespaces have an app of the name."""
    count = Counter(app["application"] for app in apps)
    return [
        app["application"] if count[app["application"]] == 1 else f"{app['namespace']}.{app['application']}"
        for app in apps
    ]


def _paths(names: Sequence[str], to: str) -> list[Path]:
    """The file of each app. A path that ends in `/`, exists as a folder, or does not end in .yaml is a folder."""
    target = Path(to)
    try:
        if target.suffix == ".json":
            raise InvalidError("--to", f"{to[:100]} ends in .json; files are written as YAML, with comments")
        folder = not to or to.endswith(("/", os.sep)) or target.is_dir() or target.suffix not in _SUFFIXES
        if folder and to and target.exists() and not target.is_dir():
            raise InvalidError("--to", f"{to} is a file; a folder, or a file that ends in .yaml, is needed")
    except (OSError, ValueError) as exc:
        raise InvalidError("--to", f"{to[:100]} cannot be read: {getattr(exc, 'strerror', None) or exc}") from exc
    if not folder and len(names) > 1:
        raise InvalidError("--to", f"{to} is one file, and there are {len(names)} apps; name a folder")
    return [target / f"{name}.yaml" if folder else target for name in names]


def _text(app: Mapping[str, Any], found: Imported, source: str) -> str:
    import yaml

    from streamsched.codec.moving.table import as_comments, table_of

    title = [f"Imported from {source!r:.200}. What became of each part of it:"]
    comments = as_comments([*title, *table_of(found.of_app(app["application"]), width=78)])
    text = yaml.dump(app, Dumper=_readable_dumper(), allow_unicode=True, sort_keys=False, width=100)
    return f"{comments}\n{text}"


def _readable_dumper() -> Any:
    """A safe dumper that writes texts of several lines as blocks."""
    import yaml

    class ReadableDumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            """Equal triggers are written out, not as references to each other."""
            return True

    def represent(dumper: Any, text: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

    ReadableDumper.add_representer(str, represent)
    return ReadableDumper
