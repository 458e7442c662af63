"""Requests that pages of other sites make browsers send are refused: over real HTTP, byte by byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import pytest

from streamsched.api.allowed_hosts import AllowedHosts
from streamsched.api.app import make_api
from streamsched.api.serving import HttpServer, bind
from streamsched.roles.api import api_services
from streamsched.roles.services import Services
from tests.support.api_routes import api_routes

pytestmark = pytest.mark.postgres

APP = json.dumps({"programs": [{"name": "shell", "type": "bash", "command": "true"}], "schedules": []})
JSON = ("Content-Type", "application/json")
FORM = ("Content-Type", "application/x-www-form-urlencoded")
DEPLOY = "/v1/apps/default/owned"
SCHEDULES = "/v3/namespaces/default/apps/owned/schedules"


class Answer(NamedTuple):
    status: int
    body: str


class Server:
    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    async def raw(self, request: bytes) -> Answer:
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_connection(self.host, self.port)
            writer.write(request)
            await writer.drain()
            answered = await reader.read()
            writer.close()
        head, _, body = answered.partition(b"\r\n\r\n")
        return Answer(int(head.split()[1]), body.decode())

    async def ask(
        self, method: str, path: str, *headers: tuple[str, str], host: str | None = "", body: str | None = None
    ) -> Answer:
        """`host` empty: as a client writes it; None: without."""
        lines = [f"{method} {path} HTTP/1.1", "Connection: close"]
        if host is not None:
            lines.append(f"Host: {host or f'127.0.0.1:{self.port}'}")
        lines += [f"{name}: {value}" for name, value in headers]
        if body is not None:
            lines.append(f"Content-Length: {len(body.encode())}")
        return await self.raw(("\r\n".join(lines) + "\r\n\r\n" + (body or "")).encode())


async def serving(services: Services, address: str, hosts: AllowedHosts) -> AsyncIterator[Server]:
    bound, started = bind(address, 0), asyncio.Event()
    made = api_services(services)
    api = make_api(replace(made, access=replace(made.access, allowed_hosts=hosts)), api_routes())
    task = asyncio.create_task(HttpServer(api, bound, started=started.set).run())
    await asyncio.wait_for(started.wait(), 20)
    yield Server(address, bound.getsockname()[1])
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    bound.close()


@pytest.fixture
async def server(services: Services) -> AsyncIterator[Server]:
    async for each in serving(services, "127.0.0.1", AllowedHosts.of(["sched.example.org"])):
        yield each


PATHS = [
    "/v1/schedules",
    "/v3/version",
    "/health/live",
    "/health/ready",
    "/metrics",
    "/docs",
    "/v1/openapi.json",
    "/no",
]


@pytest.mark.parametrize("path", PATHS)
async def test_a_rebound_name_is_refused_everywhere(server: Server, path: str) -> None:
    refused = await server.ask("GET", path, host=f"evil.example:{server.port}")

    assert refused.status == 421
    assert "STREAMSCHED_API_ALLOWED_HOSTS=evil.example" in refused.body


async def test_a_rebound_page_cannot_deploy_a_shell_command(server: Server) -> None:
    plain = ("Content-Type", "text/plain")

    assert (await server.ask("PUT", DEPLOY, plain, host="evil.example", body=APP)).status == 421
    assert (await server.ask("PUT", DEPLOY, JSON, host="evil.example", body=APP)).status == 421
    assert (await server.ask("PUT", DEPLOY, plain, body=APP)).status == 415
    assert json.loads((await server.ask("GET", "/v1/programs")).body)["programs"] == []


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:{port}", "localhost.:{port}", "[::1]:{port}", "127.0.0.1", "Sched.Example.Org."]
)
async def test_known_hosts_are_answered_however_they_are_written(server: Server, host: str) -> None:
    assert (await server.ask("GET", "/v1/schedules", host=host.format(port=server.port))).status == 200


async def test_over_ipv6(services: Services) -> None:
    async for server in serving(services, "::1", AllowedHosts.of(api_host="::1")):
        assert (await server.ask("GET", "/v1/schedules", host=f"[::1]:{server.port}")).status == 200
        assert (await server.ask("GET", "/v1/schedules", host="[2001:db8::1]")).status == 421


async def test_no_host_and_two_hosts_are_refused(server: Server) -> None:
    assert (await server.ask("GET", "/v1/schedules", host=None)).status == 400
    assert (await server.ask("GET", "/v1/schedules", ("Host", "evil.example"))).status == 400
    old = await server.raw(b"GET /v1/schedules HTTP/1.0\r\n\r\n")
    assert (old.status, "no Host header" in old.body) == (400, True)
    assert (await server.ask("GET", "/v1/schedules", host="a@b")).status == 400


async def test_the_host_of_an_absolute_target_is_what_counts(server: Server) -> None:
    assert (await server.ask("GET", f"http://evil.example:{server.port}/v1/schedules")).status == 421
    assert (await server.ask("GET", f"http://127.0.0.1:{server.port}/v1/schedules")).status == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://localhost:3000",
        "https://127.0.0.1",
        "file://",
        "http://",
        "",
        "é",
        "a:b@c",
    ],
)
async def test_a_page_of_another_origin_changes_nothing(server: Server, origin: str) -> None:
    refused = await server.ask("POST", "/v1/programs/default.owned.shell/runs", ("Origin", origin))

    assert refused.status == 403


async def test_pages_of_its_own_origin_may(server: Server) -> None:
    own = ("Origin", f"http://127.0.0.1:{server.port}")
    proxied = ("Origin", "https://sched.example.org")

    assert (await server.ask("PUT", DEPLOY, own, JSON, body=APP)).status == 200
    assert (await server.ask("PUT", DEPLOY, proxied, JSON, body=APP)).status == 200
    assert (await server.ask("PUT", DEPLOY, proxied, JSON, host="sched.example.org", body=APP)).status == 200
    assert (await server.ask("PUT", DEPLOY, own, ("Origin", "http://evil.example"), JSON, body=APP)).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "CROSS-SITE", "new-word"])
async def test_a_form_without_origin_is_known_by_sec_fetch_site(server: Server, site: str) -> None:
    path = "/v1/programs/default.owned.shell/runs"

    assert (await server.ask("POST", path, ("Sec-Fetch-Site", site))).status == 403
    assert (await server.ask("POST", path, ("Sec-Fetch-Site", "same-origin"))).status == 404
    navigated = (("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", "navigate"))
    assert (await server.ask("GET", "/docs", *navigated)).status == 200
    assert (await server.ask("POST", path, *navigated)).status == 403
    assert (await server.ask("GET", "/v1/schedules", ("Sec-Fetch-Site", site))).status == 403


async def test_a_preflight_of_another_origin_is_refused(server: Server) -> None:
    asked = ("Access-Control-Request-Method", "PUT")

    assert (await server.ask("OPTIONS", DEPLOY, ("Origin", "http://evil.example"), asked)).status == 403


@pytest.mark.parametrize(
    "written",
    [
        "text/plain",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded",
        "text/json",
        "x",
        "text/x+json",
    ],
)
async def test_a_body_of_another_content_type_is_refused_with_what_to_send(server: Server, written: str) -> None:
    for path in (DEPLOY, "/v1/events"):
        refused = await server.ask("PUT" if path == DEPLOY else "POST", path, ("Content-Type", written), body=APP)
        assert refused.status == 415
        assert "Content-Type: application/json" in refused.body


@pytest.mark.parametrize(
    "written", ["application/json", "Application/JSON; charset=UTF-8", "application/merge-patch+json"]
)
async def test_json_in_any_writing_is_read(server: Server, written: str) -> None:
    assert (await server.ask("PUT", DEPLOY, ("Content-Type", written), body=APP)).status == 200


async def test_a_body_without_content_type_is_read_unless_a_browser_sent_it(server: Server) -> None:
    own = ("Origin", f"http://127.0.0.1:{server.port}")

    assert (await server.ask("PUT", DEPLOY, body=APP)).status == 200
    assert (await server.ask("PUT", DEPLOY, own, body=APP)).status == 415
    assert (await server.ask("PUT", DEPLOY, JSON, FORM, body=APP)).status == 415


async def test_requests_without_a_body_need_no_content_type(server: Server) -> None:
    await server.ask("PUT", DEPLOY, JSON, body=APP)
    path = "/v1/programs/default.owned.shell/runs"

    assert (await server.ask("POST", path)).status == 202
    assert (await server.ask("POST", path, FORM, body="")).status == 202  # curl -X POST -d ''
    chunked = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
    assert (await server.raw(f"{chunked}\r\n0\r\n\r\n".encode())).status == 202
    assert (await server.raw(f"{chunked}Content-Type: text/plain\r\n\r\n0\r\n\r\n".encode())).status == 415


async def test_clients_of_cdap_may_say_form_and_pages_may_not(server: Server) -> None:
    """Java's HttpURLConnection calls a body a form when no type is set."""
    answered = await server.ask("PUT", f"{SCHEDULES}/nightly", FORM, body="{}")
    assert answered.status == 400
    assert not answered.body.startswith("{")  # plain text, as CDAP answers
    assert (await server.ask("PUT", f"{SCHEDULES}/nightly", ("Content-Type", "text/plain"), body="{}")).status == 415
    own = ("Origin", f"http://127.0.0.1:{server.port}")
    assert (await server.ask("PUT", f"{SCHEDULES}/nightly", own, FORM, body="{}")).status == 415
    assert (await server.ask("GET", SCHEDULES, host="evil.example")).status == 421


async def test_binary_cloudevents_keep_any_content_type(server: Server) -> None:
    attributes = {"specversion": "1.0", "id": "1", "source": "s", "type": "io.streamsched.event", "subject": "approved"}
    headers = [(f"ce-{name}", value) for name, value in attributes.items()]
    sent = await server.ask("POST", "/v1/events", *headers, ("Content-Type", "text/plain"), body="{}")

    assert sent.status != 415
    assert (await server.ask("POST", DEPLOY, *headers, ("Content-Type", "text/plain"), body="{}")).status == 415


async def test_refusals_are_counted_by_status(server: Server) -> None:
    await server.ask("GET", "/v1/schedules", host="evil.example")

    assert 'http_requests_refused_total{status="421"} 1.0' in (await server.ask("GET", "/metrics")).body
