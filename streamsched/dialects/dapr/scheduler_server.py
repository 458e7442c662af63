"""gRPC `dapr.proto.scheduler.v1.Scheduler`: a launcher in place of Dapr's scheduler, for unchanged sidecars.

A sidecar asks any scheduler for the addresses of all (`WatchHosts`), and opens streams to each (`WatchJobs`). A stream
is a worker of the queue of its app, and of those of the actor types that it hosts: it gets what this launcher starts,
acknowledges each by number, and what it has not acknowledged when it ends is delivered again. Unknown and repeated
acknowledgements are ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import grpc
import structlog
from dapr.proto.runtime.v1 import jobs_pb2
from google.protobuf import any_pb2

from streamsched.dialects.dapr.codec.job import DaprJob
from streamsched.dialects.dapr.codec.scope import ActorType, DaprApp, DaprScope
from streamsched.dialects.dapr.codec.stored import job_from_bytes
from streamsched.dialects.dapr.desk import DaprDesk, KnownJob
from streamsched.dialects.dapr.grpc_server import (
    MOST_CALLS,
    SERVER_OPTIONS,
    grpc_message,
    job_from_message,
    job_to_message,
    serialize,
)
from streamsched.dialects.dapr.scheduler_messages import PACKAGE, scheduler_messages
from streamsched.dialects.dapr.store.instances import SCHEDULERS, AppInstance, AppInstances
from streamsched.domain.errors import (
    ConfigurationError,
    ConflictError,
    InvalidError,
    NotFoundError,
    StreamschedError,
    UnavailableError,
    describe_failure,
)
from streamsched.domain.tasks.attempt import StartedTask
from streamsched.process.cancellation import cancel
from streamsched.tasks.worker_streams import StoppedDelivery, WorkerStream, WorkerStreams

log = structlog.get_logger()

#: Deliveries at a time on one stream.
CREDIT: Final = 500
#: Seconds between two heartbeats, and two readings of the hosts.
_EVERY_S: Final = 3.0
_GRACE_S: Final = 2.0
#: `accept_job_types`: a stream without any takes all.
_JOBS, _REMINDERS = 0, 1

_Call = Callable[[Any], Awaitable[Any]]


class DaprSchedulerServer:
    """Bound when it is created, in the event loop that runs it. `address`: `host:port`, as sidecars reach it.

    Raises:
        ConfigurationError: the port is in use, or the address is not one of this machine.
    """

    def __init__(self, desk: DaprDesk, workers: WorkerStreams, instances: AppInstances, *, address: str) -> None:
        self._desk = desk
        self._workers = workers
        self._instances = instances
        self._own = AppInstance(SCHEDULERS, f"grpc://{address}")
        self._messages = scheduler_messages()
        self._server = grpc.aio.server(options=SERVER_OPTIONS, maximum_concurrent_rpcs=MOST_CALLS)
        handlers = grpc.method_handlers_generic_handler(f"{PACKAGE}.Scheduler", self._methods())
        self._server.add_generic_rpc_handlers((handlers,))
        try:
            self._server.add_insecure_port(address)
        except RuntimeError as exc:
            raise ConfigurationError(f"STREAMSCHED_DAPR_SCHEDULER cannot listen on {address}") from exc

    async def run(self) -> None:
        """Serves until cancelled."""
        await self._server.start()
        log.info("dapr.scheduler_bound", address=self._own.address)
        try:
            while True:
                try:
                    await self._instances.beat([self._own])
                except UnavailableError as exc:
                    log.debug("dapr.scheduler_not_announced", reason=str(exc))
                await asyncio.sleep(_EVERY_S)
        finally:
            with suppress(UnavailableError, TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    await self._instances.remove([self._own])  # sidecars send their requests to the others
            await self._server.stop(_GRACE_S)

    def _methods(self) -> dict[str, grpc.RpcMethodHandler]:
        calls: dict[str, _Call] = {
            "ScheduleJob": self._schedule,
            "GetJob": self._get,
            "DeleteJob": self._delete,
            "ListJobs": self._list,
            "DeleteByMetadata": self._delete_by_metadata,
            "DeleteByNamePrefix": self._delete_by_prefix,
        }
        methods = {
            name: grpc.unary_unary_rpc_method_handler(_translate_errors(call), **self._forms(name))
            for name, call in calls.items()
        }
        methods["WatchHosts"] = grpc.unary_stream_rpc_method_handler(self._watch_hosts, **self._forms("WatchHosts"))
        methods["WatchJobs"] = grpc.stream_stream_rpc_method_handler(self._watch_jobs, **self._forms("WatchJobs"))
        return methods

    def _forms(self, name: str) -> dict[str, Any]:
        return {
            "request_deserializer": self._messages[f"{name}Request"].FromString,
            "response_serializer": serialize,
        }

    async def _schedule(self, request: Any) -> Any:
        scope, name = _read_address(request.metadata, request.name)
        job = replace(job_from_message(_of_runtime(request.job, request.name)), name=name)
        await self._desk.schedule(scope, job, overwrite=request.overwrite, strict=True)
        return self._messages["ScheduleJobResponse"]()

    async def _get(self, request: Any) -> Any:
        found = await self._desk.get(*_read_address(request.metadata, request.name))
        return self._messages["GetJobResponse"](job=self._job(found.job))

    async def _delete(self, request: Any) -> Any:
        await self._desk.delete(*_read_address(request.metadata, request.name))
        return self._messages["DeleteJobResponse"]()

    async def _list(self, request: Any) -> Any:
        scope = _scope(request.metadata)
        prefix = _actor_prefix(request.metadata)

        def write_jobs(found: Sequence[KnownJob]) -> bytes:
            jobs = []
            for each in found:
                name, metadata = self._name_and_metadata(scope, request.metadata.app_id, each.job.name)
                jobs.append(self._messages["NamedJob"](name=name, metadata=metadata, job=self._job(each.job)))
            return self._messages["ListJobsResponse"](jobs=jobs).SerializeToString()

        return await self._desk.message(scope, write_jobs, prefix)

    async def _delete_by_metadata(self, request: Any) -> Any:
        prefix = _actor_prefix(request.metadata)
        if request.id_prefix_match:
            prefix = prefix.removesuffix("||")
        await self._desk.delete_prefix(_scope(request.metadata), prefix)
        return self._messages["DeleteByMetadataResponse"]()

    async def _delete_by_prefix(self, request: Any) -> Any:
        prefix = _actor_prefix(request.metadata) + request.name_prefix
        await self._desk.delete_prefix(_scope(request.metadata), prefix)
        return self._messages["DeleteByNamePrefixResponse"]()

    async def _watch_hosts(self, _: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
        shown: Sequence[str] = ()
        while True:
            try:
                live = [each.address for each in await self._instances.live_instances() if each.queue == SCHEDULERS]
            except UnavailableError:
                live = list(shown)
            hosts = sorted({*live, self._own.address})
            if hosts != shown:
                shown = hosts
                host = self._messages["Host"]
                yield self._messages["WatchHostsResponse"](
                    hosts=[host(address=each.removeprefix("grpc://")) for each in hosts]
                )
            await asyncio.sleep(_EVERY_S)

    async def _watch_jobs(self, requests: AsyncIterator[Any], context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
        first = await anext(aiter(requests), None)
        if first is None:
            return
        if not first.HasField("initial"):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message must be initial")
        initial = first.initial
        kinds = set(initial.accept_job_types) or {_JOBS, _REMINDERS}
        try:
            queues = [DaprApp(initial.namespace, initial.app_id).queue] if _JOBS in kinds else []
            if _REMINDERS in kinds:
                queues += [ActorType(initial.namespace, each).queue for each in initial.actor_types]
        except InvalidError as exc:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, grpc_message(str(exc)))
            return
        log.info("dapr.sidecar_connected", app=initial.app_id, namespace=initial.namespace, queues=len(queues))
        with self._workers.connect(queues, credit=CREDIT) as stream:
            sent: dict[int, str] = {}
            acknowledging = asyncio.create_task(_acknowledge(requests, stream, sent))
            acknowledging.add_done_callback(lambda _: stream.end())
            try:
                async for response in self._triggers(stream, sent, initial, acknowledging):
                    yield response
            finally:
                await cancel(acknowledging)

    async def _triggers(
        self, stream: WorkerStream, sent: dict[int, str], initial: Any, until: asyncio.Task[None]
    ) -> AsyncIterator[Any]:
        """The deliveries of a stream, numbered, until the sidecar ends it or this launcher stops."""
        number = 0
        while (news := await stream.news()) is not None and not until.done():
            if isinstance(news, StoppedDelivery):
                for known in [each for each, token in sent.items() if token == news.token]:
                    del sent[known]
                continue
            number += 1
            try:
                response = self._trigger(news, initial, number)
            except InvalidError as exc:
                stream.fail(news.token, describe_failure(exc))
                continue
            sent[number] = news.token
            yield response

    def _trigger(self, task: StartedTask, initial: Any, number: int) -> Any:
        job = job_from_bytes(task.key, task.data)
        prefix, namespace, rest = task.queue.split(".", 2)
        scope = DaprApp(namespace, rest) if prefix == "dapr" else ActorType(namespace, rest)
        name, metadata = self._name_and_metadata(scope, initial.app_id, task.key)
        response = self._messages["WatchJobsResponse"](name=name, id=number, metadata=metadata)
        if job.data is not None:
            response.data.CopyFrom(any_pb2.Any(type_url=job.data.type_url, value=job.data.value))
        return response

    def _name_and_metadata(self, scope: DaprScope, app: str, job_name: str) -> tuple[str, Any]:
        """The name and the metadata of a job or a reminder."""
        metadata = self._messages["JobMetadata"](namespace=scope.namespace, app_id=app)
        if isinstance(scope, DaprApp):
            metadata.target.job.SetInParent()
            return job_name, metadata
        actor, reminder = ActorType.reminder(job_name)
        metadata.target.actor.type, metadata.target.actor.id = scope.type, actor
        return reminder, metadata

    def _job(self, job: DaprJob) -> Any:
        found = job_to_message(job)
        message = self._messages["Job"]()
        for name in ("schedule", "repeats", "due_time", "ttl"):
            if found.HasField(name):
                setattr(message, name, getattr(found, name))
        for name in ("data", "failure_policy"):
            if found.HasField(name):
                getattr(message, name).ParseFromString(getattr(found, name).SerializeToString())
        return message


def _of_runtime(job: Any, name: str) -> jobs_pb2.Job:
    """The job as a message of the runtime's package."""
    message = jobs_pb2.Job(name=name)
    for field in ("schedule", "repeats", "due_time", "ttl"):
        if job.HasField(field):
            setattr(message, field, getattr(job, field))
    for field in ("data", "failure_policy"):
        if job.HasField(field):
            getattr(message, field).ParseFromString(getattr(job, field).SerializeToString())
            getattr(message, field).SetInParent()
    return message


