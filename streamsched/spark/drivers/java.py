"""The Java of this machine that Spark uses."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streamsched.domain.errors import ConfigurationError
from streamsched.process.closed_process import plain_environ

JAVA_NEEDED: Final = 17
_VERSION: Final = re.compile(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)')


def find_java(environ: Mapping[str, str]) -> Path:
    """The `java` that spark-submit uses.

    Raises:
        ConfigurationError: it does not exist, or is too old.
    """
    home = environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin")) if home else environ.get("PATH"))
    if found is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java in PATH"
        raise ConfigurationError(f"Java {JAVA_NEEDED} or newer is needed: {where}")
    version = _java_version(Path(found))
    if version is not None and version < JAVA_NEEDED:
        raise ConfigurationError(f"Java {JAVA_NEEDED} or newer is needed: {found} is Java {version}")
    return Path(found)


def _java_version(java: Path) -> int | None:
    """From the installation's `release` file, else by running `java -version`; None when neither has it."""
    release = java.resolve().parent.parent / "release"
    if release.is_file() and (found := _VERSION.search(release.read_text(errors="replace"))):
        return int(found[1])
    try:
        printed = subprocess.run(
            [os.fspath(java), "-version"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            env=plain_environ(os.environ),
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(printed)
    return int(found[1]) if found else None
