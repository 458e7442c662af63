"""Services and programs outside Python that a test needs: installed by `.ci/run`, optional on a developer's machine."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

import pytest


def in_ci() -> bool:
    """Whether `CI` is set to `1` or `true`."""
    return os.environ.get("CI", "").lower() in {"1", "true"}


def need(service: str, available: bool, install: str) -> None:
    """Fails the test with `CI=true`, and skips it otherwise, when a service is not available.

    Args:
        service: what is needed, as the report names it.
        available: whether it was found.
        install: how to get it.
    """
    if available:
        return
    reason = f"{service} is missing; to install it: {install}"
    if in_ci():
        pytest.fail(f"{reason} (with CI=true nothing is skipped)", pytrace=False)
    pytest.skip(reason)


def need_program(program: str, package: str) -> str:
    """The path of a program of a Debian package."""
    path = shutil.which(program)
    need(program, path is not None, f"apt-get install {package}")
    assert path is not None
    return path


def need_module(module: str, extra: str) -> None:
    """A Python package of one of our extras can be imported."""
    need(f"the Python package {module}", find_spec(module) is not None, f"pip install -e '.[{extra}]'")


def need_kafka_jars() -> None:
    """Java, and Kafka's jars, which are downloaded if they are not in the cache: for a test with a Kafka of its own."""
    from compose.downloads import MissingError
    from compose.kafka.distribution import cache_folder, jars, java

    try:
        java()
        jars(cache_folder(os.environ))
    except MissingError as error:
        need("Kafka", False, str(error))


def need_java() -> None:
    """`java` is on the PATH, or `JAVA_HOME` is set."""
    available = shutil.which("java") is not None or "JAVA_HOME" in os.environ
    need("Java 17", available, "apt-get install default-jre-headless")
