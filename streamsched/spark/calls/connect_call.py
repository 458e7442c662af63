"""The kind of task that runs a Python file on a Spark Connect server: `connect_call FILE [ARGUMENT…]`.

`STREAMSCHED_CONNECT` has the session: {"remote", "token", "run", "conf", "importable", "files"}. The session exists
before the file runs, so that `SparkSession.builder.getOrCreate()` gives it.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from streamsched.spark.calls.call import CallError

#: What a zygote imports first.
LIBRARIES: Final = ("pyspark.sql", "pyspark.sql.connect.session")


def build_arg_parser() -> argparse.ArgumentParser:
    """The file and its arguments."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("file")
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    return parser


def main(ns: argparse.Namespace) -> None:
    """Raises:
    CallError: the session cannot be had as it is defined.
    """
    described: Mapping[str, Any] = json.loads(os.environ["STREAMSCHED_CONNECT"])
    with _surroundings(described, ns):
        _open_session(described)
        runpy.run_path(ns.file, run_name="__main__")


def _open_session(described: Mapping[str, Any]) -> None:
    from pyspark.errors import PySparkException  # noqa: PLC0415 - only where it is executed
    from pyspark.sql import SparkSession  # noqa: PLC0415

    session: Any = SparkSession.builder.getOrCreate()
    session.addTag(described["run"])
    for name, value in described["conf"].items():
        try:
            session.conf.set(name, value)
        except PySparkException as exc:
            said = next(iter(str(exc).splitlines()), "")  # the stack trace of the server follows
            raise CallError(f"conf {name} cannot be set on a Spark Connect session: {said}") from exc
    if described["importable"]:
        session.addArtifacts(*described["importable"], pyfile=True)
    if described["files"]:
        session.addArtifacts(*described["files"], file=True)


@contextmanager
def _surroundings(described: Mapping[str, Any], ns: argparse.Namespace) -> Iterator[None]:
    """What the file may expect of its process; as before when it has ended."""
    environ, argv, path = dict(os.environ), sys.argv, list(sys.path)
    os.environ["SPARK_REMOTE"] = described["remote"]
    if described["token"]:
        os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = described["token"]
    sys.argv = [ns.file, *ns.rest]
    modules = (each for each in described["importable"] if each.endswith(".py"))  # archives: by PySpark itself
    sys.path[:0] = dict.fromkeys(str(Path(each).absolute().parent) for each in (ns.file, *modules))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(environ)
        sys.argv, sys.path[:] = argv, path
