"""Delivery to an app over gRPC: `AppCallback.OnJobEvent`, else `AppCallbackAlpha.OnJobEventAlpha1`."""

from __future__ import annotations

import asyncio

import grpc
from dapr.proto.common.v1 import common_pb2
from dapr.proto.runtime.v1 import appcallback_pb2, appcallback_pb2_grpc
from google.protobuf import any_pb2

from streamsched.codec.dapr.job import DaprJob
from streamsched.dapr.app_channel import CONNECT_S, REASON, TIMEOUT, JobDelivery, JobDeliveryResult
from streamsched.ports.dapr.instances import AppInstance


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

    async def ready(self) -> bool:
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._channel.channel_ready()
        except TimeoutError:
            return False
        return True

    async def deliver(self, job: DaprJob) -> JobDelivery:
        if self._channel.get_state(try_to_connect=True) is not grpc.ChannelConnectivity.READY and not (
            await self.ready()
        ):
            return JobDelivery(JobDeliveryResult.UNREACHABLE, f"app {self._address} does not answer")
        request = _request(job)
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
                return JobDelivery(JobDeliveryResult.DELIVERED, f"{detail}; the app has no handler for this job")
            return JobDelivery(JobDeliveryResult.FAILED, detail)
        return JobDelivery(JobDeliveryResult.DELIVERED, "OK")

    async def close(self) -> None:
        await self._channel.close(grace=None)


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
