"""Requests by the standard library: connections that are kept, closed, silent, behind a proxy; lines as they come."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from streamsched.domain.errors import ConfigurationError
from streamsched.process.http_connection import BlockingConnection, HttpResponse

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Accepts connections and answers each request of them with the next of `answers`; None closes the connection."""

    def __init__(self, *answers: bytes | None) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self._answers = iter(answers)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                with connection:
                    self._talk(connection)
                self.closed.set()
        except (OSError, StopIteration):
            self.closed.set()

    def _talk(self, connection: socket.socket) -> None:
        while received := connection.recv(65536):
            self.requests.append(received)
            answer = next(self._answers)
            if answer is None:
                return
            connection.sendall(answer)
            if b"Content-Length" not in answer:
                return

    def close(self) -> None:
        self._socket.close()


@contextmanager
def serving(*answers: bytes | None) -> Iterator[Server]:
    server = Server(*answers)
    try:
        yield server
    finally:
        server.close()


def test_a_connection_is_kept_and_has_the_headers_of_both() -> None:
    with serving(OK, OK) as server, closing(BlockingConnection(f"{server.url}/base/", {"A": "1"})) as connection:
        first = connection.send("GET", "/v1/ä b", params=(("x", "ä&"), ("x", "2")))
        second = connection.send("POST", "/v1/y", content=b"{}", headers={"B": "2"})

    assert (first, second.text, second.is_success) == (HttpResponse(200, b"ok", {"content-length": "2"}), "ok", True)
    assert server.connections == 1
    assert server.requests[0].startswith(b"GET /base/v1/%C3%A4%20b?x=%C3%A4%26&x=2 HTTP/1.1\r\n")
    assert b"A: 1\r\n" in server.requests[1]
    assert b"B: 2\r\n" in server.requests[1]


def test_a_connection_that_the_server_closed_meanwhile_is_opened_again() -> None:
    with serving(OK, OK) as server, closing(BlockingConnection(server.url)) as connection:
        connection.send("GET", "/")
        assert connection._kept is not None
        assert connection._kept.sock is not None
        connection._kept.sock.shutdown(socket.SHUT_WR)  # the server sees the end, and closes
        assert server.closed.wait(10)

        assert connection.send("POST", "/").status == 200
        assert server.connections == 2


def test_a_server_that_ends_amid_a_request_may_have_read_it() -> None:
    with serving(None, OK) as server, closing(BlockingConnection(server.url)) as connection:
        lost = connection.send("POST", "/")

        assert (lost.status, lost.sent, bool(lost.failure)) == (0, True, True)
        assert len(server.requests) == 1
        assert connection.send("GET", "/").status == 200


def test_without_a_server_nothing_is_sent() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as gone:
        address = f"http://127.0.0.1:{gone.getsockname()[1]}"
    refused = BlockingConnection(address).send("GET", "/")

    assert (refused.status, refused.sent) == (0, False)
    assert "refused" in refused.failure


def test_a_silent_server_is_given_up() -> None:
    with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n") as server:
        silent = BlockingConnection(server.url).send("GET", "/", timeout=0.05)

    assert (silent.status, silent.sent, silent.failure) == (0, True, "no answer within 0.05 s")


def test_a_redirect_is_an_answer() -> None:
    moved = b"HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    with serving(moved) as server:
        assert BlockingConnection(server.url, {"Authorization": "Bearer t"}).send("GET", "/").status == 307


def test_lines_come_whole_and_an_end_is_said() -> None:
    text = "data: one\u2028two\x85three\r\n\r\nid: 7\n"
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    with serving(head + text.encode()) as server:
        *lines, end = BlockingConnection(server.url).follow("/v1/decisions", params=(), headers={}, timeout=10)

    assert lines == ["data: one\u2028two\x85three", "", "id: 7"]
    assert isinstance(end, HttpResponse)
    assert (end.status, end.failure) == (0, "the connection ended")


def test_a_refusal_of_lines_is_the_answer() -> None:
    with serving(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno") as server:
        [end] = BlockingConnection(server.url).follow("/v1/decisions", params=(), headers={}, timeout=10)

    assert isinstance(end, HttpResponse)
    assert (end.status, end.content) == (403, b"no")


@pytest.mark.parametrize("proxies", [True, False])
def test_a_proxy_of_the_environment_is_used_unless_it_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch, *, proxies: bool
) -> None:
    with serving(OK) as proxy, serving(OK) as server:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//ann:pass@"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)

        assert BlockingConnection(server.url, proxies=proxies).send("GET", "/x").status == 200

    assert len(proxy.requests) == int(proxies)
    assert len(server.requests) == int(not proxies)
    if proxies:
        assert proxy.requests[0].startswith(f"GET {server.url}/x HTTP/1.1\r\n".encode())
        assert b"Proxy-Authorization: Basic YW5uOnBhc3M=\r\n" in proxy.requests[0]


def test_a_host_that_needs_no_proxy_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(OK) as server:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        monkeypatch.setenv("no_proxy", "127.0.0.1")

        assert BlockingConnection(server.url).send("GET", "/").status == 200


def test_a_tunnel_through_a_proxy_is_asked_for_when_the_server_has_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n") as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        refused = BlockingConnection("https://a.example", {"Authorization": "Bearer t"}).send("GET", "/")

    assert proxy.requests[0].startswith(b"CONNECT a.example:443 ")
    assert b"Bearer" not in proxy.requests[0]
    assert (refused.status, refused.sent) == (0, False)


@pytest.mark.parametrize("url", ["127.0.0.1:8765", "ftp://a.example", "http://", "http://a:b", "kafka://a:1/", ""])
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is not the URL of a server"):
        BlockingConnection(url)
