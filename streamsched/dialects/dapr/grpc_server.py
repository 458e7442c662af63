"""gRPC `dapr.proto.runtime.v1.Dapr`: the calls for jobs, each also under its name with `Alpha1`.

Other calls of the service are UNIMPLEMENTED. An error has `google.rpc.ErrorInfo` in the trailer
`grpc-status-details-bin`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import grpc
import structlog
from dapr.proto.common.v1 import common_pb2
from dapr.proto.runtime.v1 import jobs_pb2
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from streamsched.dialects.dapr.codec.job import (
    DEFAULT_FAILURE,
    ConstantFailure,
    DaprData,
    DaprJob,
    DropFailure,
    FailurePolicy,
)
from streamsched.dialects.dapr.codec.job_json import MOST_SECONDS
from streamsched.dialects.dapr.codec.refusal import JobAnswer, JobOperation, answer_of
from streamsched.dialects.dapr.desk import DaprDesk, KnownJob
from streamsched.dialects.dapr.endpoint import DaprEndpoint
from streamsched.domain.errors import ConfigurationError, InvalidDefinitionError, StreamschedError
from streamsched.setting_values import url_here

log = structlog.get_logger()

_SERVICE: Final = "dapr.proto.runtime.v1.Dapr"
_MICROSECOND: Final = timedelta(microseconds=1)
#: Seconds that calls may go on when the server stops.
_GRACE_S: Final = 2.0

#: Options of Dapr's servers. Sidecars ping an idle connection every 10 s, which gRPC takes for an attack and cuts the
#: connection unless it is allowed. A peer that has vanished without a word is noticed within 15 s.
SERVER_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_concurrent_streams", 1000),
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),
)
#: Calls of all connections at a time; more are RESOURCE_EXHAUSTED.
MOST_CALLS: Final = 2000
#: Characters of a message: it goes out twice, in headers that clients read up to 8 KiB of.
_LONGEST_MESSAGE: Final = 300

_Answer = Callable[[Any], Awaitable[Any]]


class DaprGrpcServer:
    """One endpoint. Bound when it is created, in the event loop that runs it.

    Raises:
        ConfigurationError: the port is in use, or the address is not one of this machine.
    """

    def __init__(self, desk: DaprDesk, endpoint: DaprEndpoint, *, host: str, port: int) -> None:
        self._desk = desk
        self._endpoint = endpoint
        self._server = grpc.aio.server(options=SERVER_OPTIONS, maximum_concurrent_rpcs=MOST_CALLS)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, self._methods()),))
        try:
            self.port = self._server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        except RuntimeError as exc:
            raise ConfigurationError(
                f"cannot listen on {host}:{port}; choose another port with --grpc-port or STREAMSCHED_DAPR_GRPC_PORT, "
                "or stop the process that uses it"
            ) from exc
        self.address = url_here(host, self.port).removeprefix("http://")

    async def run(self) -> None:
        """Serves until cancelled."""
        await self._server.start()
        try:
            await self._server.wait_for_termination()
        finally:
            await self._server.stop(_GRACE_S)

    def _methods(self) -> dict[str, grpc.RpcMethodHandler]:
        schedule = self._handler(JobOperation.SCHEDULE, self._schedule, jobs_pb2.ScheduleJobRequest)
        get = self._handler(JobOperation.GET, self._get, jobs_pb2.GetJobRequest)
        delete = self._handler(JobOperation.DELETE, self._delete, jobs_pb2.DeleteJobRequest)
        return {
            "ScheduleJob": schedule,
            "ScheduleJobAlpha1": schedule,
            "GetJob": get,
            "GetJobAlpha1": get,
            "DeleteJob": delete,
            "DeleteJobAlpha1": delete,
            "ListJobs": self._handler(
                JobOperation.LIST, self._list_with(jobs_pb2.ListJobsResponse), jobs_pb2.ListJobsRequest
            ),
            "ListJobsAlpha1": self._handler(
                JobOperation.LIST, self._list_with(jobs_pb2.ListJobsResponseAlpha1), jobs_pb2.ListJobsRequestAlpha1
            ),
            "DeleteJobsByPrefix": self._handler(
                JobOperation.DELETE,
                self._delete_with(jobs_pb2.DeleteJobsByPrefixResponse),
                jobs_pb2.DeleteJobsByPrefixRequest,
            ),
            "DeleteJobsByPrefixAlpha1": self._handler(
                JobOperation.DELETE,
                self._delete_with(jobs_pb2.DeleteJobsByPrefixResponseAlpha1),
                jobs_pb2.DeleteJobsByPrefixRequestAlpha1,
            ),
        }

    def _handler(self, operation: JobOperation, answer: _Answer, request: Any) -> grpc.RpcMethodHandler:
        async def handle(message: bytes, context: grpc.aio.ServicerContext) -> Any:
            metadata = {str(name): str(value) for name, value in context.invocation_metadata() or ()}
            if not self._endpoint.admits(metadata):
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the api token is missing or wrong")
            try:
                parsed = request.FromString(message)
            except DecodeError:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the message is no request of this call")
            try:
                return await answer(parsed)
            except StreamschedError as exc:
                refused = answer_of(operation, exc, strict=self._endpoint.strict)
                if refused.status >= 500:
                    log.warning("dapr.request_failed", operation=operation, error=str(exc))
            return await _abort(context, refused, self._endpoint)

        # Without a deserializer the message comes as bytes: it is parsed only for a caller with the token.
        return grpc.unary_unary_rpc_method_handler(handle, response_serializer=serialize)

    async def _schedule(self, request: jobs_pb2.ScheduleJobRequest) -> jobs_pb2.ScheduleJobResponse:
        job = job_from_message(request.job) if request.HasField("job") else None
        await self._desk.schedule(self._endpoint.app, job, overwrite=request.overwrite, strict=self._endpoint.strict)
        return jobs_pb2.ScheduleJobResponse()

    async def _get(self, request: jobs_pb2.GetJobRequest) -> jobs_pb2.GetJobResponse:
        found = await self._desk.get(self._endpoint.app, request.name)
        return jobs_pb2.GetJobResponse(job=job_to_message(found.job))

    async def _delete(self, request: jobs_pb2.DeleteJobRequest) -> jobs_pb2.DeleteJobResponse:
        await self._desk.delete(self._endpoint.app, request.name)
        return jobs_pb2.DeleteJobResponse()

    def _list_with(self, response: Any) -> _Answer:
        async def answer(_: Any) -> Any:
            def write_jobs(found: Sequence[KnownJob]) -> bytes:
                return response(jobs=[job_to_message(each.job) for each in found]).SerializeToString()

            # Messages of a repeated field, one after another, are the message of all.
            return await self._desk.message(self._endpoint.app, write_jobs)

        return answer

    def _delete_with(self, response: Any) -> _Answer:
        async def answer(request: Any) -> Any:
            await self._desk.delete_prefix(self._endpoint.app, request.name_prefix)
            return response()

        return answer


def grpc_message(text: str) -> str:
    """A message of an error, as long as it may be in gRPC's headers."""
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"


