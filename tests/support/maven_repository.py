"""A Maven repository of one small library, in a folder: what a program's `packages` name, without the internet."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final

from tests.support.java_classes import compile_class, jars_of_spark

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
    (source := folder / "source").mkdir(parents=True)
    (source / "Word.java").write_text(_SOURCE)
    compile_class(source / "Word.java", jars_of_spark(), source)
    (place := folder / "repository" / "org" / "test" / "tiny" / "1.0").mkdir(parents=True)
    (place / "tiny-1.0.pom").write_text(_POM)
    with zipfile.ZipFile(place / "tiny-1.0.jar", "w") as jar:
        jar.write(source / "tiny" / "Word.class", "tiny/Word.class")
    ivy = folder / "ivy"
    return {"spark.jars.repositories": (folder / "repository").as_uri(), "spark.jars.ivy": str(ivy)}
