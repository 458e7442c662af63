"""Apache Kafka's jars: resolved once by Maven, as `pom.xml` names them, and kept in a cache folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

POM: Final = Path(__file__).with_name("pom.xml")
LOGGING: Final = Path(__file__).with_name("log4j2.properties")
RESOLVE_SECONDS: Final = 600.0


class MissingError(Exception):
    """A program this needs is not on this machine; the message says which, and how to get it."""


def version() -> str:
    """The version of Kafka that `pom.xml` names."""
    found = re.search(r"<artifactId>kafka_2\.13</artifactId>\s*<version>([^<]+)<", POM.read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where the jars are kept: `STREAMSCHED_KAFKA_CACHE`, or the user's cache folder."""
    given = environ.get("STREAMSCHED_KAFKA_CACHE")
    if given:
        return Path(given)
    caches = environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "streamsched" / f"kafka-{version()}"


def java() -> str:
    """The Java that runs Kafka: `JAVA_HOME`'s, or the one on the PATH.

    Raises:
        MissingError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found is None:
        raise MissingError("Kafka needs Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless)")
    return found


def jars(folder: Path) -> Path:
    """The folder of Kafka's jars, filled when it is not there yet (45 jars, 43 MB from Maven Central). Several
    processes may ask at once: what is there is always whole.

    Raises:
        MissingError: the jars are not there and Maven is not either, or Maven cannot get them.
    """
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingError(
            f"Maven is needed once, to get Kafka's jars into {folder} (Debian: apt-get install maven); "
            "or use the Kafka of compose/compose.yaml, or any other, by its URL"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".resolving-") as scratch:
        got = Path(scratch) / "jars"
        asked = subprocess.run(
            (
                *(maven, "--batch-mode", "--quiet", "--file", str(POM)),
                *("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={got}"),
            ),
            capture_output=True,
            text=True,
            timeout=RESOLVE_SECONDS,
            check=False,
        )
        if asked.returncode != 0 or not got.is_dir():
            raise MissingError(f"Maven could not get Kafka's jars:\n{asked.stdout[-2000:]}{asked.stderr[-1000:]}")
        try:
            got.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was quicker
                raise
    return folder
