"""The upload of a folder by `deploy --bundle`: only what the server has not got, and never more than it accepts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamsched.cli.commands.programs.bundle import bundled_app
from streamsched.define.app import App
from streamsched.domain.errors import InvalidError
from streamsched.domain.schedules.app import AppDefinition

from .test_requests import Server


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def app(tmp_path: Path) -> AppDefinition:
    (tmp_path / "tool.py").write_text("def run(): ...\n")
    app = App("shop")
    app.python("tool", "tool:run")
    return app.definition(tmp_path)


def test_a_bundle_that_the_server_has_is_not_uploaded_again(server: Server, app: AppDefinition, tmp_path: Path) -> None:
    server.answer = {"exists": False, "limit": 100_000, "files": 1, "bytes": 10_240}
    first = bundled_app(app, tmp_path, server.url, upload=True, quiet=True)
    server.answer = {"exists": True, "limit": 100_000}
    second = bundled_app(app, tmp_path, server.url, upload=True, quiet=True)

    assert first == second
    assert [method for method, *_ in server.requests] == ["POST", "PUT", "POST"]


def test_a_bundle_over_the_limit_of_the_server_is_not_uploaded(
    server: Server, app: AppDefinition, tmp_path: Path
) -> None:
    server.answer = {"exists": False, "limit": 5000}

    with pytest.raises(InvalidError, match=r"bytes, but the server accepts at most 5,000 .*BUNDLE_LIMIT") as refused:
        bundled_app(app, tmp_path, server.url, upload=True, quiet=True)

    assert refused.value.path == "--bundle"
    assert [method for method, *_ in server.requests] == ["POST"]


def test_an_app_without_code_has_nothing_to_bundle(server: Server, tmp_path: Path) -> None:
    app = App("shop")
    app.bash("tool", "true")

    with pytest.raises(InvalidError, match="no Spark or Python program"):
        bundled_app(app.definition(tmp_path), tmp_path, server.url, upload=True, quiet=True)
