"""The requests of commands, and how they show the responses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from typer.testing import CliRunner

from streamsched.cli.main import make_app


class Server:
    """Responds to every request with the same JSON and records the requests."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] = {}
        self.requests: list[tuple[str, str, str | None]] = []
        self.bodies: list[bytes] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _any(self) -> None:
                server.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
                server.requests.append((self.command, self.path, self.headers.get("Authorization")))
                body = json.dumps(server.answer_to(self.command, self.path.partition("?")[0])).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _any  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._http = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def answer_to(self, method: str, path: str) -> Any:
        """What it responds with."""
        return self.answer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def run(self, *arguments: str, **environ: str) -> str:
        """The output of a command that uses this server."""
        found = CliRunner().invoke(make_app(), [*arguments, "--url", self.url], env=environ)
        assert found.exit_code == 0, found.output
        return found.output


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def test_the_token_is_sent_as_a_bearer_token(server: Server) -> None:
    server.answer = {"programs": []}
    server.run("program", "list")
    server.run("program", "list", STREAMSCHED_TOKEN="secret")

    assert [authorization for *_, authorization in server.requests] == [None, "Bearer secret"]


def test_a_schedule_without_namespace_is_in_the_default_namespace(server: Server) -> None:
    server.answer = {"pool": "nightly"}

    said = server.run("pool", "prioritize", "flights.weekly", "5")

    assert server.requests == [("PUT", "/v1/schedules/default.flights.weekly/priority", None)]
    assert said == "priority of flights.weekly in pool nightly: 5\n"


def test_each_type_of_program_is_listed_with_what_it_runs(server: Server) -> None:
    server.answer = {
        "programs": [
            {"id": "default.a.join", "type": "spark", "main": "/jobs/join.py"},
            {"id": "default.a.tidy", "type": "bash", "command": "rm -rf scratch"},
            {"id": "default.a.tell", "type": "http", "url": "https://chat/hooks"},
            {"id": "default.a.say", "type": "publish", "event": "default.approved"},
        ]
    }

    rows = [line.split(maxsplit=2) for line in server.run("program", "list").splitlines()]

    assert [row[2].strip() for row in rows if row and row[0].startswith("a.")] == [
        "/jobs/join.py",
        "rm -rf scratch",
        "https://chat/hooks",
        "default.approved",
    ]
