"""Jars of Spark that a test needs: from Maven's cache, downloaded once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.services import need


def need_jar(group: str, artifact: str, version: str) -> Path:
    """The jar of an artifact, without those it depends on."""
    folder = Path.home() / ".m2" / "repository" / Path(*group.split(".")) / artifact / version
    jar = folder / f"{artifact}-{version}.jar"
    maven = shutil.which("mvn")
    if not jar.is_file() and maven is not None:
        subprocess.run(
            (
                *(maven, "--batch-mode", "--quiet", "dependency:get"),
                *("-Dtransitive=false", f"-Dartifact={group}:{artifact}:{version}"),
            ),
            capture_output=True,
            timeout=600,
            check=False,
        )
    need(f"{artifact} {version}", jar.is_file(), "apt-get install maven")
    return jar
