"""An installation with 10,000 jobs is lost under load; its export, taken meanwhile, goes on in another one."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from compose.ports import free_port
from tests.faults.processes.command import role
from tests.faults.sites.installation_site import InstallationSite, site
from tests.faults.test_many_dapr_jobs import answers
from tests.integration.dapr.apps import HttpApp

JOBS, OFTEN = 10_000, 50
#: Seconds from the beginning to the due time of the jobs.
AFTER_S = 75
LINES = {"Content-Type": "application/x-ndjson"}
PATH = "/v1/dapr/default/orders"


@asynccontextmanager
async def running(there: InstallationSite, app: str) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    """API, launcher and endpoint, killed at the end; yields clients of the API and of the endpoint."""
    port = free_port()
    settings = {"dapr_app_id": "orders", "dapr_http_port": port, "dapr_grpc_port": free_port(), "dapr_app": app}
    async with AsyncExitStack() as stack:
        processes = stack.enter_context(there.processes())
        for each in ("api", "launcher"):
            processes.start(each, role(each))
        processes.start("dapr", (*role("dapr"), "serve"), **settings)
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=there.api, timeout=200))
        sidecar = await stack.enter_async_context(httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60))
        await answers(client, "/health/ready")
        await answers(sidecar, "/v1.0/healthz")
        yield client, sidecar


def exported(due: datetime) -> bytes:
    """10,000 jobs that are due once, within 10 s."""
    lines: list[dict[str, Any]] = [{"version": 1}]
    for number in range(JOBS):
        at = (due + timedelta(milliseconds=number)).isoformat()
        counters = {"dueAt": at, "plannedAt": at, "nextAt": at, "fired": 0, "failures": 0, "createdAt": at}
        lines.append({"name": f"once{number}", "dueTime": at.replace("+00:00", "Z"), "counters": counters})
    return b"\n".join(json.dumps(each).encode() for each in (*lines, {"jobs": JOBS}))


async def schedule_on(sidecar: httpx.AsyncClient, acknowledged: list[str]) -> None:
    """The load: jobs of a day, one after another."""
    while True:
        name = f"load{len(acknowledged)}"
        with suppress(httpx.TransportError):
            if (await sidecar.post(f"/v1.0/jobs/{name}", json={"dueTime": "24h"})).status_code == 204:
                acknowledged.append(name)


async def lost_and_restored(lost: InstallationSite, other: InstallationSite) -> None:
    arrived: dict[str, float] = {}

    def answer(name: str, _: int) -> int:
        arrived.setdefault(name, time.time())
        return 200

    app = HttpApp(answer=answer)
    due = datetime.now(UTC) + timedelta(seconds=AFTER_S)
    acknowledged: list[str] = []
    async with app.running() as address:
        async with running(lost, address) as (client, sidecar):
            made = await client.post(f"{PATH}/import", content=exported(due), headers=LINES)
            assert made.json() == {"imported": JOBS}, made.text
            for number in range(OFTEN):
                body = {"schedule": "@every 1s", "repeats": 10_000, "misfire": "one"}
                assert (await sidecar.post(f"/v1.0/jobs/often{number}", json=body)).status_code == 204
            load = asyncio.create_task(schedule_on(sidecar, acknowledged))
            await app.wait_for(5 * OFTEN)
            known, began = len(acknowledged), time.time()
            saved = (await client.get(f"{PATH}/export")).content
            took = time.time() - began
            load.cancel()
        lost.kill_postgres(signal.SIGKILL)
        lines = {each["name"]: each for each in map(json.loads, saved.splitlines()) if "name" in each}
        assert lines.keys() >= {*acknowledged[:known], *(f"once{n}" for n in range(JOBS))}
        assert time.time() < due.timestamp(), "the installation was lost before its jobs were due"
        async with running(other, address) as (client, sidecar):
            restored = await client.post(f"{PATH}/import", content=saved, headers=LINES)
            assert restored.json() == {"imported": len(lines)}, restored.text
            counters = lines["often0"]["counters"]
            shown = (await sidecar.get("/v1.0/jobs/often0")).json()
            assert (shown["fired"] >= counters["fired"] >= 1, shown["repeats"]) == (True, 10_000)
            async with asyncio.timeout(150):
                while sum(name.startswith("once") for name in arrived) < JOBS:  # noqa: ASYNC110 - by HTTP requests
                    await asyncio.sleep(0.2)
            back = (await client.get(f"{PATH}/jobs", params={"prefix": "load"})).json()["jobs"]
            assert len(back) >= known
    early = [name for name, at in arrived.items() if name.startswith("once") and at < _due(due, name)]
    last = max(arrived[f"once{number}"] - _due(due, f"once{number}") for number in range(JOBS))
    sys.stdout.write(
        f"{len(lines)} jobs exported in {took:.1f} s, {known} of them acknowledged under load before; restored, "
        f"{JOBS} delivered, {len(early)} early, the last {last:.1f} s late\n"
    )
    assert early == []


def _due(first: datetime, name: str) -> float:
    return first.timestamp() + int(name.removeprefix("once")) / 1000 - 0.001


@pytest.mark.nightly
@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(500)
def test_ten_thousand_jobs_of_a_lost_installation_go_on_in_another(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # as `site` does with its own folder, for the user of PostgreSQL
    for name in ("lost", "other"):
        (tmp_path / name).mkdir()
    with site(tmp_path / "lost", "postgres") as lost, site(tmp_path / "other", "postgres") as other:
        asyncio.run(lost_and_restored(lost, other))
