"""The scheduler's own protocol, spoken as a sidecar does: hosts, three streams, acknowledgements, actor reminders."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage

from compose.ports import free_port
from streamsched.dialects.dapr.store.instances import AppInstances
from tests.integration.dapr.conftest import DaprInstallation
from tests.integration.dapr.sidecar import M, Sidecar, of_actor, of_app


async def read(stream: Any) -> Any:
    async with asyncio.timeout(20):
        return await stream.read()


async def test_jobs_go_to_streams_and_come_again_until_they_are_acknowledged(installation: DaprInstallation) -> None:
    address = f"127.0.0.1:{free_port()}"
    async with (
        installation.launcher(dapr_scheduler=address),
        grpc.aio.insecure_channel(address) as channel,
    ):
        sidecar = Sidecar(channel)
        assert await sidecar.hosts(1) == [address]
        data = AnyMessage(type_url="a/b", value=b"\0data")
        job = M["Job"](due_time="0s", data=data, failure_policy={"constant": {"max_retries": 5}})
        await sidecar.call("ScheduleJob", name="j", job=job, metadata=of_app())
        found = (await sidecar.call("GetJob", name="j", metadata=of_app())).job
        assert (found.due_time, found.data.value, found.failure_policy.constant.max_retries) == ("0s", b"\0data", 5)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await sidecar.call("ScheduleJob", name="j", job=job, metadata=of_app())
        assert refused.value.code() is grpc.StatusCode.ALREADY_EXISTS
        with pytest.raises(grpc.aio.AioRpcError) as missing:
            await sidecar.call("GetJob", name="j", metadata=of_app("billing"))
        assert missing.value.code() is grpc.StatusCode.NOT_FOUND

        first = await sidecar.watch()
        trigger = await read(first)
        assert (trigger.name, trigger.data, trigger.metadata.app_id) == ("j", data, "orders")
        assert trigger.metadata.target.HasField("job")
        first.cancel()  # the sidecar ends without an acknowledgement
        streams = [await sidecar.watch() for _ in range(3)]
        reads = [asyncio.ensure_future(read(each)) for each in streams]
        done, _ = await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED)
        stream = streams[reads.index(next(iter(done)))]
        await sidecar.end(stream, 999)  # unknown, ignored
        await sidecar.end(stream, next(iter(done)).result().id, failed=True)
        pending = [each for each in reads if not each.done()] + [asyncio.ensure_future(read(stream))]
        again, rest = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        trigger = next(iter(again)).result()
        winner = streams[reads.index(next(iter(again)))] if next(iter(again)) in reads else stream
        await sidecar.end(winner, trigger.id)
        async with asyncio.timeout(20):
            while (await sidecar.call("ListJobs", metadata=of_app())).jobs:  # noqa: ASYNC110 - the sidecar sees no event of it
                await asyncio.sleep(0.02)
        for each in rest:
            each.cancel()
        for each in streams:
            each.cancel()


async def test_reminders_go_to_those_who_host_the_actor_type(installation: DaprInstallation) -> None:
    address = f"127.0.0.1:{free_port()}"
    async with (
        installation.launcher(dapr_scheduler=address),
        grpc.aio.insecure_channel(address) as channel,
    ):
        host, other = Sidecar(channel, actor_types=["cart"]), Sidecar(channel, accept_job_types=[0])
        for actor in ("a1", "a2", "b1"):
            later = M["Job"](due_time="1h")
            await host.call("ScheduleJob", name="expire", job=later, metadata=of_actor(actor), overwrite=True)
        soon = M["Job"](schedule="@every 10ms", repeats=2)
        await host.call("ScheduleJob", name="tick", job=soon, metadata=of_actor("a1"))
        listed = (await host.call("ListJobs", metadata=of_actor("a1"))).jobs
        assert [(each.name, each.metadata.target.actor.id) for each in listed] == [("expire", "a1"), ("tick", "a1")]
        apps, stream = await other.watch(), await host.watch()
        for _ in range(2):
            trigger = await read(stream)
            actor = trigger.metadata.target.actor
            assert (trigger.name, actor.type, actor.id) == ("tick", "cart", "a1")
            await host.end(stream, trigger.id)
        await host.call("DeleteByMetadata", metadata=of_actor("a"), id_prefix_match=True)
        left = (await host.call("ListJobs", metadata=of_actor(""))).jobs
        assert [(each.name, each.metadata.target.actor.id) for each in left] == [("expire", "b1")]
        await host.call("DeleteByNamePrefix", name_prefix="ex", metadata=of_actor("b1"))
        assert not (await host.call("ListJobs", metadata=of_actor(""))).jobs
        apps.cancel()
        stream.cancel()


async def test_a_quiet_sidecar_that_pings_is_not_cut_off(installation: DaprInstallation) -> None:
    """A real one pings every 10 s, which gRPC takes for an attack unless it is allowed."""
    address = f"127.0.0.1:{free_port()}"
    options = (("grpc.keepalive_time_ms", 20), ("grpc.http2.max_pings_without_data", 0))
    async with (
        installation.launcher(dapr_scheduler=address),
        grpc.aio.insecure_channel(address, options=options) as channel,
    ):
        sidecar = Sidecar(channel)
        await sidecar.hosts(1)
        stream = await sidecar.watch()
        reading = asyncio.ensure_future(stream.read())
        await asyncio.wait((reading,), timeout=2)
        assert not reading.done(), reading
        await sidecar.call("ScheduleJob", name="j", job=M["Job"](due_time="0s"), metadata=of_app())
        async with asyncio.timeout(20):
            assert (await reading).name == "j"
        stream.cancel()


async def test_a_sidecar_hears_of_all_schedulers(installation: DaprInstallation) -> None:
    first, second = sorted(f"127.0.0.1:{free_port()}" for _ in range(2))
    async with installation.launcher(dapr_scheduler=first):
        async with (
            installation.launcher(dapr_scheduler=second),
            grpc.aio.insecure_channel(first) as channel,
        ):
            assert await Sidecar(channel).hosts(2) == [first, second]
        live = await AppInstances(installation.pool).live_instances()
        assert [each.address for each in live] == [f"grpc://{first}"], "one that stops leaves at once"
