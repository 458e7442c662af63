"""Dapr's protocols for `bench.tasks`: registration and delivery of jobs over gRPC, by the same client for launchers and
for Dapr's own scheduler.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Final

import grpc
from dapr.proto.runtime.v1 import jobs_pb2
from google.protobuf import any_pb2

from bench.dapr_processes import APP, dapr_scheduler, endpoint, launcher
from bench.installation import Installation
from bench.task_registration import DATA, Paced, pace
from streamsched.dialects.dapr.scheduler_messages import PACKAGE, scheduler_messages

#: Streams of jobs that a sidecar opens to each scheduler.
STREAMS: Final = 3
_M: Final = scheduler_messages()
_METADATA: Final = {"app_id": APP, "namespace": "default", "target": {"job": {}}}


async def register_as_client(site: Installation, count: int, clients: int) -> Paced:
    """`dapr.proto.runtime.v1.Dapr/ScheduleJob`, as the SDK calls it."""
    with endpoint(site.url) as address:
        async with grpc.aio.insecure_channel(address) as channel:
            call = channel.unary_unary(
                "/dapr.proto.runtime.v1.Dapr/ScheduleJob",
                request_serializer=jobs_pb2.ScheduleJobRequest.SerializeToString,
                response_deserializer=jobs_pb2.ScheduleJobResponse.FromString,
            )

            async def send(number: int) -> None:
                job = jobs_pb2.Job(name=f"k{number}", due_time="24h", data=any_pb2.Any(value=DATA))
                await call(jobs_pb2.ScheduleJobRequest(job=job), wait_for_ready=True)

            await send(count)  # when it is there
            return await pace(count, clients, send)


async def register_as_sidecar(site: Installation, count: int, clients: int) -> Paced:
    """`dapr.proto.scheduler.v1.Scheduler/ScheduleJob`, as a sidecar calls a scheduler: here a launcher."""
    with launcher(site.url) as address:
        return await _register(address, count, clients)


async def register_with_dapr(count: int, clients: int) -> Paced:
    """The same with Dapr's own scheduler."""
    with dapr_scheduler() as address:
        return await _register(address, count, clients)


async def acknowledged_to_sidecar(site: Installation, count: int, clients: int) -> float:
    """Jobs that are due at one instant, acknowledged per second by one sidecar, from a launcher."""
    with launcher(site.url) as address:
        return await _time_acknowledgements(address, count, clients)


async def acknowledged_to_dapr(count: int, clients: int) -> float:
    """The same with Dapr's own scheduler."""
    with dapr_scheduler() as address:
        return await _time_acknowledgements(address, count, clients)


class _Sidecar:
    """A client of a scheduler."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self._schedule = channel.unary_unary(
            f"/{PACKAGE}.Scheduler/ScheduleJob",
            request_serializer=_M["ScheduleJobRequest"].SerializeToString,
            response_deserializer=_M["ScheduleJobResponse"].FromString,
        )

    async def schedule(self, name: str, due_time: str) -> None:
        job = _M["Job"](due_time=due_time, data=any_pb2.Any(value=DATA))
        await self._schedule(_M["ScheduleJobRequest"](name=name, job=job, metadata=_METADATA), wait_for_ready=True)

    async def ready(self) -> None:
        """Returns when the scheduler has stored a job."""
        async with asyncio.timeout(60):
            while True:
                try:
                    return await self.schedule(f"ready{time.time_ns()}", "24h")
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.2)

    async def watch(self, ended: dict[str, float]) -> None:
        """Acknowledges whatever comes on one stream, and writes down when."""
        stream = self._channel.stream_stream(
            f"/{PACKAGE}.Scheduler/WatchJobs",
            request_serializer=_M["WatchJobsRequest"].SerializeToString,
            response_deserializer=_M["WatchJobsResponse"].FromString,
        )(wait_for_ready=True)
        initial = {"app_id": APP, "namespace": "default", "accept_job_types": [0]}
        await stream.write(_M["WatchJobsRequest"](initial=initial))
        async for job in stream:
            await stream.write(_M["WatchJobsRequest"](result={"id": job.id, "status": 0}))
            ended[job.name] = time.time()


@asynccontextmanager
async def _sidecar(address: str) -> AsyncIterator[_Sidecar]:
    async with grpc.aio.insecure_channel(address) as channel:
        sidecar = _Sidecar(channel)
        await sidecar.ready()
        yield sidecar


async def _register(address: str, count: int, clients: int) -> Paced:
    async with _sidecar(address) as sidecar:
        return await pace(count, clients, lambda number: sidecar.schedule(f"k{number}", "24h"))


async def _time_acknowledgements(address: str, count: int, clients: int) -> float:
    ended: dict[str, float] = {}
    async with _sidecar(address) as sidecar, AsyncExitStack() as stack:
        for _ in range(STREAMS):
            stack.callback(asyncio.create_task(sidecar.watch(ended)).cancel)
        due = float(int(time.time() + 5 + count / 300))
        due_time = datetime.fromtimestamp(due, UTC).isoformat().replace("+00:00", "Z")
        await pace(count, clients, lambda number: sidecar.schedule(f"k{number}", due_time))
        if time.time() > due - 1:
            raise SystemExit(f"{count} jobs cannot be registered in time")
        deadline = due + 60 + count / 100
        while len(ended) < count:
            if time.time() > deadline:
                raise SystemExit(f"{count - len(ended)} jobs have not arrived")
            await asyncio.sleep(0.01)
        if early := sum(at < due for at in ended.values()):
            raise SystemExit(f"{early} jobs arrived early")
    return count / (max(ended.values()) - due)
