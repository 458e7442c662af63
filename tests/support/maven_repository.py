"""A Maven repository of one small library, in a folder: what a program's `packages` name, without the internet."""

from __future__ import annotations

import subprocess
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tests.support.services import need_program

#: The library, as `packages` name it; it has the function `tiny.Word`.
TINY: Final = "org.test:tiny:1.0"
_SOURCE: Final = """
package tiny;

public class Word implements org.apache.spark.sql.api.java.UDF1<Long, String> {
    public String call(Long number) { return "word " + number; }
}
"""
_POM: Final = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>org.test</groupId><artifactId>tiny</artifactId><version>1.0</version><packaging>jar</packaging>
</project>
"""


def maven_repository(folder: Path) -> dict[str, str]:
    """Makes it; returns the settings with which Spark looks into it, and keeps what it finds in the folder too."""
    compiler = need_program("javac", "openjdk-17-jdk-headless")
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    jars = Path(spec.origin).parent / "jars"
    (source := folder / "source" / "tiny").mkdir(parents=True)
    (source / "Word.java").write_text(_SOURCE)
    subprocess.run((compiler, "--release", "17", "-cp", f"{jars}/*", str(source / "Word.java")), check=True)
    (place := folder / "repository" / "org" / "test" / "tiny" / "1.0").mkdir(parents=True)
    (place / "tiny-1.0.pom").write_text(_POM)
    with zipfile.ZipFile(place / "tiny-1.0.jar", "w") as jar:
        jar.write(source / "Word.class", "tiny/Word.class")
    ivy = folder / "ivy"
    return {"spark.jars.repositories": (folder / "repository").as_uri(), "spark.jars.ivy": str(ivy)}
