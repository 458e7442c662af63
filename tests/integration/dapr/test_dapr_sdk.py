"""Dapr's Python SDK, unchanged: clients in processes' threads and asyncio, an app with `@app.job_event`; raw gRPC."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from dapr.aio.clients import DaprClient as AsyncDaprClient
from dapr.clients import DaprClient
from dapr.clients.exceptions import DaprGrpcError
from dapr.clients.grpc._jobs import ConstantFailurePolicy, DropFailurePolicy, Job
from dapr.proto.runtime.v1 import dapr_pb2_grpc, jobs_pb2
from google.protobuf.any_pb2 import Any as AnyMessage

from compose.ports import free_port
from streamsched.dialects.dapr.codec.value import VALUE, value_to_bytes
from streamsched.dialects.dapr.settings import DaprSettings
from tests.integration.dapr.apps import sdk_app
from tests.integration.dapr.conftest import DaprInstallation


@pytest.fixture
def sdk(installation: DaprInstallation, monkeypatch: pytest.MonkeyPatch) -> DaprInstallation:
    """The variables by which the SDK finds the endpoint."""
    from dapr.conf import settings

    chosen = {
        "DAPR_HTTP_PORT": installation.settings.group(DaprSettings).http_port,
        "DAPR_GRPC_PORT": installation.settings.group(DaprSettings).grpc_port,
        "DAPR_RUNTIME_HOST": "127.0.0.1",
        "DAPR_HEALTH_TIMEOUT": 20,
        "DAPR_API_TOKEN": "s3cret",
    }
    for name, value in chosen.items():
        monkeypatch.setenv(name, str(value))
        monkeypatch.setattr(settings, name, value)
    return installation


def scheduled_by_the_client() -> list[object]:
    """What a synchronous client does, in a thread."""
    with DaprClient() as client:
        job = Job(
            name="j1",
            schedule="@every 1h",
            repeats=3,
            due_time="30m",
            ttl="5h",
            data=AnyMessage(type_url="a/b", value=b'{"a":1}'),
            failure_policy=ConstantFailurePolicy(2, 1),
        )
        client.schedule_job(job)
        found = client.get_job("j1")
        assert (found.name, found.schedule, found.repeats, found.due_time, found.ttl) == (
            "j1",
            "@every 1h",
            3,
            "30m",
            "5h",
        )
        assert found.data is not None
        assert (found.data.type_url, found.data.value) == ("a/b", b'{"a":1}')
        assert isinstance(found.failure_policy, ConstantFailurePolicy)
        assert (found.failure_policy.max_retries, found.failure_policy.interval_seconds) == (2, 1)
        refused: list[object] = []
        for attempt in (
            lambda: client.schedule_job(Job(name="j1", due_time="5s")),
            lambda: client.schedule_job(Job(name="j2", schedule="* * * * *")),
            lambda: client.get_job("none"),
        ):
            with pytest.raises(DaprGrpcError) as error:
                attempt()
            refused.append((error.value.code(), error.value.error_code()))
        client.schedule_job(Job(name="j1", due_time="1h", failure_policy=DropFailurePolicy()), overwrite=True)
        again = client.get_job("j1")
        assert (again.schedule, again.data, type(again.failure_policy)) == (None, None, DropFailurePolicy)
        with pytest.warns(DeprecationWarning, match="deprecated"):  # noqa: PT031
            client.schedule_job_alpha1(Job(name="old", due_time="1h"))
            assert client.get_job_alpha1("old").due_time == "1h"
            client.delete_job_alpha1("old")
        client.delete_job("j1")
        client.delete_job("j1")
        with pytest.raises(DaprGrpcError) as gone:
            client.get_job("j1")
        return [*refused, gone.value.code()]


async def test_the_synchronous_client(sdk: DaprInstallation) -> None:
    async with sdk.endpoint(dapr_api_token="s3cret"):
        answers = await asyncio.to_thread(scheduled_by_the_client)

    assert answers == [
        (grpc.StatusCode.ALREADY_EXISTS, "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (grpc.StatusCode.INVALID_ARGUMENT, "DAPR_SCHEDULER_SCHEDULE_JOB"),
        (grpc.StatusCode.NOT_FOUND, "DAPR_SCHEDULER_GET_JOB"),
        grpc.StatusCode.NOT_FOUND,
    ]


async def scheduled_by_the_asynchronous_client() -> None:
    """In an event loop of its own: its constructor blocks until the endpoint answers."""
    async with AsyncDaprClient() as client:
        text = AnyMessage(type_url="type.googleapis.com/google.protobuf.StringValue", value=b"payload")
        await client.schedule_job(Job(name="often", schedule="@every 200ms", repeats=3, data=text))
        await client.schedule_job(Job(name="once", due_time="1s"))
        policy = ConstantFailurePolicy(max_retries=5, interval_seconds=0)
        await client.schedule_job(Job(name="bad", due_time="0s", failure_policy=policy))
        await client.schedule_job(Job(name="no handler", due_time="0s", failure_policy=DropFailurePolicy()))
        assert (await client.get_job("once")).due_time == "1s"


async def test_the_asynchronous_client_and_an_app_of_the_sdk(sdk: DaprInstallation) -> None:
    port = free_port()
    async with (
        sdk.launcher(),
        sdk.endpoint(dapr_api_token="s3cret", dapr_app=f"grpc://127.0.0.1:{port}") as http,
        sdk_app(port, "often", "once", "bad") as lines,
    ):
        await asyncio.to_thread(asyncio.run, scheduled_by_the_asynchronous_client())
        got = [(await lines.readline()).decode().strip() for _ in range(7)]
        async with asyncio.timeout(20):
            for name in ("often", "once", "bad", "no handler"):
                while (await http.get(f"/v1.0/jobs/{name}", headers={"dapr-api-token": "s3cret"})).is_success:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)

    assert sorted(got) == ["bad", "bad", "bad", "often payload", "often payload", "often payload", "once"]


async def test_lists_prefixes_and_tokens_by_raw_calls(sdk: DaprInstallation) -> None:
    async with (
        sdk.endpoint(dapr_api_token="s3cret"),
        grpc.aio.insecure_channel(f"127.0.0.1:{sdk.settings.group(DaprSettings).grpc_port}") as channel,
    ):
        stub = dapr_pb2_grpc.DaprStub(channel)
        token = (("dapr-api-token", "s3cret"),)
        for name in ("xy", "xyz-1", "a"):
            job = jobs_pb2.Job(name=name, due_time="1h", data=AnyMessage(type_url=VALUE, value=value_to_bytes([1])))
            await stub.ScheduleJob(jobs_pb2.ScheduleJobRequest(job=job), metadata=token)
        listed = await stub.ListJobs(jobs_pb2.ListJobsRequest(), metadata=token)
        alpha = await stub.ListJobsAlpha1(jobs_pb2.ListJobsRequestAlpha1(), metadata=token)
        await stub.DeleteJobsByPrefixAlpha1(jobs_pb2.DeleteJobsByPrefixRequestAlpha1(name_prefix="xy"), metadata=token)
        left = await stub.ListJobs(jobs_pb2.ListJobsRequest(), metadata=token)
        await stub.DeleteJobsByPrefix(jobs_pb2.DeleteJobsByPrefixRequest(), metadata=token)
        none = await stub.ListJobs(jobs_pb2.ListJobsRequest(), metadata=token)
        codes = []
        for call, request, metadata in (
            (stub.GetJob, jobs_pb2.GetJobRequest(name="a"), ()),
            (stub.ScheduleJob, jobs_pb2.ScheduleJobRequest(), token),
            (stub.GetJob, jobs_pb2.GetJobRequest(name=" "), token),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(request, metadata=metadata)
            codes.append(refused.value.code())

    assert [job.name for job in listed.jobs] == [job.name for job in alpha.jobs] == ["a", "xy", "xyz-1"]
    assert listed.jobs[0].failure_policy.constant.max_retries == 3
    assert ([job.name for job in left.jobs], list(none.jobs)) == (["a"], [])
    assert codes == [
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.INVALID_ARGUMENT,
    ]
