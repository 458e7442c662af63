"""An import, a list and an export of 100,000 jobs: other requests of the same processes are answered meanwhile, and
memory stays bounded.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import httpx
import psutil
import pytest
from dapr.proto.runtime.v1 import jobs_pb2

from compose.ports import free_port
from tests.faults.processes.command import role
from tests.faults.sites.installation_site import InstallationSite, site

JOBS = 100_000
#: Longest wait of another request, in seconds, on a machine that others keep busy.
LONGEST_S = 2.0
#: Memory that a process may take more, in bytes.
MORE = 150 * 2**20


async def answers(client: httpx.AsyncClient, path: str) -> None:
    async with asyncio.timeout(90):
        while True:
            try:
                if (await client.get(path)).is_success:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)


async def beside(client: httpx.AsyncClient, path: str, work: Awaitable[Any], of: psutil.Process) -> tuple[Any, float]:
    """The result of `work`, and the longest wait of another request meanwhile; checks both bounds."""
    before, waits, most = of.memory_info().rss, [0.0], 0
    doing = asyncio.ensure_future(work)
    while not doing.done():
        began = time.perf_counter()
        assert (await client.get(path)).is_success
        waits.append(time.perf_counter() - began)
        most = max(most, of.memory_info().rss)
        await asyncio.wait((doing,), timeout=0.02)
    assert max(waits) < LONGEST_S, sorted(waits)[-5:]
    assert most - before < MORE, f"{(most - before) >> 20} MiB more"
    return doing.result(), max(waits)


def say(what: str, took: float, waited: float) -> None:
    """For `pytest -s`."""
    sys.stdout.write(f"{what} of {JOBS} jobs {took:.1f} s, longest wait of another request {waited:.3f} s\n")


async def exported_lines(jobs: int) -> AsyncIterator[bytes]:
    """An export of so many jobs."""
    due = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    counters = {"dueAt": due, "plannedAt": due, "nextAt": due, "fired": 2, "failures": 0, "createdAt": due}
    job = {"schedule": "@daily", "data": {"type": "a/b", "base64": "eHh4" * 5}, "counters": counters}
    yield b'{"version":1}\n'
    for at in range(0, jobs, 500):
        numbers = range(at, min(at + 500, jobs))
        yield b"".join(json.dumps({"name": f"job-{number:06}", **job}).encode() + b"\n" for number in numbers)
    yield b'{"jobs":%d}\n' % jobs


@pytest.mark.nightly
@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_others_are_answered_while_all_jobs_are_imported_listed_and_exported(tmp_path: Path) -> None:
    with site(tmp_path, "postgres") as there:
        asyncio.run(imported_listed_and_exported(there))


async def imported_listed_and_exported(there: InstallationSite) -> None:
    http_port, grpc_port = free_port(), free_port()
    settings = {"dapr_app_id": "orders", "dapr_http_port": http_port, "dapr_grpc_port": grpc_port}
    path, jobs, lines = "/v1/dapr/default/orders", "/v1.0/healthz/outbound", {"Content-Type": "application/x-ndjson"}
    with there.processes() as processes:
        api = psutil.Process(processes.start("api", role("api")).pid)
        endpoint = psutil.Process(processes.start("dapr", (*role("dapr"), "serve"), **settings).pid)
        async with (
            httpx.AsyncClient(base_url=there.api, timeout=400) as client,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{http_port}") as sidecar,
        ):
            await answers(client, "/health/ready")
            await answers(sidecar, jobs)
            stored = client.post(f"{path}/import", content=exported_lines(JOBS), headers=lines)
            answer, waited = await beside(client, "/v1/queues", stored, api)
            assert answer.json() == {"imported": JOBS}, answer.text
            say("import", answer.elapsed.total_seconds(), waited)
            answer, waited = await beside(client, "/v1/queues", client.get(f"{path}/jobs"), api)
            names = [each["name"] for each in answer.json()["jobs"]]
            assert (len(names), names) == (JOBS, sorted(names))
            say("list", answer.elapsed.total_seconds(), waited)
            answer, waited = await beside(client, "/v1/queues", client.get(f"{path}/export"), api)
            assert json.loads(answer.text.splitlines()[-1]) == {"jobs": JOBS}
            say("export", answer.elapsed.total_seconds(), waited)
            options = (("grpc.max_receive_message_length", -1),)
            async with grpc.aio.insecure_channel(f"127.0.0.1:{grpc_port}", options=options) as channel:
                call = channel.unary_unary(
                    "/dapr.proto.runtime.v1.Dapr/ListJobs",
                    request_serializer=jobs_pb2.ListJobsRequest.SerializeToString,
                    response_deserializer=jobs_pb2.ListJobsResponse.FromString,
                )
                began = time.perf_counter()
                found, waited = await beside(sidecar, jobs, call(jobs_pb2.ListJobsRequest()), endpoint)
                assert len(found.jobs) == JOBS
                say("ListJobs", time.perf_counter() - began, waited)
