"""What definitions have this product connect to: a server on loopback that no spelling may reach, by no surface."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from streamsched.domain.addresses import parse_networks
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.schedule import HttpJob, Program
from streamsched.domain.tasks.attempt import Acknowledged, AttemptFailed
from streamsched.domain.tasks.queue import HttpTarget, WebhookTarget
from streamsched.domain.webhooks.signature import secret_text
from streamsched.domain.webhooks.webhook import Webhook
from streamsched.launcher.request import request, send
from streamsched.ports.clock import SystemClock
from streamsched.ports.runs import Assignment
from streamsched.ports.webhook_targets import DeliveredWebhook
from streamsched.process.http_client import HttpClient
from streamsched.secrets.resolver import Secrets
from streamsched.tasks.http_receiver import HttpReceiver
from streamsched.webhooks.delivery import WebhookReceiver
from tests.integration.outgoing.started_task import started_task

LOOPBACK = parse_networks("127.0.0.0/8,::1/128")
SECRET = "IMDS-SECRET"
#: Hosts by which this machine's loopback is reached; what aiohttp and yarl make of them is part of the test.
HOSTS = (
    *("127.0.0.1", "127.0.0.1.", "127.1", "2130706433", "0x7f000001", "0x7f.1", "017700000001", "0177.0.0.1"),
    *("localhost", "LocalHost", "localhost.", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::1]", "0.0.0.0", "0", "[::]"),
    *("①②⑦.0.0.1", "127。0。0。1", "%31%32%37.0.0.1", "user:word@127.0.0.1", "127.0.0.1%00.example.org"),
)
#: Of these, the hosts that a grant of loopback must reach.
REACHED = ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]")
CLOCK = SystemClock()


class Far:
    """A server on loopback, on 127.0.0.1 and ::1, which counts connections."""

    def __init__(self) -> None:
        self.connections = 0
        self.requests: list[str] = []
        self.status = "200 OK"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode().splitlines()[0])
            head = f"HTTP/1.1 {self.status}\r\nContent-Length: {len(SECRET)}\r\nConnection: close"
            writer.write(f"{head}\r\n\r\n{SECRET}".encode())
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@pytest.fixture
async def far() -> AsyncIterator[tuple[Far, int]]:
    made = Far()
    first = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    port = first.sockets[0].getsockname()[1]
    second = await asyncio.start_server(made.serve, "::1", port)
    async with first, second:
        yield made, port


async def by_program(client: HttpClient, url: str) -> tuple[bool, str]:
    job = HttpJob(url, "POST", timeout=timedelta(seconds=5))
    run = Assignment("job.r1", 1, Program(ProgramRef("sales", "app", "call"), job), {})
    ended = await send(client, request(run, job), job.timeout, CLOCK)
    return ended.state is RunState.COMPLETED, ended.reason


async def by_queue(client: HttpClient, url: str) -> tuple[bool, str]:
    receiver = HttpReceiver(client, CLOCK, leased=lambda: True)
    end = await receiver.deliver(started_task("q"), HttpTarget(url, timeout=timedelta(seconds=5)))
    assert isinstance(end, Acknowledged | AttemptFailed)
    return isinstance(end, Acknowledged), end.detail if isinstance(end, Acknowledged) else end.reason


async def by_webhook(client: HttpClient, url: str) -> tuple[bool, str]:
    made = Webhook(namespace="sales", name="hook", url=url, timeout=timedelta(seconds=5))

    class Stored:
        async def target(self, webhook: str) -> DeliveredWebhook:
            del webhook
            return DeliveredWebhook(made, True, secret_text(bytes(32)), None)

        async def disable_failing(self, webhook: str, reason: str, *, now: datetime) -> bool:
            raise AssertionError((webhook, reason, now))

    receiver = WebhookReceiver(Stored(), client, Secrets(), CLOCK, leased=lambda: True)
    end = await receiver.deliver(started_task(made.queue, b'{"id": "1", "time": "2026-01-01"}'), WebhookTarget())
    assert isinstance(end, Acknowledged | AttemptFailed), end
    return isinstance(end, Acknowledged), end.detail if isinstance(end, Acknowledged) else end.reason


Surface = Callable[[HttpClient, str], Awaitable[tuple[bool, str]]]
SURFACES: tuple[Surface, ...] = (by_program, by_queue, by_webhook)


async def reached(surface: Surface, url: str, networks: Any, **more: Any) -> tuple[bool, str]:
    client = HttpClient(networks, **more)
    try:
        return await surface(client, url)
    except Exception as exc:  # noqa: BLE001 - a host that is refused before there is a request
        return False, f"refused before: {type(exc).__name__}"
    finally:
        await client.close()


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("host", HOSTS)
async def test_no_spelling_reaches_loopback(far: tuple[Far, int], host: str, surface: Surface) -> None:
    server, port = far
    accepted, why = await reached(surface, f"http://{host}:{port}/latest/meta-data", ())
    assert not accepted
    assert SECRET not in why
    assert server.connections == 0
    if host in REACHED:
        assert why.startswith("not sent: ")
        assert why.endswith("STREAMSCHED_OUTGOING_NETWORKS can permit it")


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("host", REACHED)
async def test_an_administrators_networks_permit_it(far: tuple[Far, int], host: str, surface: Surface) -> None:
    server, port = far
    accepted, why = await reached(surface, f"http://{host}:{port}/x", LOOPBACK)
    assert accepted, why
    assert len(server.requests) == 1


class _Rebinding(AbstractResolver):
    """Answers with one address after the other."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = list(addresses)

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> Any:
        address = self._addresses.pop(0) if len(self._addresses) > 1 else self._addresses[0]
        kind = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=0)]

    async def close(self) -> None: ...


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("private", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254"])
async def test_a_name_that_turns_private_after_a_look_is_not_connected_to(
    far: tuple[Far, int], private: str, surface: Surface
) -> None:
    server, port = far
    # The look that a check would have made sees a public address; the connection itself gets another.
    resolver = _Rebinding("8.8.8.8", private)
    await resolver.resolve("rebound.example")
    accepted, why = await reached(surface, f"http://rebound.example:{port}/", (), resolver=resolver)
    assert not accepted
    assert why.startswith("not sent: ")
    assert server.connections == 0


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_redirect_is_not_followed(far: tuple[Far, int], surface: Surface) -> None:
    server, port = far
    server.status = f"302 Found\r\nLocation: http://[::1]:{port}/secret"
    accepted, why = await reached(surface, f"http://127.0.0.1:{port}/", LOOPBACK)
    assert not accepted
    assert why.startswith("HTTP 302")
    assert len(server.requests) == 1


@pytest.mark.parametrize("surface", SURFACES)
async def test_variables_for_proxies_lead_nowhere(
    far: tuple[Far, int], surface: Surface, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, port = far
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
    accepted, _ = await reached(surface, "http://far.invalid/x", ())
    assert not accepted
    assert server.connections == 0


@pytest.mark.parametrize("surface", SURFACES)
async def test_the_proxy_of_the_setting_gets_what_is_not_permitted_here(far: tuple[Far, int], surface: Surface) -> None:
    server, port = far
    proxy = f"http://127.0.0.1:{port}"
    accepted, why = await reached(surface, "http://far.invalid/x", (), proxy=proxy)
    assert accepted, why
    assert server.requests == ["POST http://far.invalid/x HTTP/1.1"]


async def test_a_proxy_is_asked_for_no_address_that_is_refused_and_not_for_permitted_ones(
    far: tuple[Far, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, port = far
    proxy = f"http://127.0.0.1:{port}"
    found: list[tuple[Any, ...]] = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    def resolves(host: str, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        assert host in {"inside.example", "127.0.0.1"}
        return found

    monkeypatch.setattr(socket, "getaddrinfo", resolves)
    accepted, why = await reached(by_program, f"http://inside.example:{port}/x", (), proxy=proxy)
    assert (accepted, server.connections) == (False, 0), why
    assert why.startswith("not sent: 127.0.0.1 is not a public address")

    accepted, why = await reached(by_program, f"http://inside.example:{port}/x", LOOPBACK, proxy=proxy)
    assert accepted, why
    assert server.requests == ["POST /x HTTP/1.1"], "straight to it"
