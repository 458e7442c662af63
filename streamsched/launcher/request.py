"""HTTP programs: the request of a run, and the end its response means; the task of an enqueue program; the node of an
arrival.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote, quote_plus

import httpx
import orjson

from streamsched.domain.errors import ConfigurationError, InvalidDefinitionError
from streamsched.domain.graph.arrival_job import ArrivalJob
from streamsched.domain.graph.task import NodeId
from streamsched.domain.jobs.run import RunState
from streamsched.domain.limits import add_duration
from streamsched.domain.programs.secret import Secret
from streamsched.domain.schedules.arguments import LOGICAL_START_TIME
from streamsched.domain.schedules.schedule import WITH_BODY, EnqueueJob, HttpJob, check_host
from streamsched.domain.schedules.template import fill_template, filled_json, is_json
from streamsched.domain.tasks.identity import check_task_key
from streamsched.domain.tasks.task import TaskRequest
from streamsched.ports.clock import Clock
from streamsched.ports.runs import Assignment, RunEnd
from streamsched.process.http_client import HttpClient
from streamsched.secrets.redaction import Redaction
from streamsched.secrets.resolver import Secrets
from streamsched.store.runs.arrived_nodes import ArrivedNode
from streamsched.store.runs.run_batch import EnqueuedTask

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _SecretValue(str):
    """The value of a secret, which the operator has written as its place needs it: in a URL it is not encoded."""

    __slots__ = ()


def request(run: Assignment, job: HttpJob, secrets: Mapping[Secret, str] | None = None) -> httpx.Request:
    """The request of this attempt; `Idempotency-Key` is the same for all attempts of a job. `secrets`: the values of
    those that the job refers to.

    Raises:
        ConfigurationError: the run lacks an argument of the template, an argument would choose the host, or the filled
            URL or a header is invalid.
    """
    values = {f"secret:{each.reference}": _SecretValue(value) for each, value in (secrets or {}).items()}
    arguments = {**run.arguments, **values}
    headers = {"Idempotency-Key": run.job or run.run}
    if run.traceparent is not None and "traceparent" not in map(str.lower, job.headers):
        headers["traceparent"] = run.traceparent
    headers |= {name: fill_template(value, arguments, written=_one_line) for name, value in job.headers.items()}
    kind = next((value for name, value in headers.items() if name.lower() == "content-type"), None)
    content = None if job.body is None else _body(job.body, kind, arguments)
    if kind is None and job.method in WITH_BODY and (job.body is None or is_json(job.body)):
        headers = {"Content-Type": "application/json", **headers}
    if content is None and job.method in WITH_BODY:
        content = _default_body(run)
    try:
        check_host(job, "$")  # it may have been stored before there was this rule
    except InvalidDefinitionError as exc:
        raise ConfigurationError(str(exc)) from exc
    url = fill_template(job.url, arguments, written=_in_url)
    if not url.lower().startswith(("http://", "https://")):
        raise ConfigurationError("no request can be made of it: the URL must begin with http:// or https://")
    try:
        encoded = {name.encode("ascii"): value.encode() for name, value in headers.items()}
        return httpx.Request(job.method, url, headers=encoded, content=content)
    except (httpx.InvalidURL, ValueError) as exc:
        raise ConfigurationError(f"no request can be made of it: {exc}") from exc


def enqueued_task(run: Assignment, job: EnqueueJob, now: datetime) -> EnqueuedTask:
    """The task of this run, due after the program's delay from `now`. Its key is the job's id by default, so a job
    makes one task.

    Raises:
        ConfigurationError: the run lacks an argument of the template.
        InvalidError: the task's lane, key or data cannot be stored.
    """
    lane, key = fill_template(job.lane, run.arguments), fill_template(job.key, run.arguments) or run.job or run.run
    check_task_key(key)
    if job.data is None:
        data, kind = _default_body(run), "application/json"
    else:
        kind = "application/json" if is_json(job.data) else "text/plain; charset=utf-8"
        data = _body(job.data, kind, run.arguments)
    due_at = add_duration(now, job.after)
    request = TaskRequest(key=key, lane=lane, due_at=due_at, data=data, content_type=kind)
    return EnqueuedTask(job.queue, request)


def arrived_node(run: Assignment, job: ArrivalJob) -> ArrivedNode:
    """The node that this run completes: of the task with the program's name, at the run's key or logical time.

    Raises:
        InvalidError: these are no job id of the task.
    """
    tick = _EPOCH + timedelta(milliseconds=int(run.arguments[LOGICAL_START_TIME]))
    ref = run.program.ref
    return ArrivedNode(ref.owner, NodeId(ref.name, job.job_id(run.arguments, tick)), run.job)


async def send(client: HttpClient, prepared: httpx.Request, timeout: timedelta, clock: Clock) -> RunEnd:
    """The end of the run: COMPLETED by a 2xx response. The exit code is None without a response."""
    answer = await client.send(prepared, timeout)
    if answer.status is None:
        return RunEnd(RunState.FAILED, answer.text, clock.now())
    state, code = (RunState.COMPLETED, 0) if answer.is_accepted else (RunState.FAILED, 1)
    return RunEnd(state, answer.text, clock.now(), code)


async def send_with_secrets(
    client: HttpClient, run: Assignment, job: HttpJob, secrets: Secrets, clock: Clock
) -> RunEnd:
    """As `send` of the job's request, whose secrets it reads first; no text of the end has their values."""
    values: Mapping[Secret, str] = {}
    try:
        values = await secrets.read(run.program.ref.namespace, job.secrets())
        prepared = request(run, job, values)
    except ConfigurationError as exc:
        reason = Redaction(values.values()).text(f"the program cannot be started: {exc}")
        return RunEnd(RunState.FAILED, reason, clock.now())
    ended = await send(client, prepared, job.timeout, clock)
    return replace(ended, reason=Redaction(values.values()).text(ended.reason))


def _in_url(value: str) -> str:
    return value if isinstance(value, _SecretValue) else quote(value, safe="")


def _body(template: str, kind: str | None, arguments: Mapping[str, str]) -> bytes:
    """The body with its arguments, escaped for its content type: a value never becomes syntax."""
    if (kind is None and is_json(template)) or (kind is not None and "json" in kind.lower()):
        return filled_json(template, arguments).encode()
    if kind is not None and kind.lower().startswith("application/x-www-form-urlencoded"):
        return fill_template(template, arguments, written=quote_plus).encode()
    return fill_template(template, arguments).encode()


def _one_line(value: str) -> str:
    """For a header: line feeds and other control characters become spaces."""
    return "".join(each if each.isprintable() else " " for each in value).strip()


def _default_body(run: Assignment) -> bytes:
    return orjson.dumps(
        {
            "run": run.run,
            "job": run.job,
            "attempt": run.attempt,
            "program": str(run.program.ref),
            "schedule": None if run.schedule is None else str(run.schedule.ref),
            "arguments": dict(run.arguments),
        }
    )
