"""Contexts: which server a command uses, and what is stored about it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamsched.cli.connection.contexts import contexts_file, read_contexts
from streamsched.cli.connection.server_url import ContextUrl, found_url, requested_url
from streamsched.cli.main import make_app
from streamsched.domain.errors import ConfigurationError, NotFoundError


class TokenServer:
    """Lists no schedules; keeps the `Authorization` of each request."""

    def __init__(self) -> None:
        self.seen: list[str | None] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.seen.append(self.headers.get("Authorization"))
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(b'{"schedules": []}')

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def server() -> Iterator[TokenServer]:
    made = TokenServer()
    yield made
    made.close()


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name in ("STREAMSCHED_URL", "STREAMSCHED_TOKEN", "STREAMSCHED_CONTEXT", "STREAMSCHED_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return {"STREAMSCHED_CONFIG_DIR": str(tmp_path / "config")}


def command(environ: dict[str, str], *arguments: str, typed: str = "", code: int = 0) -> str:
    found = CliRunner(env=environ).invoke(make_app(), arguments, input=typed)
    assert found.exit_code == code, found.output
    return found.output


def test_a_command_uses_the_server_and_the_token_of_the_named_context(
    environ: dict[str, str], server: TokenServer
) -> None:
    command(environ, "context", "set", "prod", "--url", server.url, "--token-stdin", typed="first\n")
    command(environ, "context", "set", "other", "--url", server.url, "--token-env", "OTHER_TOKEN")

    command(environ, "schedule", "list")  # the first context is the current one
    command({**environ, "OTHER_TOKEN": "second"}, "--context", "other", "schedule", "list")
    command({**environ, "STREAMSCHED_CONTEXT": "prod", "STREAMSCHED_TOKEN": "not sent"}, "schedule", "list")
    command({**environ, "STREAMSCHED_TOKEN": "third"}, "schedule", "list", "--url", server.url)

    assert server.seen == ["Bearer first", "Bearer second", "Bearer first", "Bearer third"]


def test_a_token_of_a_file_is_read_when_it_is_used(
    environ: dict[str, str], server: TokenServer, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("one\n")
    command(environ, "context", "set", "prod", "--url", server.url, "--token-file", str(secret))
    command(environ, "schedule", "list")
    secret.write_text("two\n")
    command(environ, "schedule", "list")

    assert server.seen == ["Bearer one", "Bearer two"]


def test_only_the_owner_may_read_the_file_and_no_output_has_the_token(environ: dict[str, str]) -> None:
    said = command(environ, "context", "set", "prod", "--url", "https://s.example", "--token-stdin", typed="s3cret\n")
    said += command(environ, "context", "list") + command(environ, "context", "list", "-o", "json")
    path = contexts_file(environ)

    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert "s3cret" not in said

    path.chmod(0o644)
    assert "chmod 600" in command(environ, "context", "list", code=2)


def test_the_order_of_the_ways_to_name_a_server(environ: dict[str, str], tmp_path: Path) -> None:
    command(environ, "context", "set", "prod", "--url", "http://prod")
    assert requested_url("prod", {**environ, "STREAMSCHED_URL": "http://given/"}) == "http://prod"
    assert requested_url("", {**environ, "STREAMSCHED_URL": "http://given/"}) == "http://given"
    assert requested_url("", environ) == ""
    current = found_url(environ)
    assert isinstance(current, ContextUrl)
    assert current == "http://prod"

    (tmp_path / ".streamsched").mkdir()
    (tmp_path / ".streamsched" / "dev.json").write_text(json.dumps({"url": "http://dev"}))
    assert found_url(environ) == "http://dev"

    command(environ, "context", "delete", "prod")
    with pytest.raises(NotFoundError):
        requested_url("prod", environ)


def test_two_servers_at_once_are_refused(environ: dict[str, str]) -> None:
    command(environ, "context", "set", "prod", "--url", "http://prod")

    said = command(environ, "--context", "prod", "schedule", "list", "--url", "http://other", code=2)

    assert "--url and --context exclude each other" in said


def test_changes_of_contexts_are_printed_for_programs(environ: dict[str, str]) -> None:
    stored = {"name": "prod", "url": "http://prod", "token": "", "current": True}
    given = command(environ, "context", "set", "prod", "--url", "http://prod", "--no-token", "-o", "json")
    listed = command(environ, "context", "list", "-o", "json")
    assert json.loads(given) == json.loads(listed)[0] == {**stored, "token": json.loads(given)["token"]}

    assert json.loads(command(environ, "context", "use", "-", "-o", "json")) == {"current": None}
    assert command(environ, "context", "use", "-", "-o", "name") == ""
    assert command(environ, "context", "use", "prod", "-o", "name") == "prod\n"
    assert json.loads(command(environ, "context", "delete", "prod", "-o", "json")) == json.loads(given)


@pytest.mark.parametrize("url", ["prod", "ftp://x", "http://", "https://user:secret@host"])
def test_what_is_no_url_is_refused(environ: dict[str, str], url: str) -> None:
    assert "--url" in command(environ, "context", "set", "prod", "--url", url, code=2)


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"contexts": {"a": {}}, "current": ""}', b"\xff"])
def test_a_damaged_file_is_named(environ: dict[str, str], raw: bytes) -> None:
    path = contexts_file(environ)
    path.parent.mkdir(parents=True)
    path.write_bytes(raw)

    with pytest.raises(ConfigurationError, match="is not a file of contexts"):
        read_contexts(environ)
