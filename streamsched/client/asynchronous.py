"""The client with `await`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Self, TypeVar

import httpx

from streamsched.client import calls
from streamsched.client.answers import PAUSES, pause_before_next, result
from streamsched.client.api_address import ApiAddress
from streamsched.client.api_call import ApiCall, Page
from streamsched.client.async_connection import AsyncConnection
from streamsched.client.following import PATH, SILENCE_S, Following
from streamsched.domain.events.event import Event
from streamsched.emit.draft import EventDraft, complete_event
from streamsched.ports.clock import SystemClock
from streamsched.process.http_connection import HttpResponse
from streamsched.wire.backfills import Backfill
from streamsched.wire.decisions import Decision
from streamsched.wire.events import AcceptedEvents
from streamsched.wire.jobs import Job, JobReason, MadeJob
from streamsched.wire.quotas import UsedQuota
from streamsched.wire.runs import Run
from streamsched.wire.schedules import DeployedSchedule, SuspendedSchedule
from streamsched.wire.webhook_state import WebhookState

T = TypeVar("T")


class AsyncClient:
    """Sends requests to one API. Several tasks of one loop may use it at a time.

    Every method may also raise UnauthenticatedError, ForbiddenError, UnavailableError (after repetitions, where a
    request can be repeated) and ConfigurationError, when the URL is not that of an API.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        source: str = "client",
        timeout: float = 60.0,
        pauses: Sequence[float] = PAUSES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Opens no connection.

        Args:
            url: of the API; None uses the installation of this process, as `Emitter` does.
            token: None takes `STREAMSCHED_TOKEN`, or that of the `streamsched dev` with this URL.
            source: of the events that `emit` sends.
            timeout: of one request, in seconds.
            pauses: seconds before each repetition of a request.
            transport: how requests are sent, such as to an application in this process; None: over the network.

        Raises:
            ConfigurationError: no URL was given, and none is known; or it is not one of HTTP.
        """
        address = ApiAddress.find(url, token)
        self._url, self._source, self._pauses = address.url, source, tuple(pauses)
        self._connection = AsyncConnection(address.url, address.headers, timeout=timeout, transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes its connections."""
        await self._connection.close()

    def schedules(
        self, *, namespace: str | None = None, app: str | None = None, states: Iterable[str] = ()
    ) -> AsyncIterator[DeployedSchedule]:
        """Schedules by id, page by page. `states`: only those in one of `enabled`, `paused`, `disabled`, `error`."""
        return self._items(calls.schedules(namespace, app, states))

    async def schedule(self, ref: str) -> DeployedSchedule:
        """Reads a deployed schedule by its name.

        Raises:
            NotFoundError: there is none.
        """
        return await self._send(calls.schedule(ref))

    async def put_schedule(
        self, ref: str, definition: Mapping[str, Any], *, etag: str | None = None, keep: bool | None = None
    ) -> DeployedSchedule:
        """Replaces the definition of a schedule; an equal one changes nothing. `etag`: of the reading that the change
        is made from. `keep`: whether it keeps what it has accumulated and its waiting jobs, as far as they fit.

        Raises:
            RevisionChangedError: it has changed since that reading; nothing was changed.
            NotFoundError, InvalidError: there is none; the definition is wrong.
        """
        return await self._send(calls.put_schedule(ref, definition, etag=etag, keep=keep))

    async def pause(
        self, ref: str, *, mode: str | None = None, until: str | None = None, note: str | None = None, reason: str = ""
    ) -> SuspendedSchedule:
        """Suspends a schedule. `mode`: `keep` (default), `drop`, `drain`, `backlog`. `until`: an instant or a duration.

        Raises:
            ConflictError: it already has an equal pause.
        """
        return await self._send(calls.pause(ref, mode=mode, until=until, note=note, reason=reason))

    async def resume(self, ref: str, *, reason: str = "") -> DeployedSchedule:
        """Enables a paused or disabled schedule.

        Raises:
            ConflictError: it is enabled already.
        """
        return await self._send(calls.resume(ref, reason=reason))

    async def run_schedule(
        self,
        ref: str,
        *,
        arguments: Mapping[str, str] | None = None,
        key: Mapping[str, str] | None = None,
        reason: str = "",
        idempotency_key: str | None = None,
    ) -> MadeJob:
        """Makes a job of a schedule, which waits for its constraints. `key`: of a schedule that correlates. A repeat
        with the same `idempotency_key` finds the first job; without one each call makes a job.

        Raises:
            ConflictError: the schedule is disabled or draining, or the key came with another request.
        """
        return await self._send(calls.run_schedule(ref, arguments, key, reason, idempotency_key))

    async def run_program(
        self,
        ref: str,
        *,
        arguments: Mapping[str, str] | None = None,
        reason: str = "",
        idempotency_key: str | None = None,
    ) -> MadeJob:
        """Makes a job of a program alone, as `run_schedule`."""
        return await self._send(calls.run_program(ref, arguments, reason, idempotency_key))

    async def quotas(self, namespace: str) -> Sequence[UsedQuota]:
        """The quotas of a namespace that are set, with what is in use."""
        return await self._send(calls.quotas(namespace))

    async def set_quota(self, namespace: str, quota: str, limit: int, *, reason: str = "") -> UsedQuota:
        """Sets a quota: a name of `domain.quotas.quota.Quota`, such as `schedules`. Needs the role admin in all
        namespaces.

        Raises:
            InvalidError: there is no such quota, or it cannot have that limit.
        """
        return await self._send(calls.set_quota(namespace, quota, limit, reason))

    async def unset_quota(self, namespace: str, quota: str, *, reason: str = "") -> UsedQuota:
        """Removes a quota and returns what it was.

        Raises:
            NotFoundError: it is not set.
        """
        return await self._send(calls.unset_quota(namespace, quota, reason))

    def jobs(
        self, *, schedule: str | None = None, app: str | None = None, states: Iterable[str] = ()
    ) -> AsyncIterator[Job]:
        """Jobs, newest first, page by page."""
        return self._items(calls.jobs(schedule, app, states))

    async def job(self, ref: str) -> Job:
        """Reads a job by its id.

        Raises:
            NotFoundError: there is none.
        """
        return await self._send(calls.job(ref))

    async def why(self, job: str) -> JobReason:
        """Why a job is in its state, and when that can change."""
        return await self._send(calls.why(job))

    async def rerun(
        self,
        job: str,
        *,
        arguments: Mapping[str, str] | None = None,
        reason: str = "",
        mute: bool | None = None,
        idempotency_key: str | None = None,
    ) -> MadeJob:
        """Makes a job with the events, key and logical time of an earlier one whose last run has ended. Without a key
        each attempt is repeated once. `mute`: the status of the new runs is given to no schedule.

        Raises:
            ConflictError: it has had no run, or its last run has not ended.
        """
        return await self._send(calls.rerun(job, arguments, reason, mute, idempotency_key))

    def runs(
        self, *, program: str | None = None, app: str | None = None, states: Iterable[str] = ()
    ) -> AsyncIterator[Run]:
        """Runs, newest first, page by page."""
        return self._items(calls.runs(program, app, states))

    async def run(self, ref: str) -> Run:
        """Reads a run by its id.

        Raises:
            NotFoundError: there is none.
        """
        return await self._send(calls.run(ref))

    async def kill(self, run: str, *, reason: str = "", at_once: bool = False) -> Run:
        """Requests the end of a run; `wait` returns when it has ended. `at_once`: without time to clean up."""
        return await self._send(calls.kill(run, reason, at_once))

    async def wait(self, run: str, *, timeout: float | None = None) -> Run:
        """The run when it has ended, however it ended. Reads it again and again, every 2 seconds in the end.

        Raises:
            TimeoutError: `timeout` seconds were not enough.
        """
        deadline, pauses = None if timeout is None else time.monotonic() + timeout, calls.waits()
        while not (found := await self.run(run)).ended:
            pause = next(pauses)
            if deadline is not None and time.monotonic() + pause > deadline:
                raise TimeoutError(f"run '{run}' is {found.state} after {timeout:g} s")
            await asyncio.sleep(pause)
        return found

    async def start_backfill(
        self, schedule: str, span: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Backfill:
        """Makes jobs of a schedule for a span, as `POST /v1/schedules/{schedule}/backfills` reads it, such as
        `{"from": "2026-03-01", "to": "2026-03-07", "maxActive": 4}`.

        Raises:
            ConflictError: the schedule is disabled, or the key came with another request.
        """
        return await self._send(calls.backfill(schedule, span, idempotency_key))

    def backfills(self, *, schedule: str | None = None, namespace: str | None = None) -> AsyncIterator[Backfill]:
        """Backfills, newest first, page by page."""
        return self._items(calls.backfills(schedule, namespace))

    async def backfill(self, ref: str) -> Backfill:
        """Reads a backfill by its id, with how far it is.

        Raises:
            NotFoundError: there is none.
        """
        return await self._send(calls.one_backfill(ref))

    async def pause_backfill(self, ref: str, *, reason: str = "") -> Backfill:
        """Makes no further jobs and holds those that wait."""
        return await self._send(calls.change_backfill(ref, "pause", reason))

    async def resume_backfill(self, ref: str, *, reason: str = "") -> Backfill:
        """Releases its held jobs and makes further ones."""
        return await self._send(calls.change_backfill(ref, "resume", reason))

    async def cancel_backfill(self, ref: str, *, reason: str = "") -> Backfill:
        """Makes no further jobs and ends those that wait."""
        return await self._send(calls.change_backfill(ref, "cancel", reason))

    def webhooks(self, namespace: str) -> AsyncIterator[WebhookState]:
        """Webhooks of a namespace by name, page by page."""
        return self._items(calls.webhooks(namespace))

    async def webhook(self, namespace: str, name: str) -> WebhookState:
        """Reads a webhook, and how its deliveries go.

        Raises:
            NotFoundError: there is none.
        """
        return await self._send(calls.webhook(namespace, name))

    async def create_webhook(
        self, namespace: str, name: str, url: str, definition: Mapping[str, Any] | None = None
    ) -> WebhookState:
        """Sends the changes of jobs and runs of a namespace to `url` from now on. `definition`: the other members, such
        as `{"changes": ["run.failed"]}`. Only this result has the `signing_secret`.

        Raises:
            ConflictError: there is one of this name, or as many as there may be.
            InvalidError: the definition is wrong, or the address is not permitted.
        """
        return await self._send(calls.create_webhook(namespace, name, url, definition or {}))

    async def change_webhook(self, namespace: str, name: str, changes: Mapping[str, Any]) -> WebhookState:
        """Sets members of its definition, such as `{"url": "https://…"}`; the others stay. Changes that wait go to the
        new URL. `{"secret": None}` generates a new secret: only this result has the `signing_secret`. The one before
        signs beside it for `"oldSecretFor"`, by default a day.

        Raises:
            InvalidError: the definition is wrong, or the address is not permitted.
        """
        return await self._send(calls.change_webhook(namespace, name, changes))

    async def enable_webhook(self, namespace: str, name: str, *, reason: str = "") -> WebhookState:
        """Goes on with the first change that its target has not accepted."""
        return await self._send(calls.enable_webhook(namespace, name, "enable", reason))

    async def disable_webhook(self, namespace: str, name: str, *, reason: str = "") -> WebhookState:
        """Sends nothing more until it is enabled."""
        return await self._send(calls.enable_webhook(namespace, name, "disable", reason))

    async def delete_webhook(self, namespace: str, name: str) -> WebhookState:
        """Deletes a webhook with the changes that wait for it; returns what it was."""
        return await self._send(calls.delete_webhook(namespace, name))

    async def decisions(
        self, *, namespace: str | None = None, schedule: str | None = None, after: int | None = None
    ) -> AsyncIterator[Decision]:
        """Decisions about jobs and runs as they are made, of all, of a namespace or of a schedule: those after the
        number `after`, or from now on. It does not end by itself; when a connection ends, the next goes on from there.

        Raises:
            UnauthenticatedError: the token was revoked or has expired.
        """
        following = Following(namespace, schedule, after)
        while True:
            ended = HttpResponse(0)
            async with aclosing(
                self._connection.follow(PATH, params=following.params, headers=following.headers, timeout=SILENCE_S)
            ) as lines:
                async for each in lines:
                    if isinstance(each, HttpResponse):
                        ended = each
                    elif (found := following.line(each)) is not None:
                        yield found
            await asyncio.sleep(following.pause(ended, self._pauses, self._url))

    async def emit(self, *what: EventDraft | Event) -> AcceptedEvents:
        """Sends events, in order. Returns when the log has acknowledged them. In jobs, `Emitter` also keeps events on
        disk while the server is away.

        Raises:
            RefusedError: some were refused for their content; the others were accepted.
        """
        now = SystemClock().now()
        return await self._send(calls.emit([complete_event(each, source=self._source, now=now) for each in what]))

    async def _send(self, call: ApiCall[T]) -> T:
        attempt = 1
        while True:
            answer = await self._connection.send(
                call.method, call.path, params=call.params, content=call.content, headers=call.headers
            )
            pause = pause_before_next(answer, call, attempt, self._pauses)
            if pause is None:
                return result(answer, call, self._url)
            await asyncio.sleep(pause)
            attempt += 1

    async def _items(self, call: ApiCall[Page[T]]) -> AsyncIterator[T]:
        following: ApiCall[Page[T]] | None = call
        while following is not None:
            page = await self._send(following)
            for item in page.items:
                yield item
            following = page.following
