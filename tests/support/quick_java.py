"""Java for the JVMs that tests start. They live for seconds, so they compile quickly rather than well, and those of
Spark and Kafka take their classes from archives, when `python -m tests.support.quick_java` has made them.

A Spark program of two small jobs takes 25 s of a core with plain Java, 13 s with the options, and 7 s with the archive,
which takes 40 s of a core to make; a Kafka 4 s with the options, and 2 s with the archive, which takes 10 s.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from compose.kafka.distribution import cache_folder

#: Where it is, as `JAVA_HOME` has it.
HOME: Final = Path(__file__).parents[2] / ".cache" / "quick-java"
_OPTIONS: Final = (
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    # a JVM that has other classes than the archive says so on its output, and does without
    *("-Xlog:cds=off", "-Xlog:cds+dynamic=off"),
    # an archive is mapped where it was made for: to move it takes a second, and memory of each JVM's own
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0"),
)
_SCRIPT: Final = """\
#!/bin/sh
archive=
case "$*" in
{cases}esac
[ -f "$archive" ] && exec {java} {options} -XX:SharedArchiveFile="$archive" "$@"
exec {java} {options} "$@"
"""
_CASE: Final = "  *{jars}/*) archive={archive} ;;\n"


@dataclass(frozen=True, slots=True)
class _Archive:
    """The classes that `module`, run as a program, makes a JVM load from the jars of a folder."""

    java: Path
    jars: Path
    module: str

    @property
    def path(self) -> Path:
        """Another one when what it is made of changes: a JVM takes none of another Java, or of other jars."""
        made_of = [self.java.resolve(), self.jars, Path(__file__).with_name(f"{self.module}.py")]
        known = repr([(each, each.stat().st_mtime_ns) for each in made_of])
        return HOME / f"{self.module}-{sha256(known.encode()).hexdigest()[:16]}.jsa"

    def make(self) -> None:
        """Makes it, unless it is there."""
        path = self.path
        if path.exists():
            return
        with tempfile.TemporaryDirectory(dir=_folder()) as folder:
            made = Path(folder) / "classes.jsa"
            environ = os.environ | {
                "JAVA_TOOL_OPTIONS": " ".join((*_OPTIONS, f"-XX:ArchiveClassesAtExit={made}")),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
            }
            module = (sys.executable, "-m", f"{__package__}.{self.module}", folder)
            done = subprocess.run(module, env=environ, capture_output=True, text=True, check=False)
            if done.returncode == 0 and made.exists():
                for former in HOME.glob(f"{self.module}-*"):
                    former.unlink()
                made.rename(path)
            else:
                sys.stderr.write(f"without an archive of its classes Java is slower:\n{done.stderr[-2000:]}\n")


def use_quick_java() -> None:
    """Makes it the Java of this process and of all that it starts. Without Java nothing changes."""
    java = _java()
    if java is None or java.parents[1].name == HOME.name:  # maybe that of another copy of the tree
        return
    cases = [
        _CASE.format(jars=shlex.quote(str(each.jars)), archive=shlex.quote(str(each.path))) for each in _archives()
    ]
    script = _SCRIPT.format(cases="".join(cases), java=shlex.quote(str(java)), options=" ".join(_OPTIONS))
    with tempfile.TemporaryDirectory(dir=_folder()) as folder:
        made = Path(folder) / "java"
        made.write_text(script)
        made.chmod(0o755)
        made.rename(_folder("bin") / "java")
    os.environ["JAVA_HOME"] = str(HOME)
    os.environ["PATH"] = f"{HOME / 'bin'}{os.pathsep}{os.environ['PATH']}"


def _archives() -> list[_Archive]:
    """Those of what is installed."""
    java, spark = _java(), find_spec("pyspark")
    if java is None:
        return []
    found = [_Archive(java, cache_folder(os.environ), "kafka_training")]
    if spark is not None and spark.origin is not None:
        found.append(_Archive(java, Path(spark.origin).parent / "jars", "spark_training"))
    return [each for each in found if each.jars.is_dir()]


def _java() -> Path | None:
    """The program of `JAVA_HOME`, or the one in PATH."""
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java")
    return Path(found) if found and Path(found).exists() else None


def _folder(name: str = "") -> Path:
    """A folder of this Java, which exists."""
    (HOME / name).mkdir(parents=True, exist_ok=True)
    return HOME / name


if __name__ == "__main__":
    for archive in _archives():
        archive.make()
