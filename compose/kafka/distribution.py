"""Apache Kafka's jars: the artifacts of `pom.xml`, downloaded once by Maven into a cache folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from compose import downloads
from compose.downloads import MissingError, move_into_place

POM: Final = Path(__file__).with_name("pom.xml")
LOGGING: Final = Path(__file__).with_name("log4j2.properties")
RESOLVE_SECONDS: Final = 600.0


def version() -> str:
    """The version of Kafka that `pom.xml` names."""
    found = re.search(r"<artifactId>kafka_2\.13</artifactId>\s*<version>([^<]+)<", POM.read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def cache_folder(environ: Mapping[str, str]) -> Path:
    """The folder of the jars: `STREAMSCHED_KAFKA_CACHE`, or in the user's cache folder."""
    return downloads.cache_folder(environ, "STREAMSCHED_KAFKA_CACHE", f"kafka-{version()}")


def java() -> str:
    """The Java that runs Kafka: of `JAVA_HOME`, else in PATH.

    Raises:
        MissingError: Java is not installed.
    """
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found is None:
        raise MissingError("Kafka needs Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless)")
    return found


def jars(folder: Path) -> Path:
    """The folder of Kafka's jars; downloads them if it does not exist (45 jars, 43 MB from Maven Central). Safe for
    concurrent processes.

    Raises:
        MissingError: Maven is needed but not installed, or the download failed.
    """
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingError(
            f"Maven is needed once, to download Kafka's jars into {folder} (Debian: apt-get install maven); "
            "or use the Kafka of compose/kafka.yaml, or any other, by its URL"
        )
    sys.stderr.write(f"downloading Kafka's jars from Maven Central into {folder}: 45 files, 43 MB, once …\n")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".resolving-") as scratch:
        downloaded = Path(scratch) / "jars"
        done = subprocess.run(
            (
                *(maven, "--batch-mode", "--quiet", "--file", str(POM)),
                *("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={downloaded}"),
            ),
            capture_output=True,
            text=True,
            timeout=RESOLVE_SECONDS,
            check=False,
        )
        if done.returncode != 0 or not downloaded.is_dir():
            raise MissingError(f"Maven could not download Kafka's jars:\n{done.stdout[-2000:]}{done.stderr[-1000:]}")
        move_into_place(downloaded, folder)
    return folder
