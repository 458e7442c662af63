"""What is downloaded once into a cache folder: jars by Maven, and others by pip. Safe for concurrent processes: what is
complete is renamed into place.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_SECONDS: Final = 600.0


class MissingError(Exception):
    """Something is not installed or cannot be downloaded; the message says why, and what to install."""


def cache_folder(environ: Mapping[str, str], variable: str, name: str) -> Path:
    """The folder that the variable names, or `name` in the user's cache folder."""
    given = environ.get(variable)
    if given:
        return Path(given)
    caches = environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "streamsched" / name


def jar_path(artifact: str, cache: Path) -> Path:
    """Where the jar of `group:name:version` is once it is downloaded."""
    _, name, version = artifact.split(":")
    return cache / f"{name}-{version}.jar"


def download_jar(artifact: str, cache: Path) -> Path:
    """The jar of `group:name:version`, downloaded by Maven if it is not in the cache.

    Raises:
        MissingError: Maven is needed but not installed, or the download failed.
    """
    jar, name = jar_path(artifact, cache), artifact.split(":")[1]
    if not jar.is_file():
        maven = shutil.which("mvn")
        if maven is None:
            raise MissingError(f"Maven is needed once, to download {name} into {cache} (Debian: apt-get install maven)")
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".resolving-") as scratch:
            goal = ("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={scratch}")
            run_download((maven, "--batch-mode", "--quiet", *goal), name)
            (Path(scratch) / jar.name).rename(jar)
    return jar


def run_download(command: Sequence[str], what: str) -> None:
    """Runs a command that downloads.

    Raises:
        MissingError: it failed; with the end of what it printed.
    """
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False, env=os.environ)
    if done.returncode != 0:
        raise MissingError(f"{what} could not be downloaded:\n{done.stdout[-2000:]}{done.stderr[-1000:]}")


def move_into_place(made: Path, folder: Path) -> None:
    """Renames a complete folder, unless another process was sooner."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
