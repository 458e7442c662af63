"""What is refused over gRPC: codes, messages and `ErrorInfo`, hostile names, data at the limit and over it. A refusal
changes nothing, and the next request is answered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
import pytest
from dapr.proto.common.v1 import common_pb2
from dapr.proto.runtime.v1 import dapr_pb2_grpc, jobs_pb2
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from compose.ports import free_port
from streamsched.dialects.dapr.codec.job import DaprData, DaprJob
from streamsched.dialects.dapr.codec.stored import job_to_bytes
from streamsched.dialects.dapr.settings import DaprSettings
from streamsched.domain.tasks.task import MOST_DATA
from tests.integration.dapr.conftest import DaprInstallation
from tests.integration.dapr.sidecar import M, Sidecar, of_app

INVALID, EXISTS = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS
SCHEDULE: Final = "DAPR_SCHEDULER_SCHEDULE_JOB"
_EMPTY = DaprJob(name="full", due_time="1h", data=DaprData("a/b", b""))
#: The most bytes of data of a job that has nothing but a due time of an hour and data of type `a/b`.
MOST: Final = MOST_DATA - len(job_to_bytes(_EMPTY))
#: Hostile names that are stored as they are, and those that are refused.
NAMES: Final = ("..a", "%2F%00", "'; DROP TABLE tasks; --", "ü✓\u202e\U0001f600", "$(id)", "a||b||", "x" * 512)
BAD_NAMES: Final = (".", "..", "a/b", "a\\b", "a#b", "a?b", "a\0b", "a\nb", "\x7f", "x" * 513)


def job(name: str = "j", **fields: Any) -> jobs_pb2.Job:
    return jobs_pb2.Job(name=name, **fields)


def data_of(size: int) -> AnyMessage:
    return AnyMessage(type_url="a/b", value=b"x" * size)


def constant(**fields: Any) -> common_pb2.JobFailurePolicy:
    return common_pb2.JobFailurePolicy(constant=common_pb2.JobFailurePolicyConstant(**fields))


REFUSALS: Final = [
    (None, "DAPR_SCHEDULER_EMPTY", "Job is empty"),
    (job("", due_time="1s"), "DAPR_SCHEDULER_JOB_NAME_EMPTY", "Name is empty"),
    (job(" \t", due_time="1s"), "DAPR_SCHEDULER_JOB_NAME_EMPTY", "Name is empty"),
    (job(), "DAPR_SCHEDULER_SCHEDULE_EMPTY", "Schedule is empty"),
    (job(ttl="1s", repeats=2), "DAPR_SCHEDULER_SCHEDULE_EMPTY", "Schedule is empty"),
    (job(schedule=""), "DAPR_SCHEDULER_SCHEDULE_EMPTY", "Schedule is empty"),
    (job(schedule="* * * * *"), SCHEDULE, "expected exactly 6 fields, found 5"),
    (job(schedule="0 0 0 30 2 *"), SCHEDULE, "schedule"),
    (job(schedule="@every 0s"), SCHEDULE, "schedule"),
    (job(schedule="@every -1s"), SCHEDULE, "schedule"),
    (
        job(schedule="TZ=Nowhere/Land 0 0 0 * * *"),
        SCHEDULE,
        "provided bad location Nowhere/Land: unknown time zone Nowhere/Land",
    ),
    (job(due_time="1s", repeats=2), SCHEDULE, "job must have a schedule to repeat"),
    (job(schedule="@daily", repeats=0), SCHEDULE, "defined repeats must be greater than 0"),
    (job(due_time="soon"), SCHEDULE, "dueTime"),
    (job(due_time="2026-02-30T00:00:00Z"), SCHEDULE, "dueTime"),
    (job(due_time="R3/PT1S"), SCHEDULE, "dueTime"),
    (job(due_time="1s", ttl="1s"), SCHEDULE, "ttl"),
    (job(schedule="@daily", due_time="2040-01-02T00:00:00Z", ttl="2040-01-01T00:00:00Z"), SCHEDULE, "ttl"),
    (job(due_time="1s", failure_policy=constant(interval=Duration(seconds=-1))), SCHEDULE, "failurePolicy"),
    (job(due_time="1s", failure_policy=constant(interval=Duration(seconds=10**12))), SCHEDULE, "failurePolicy"),
    (job(due_time="1h", data=data_of(MOST + 1)), SCHEDULE, "262144"),
    *((job(name, due_time="1h"), SCHEDULE, "name") for name in BAD_NAMES),
]


@pytest.fixture
async def stub(installation: DaprInstallation) -> AsyncIterator[Any]:
    """The calls of an app, as the SDK's client has them."""
    async with (
        installation.endpoint(),
        grpc.aio.insecure_channel(f"127.0.0.1:{installation.settings.group(DaprSettings).grpc_port}") as channel,
    ):
        yield dapr_pb2_grpc.DaprStub(channel)


