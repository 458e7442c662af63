"""HTTP programs: the request of a run, and the end its response means; and the task of a run of an enqueue program.
Tasks use the same client.

Requests are built and checked by httpx and sent by aiohttp, which sends five times as many a second (`bench.recovery`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from urllib.parse import quote, quote_plus
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
import orjson
from yarl import URL

from streamsched.domain.errors import ConfigurationError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.limits import later
from streamsched.domain.schedules.schedule import WITH_BODY, EnqueueJob, HttpJob
from streamsched.domain.schedules.template import filled, filled_json, is_json
from streamsched.domain.tasks.identity import check_task_key
from streamsched.domain.tasks.task import TaskRequest
from streamsched.ports.clock import Clock
from streamsched.ports.runs import Assignment, EnqueuedTask, RunEnd

#: Bytes read of a response body, and characters of it that become the run's reason.
_BODY: Final = 4096
_REASON: Final = 300
#: Characters of a `Content-Encoding` that a reason has.
_ENCODING: Final = 20


#: Headers that aiohttp would add; a request has those of its definition, and its body is not to be compressed.
_NOT_ADDED: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


def open_client() -> aiohttp.ClientSession:
    """A client without connection limit, timeout (`send` has one) or cookies; for the running event loop, to be closed
    on it.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=_NOT_ADDED,
        auto_decompress=False,
    )


def request(run: Assignment, job: HttpJob) -> httpx.Request:
    """The request of this attempt; `Idempotency-Key` is the same for all attempts of a job.

    Raises:
        ConfigurationError: the run lacks an argument of the template, or the filled URL or a header is invalid.
    """
    headers = {"Idempotency-Key": run.job or run.run}
    headers |= {name: filled(value, run.arguments, written=_one_line) for name, value in job.headers.items()}
    kind = next((value for name, value in headers.items() if name.lower() == "content-type"), None)
    content = None if job.body is None else _body(job.body, kind, run.arguments)
    if kind is None and job.method in WITH_BODY and (job.body is None or is_json(job.body)):
        headers = {"Content-Type": "application/json", **headers}
    if content is None and job.method in WITH_BODY:
        content = _default_body(run)
    url = filled(job.url, run.arguments, written=partial(quote, safe=""))
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
    lane, key = filled(job.lane, run.arguments), filled(job.key, run.arguments) or run.job or run.run
    check_task_key(key)
    if job.data is None:
        data, kind = _default_body(run), "application/json"
    else:
        kind = "application/json" if is_json(job.data) else "text/plain; charset=utf-8"
        data = _body(job.data, kind, run.arguments)
    due_at = later(now, job.after)
    request = TaskRequest(key=key, lane=lane, due_at=due_at, data=data, content_type=kind)
    return EnqueuedTask(job.queue, request)


async def send(client: aiohttp.ClientSession, prepared: httpx.Request, timeout: timedelta, clock: Clock) -> RunEnd:
    """The end of the run: COMPLETED by a 2xx response. The exit code is None without a response."""
    answer = await answered(client, prepared, timeout)
    if answer.status is None:
        return RunEnd(RunState.FAILED, answer.text, clock.now())
    state, code = (RunState.COMPLETED, 0) if answer.accepted else (RunState.FAILED, 1)
    return RunEnd(state, answer.text, clock.now(), code)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer to a request. `status`: None without a response. `text`: status and beginning of the body, for people,
    or why there is no response.
    """

    status: int | None
    text: str

    @property
    def accepted(self) -> bool:
        """Whether it is a 2xx response."""
        return self.status is not None and 200 <= self.status < 300


async def answered(client: aiohttp.ClientSession, prepared: httpx.Request, timeout: timedelta) -> HttpAnswer:
    """Sends a request and reads the beginning of the response. Does not raise for what the far end does."""
    body = prepared.content or None
    try:
        url = URL(str(prepared.url), encoded=True)
        headers = [(name.decode(), value.decode()) for name, value in prepared.headers.raw]
        async with (
            asyncio.timeout(timeout.total_seconds()),
            client.request(
                prepared.method, url, headers=headers, data=body, allow_redirects=False, proxy=_proxy(url)
            ) as response,
        ):
            text = await _beginning(response)
    except TimeoutError:
        return HttpAnswer(None, f"no answer within {timeout.total_seconds():g} s")
    except aiohttp.ClientConnectorError as exc:
        return HttpAnswer(None, f"no answer: {exc.os_error}")
    except aiohttp.ClientResponseError as exc:
        return HttpAnswer(None, f"its answer is not HTTP: {' '.join(exc.message.split())[:_REASON]}")
    except (aiohttp.ClientError, OSError, ValueError) as exc:
        return HttpAnswer(None, f"no answer: {str(exc) or type(exc).__name__}")
    return HttpAnswer(response.status, f"HTTP {response.status}" + (f": {text}" if text else ""))


def _proxy(url: URL) -> str | None:
    """The proxy of the environment for this address. `trust_env` would also send the passwords of the user's .netrc."""
    found = getproxies().get(url.scheme)
    return None if found is None or url.host is None or proxy_bypass(url.host) else found


def _body(template: str, kind: str | None, arguments: Mapping[str, str]) -> bytes:
    """The body with its arguments, escaped for its content type: a value never becomes syntax."""
    if (kind is None and is_json(template)) or (kind is not None and "json" in kind.lower()):
        return filled_json(template, arguments).encode()
    if kind is not None and kind.lower().startswith("application/x-www-form-urlencoded"):
        return filled(template, arguments, written=quote_plus).encode()
    return filled(template, arguments).encode()


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


async def _beginning(answer: aiohttp.ClientResponse) -> str:
    """The beginning of a response body, on one line. A compressed body, for which no request asks, is not unpacked: a
    few bytes of it can be 100 MB.
    """
    encoding = answer.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        return f"a body encoded as {encoding[:_ENCODING]!r}"
    read = b""
    async for chunk in answer.content.iter_chunked(_BODY):
        read += chunk
        if len(read) >= _BODY:
            break
    return " ".join(read[:_BODY].decode(errors="replace").split())[:_REASON]
