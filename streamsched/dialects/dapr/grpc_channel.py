"""Delivery to an app over gRPC: `AppCallback.OnJobEvent`, else `AppCallbackAlpha.OnJobEventAlpha1`."""

from __future__ import annotations

import asyncio
from typing import Final

import grpc
from dapr.proto.common.v1 import common_pb2
from dapr.proto.runtime.v1 import appcallback_pb2, appcallback_pb2_grpc
from google.protobuf import any_pb2

from streamsched.dialects.dapr.app_channel import CONNECT_S, REASON, TIMEOUT, JobDelivery, JobDeliveryResult
from streamsched.dialects.dapr.codec.job import DaprJob
from streamsched.dialects.dapr.store.instances import AppInstance
from streamsched.process.cancellation import cancel

#: How gRPC ends a call whose connection broke. An app can answer the same, but then its connection is there.
_CUT: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL})
#: Seconds within which a channel says that its connection broke, after the calls have ended: a few milliseconds.
_NOTICED_S: Final = 0.25


class GrpcAppChannel:
    """See `dapr.app_channel.AppChannel`. Addresses come from settings of endpoints only, so they may be anywhere."""

    def __init__(self, instance: AppInstance) -> None:
        self._address = instance.address
        options = (
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.enable_http_proxy", 0),
        )
        self._channel = grpc.aio.insecure_channel(instance.address.removeprefix("grpc://"), options=options)
        self._stable = appcallback_pb2_grpc.AppCallbackStub(self._channel)
        self._alpha = appcallback_pb2_grpc.AppCallbackAlphaStub(self._channel)
        self._metadata = (("dapr-api-token", instance.token),) if instance.token else ()
        self._broken = asyncio.Event()  # of the connection that there is now
        self._following: asyncio.Task[None] | None = None

    async def is_ready(self) -> bool:
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._channel.channel_ready()
        except TimeoutError:
            return False
        return True

    async def deliver(self, job: DaprJob) -> JobDelivery:
        if self._channel.get_state(try_to_connect=True) is not grpc.ChannelConnectivity.READY and not (
            await self.is_ready()
        ):
            return JobDelivery(JobDeliveryResult.UNREACHABLE, f"app {self._address} does not answer")
        self._following = self._following or asyncio.create_task(self._follow())
        request, broken = _request(job), self._broken
        try:
            try:
                await self._stable.OnJobEvent(request, timeout=TIMEOUT.total_seconds(), metadata=self._metadata)
            except grpc.aio.AioRpcError as exc:
                if exc.code() is not grpc.StatusCode.UNIMPLEMENTED:
                    raise
                await self._alpha.OnJobEventAlpha1(request, timeout=TIMEOUT.total_seconds(), metadata=self._metadata)
        except grpc.aio.AioRpcError as exc:
            detail = f"{exc.code().name}: {exc.details()}"[:REASON]
            if exc.code() is grpc.StatusCode.NOT_FOUND:
                return JobDelivery(JobDeliveryResult.UNHANDLED, f"{detail}; the app has no handler for this job")
            if exc.code() in _CUT and await self._is_lost(broken):
                return JobDelivery(JobDeliveryResult.LOST, f"app {self._address} was lost: {detail}")
            return JobDelivery(JobDeliveryResult.FAILED, detail)
        return JobDelivery(JobDeliveryResult.DELIVERED, "OK")

    async def close(self) -> None:
        if self._following is not None:
            await cancel(self._following)
        await self._channel.close(grace=None)

    async def _follow(self) -> None:
        """Sets the event of each connection when it breaks."""
        while True:
            state = self._channel.get_state()
            await self._channel.wait_for_state_change(state)
            if state is grpc.ChannelConnectivity.READY:
                self._broken.set()
                self._broken = asyncio.Event()

    async def _is_lost(self, broken: asyncio.Event) -> bool:
        """Whether the connection of a call that has just ended broke."""
        try:
            async with asyncio.timeout(_NOTICED_S):
                return await broken.wait()
        except TimeoutError:
            return self._channel.get_state() is not grpc.ChannelConnectivity.READY


def _request(job: DaprJob) -> appcallback_pb2.JobEventRequest:
    request = appcallback_pb2.JobEventRequest(
        name=job.name,
        method=f"job/{job.name}",
        content_type="" if job.data is None else job.data.type_url,
        http_extension=common_pb2.HTTPExtension(verb=common_pb2.HTTPExtension.POST),
    )
    if job.data is not None:
        request.data.CopyFrom(any_pb2.Any(type_url=job.data.type_url, value=job.data.value))
    return request
