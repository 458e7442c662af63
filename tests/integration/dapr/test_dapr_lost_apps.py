"""What an app has not answered comes again under every failure policy; of its answers the policy decides."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from dapr.proto import appcallback_service_v1

from compose.ports import free_port
from streamsched.telemetry.metrics import Metrics
from tests.integration.dapr.apps import HttpApp, sdk_app
from tests.integration.dapr.conftest import DaprInstallation
from tests.integration.dapr.sidecar import M, Sidecar, of_app

DROP = {"failurePolicy": {"drop": {}}}
ROOT = Path(__file__).parents[3]


def attempts(metrics: Metrics) -> dict[str, float]:
    """How many attempts of the app's jobs ended, by their result."""
    prefix = 'streamsched_queue_attempts_total{queue="dapr.default.orders",result="'
    lines = [each for each in metrics.render().decode().splitlines() if each.startswith(prefix)]
    return {line.removeprefix(prefix).partition('"')[0]: float(line.rpartition(" ")[2]) for line in lines}


async def gone(client: Any, name: str) -> None:
    """Waits until a job has ended."""
    async with asyncio.timeout(30):
        while (await client.get(f"/v1.0/jobs/{name}")).status_code != 404:  # noqa: ASYNC110 - the test sees no event of it
            await asyncio.sleep(0.02)


async def line_of(lines: asyncio.StreamReader) -> str:
    async with asyncio.timeout(30):
        return (await lines.readline()).decode().strip()


async def test_an_app_that_is_killed_in_a_delivery_gets_it_again_under_drop(installation: DaprInstallation) -> None:
    port = free_port()
    async with (
        installation.launcher(),
        installation.endpoint(dapr_app=f"grpc://127.0.0.1:{port}") as client,
    ):
        async with sdk_app(port, "stuck", stuck=True) as lines:
            await client.post("/v1.0/jobs/stuck", json={"dueTime": "0s", **DROP})
            assert await line_of(lines) == "stuck"
        async with sdk_app(port, "stuck") as lines:
            assert await line_of(lines) == "stuck"
            await gone(client, "stuck")

    assert {name: count for name, count in attempts(installation.metrics).items() if name != "interrupted"} == {
        "lost": 1,
        "acknowledged": 1,
    }


async def test_a_connection_that_breaks_before_its_answer_is_no_failure(installation: DaprInstallation) -> None:
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            got.append(head)
            if len(got) == 1:
                writer.transport.abort()
                return
            if len(got) == 2:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")  # and no more of it
                await writer.drain()
                writer.close()
                return
            writer.write(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")

    server = await asyncio.start_server(serve, "127.0.0.1", port := free_port())
    async with (
        server,
        installation.launcher(),
        installation.endpoint(dapr_app=f"http://127.0.0.1:{port}") as client,
    ):
        await client.post("/v1.0/jobs/j", json={"dueTime": "0s", **DROP})
        await gone(client, "j")

    counts = attempts(installation.metrics)
    assert (len(got), counts["lost"], counts["failed"]) == (3, 2, 1), "an answered failure is not repeated"


@asynccontextmanager
async def answering_app(code: grpc.StatusCode, got: list[str]) -> AsyncIterator[str]:
    """An app over gRPC that ends every call with this status; yields its address."""

    class Callback(appcallback_service_v1.AppCallbackServicer):
        async def OnJobEvent(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name of the protocol
            got.append(request.name)
            await context.abort(code, "not now")

    server = grpc.aio.server()
    appcallback_service_v1.add_AppCallbackServicer_to_server(Callback(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"grpc://127.0.0.1:{port}"
    finally:
        await server.stop(None)


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL])
async def test_an_app_that_answers_as_a_broken_connection_has_answered(
    installation: DaprInstallation, code: grpc.StatusCode
) -> None:
    got: list[str] = []
    async with (
        answering_app(code, got) as address,
        installation.launcher(),
        installation.endpoint(dapr_app=address) as client,
    ):
        await client.post("/v1.0/jobs/j", json={"dueTime": "0s", **DROP})
        await gone(client, "j")

    assert (got, attempts(installation.metrics)) == (["j"], {"failed": 1.0})


async def test_a_tick_without_a_handler_is_done_and_counted(installation: DaprInstallation) -> None:
    got: list[str] = []
    app = HttpApp(answer=lambda _name, _times: 404)
    async with app.running() as over_http, answering_app(grpc.StatusCode.NOT_FOUND, got) as over_grpc:
        for address, arrived in ((over_http, app.got), (over_grpc, got)):
            async with installation.launcher(), installation.endpoint(dapr_app=address) as client:
                body = {"schedule": "@every 20ms", "repeats": 100_000, "overwrite": True}
                await client.post("/v1.0/jobs/j", json=body)
                shown: dict[str, Any] = {}
                async with asyncio.timeout(30):
                    while shown.get("fired", 0) < 3:
                        await asyncio.sleep(0.02)
                        shown = (await client.get("/v1.0/jobs/j")).json()
                assert shown["unhandled"] == shown["fired"]
                assert "failures" not in shown
                assert len(arrived) >= 3

    assert set(attempts(installation.metrics)) - {"interrupted"} == {"unhandled"}


async def test_a_sidecar_that_is_killed_in_a_delivery_loses_nothing_under_drop(installation: DaprInstallation) -> None:
    address = f"127.0.0.1:{free_port()}"
    async with installation.launcher(dapr_scheduler=address), grpc.aio.insecure_channel(address) as channel:
        sidecar = Sidecar(channel)
        await sidecar.hosts(1)
        job = M["Job"](due_time="0s", failure_policy={"drop": {}})
        await sidecar.call("ScheduleJob", name="j", job=job, metadata=of_app())
        killed = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.integration.dapr.stuck_sidecar", address),
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        assert killed.stdout is not None
        assert await line_of(killed.stdout) == "j"
        killed.kill()
        await killed.wait()
        stream = await sidecar.watch()
        async with asyncio.timeout(30):
            trigger = await stream.read()
        await sidecar.end(stream, trigger.id, failed=True)
        async with asyncio.timeout(20):
            while (await sidecar.call("ListJobs", metadata=of_app())).jobs:  # noqa: ASYNC110 - the sidecar sees no event of it
                await asyncio.sleep(0.02)
        stream.cancel()

    assert trigger.name == "j"
    assert attempts(installation.metrics) == {"interrupted": 1.0, "failed": 1.0}, "its answer, a failure, is the end"
