"""A sidecar of app `orders`, written by hand from the protocol: `dapr.proto.scheduler.v1`."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from streamsched.dialects.dapr.scheduler_messages import PACKAGE, scheduler_messages

M = scheduler_messages()


class Sidecar:
    """A sidecar of app `orders`, connected to one scheduler."""

    def __init__(self, channel: grpc.aio.Channel, **initial: Any) -> None:
        self.channel = channel
        self.initial = M["WatchJobsRequestInitial"](app_id="orders", namespace="default", **initial)

    async def call(self, name: str, /, **fields: Any) -> Any:
        method = self.channel.unary_unary(
            f"/{PACKAGE}.Scheduler/{name}",
            request_serializer=M[f"{name}Request"].SerializeToString,
            response_deserializer=M[f"{name}Response"].FromString,
        )
        return await method(M[f"{name}Request"](**fields), wait_for_ready=True, timeout=20)

    async def hosts(self, least: int) -> list[str]:
        """The hosts, when there are so many."""
        method = self.channel.unary_stream(
            f"/{PACKAGE}.Scheduler/WatchHosts",
            request_serializer=M["WatchHostsRequest"].SerializeToString,
            response_deserializer=M["WatchHostsResponse"].FromString,
        )
        async with asyncio.timeout(20):
            async for response in method(M["WatchHostsRequest"](), wait_for_ready=True):
                if len(response.hosts) >= least:
                    return [each.address for each in response.hosts]
        raise AssertionError("the stream ended")

    async def watch(self) -> Any:
        """A stream of jobs that has begun."""
        stream = self.channel.stream_stream(
            f"/{PACKAGE}.Scheduler/WatchJobs",
            request_serializer=M["WatchJobsRequest"].SerializeToString,
            response_deserializer=M["WatchJobsResponse"].FromString,
        )(wait_for_ready=True)
        await stream.write(M["WatchJobsRequest"](initial=self.initial))
        return stream

    @staticmethod
    async def end(stream: Any, number: int, *, failed: bool = False) -> None:
        await stream.write(M["WatchJobsRequest"](result={"id": number, "status": int(failed)}))


def of_app(app: str = "orders") -> Any:
    return {"app_id": app, "namespace": "default", "target": {"job": {}}}


def of_actor(actor: str) -> Any:
    return {"app_id": "orders", "namespace": "default", "target": {"actor": {"type": "cart", "id": actor}}}
