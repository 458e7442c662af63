"""What a client of the sidecar does: it schedules, reads, replaces and deletes jobs by Dapr's Python SDK, unchanged."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

import httpx
from dapr.aio.clients import DaprClient
from dapr.clients.exceptions import DaprGrpcError
from dapr.clients.grpc._jobs import ConstantFailurePolicy, Job
from google.protobuf.any_pb2 import Any as AnyMessage

from tests.dapr_real.app import STRANGE
from tests.dapr_real.judge import Planned
from tests.dapr_real.processes import SIDECAR_GRPC, SIDECAR_HTTP

#: Longest time for which a request is repeated, in seconds: launchers are dead meanwhile.
_PATIENCE_S: Final = 60.0


class Traffic:
    """Belongs to one event loop. `planned`: what must arrive; `retried`: requests that had to be repeated."""

    def __init__(self, rng: random.Random) -> None:
        os.environ.update(DAPR_GRPC_PORT=str(SIDECAR_GRPC), DAPR_HTTP_PORT=str(SIDECAR_HTTP))
        self._client: Any = DaprClient()
        self._rng = rng
        self.planned: dict[str, Planned] = {}
        self.retried = 0

    async def close(self) -> None:
        await self._client.close()

    async def one_shots(self, most: int, until: asyncio.Event) -> None:
        """Jobs that are due once, soon, some 20 a second."""
        async with asyncio.TaskGroup() as group:
            for number in range(most):
                if until.is_set():
                    return
                at = time.time() + self._rng.uniform(0.5, 8)
                group.create_task(self.schedule(f"once{number}", [at], due_time=_rfc3339(at), data=b"%d" % number))
                await asyncio.sleep(0.05)

    async def repeating(self, count: int, ticks: int, after_s: float) -> None:
        """Jobs that are due every second, so many times."""
        began = time.time()
        for number in range(count):
            first = began + after_s + self._rng.uniform(0, 1)
            planned = [first + tick for tick in range(ticks)]
            await self.schedule(
                f"often{number}", planned, due_time=_rfc3339(first), schedule="@every 1s", repeats=ticks, data=b"{}"
            )

    async def failing(self, count: int) -> None:
        """Jobs whose first two deliveries fail."""
        for number in range(count):
            at = time.time() + 2
            await self.schedule(f"fails{number}", [at], attempts=3, due_time=_rfc3339(at), data=b"")

    async def strange(self) -> None:
        """Jobs of strange names."""
        at = time.time() + 2
        for name in STRANGE:
            await self.schedule(name, [at], due_time=_rfc3339(at), data=b"")

    async def one_quiet(self, at: float) -> None:
        """One job, due then."""
        await self.schedule("quiet0", [at], due_time=_rfc3339(at), data=b"")

    async def schedule(self, name: str, ticks: list[float], *, attempts: int = 1, data: bytes, **fields: Any) -> None:
        job = Job(name=name, data=AnyMessage(value=data), **fields)
        await self._repeat(lambda: self._client.schedule_job(job, overwrite=True))
        self.planned[name] = Planned([float(_rounded(each)) for each in ticks], attempts)

    async def surface(self) -> list[str]:
        """What a client sees of other calls, by gRPC and by the sidecar's HTTP API; raises AssertionError."""
        job = Job(
            name="deleted0",
            schedule="0 0 0 1 1 *",
            repeats=7,
            ttl="48h",
            due_time="24h",
            data=AnyMessage(type_url="a/b", value=b"\0data"),
            failure_policy=ConstantFailurePolicy(max_retries=2, interval_seconds=5),
        )
        await self._client.schedule_job(job)
        found = await self._client.get_job("deleted0")
        assert (found.schedule, found.repeats, found.ttl, found.due_time) == ("0 0 0 1 1 *", 7, "48h", "24h"), found
        assert found.data.value == b"\0data", found
        assert (found.failure_policy.max_retries, found.failure_policy.interval_seconds) == (2, 5), found
        codes: list[str] = []
        for call in (
            lambda: self._client.schedule_job(job),
            lambda: self._client.get_job("none"),
            lambda: self._client.schedule_job(Job(name="bad", schedule="never")),
            lambda: self._client.schedule_job(Job(name="a/b", due_time="24h")),
        ):
            try:
                await call()
            except DaprGrpcError as exc:
                codes.append(exc.code().name)
        assert codes == ["ALREADY_EXISTS", "INTERNAL", "INVALID_ARGUMENT", "INVALID_ARGUMENT"], codes
        await self._client.delete_job("deleted0")
        await self._client.delete_job("deleted0")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{SIDECAR_HTTP}") as http:
            statuses = []
            for path in ("/v1.0/jobs/deleted1", "/v1.0-alpha1/jobs/deleted2"):
                statuses += [
                    (await http.post(path, json={"dueTime": "24h", "data": {"a": 1}})).status_code,
                    (await http.get(path)).json()["data"]["value"] == {"a": 1},
                    (await http.delete(path)).status_code,
                    (await http.get(path)).status_code,
                ]
        assert statuses == [204, True, 204, 500] * 2, statuses
        return codes

    async def _repeat(self, call: Callable[[], Awaitable[object]]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                await call()
            except DaprGrpcError:
                if time.monotonic() > deadline:
                    raise
                self.retried += 1
                await asyncio.sleep(0.2)
            else:
                return


def _rounded(at: float) -> str:
    return f"{at:.3f}"


def _rfc3339(at: float) -> str:
    moment = datetime.fromtimestamp(float(_rounded(at)), UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
