"""The request that a program is, and how its answer ends the run."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Final
from urllib.parse import quote

import httpx
import orjson

from streamsched.domain.errors import ConfigurationError
from streamsched.domain.run import RunState
from streamsched.domain.schedule import WITH_BODY, HttpJob
from streamsched.domain.template import filled
from streamsched.ports.clock import Clock
from streamsched.ports.runs import Assignment, Ending

#: Bytes of an answer that are read, and how much of its beginning is the run's reason.
_ANSWER: Final = 4096
_REASON: Final = 300


def open_client() -> httpx.AsyncClient:
    """For any number of requests at a time; who sends them bounds their time. Redirections are not followed."""
    return httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))


def request(run: Assignment, job: HttpJob) -> httpx.Request:
    """What is sent for this attempt.

    Raises:
        ConfigurationError: the run has not the arguments that are asked for, or with them the URL or a header is none.
    """
    headers = {"Idempotency-Key": run.job or run.run}
    headers |= {name: filled(value, run.arguments) for name, value in job.headers.items()}
    content = None if job.body is None else filled(job.body, run.arguments).encode()
    if content is None and job.method in WITH_BODY:
        headers = {"Content-Type": "application/json", **headers}
        content = _told(run)
    url = filled(job.url, run.arguments, written=partial(quote, safe=""))
    try:
        return httpx.Request(job.method, url, headers=headers, content=content)
    except (httpx.InvalidURL, ValueError) as exc:
        raise ConfigurationError(f"no request can be made of it: {exc}") from exc


async def send(client: httpx.AsyncClient, asked: httpx.Request, patience: timedelta, clock: Clock) -> Ending:
    """How the run ends: COMPLETED by an answer of 2xx. The exit code is None when nobody answered."""
    try:
        async with asyncio.timeout(patience.total_seconds()):
            answer = await client.send(asked, stream=True)
            try:
                said = await _beginning(answer)
            finally:
                await answer.aclose()
    except TimeoutError:
        return Ending(RunState.FAILED, f"no answer within {patience.total_seconds():g} s", clock.now())
    except httpx.HTTPError as exc:
        return Ending(RunState.FAILED, f"no answer: {str(exc) or type(exc).__name__}", clock.now())
    state, code = (RunState.COMPLETED, 0) if answer.is_success else (RunState.FAILED, 1)
    return Ending(state, f"HTTP {answer.status_code}" + (f": {said}" if said else ""), clock.now(), code)


def _told(run: Assignment) -> bytes:
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
    """The first words of an answer, on one line."""
    read = b""
    async for part in answer.aiter_bytes(_ANSWER):
        read += part
        if len(read) >= _ANSWER:
            break
    return " ".join(read.decode(errors="replace").split())[:_REASON]
