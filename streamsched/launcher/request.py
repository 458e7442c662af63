"""HTTP programs: the request of a run, and the end its response means."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Final
from urllib.parse import quote, quote_plus

import httpx
import orjson

from streamsched.domain.errors import ConfigurationError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.schedule import WITH_BODY, HttpJob
from streamsched.domain.schedules.template import filled, filled_json, is_json
from streamsched.ports.clock import Clock
from streamsched.ports.runs import Assignment, RunEnd

#: Bytes read of a response body, and characters of it that become the run's reason.
_BODY: Final = 4096
_REASON: Final = 300
#: Characters of a `Content-Encoding` that a reason has.
_ENCODING: Final = 20


def open_client() -> httpx.AsyncClient:
    """A client without connection limit, timeout (`send` has one) or redirects."""
    return httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))


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


async def send(client: httpx.AsyncClient, prepared: httpx.Request, timeout: timedelta, clock: Clock) -> RunEnd:
    """The end of the run: COMPLETED by a 2xx response. The exit code is None without a response."""
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            answer = await client.send(prepared, stream=True)
            try:
                text = await _beginning(answer)
            finally:
                await answer.aclose()
    except TimeoutError:
        return RunEnd(RunState.FAILED, f"no answer within {timeout.total_seconds():g} s", clock.now())
    except httpx.HTTPError as exc:
        return RunEnd(RunState.FAILED, f"no answer: {str(exc) or type(exc).__name__}", clock.now())
    state, code = (RunState.COMPLETED, 0) if answer.is_success else (RunState.FAILED, 1)
    return RunEnd(state, f"HTTP {answer.status_code}" + (f": {text}" if text else ""), clock.now(), code)


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


async def _beginning(answer: httpx.Response) -> str:
    """The beginning of a response body, on one line. A compressed body, for which no request asks, is not unpacked: a
    few bytes of it can be 100 MB.
    """
    encoding = answer.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        return f"a body encoded as {encoding[:_ENCODING]!r}"
    read = b""
    async for chunk in answer.aiter_raw(_BODY):
        read += chunk
        if len(read) >= _BODY:
            break
    return " ".join(read[:_BODY].decode(errors="replace").split())[:_REASON]
