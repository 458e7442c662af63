"""The Java that `spark-submit` would use on this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamsched.process.closed_process import plain_environ

#: The oldest major version that Spark 4 runs on.
OLDEST: Final = 17
_TIMEOUT_S: Final = 20
_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation.

    Attributes:
        path: of its executable.
        major: version 8, 11, 17 …; None when it does not start or prints no version.
    """

    path: str
    major: int | None


def find_java(environ: Mapping[str, str]) -> Java | None:
    """Java of JAVA_HOME if that is set, else the first in PATH; None when there is none. Runs `java -version`."""
    home = environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environ.get("PATH"))
    if path is None or not Path(path).is_file():
        return None
    try:
        printed = subprocess.run(
            (path, "-version"),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            env=plain_environ(environ),
        )
    except (OSError, subprocess.TimeoutExpired):
        return Java(path, None)
    return Java(path, major_version(printed.stderr + printed.stdout))


def major_version(text: str) -> int | None:
    """The major version in the output of `java -version`, which writes version 8 as `1.8`."""
    found = _VERSION.search(text)
    if found is None:
        return None
    first = int(found[1])
    return int(found[2]) if first == 1 and found[2] else first
