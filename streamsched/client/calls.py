"""The requests of the client as values: what is sent, and how the answer is read. Pure, except that a key is random."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from streamsched.client.api_call import ApiCall, Page, Reply, api_path, query
from streamsched.codec.events import cloudevents
from streamsched.codec.problem import refusals_from_json
from streamsched.domain.errors import RefusedError
from streamsched.domain.events.event import Event
from streamsched.wire.backfills import BACKFILL, Backfill
from streamsched.wire.events import ACCEPTED, AcceptedEvents
from streamsched.wire.jobs import JOB, JOB_REASON, MADE, Job, JobReason, MadeJob
from streamsched.wire.quotas import NAMESPACE_QUOTAS, QUOTA, UsedQuota
from streamsched.wire.runs import RUN, Run
from streamsched.wire.schedules import DEPLOYED, SUSPENDED, DeployedSchedule, SuspendedSchedule
from streamsched.wire.webhook_state import CREATED, WebhookState

T = TypeVar("T")

#: Most items of one page.
PAGE: Final = 200
_JSON: Final = {"Content-Type": "application/json"}


def schedules(
    namespace: str | None = None, app: str | None = None, states: Iterable[str] = ()
) -> ApiCall[Page[DeployedSchedule]]:
    """Schedules by id, in pages. `states`: those in one of them; none: all."""
    params = query(namespace=namespace, app=app, state=list(states))
    return _list_call("/v1/schedules", "schedules", DEPLOYED.take, params)


def schedule(ref: str) -> ApiCall[DeployedSchedule]:
    """A schedule; the result has the tag of the answer, from which a change is made."""
    return ApiCall(method="GET", path=api_path("schedules", ref), read=_schedule)


def put_schedule(
    ref: str, definition: Mapping[str, Any], *, etag: str | None, keep: bool | None
) -> ApiCall[DeployedSchedule]:
    """Replaces a definition. With `etag` it is refused when the schedule has changed since that reading. Such a request
    is not repeated: the first may have applied, and its tag is outdated then.
    """
    return ApiCall(
        method="PUT",
        path=api_path("schedules", ref),
        read=_schedule,
        params=query(keep=keep),
        content=json.dumps(definition).encode(),
        headers={**_JSON, **({} if etag is None else {"If-Match": etag})},
        repeatable=etag is None,  # the first may have applied, and its tag is then outdated
    )


def pause(
    ref: str, *, mode: str | None, until: str | None, note: str | None, reason: str
) -> ApiCall[SuspendedSchedule]:
    """Suspends a schedule; members that are None or empty are not sent. Not repeated."""
    return _order(
        api_path("schedules", ref, "pause"), _read_suspended, mode=mode, until=until, note=note, reason=reason
    )


def resume(ref: str, *, reason: str) -> ApiCall[DeployedSchedule]:
    """Enables a schedule, paused or disabled. Not repeated."""
    return _order(api_path("schedules", ref, "enable"), _schedule, reason=reason)


def run_schedule(
    ref: str,
    arguments: Mapping[str, str] | None,
    key: Mapping[str, str] | None,
    reason: str,
    idempotency_key: str | None,
) -> ApiCall[MadeJob]:
    """Makes a job of a schedule. It has a key in any case, a random one when none is given, so it may be repeated."""
    call = _order(api_path("schedules", ref, "runs"), _read_submitted, arguments=arguments, key=key, reason=reason)
    return _add_key(call, idempotency_key)


def run_program(
    ref: str, arguments: Mapping[str, str] | None, reason: str, idempotency_key: str | None
) -> ApiCall[MadeJob]:
    """Makes a job of a program alone, with a key as `run_schedule`."""
    return _add_key(
        _order(api_path("programs", ref, "runs"), _read_submitted, arguments=arguments, reason=reason), idempotency_key
    )


def jobs(schedule: str | None, app: str | None, states: Iterable[str]) -> ApiCall[Page[Job]]:
    """Jobs, newest first, in pages. None, or no states: of all."""
    return _list_call("/v1/jobs", "jobs", JOB.take, query(schedule=schedule, app=app, state=list(states)))


def job(ref: str) -> ApiCall[Job]:
    """A job by its id."""
    return ApiCall(method="GET", path=api_path("jobs", ref), read=lambda reply: JOB.take(reply.data))


def why(ref: str) -> ApiCall[JobReason]:
    """The explanation of the present state of a job."""
    return ApiCall(method="GET", path=api_path("jobs", ref, "why"), read=lambda reply: JOB_REASON.take(reply.data))


def rerun(
    ref: str, arguments: Mapping[str, str] | None, reason: str, mute: bool | None, idempotency_key: str | None
) -> ApiCall[MadeJob]:
    """Without a key the server's own is the number of the attempt, so a second request finds the job of the first."""
    call = _order(api_path("jobs", ref, "rerun"), _read_submitted, arguments=arguments, reason=reason, mute=mute)
    return replace(call, repeatable=True) if idempotency_key is None else _add_key(call, idempotency_key)


