"""The revisions of the schema that this release has, read from the files of its migrations: without Alembic, whose
import takes as long as a third of all others of a server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from streamsched.domain.errors import ConfigurationError

#: Whether a database was made before release 0.1.0, whose revisions had numbers that are given again.
BEFORE_FIRST_RELEASE: Final = """
SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('jobs') AND attname = 'told')
    OR to_regclass('schedules') IS NOT NULL
    AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('schedules') AND attname = 'affinity')
"""
_NAMED: Final = re.compile(r'^(revision|down_revision)(?:: [^=]+)? = "([^"]+)"$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Revisions:
    """Attributes:
    known: all of this release.
    newest: those that no other follows.
    """

    known: frozenset[str]
    newest: tuple[str, ...]


def revisions() -> Revisions:
    """The revisions of the schema that are installed with this release.

    Raises:
        ConfigurationError: the migrations are not installed.
    """
    return revisions_in(migrations_folder())


def revisions_in(folder: Path) -> Revisions:
    """Those of a folder of migrations."""
    known, followed = set[str](), set[str]()
    for file in sorted((folder / "versions").glob("*.py")):
        named = dict(_NAMED.findall(file.read_text(encoding="utf-8")))
        known.add(named["revision"])
        followed.add(named.get("down_revision", ""))
    return Revisions(frozenset(known), tuple(sorted(known - followed)))


def refusal_of_before(stored: str) -> ConfigurationError:
    """The error for a database that was made before release 0.1.0. `stored`: its revision."""
    return ConfigurationError(
        f"the database is older than release 0.1.0 (schema {stored}) and is left as it is: save its definitions with "
        "the code that made it (`streamsched schedule show -o yaml`), and start on an empty database; `dev`: in a new "
        "folder"
    )


def migrations_folder() -> Path:
    """The folder of the migrations: inside the installed package, or at the root of the source tree.

    Raises:
        ConfigurationError: it is in neither place.
    """
    package = Path(str(files("streamsched")))
    for folder in (package / "migrations", package.parent / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise ConfigurationError(f"no migrations in {package} or beside it: streamsched is not installed completely")
