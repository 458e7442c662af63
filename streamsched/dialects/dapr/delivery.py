"""Delivers jobs to the instances of their apps: each one that can be reached is a worker of the app's queue.

While no instance can be reached, jobs are staged: no launcher starts them, so they use up no attempt.
"""

from __future__ import annotations

import asyncio
from typing import Final, assert_never
from urllib.parse import urlsplit

import structlog

from streamsched.dialects.dapr.app_channel import AppChannel, JobDeliveryResult
from streamsched.dialects.dapr.codec.stored import job_from_bytes
from streamsched.dialects.dapr.http_channel import HttpAppChannel
from streamsched.dialects.dapr.store.instances import SCHEDULERS, AppInstance, AppInstances
from streamsched.domain.errors import InvalidError, UnavailableError, describe_failure
from streamsched.domain.tasks.attempt import StartedTask
from streamsched.process.cancellation import cancel
from streamsched.tasks.worker_streams import WorkerStream, WorkerStreams

log = structlog.get_logger()

#: Deliveries at a time to one instance, from one launcher.
CREDIT: Final = 100
#: Seconds between two readings of the instances, and two attempts at one that does not answer.
_EVERY: Final = 1.0
#: The same, while gRPC is not installed.
_MISSING_S: Final = 60.0


class DaprDelivery:
    """Belongs to one event loop."""

    def __init__(self, instances: AppInstances, workers: WorkerStreams) -> None:
        self._instances = instances
        self._workers = workers
        self._serving: dict[AppInstance, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Follows the instances until cancelled."""
        try:
            while True:
                await self.step()
                await asyncio.sleep(_EVERY)
        finally:
            await cancel(*self._serving.values())
            self._serving.clear()

    async def step(self) -> None:
        """Connects new instances, and disconnects those that are gone."""
        try:
            live = {each for each in await self._instances.live_instances() if each.queue != SCHEDULERS}
        except UnavailableError as exc:
            log.debug("dapr.instances_unknown", reason=str(exc))
            return
        for instance, serving in list(self._serving.items()):
            if serving.done():  # it broke, or lacks gRPC: connect again
                del self._serving[instance]
        for instance in set(self._serving) - live:
            log.info("dapr.instance_gone", queue=instance.queue, address=instance.address)
            await cancel(self._serving.pop(instance))
        for instance in live - set(self._serving):
            log.info("dapr.instance_found", queue=instance.queue, address=instance.address)
            self._serving[instance] = asyncio.create_task(self._serve(instance))

    async def _serve(self, instance: AppInstance) -> None:
        try:
            channel = open_channel(instance)
        except ModuleNotFoundError as exc:
            log.error("dapr.extra_missing", address=instance.address, reason=describe_failure(exc))
            await asyncio.sleep(_MISSING_S)
            return
        reachable = True
        try:
            while True:
                if await channel.is_ready():
                    log.info("dapr.app_connected", queue=instance.queue, address=instance.address)
                    with self._workers.connect([instance.queue], credit=CREDIT) as stream:
                        await _InstanceStream(stream, channel).run()
                    reachable = True
                if reachable:
                    log.warning("dapr.app_unreachable", queue=instance.queue, address=instance.address)
                reachable = False
                await asyncio.sleep(_EVERY)
        finally:
            await channel.close()


def open_channel(instance: AppInstance) -> AppChannel:
    """A channel to an instance, for the running event loop.

    Raises:
        ModuleNotFoundError: gRPC is not installed.
    """
    if urlsplit(instance.address).scheme == "grpc":
        from streamsched.dialects.dapr.grpc_channel import GrpcAppChannel  # noqa: PLC0415 - it comes with an extra

        return GrpcAppChannel(instance)
    return HttpAppChannel(instance)


class _InstanceStream:
    """The deliveries to one instance, until it cannot be reached."""

    def __init__(self, stream: WorkerStream, channel: AppChannel) -> None:
        self._stream = stream
        self._channel = channel
        self._calls: set[asyncio.Task[None]] = set()
        self._unreachable = asyncio.Event()

    async def run(self) -> None:
        taking = asyncio.create_task(self._take())
        try:
            await self._unreachable.wait()
        finally:
            await cancel(taking, *self._calls)

    async def _take(self) -> None:
        while True:
            call = asyncio.create_task(self._deliver(await self._stream.next_task()))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    async def _deliver(self, task: StartedTask) -> None:
        try:
            job = job_from_bytes(task.key, task.data)
        except InvalidError as exc:
            self._stream.fail(task.token, describe_failure(exc))
            return
        try:
            result, detail = await self._channel.deliver(job)
        except Exception as exc:  # noqa: BLE001 - whatever a channel makes of a job fails that one attempt
            log.error("dapr.delivery_broke", task=task.id, reason=describe_failure(exc))
            result, detail = JobDeliveryResult.FAILED, describe_failure(exc)
        match result:
            case JobDeliveryResult.DELIVERED:
                self._stream.acknowledge(task.token, detail)
            case JobDeliveryResult.UNHANDLED:
                self._stream.acknowledge(task.token, detail, handled=False)
            case JobDeliveryResult.LOST:
                self._stream.mark_lost(task.token, detail)
            case JobDeliveryResult.FAILED:
                self._stream.fail(task.token, detail)
            case JobDeliveryResult.UNREACHABLE:
                self._unreachable.set()  # the end of the stream gives back what it holds: no attempt is used up
            case _:
                assert_never(result)