def runs(program: str | None, app: str | None, states: Iterable[str]) -> ApiCall[Page[Run]]:
    """Runs, newest first, in pages. None, or no states: of all."""
    params = query(program=program, app=app, state=list(states))
    return _list_call("/v1/runs", "runs", RUN.take, params)


def run(ref: str) -> ApiCall[Run]:
    """A run by its id."""
    return ApiCall(method="GET", path=api_path("runs", ref), read=lambda reply: RUN.take(reply.data))


def kill(ref: str, reason: str, at_once: bool) -> ApiCall[Run]:
    """Requests the end of a run; answered before the run has ended. A second request changes nothing, so it may be
    repeated.
    """
    call = _order(
        api_path("runs", ref, "kill"), lambda reply: RUN.take(reply.data), reason=reason, atOnce=at_once or None
    )
    return replace(call, repeatable=True)


def backfill(ref: str, span: Mapping[str, Any], idempotency_key: str | None) -> ApiCall[Backfill]:
    """Starts a backfill of a schedule. It has a key in any case, as `run_schedule`."""
    return _add_key(_order(api_path("schedules", ref, "backfills"), _backfill, **span), idempotency_key)


def backfills(schedule: str | None, namespace: str | None) -> ApiCall[Page[Backfill]]:
    """Backfills, newest first, in pages. None: of all."""
    return _list_call("/v1/backfills", "backfills", BACKFILL.take, query(schedule=schedule, namespace=namespace))


def one_backfill(ref: str) -> ApiCall[Backfill]:
    """A backfill by its id, with how many of its jobs are in each state."""
    return ApiCall(method="GET", path=api_path("backfills", ref), read=_backfill)


def change_backfill(ref: str, order: str, reason: str) -> ApiCall[Backfill]:
    """`order`: `pause`, `resume` or `cancel`. Not repeated."""
    return _order(api_path("backfills", ref, order), _backfill, reason=reason)


def webhooks(namespace: str) -> ApiCall[Page[WebhookState]]:
    """Webhooks of a namespace by name, in pages."""
    return _list_call(api_path("namespaces", namespace, "webhooks"), "webhooks", CREATED.take, ())


def webhook(namespace: str, name: str) -> ApiCall[WebhookState]:
    """A webhook, and how its deliveries go."""
    return ApiCall(method="GET", path=api_path("namespaces", namespace, "webhooks", name), read=_webhook)


def create_webhook(namespace: str, name: str, url: str, definition: Mapping[str, Any]) -> ApiCall[WebhookState]:
    """Makes a webhook. The secret is in this answer only, so the request is not repeated."""
    return _order(api_path("namespaces", namespace, "webhooks"), _webhook, **definition, name=name, url=url)


def change_webhook(namespace: str, name: str, changes: Mapping[str, Any]) -> ApiCall[WebhookState]:
    """Sets the members given. Repeated except when it generates a secret (`{"secret": None}`), which is in the answer
    to the first request only.
    """
    return ApiCall(
        method="PATCH",
        path=api_path("namespaces", namespace, "webhooks", name),
        read=_webhook,
        content=json.dumps(dict(changes)).encode(),
        headers=_JSON,
        repeatable=changes.get("secret", "") is not None,
    )


def enable_webhook(namespace: str, name: str, order: str, reason: str) -> ApiCall[WebhookState]:
    """`order`: `enable` or `disable`. A second request changes nothing, so it may be repeated."""
    call = _order(api_path("namespaces", namespace, "webhooks", name, order), _webhook, reason=reason)
    return replace(call, repeatable=True)


