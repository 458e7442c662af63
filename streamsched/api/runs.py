"""Runs: what executes or was executed, its log, and killing it."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse, Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import ClockDep, RunsDep
from streamsched.api.rendering import rendered
from streamsched.api.views import run_view
from streamsched.codec.reading import Fields
from streamsched.domain.errors import NotFoundError
from streamsched.domain.names import ProgramRef
from streamsched.domain.run import RunState
from streamsched.ports.runs import Stop

router = APIRouter(prefix="/v1/runs")

#: Bytes read from the end of a log for one answer.
_LONGEST_TAIL = 4 * 1024 * 1024


@router.get("")
async def list_runs(
    runs: RunsDep,
    program: Annotated[str | None, Query()] = None,
    state: Annotated[list[RunState] | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """The newest runs first."""
    ref = None if program is None else ProgramRef.parse(program)
    return rendered(
        {"runs": [run_view(run) for run in await runs.recent(program=ref, states=state or (), limit=limit)]}
    )


@router.get("/{run}")
async def get_run(run: str, runs: RunsDep) -> Response:
    return rendered(run_view(await runs.get(run)))


@router.get("/{run}/logs")
async def get_logs(run: str, runs: RunsDep, tail: Annotated[int, Query(ge=1, le=100_000)] = 1000) -> Response:
    """The last lines of the run's log, as plain text; empty while it has said nothing. What has ended without a log
    (it never began, or it was a request or an event) has its reason there.
    """
    record = await runs.get(run)
    if record.log_path is None:
        return PlainTextResponse(f"{record.reason}\n" if record.state.terminal else "")
    try:
        text = await asyncio.to_thread(_tail, Path(record.log_path), tail)
    except OSError as exc:
        raise NotFoundError("log of run", f"{run} ({record.log_path}: {exc.strerror})") from exc
    return PlainTextResponse(text)


@router.post("/{run}/kill")
async def kill_run(run: str, body: BodyObject, runs: RunsDep, clock: ClockDep) -> Response:
    """202: it is asked for; the run's state tells when it is done. `reason` (optional): who wants it and why; with
    `atOnce` it gets no time to tidy up.
    """
    fields = Fields(body)
    stop = Stop(fields.optional_text("reason") or "killed by hand", fields.optional_boolean("atOnce") or False)
    fields.done()
    await runs.stop(run, stop, now=clock.now())
    return rendered(run_view(await runs.get(run)), status=HTTPStatus.ACCEPTED)


def _tail(path: Path, lines: int) -> str:
    """The last `lines` lines of a file, at most `_LONGEST_TAIL` bytes of them."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _LONGEST_TAIL))
        kept = file.read().splitlines(keepends=True)[-lines:]
    return b"".join(kept).decode(errors="replace")