def serialize(message: Any) -> bytes:
    """The bytes of a message, or of one that is serialized already."""
    return message if isinstance(message, bytes) else message.SerializeToString()


def job_from_message(message: jobs_pb2.Job) -> DaprJob:
    """The job in a message. An `Any` without type and value is no data: the Python SDK always sends one."""
    data = DaprData(message.data.type_url, message.data.value) if message.HasField("data") else None
    return DaprJob(
        name=message.name,
        schedule=message.schedule if message.HasField("schedule") else None,
        repeats=message.repeats if message.HasField("repeats") else None,
        due_time=message.due_time if message.HasField("due_time") else None,
        ttl=message.ttl if message.HasField("ttl") else None,
        data=None if data == DaprData() else data,
        failure_policy=_policy(message.failure_policy) if message.HasField("failure_policy") else None,
    )


def job_to_message(job: DaprJob) -> jobs_pb2.Job:
    """The message of a job, with the failure policy that applies."""
    message = jobs_pb2.Job(
        name=job.name,
        schedule=job.schedule,
        repeats=job.repeats,
        due_time=job.due_time,
        ttl=job.ttl,
        failure_policy=_policy_message(job.failure_policy or DEFAULT_FAILURE),
    )
    if job.data is not None:
        message.data.CopyFrom(any_pb2.Any(type_url=job.data.type_url, value=job.data.value))
    return message


def _policy(message: common_pb2.JobFailurePolicy) -> FailurePolicy | None:
    match message.WhichOneof("policy"):
        case "drop":
            return DropFailure()
        case "constant":
            constant = message.constant
            interval = constant.interval
            if abs(interval.seconds) > MOST_SECONDS:
                raise InvalidDefinitionError("$.failurePolicy.constant.interval", f"is {interval.seconds} seconds")
            return ConstantFailure(
                timedelta(seconds=interval.seconds, microseconds=interval.nanos // 1000),
                constant.max_retries if constant.HasField("max_retries") else None,
            )
        case _:
            return None


def _policy_message(policy: FailurePolicy) -> common_pb2.JobFailurePolicy:
    match policy:
        case DropFailure():
            return common_pb2.JobFailurePolicy(drop=common_pb2.JobFailurePolicyDrop())
        case ConstantFailure(interval=interval, max_retries=retries):
            seconds, micro = divmod(interval // _MICROSECOND, 1_000_000)
            duration = duration_pb2.Duration(seconds=seconds, nanos=1000 * micro)
            constant = common_pb2.JobFailurePolicyConstant(interval=duration, max_retries=retries)
            return common_pb2.JobFailurePolicy(constant=constant)


async def _abort(context: grpc.aio.ServicerContext, answer: JobAnswer, endpoint: DaprEndpoint) -> None:
    code = grpc.StatusCode[answer.grpc]
    info = error_details_pb2.ErrorInfo(
        reason=answer.code,
        domain="dapr.io",
        metadata={"appID": endpoint.app.app, "namespace": endpoint.app.namespace},
    )
    detail = any_pb2.Any()
    detail.Pack(info)
    message = grpc_message(answer.message)
    status = status_pb2.Status(code=code.value[0], message=message, details=[detail])
    await context.abort(code, message, trailing_metadata=(("grpc-status-details-bin", status.SerializeToString()),))