def delete_webhook(namespace: str, name: str) -> ApiCall[WebhookState]:
    """Deletes a webhook and returns what it was. Not repeated: a second request would not find it."""
    path = api_path("namespaces", namespace, "webhooks", name)
    return ApiCall(method="DELETE", path=path, read=_webhook, repeatable=False)


def emit(events: Sequence[Event]) -> ApiCall[AcceptedEvents]:
    """Events with ids, by which the server recognises those of a repeated request."""
    return ApiCall(
        method="POST",
        path="/v1/events",
        read=_check_accepted,
        content=b"[" + b",".join(cloudevents.encode(each) for each in events) + b"]",
        headers={"Content-Type": "application/cloudevents-batch+json"},
    )


def _check_accepted(reply: Reply) -> AcceptedEvents:
    """Raises:
    RefusedError: some were refused; the others were accepted.
    """
    found = refusals_from_json(reply.data)
    if found:
        raise RefusedError(found, reply.data["accepted"])
    return ACCEPTED.take(reply.data)


def _read_suspended(reply: Reply) -> SuspendedSchedule:
    return SUSPENDED.take(reply.data)


def _schedule(reply: Reply) -> DeployedSchedule:
    return replace(DEPLOYED.take(reply.data), etag=reply.etag)


def _read_submitted(reply: Reply) -> MadeJob:
    return MADE.take(reply.data)


def _backfill(reply: Reply) -> Backfill:
    return BACKFILL.take(reply.data)


def _webhook(reply: Reply) -> WebhookState:
    return CREATED.take(reply.data)


def _order(path: str, read: Callable[[Reply], T], **members: object) -> ApiCall[T]:
    """A POST with the members that are given. It is not repeated: a second may be refused for what the first did."""
    body = {name: value for name, value in members.items() if value not in (None, "")}
    content = json.dumps(body).encode()
    return ApiCall(method="POST", path=path, read=read, content=content, headers=_JSON, repeatable=False)


def _add_key(call: ApiCall[T], key: str | None) -> ApiCall[T]:
    headers = {**call.headers, "Idempotency-Key": key or secrets.token_hex(16)}
    return replace(call, headers=headers, repeatable=True)


def _list_call(
    path: str, name: str, read: Callable[[Mapping[str, Any]], T], params: Sequence[tuple[str, str]]
) -> ApiCall[Page[T]]:
    def page(reply: Reply) -> Page[T]:
        after = reply.data.get("next")
        following = None if after is None else replace(call, params=(*base, ("after", after)))
        return Page(tuple(read(each) for each in reply.data[name]), following)

    base = (*params, ("limit", str(PAGE)))
    call = ApiCall(method="GET", path=path, read=page, params=base)
    return call


def quotas(namespace: str) -> ApiCall[Sequence[UsedQuota]]:
    """The quotas of a namespace that are set, with what is in use."""
    path = api_path("namespaces", namespace, "quotas")
    return ApiCall(method="GET", path=path, read=lambda reply: NAMESPACE_QUOTAS.take(reply.data).quotas)


def set_quota(namespace: str, quota: str, limit: int, reason: str) -> ApiCall[UsedQuota]:
    """Sets a quota. An equal one changes nothing, so it may be repeated."""
    return ApiCall(
        method="PUT",
        path=api_path("namespaces", namespace, "quotas", quota),
        read=lambda reply: QUOTA.take(reply.data),
        content=json.dumps({"limit": limit, "reason": reason}).encode(),
        headers=_JSON,
    )


def unset_quota(namespace: str, quota: str, reason: str) -> ApiCall[UsedQuota]:
    """Removes a quota and returns what it was. Not repeated: a second request would not find it."""
    return ApiCall(
        method="DELETE",
        path=api_path("namespaces", namespace, "quotas", quota),
        read=lambda reply: QUOTA.take(reply.data),
        params=query(reason=reason),
        repeatable=False,
    )


def waits() -> Iterator[float]:
    """Seconds between the readings of something that is waited for: 0.1, growing to 2."""
    pause = 0.1
    while True:
        yield pause
        pause = min(2.0, pause * 1.5)
