"""Java classes that tests compile."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

from tests.support.services import need_program


def need_compiler() -> str:
    """The path of `javac`."""
    return need_program("javac", "openjdk-17-jdk-headless")


def compile_class(source: Path, jars: Path, folder: Path) -> None:
    """Compiles a source against the jars of a folder, into another one. Of annotations nothing is made: to look for
    what would make it takes as long as the rest.
    """
    quick = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-proc:none")
    command = (need_compiler(), *quick, "--release", "17", "-cp", f"{jars}/*", "-d", str(folder), str(source))
    subprocess.run(command, check=True)


def jars_of_spark() -> Path:
    """The folder of PySpark's own."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "jars"
