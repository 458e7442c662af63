"""A scheduler in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.dev_process import DevProcess

APP = """
from streamsched import App, partitions, program

app = App("demo")
hello = app.bash("hello", "echo hello from $STREAMSCHED_RUN_ID")
after = app.bash("after", "echo after")
app.schedule("two", hello, when=partitions("flights", 2) & partitions("weather", 1))
app.schedule("then", after, when=program(hello, "succeeded"))
app.schedule("never", after, when=partitions("nowhere"))
"""


def folder_with_app(folder: Path) -> DevProcess:
    """A folder with an app in it, in which nothing runs yet."""
    (folder / "app.py").write_text(APP)
    return DevProcess(folder)


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[DevProcess]:
    """A folder in which nothing runs yet."""
    dev = folder_with_app(tmp_path)
    yield dev
    dev.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    """One scheduler for all tests of a module, its app deployed."""
    dev = folder_with_app(tmp_path_factory.mktemp("dev"))
    dev.start()
    try:
        assert dev.run("deploy", "app.py").code == 0
        yield dev
    finally:
        dev.close()