@pytest.fixture
async def sidecar(installation: DaprInstallation) -> AsyncIterator[Sidecar]:
    """A sidecar of a launcher that takes the place of Dapr's scheduler."""
    address = f"127.0.0.1:{free_port()}"
    async with installation.launcher(dapr_scheduler=address), grpc.aio.insecure_channel(address) as channel:
        found = Sidecar(channel)
        await found.hosts(1)
        yield found


async def refusal(call: Any) -> tuple[grpc.StatusCode, str, str]:
    """Status, code and message of an error; its trailer says the same."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    details = dict(error.value.trailing_metadata())["grpc-status-details-bin"]
    status = status_pb2.Status.FromString(details)  # type: ignore[arg-type]
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.domain, dict(info.metadata)) == ("dapr.io", {"appID": "orders", "namespace": "default"})
    assert (status.code, status.message) == (error.value.code().value[0], error.value.details())
    return error.value.code(), info.reason, status.message


async def test_each_refusal_of_an_endpoint_has_its_code_and_its_message(stub: Any) -> None:
    for alpha in ("", "Alpha1"):
        call = getattr(stub, f"ScheduleJob{alpha}")
        for wrong, code, text in REFUSALS:
            found = await refusal(call(jobs_pb2.ScheduleJobRequest(job=wrong)))
            assert found[:2] == (INVALID, code), (wrong, found)
            assert text in found[2], (wrong, found)
            if code == SCHEDULE:
                assert found[2].startswith("failed to schedule job due to: ")
        for name in ("", " "):
            found = await refusal(getattr(stub, f"GetJob{alpha}")(jobs_pb2.GetJobRequest(name=name)))
            assert found == (INVALID, "DAPR_SCHEDULER_JOB_NAME_EMPTY", "Name is empty")
            found = await refusal(getattr(stub, f"DeleteJob{alpha}")(jobs_pb2.DeleteJobRequest(name=name)))
            assert found == (INVALID, "DAPR_SCHEDULER_JOB_NAME_EMPTY", "Name is empty")
        for name in ("none", *(each for each in BAD_NAMES if each.strip())):
            found = await refusal(getattr(stub, f"GetJob{alpha}")(jobs_pb2.GetJobRequest(name=name)))
            assert found[:2] == (grpc.StatusCode.NOT_FOUND, "DAPR_SCHEDULER_GET_JOB")
            await getattr(stub, f"DeleteJob{alpha}")(jobs_pb2.DeleteJobRequest(name=name))
    assert not (await stub.ListJobs(jobs_pb2.ListJobsRequest())).jobs, "no refusal has stored a job"


async def test_a_name_of_any_length_is_answered(stub: Any) -> None:
    for name in ("x" * 5000, "\U0001f600" * 5000, "\U0001f600" * 250_000):
        found = await refusal(stub.GetJob(jobs_pb2.GetJobRequest(name=name)))
        assert found[:2] == (grpc.StatusCode.NOT_FOUND, "DAPR_SCHEDULER_GET_JOB")
        assert found[2].startswith(f"failed to get job due to: job not found: '{name[:100]}")
        found = await refusal(stub.ScheduleJob(jobs_pb2.ScheduleJobRequest(job=job(name, schedule=name))))
        assert found[:2] == (INVALID, SCHEDULE)


async def test_a_message_is_parsed_only_for_who_has_the_token(installation: DaprInstallation) -> None:
    address = f"127.0.0.1:{installation.settings.group(DaprSettings).grpc_port}"
    junk = b"\xff" * 100_000
    async with installation.endpoint(dapr_api_token="s3cret"), grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary("/dapr.proto.runtime.v1.Dapr/ScheduleJob")
        for metadata, code in (
            ((), grpc.StatusCode.UNAUTHENTICATED),
            ((("dapr-api-token", "other"),), grpc.StatusCode.UNAUTHENTICATED),
            ((("dapr-api-token", "s3cret"),), INVALID),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await call(junk, metadata=metadata)
            assert error.value.code() is code


async def test_hostile_names_and_data_at_the_limit_come_back_as_they_were(stub: Any) -> None:
    for name in NAMES:
        await stub.ScheduleJob(jobs_pb2.ScheduleJobRequest(job=job(name, due_time="1h")))
    full = job("full", due_time="1h", data=data_of(MOST))
    await stub.ScheduleJob(jobs_pb2.ScheduleJobRequest(job=full))
    assert (await stub.GetJob(jobs_pb2.GetJobRequest(name="full"))).job.data == full.data
    found = await refusal(stub.ScheduleJob(jobs_pb2.ScheduleJobRequest(job=full)))
    assert found == (EXISTS, SCHEDULE, "failed to schedule job due to: job already exists: 'full'")
    with pytest.raises(grpc.aio.AioRpcError) as large:
        await stub.ScheduleJob(jobs_pb2.ScheduleJobRequest(job=job("huge", due_time="1h", data=data_of(5_000_000))))
    assert large.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    listed = {each.name for each in (await stub.ListJobs(jobs_pb2.ListJobsRequest())).jobs}
    assert listed == {*NAMES, "full"}
    for name in NAMES:
        assert (await stub.GetJob(jobs_pb2.GetJobRequest(name=name))).job.name == name
        await stub.DeleteJob(jobs_pb2.DeleteJobRequest(name=name))
    assert [each.name for each in (await stub.ListJobs(jobs_pb2.ListJobsRequest())).jobs] == ["full"]


async def test_a_scheduler_answers_for_a_name_of_any_length(sidecar: Sidecar) -> None:
    for name in ("x" * 5000, "\U0001f600" * 5000):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await sidecar.call("GetJob", name=name, metadata=of_app("orders"))
        assert error.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_scheduler_refuses_what_an_endpoint_refuses(sidecar: Sidecar) -> None:
    good = M["Job"](due_time="1h")
    refused: list[tuple[dict[str, Any], str]] = [
        ({"name": "", "job": good, "metadata": of_app()}, "Name is empty"),
        ({"name": "j", "job": M["Job"](), "metadata": of_app()}, "Schedule is empty"),
        ({"name": "j", "metadata": of_app()}, "Schedule is empty"),
        ({"name": "j", "job": M["Job"](schedule="x"), "metadata": of_app()}, "expected exactly 6 fields"),
        ({"name": "j", "job": M["Job"](due_time="1h", data=data_of(MOST + 1)), "metadata": of_app()}, "262144"),
        ({"name": "j", "job": good, "metadata": of_app("a/b")}, "letters"),
        ({"name": "j", "job": good, "metadata": {"namespace": "default"}}, "letters"),
        ({"name": "j", "job": good}, "letters"),
        *(({"name": name, "job": good, "metadata": of_app()}, "name") for name in BAD_NAMES if name),
    ]
    for fields, text in refused:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await sidecar.call("ScheduleJob", **fields)
        assert error.value.code() is INVALID, (fields, error.value)
        assert text in str(error.value.details()), (fields, error.value)
    for name in ("ListJobs", "DeleteByMetadata", "DeleteByNamePrefix"):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await sidecar.call(name, metadata=of_app("a b"))
        assert error.value.code() is INVALID
    sidecar.initial = M["WatchJobsRequestInitial"](app_id="a/b", namespace="default")
    stream = await sidecar.watch()
    assert await stream.code() is INVALID
    sidecar.initial = M["WatchJobsRequestInitial"](app_id="orders", namespace="default")
    await sidecar.call("ScheduleJob", name="full", job=M["Job"](due_time="0s", data=data_of(MOST)), metadata=of_app())
    stream = await sidecar.watch()
    trigger = await stream.read()
    assert (trigger.name, trigger.data) == ("full", data_of(MOST)), "the next request is answered"
    await sidecar.end(stream, trigger.id)
    stream.cancel()
