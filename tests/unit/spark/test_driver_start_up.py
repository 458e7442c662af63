"""What Python imports when it starts as a driver: it ends with its JVM; its children and other Pythons do not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from streamsched.spark.backends.standalone import creation

from .test_needs_in_clusters import STANDALONE, files, site, submitted

__all__ = ["files", "site"]

#: The signal that this process gets when its parent ends (PR_GET_PDEATHSIG), then that of a child.
ASKED = """
import ctypes, subprocess, sys
number = ctypes.c_int()
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(2, ctypes.byref(number), 0, 0, 0)
import sitecustomize
print(number.value, getattr(sitecustomize, "WHOSE", "ours"), flush=True)
if sys.argv[1:]:
    subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
"""


def said(environ: dict[str, str]) -> list[str]:
    found = subprocess.run(
        [sys.executable, "-c", ASKED, ASKED], env=environ, capture_output=True, check=True, text=True
    )
    assert not found.stderr
    return found.stdout.splitlines()


@pytest.fixture
def environ(site: object, files: object, tmp_path: Path) -> dict[str, str]:
    """Of a driver whose machine has a `sitecustomize` of its own."""
    (tmp_path / "sitecustomize.py").write_text("WHOSE = 'the machine'\n")
    made = creation(submitted(STANDALONE, site, files))["environmentVariables"]  # type: ignore[arg-type]
    return {**made, "PATH": os.environ["PATH"], "PYTHONPATH": f"{made['PYTHONPATH']}:{tmp_path}"}


def test_only_the_drivers_own_python_ends_with_its_jvm(environ: dict[str, str]) -> None:
    machine = "0 the machine"

    signal_of_driver = signal.SIGKILL if sys.platform == "linux" else 0
    assert said({**environ, "PYSPARK_GATEWAY_PORT": "1"}) == [f"{signal_of_driver:d} the machine", machine]
    assert said(environ) == [machine, machine]  # such as a Python that the JVM starts for a data source


def test_a_folder_that_is_not_there_does_no_harm(environ: dict[str, str]) -> None:
    elsewhere = {**environ, "PYSPARK_GATEWAY_PORT": "1", "PYTHONPATH": "/not/there"}
    found = subprocess.run(
        [sys.executable, "-c", "print(1)"], env=elsewhere, capture_output=True, check=True, text=True
    )
    assert (found.stdout, found.stderr) == ("1\n", "")


def test_the_path_of_the_program_comes_after_ours(environ: dict[str, str]) -> None:
    first, *_ = environ["PYTHONPATH"].split(":")
    assert (Path(first) / "sitecustomize.py").is_file()