def _scope(metadata: Any) -> DaprScope:
    if metadata.target.HasField("actor"):
        return ActorType(metadata.namespace, metadata.target.actor.type)
    return DaprApp(metadata.namespace, metadata.app_id)


def _read_address(metadata: Any, name: str) -> tuple[DaprScope, str]:
    """The scope and the name of a job."""
    scope = _scope(metadata)
    return scope, name if isinstance(scope, DaprApp) else ActorType.job_name(metadata.target.actor.id, name)


def _actor_prefix(metadata: Any) -> str:
    """How the names of an actor's reminders begin; empty for a whole app or type."""
    actor = metadata.target.actor.id if metadata.target.HasField("actor") else ""
    return f"{actor}||" if actor else ""


def _translate_errors(call: _Call) -> Callable[[Any, grpc.aio.ServicerContext], Awaitable[Any]]:
    async def handle(request: Any, context: grpc.aio.ServicerContext) -> Any:
        try:
            return await call(request)
        except StreamschedError as exc:
            match exc:
                case InvalidError(path=path, reason=reason):
                    text = reason if path == "$" else f"{path.removeprefix('$.')}: {reason}"
                    code = grpc.StatusCode.INVALID_ARGUMENT
                case NotFoundError(name=name):
                    code, text = grpc.StatusCode.NOT_FOUND, f"job not found: {name}"
                case ConflictError():
                    code, text = grpc.StatusCode.ALREADY_EXISTS, str(exc)
                case _:
                    log.warning("dapr.request_failed", operation=call.__name__.strip("_"), error=str(exc))
                    code, text = grpc.StatusCode.UNAVAILABLE, str(exc)
        return await context.abort(code, grpc_message(text))

    return handle


async def _acknowledge(requests: AsyncIterator[Any], stream: WorkerStream, sent: dict[int, str]) -> None:
    """Ends deliveries as the sidecar says; returns when its side of the stream ends."""
    async for request in requests:
        token = sent.pop(request.result.id, None)
        if token is None:
            continue
        if request.result.status:
            stream.fail(token, "the sidecar reports a failure")
        else:
            stream.acknowledge(token, "OK")
