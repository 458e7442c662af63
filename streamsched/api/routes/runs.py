"""Runs: executions of programs, their logs, and killing them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

from starlette.responses import PlainTextResponse, Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import AppQuery, ClockDep, NamespaceQuery, RunsDep
from streamsched.api.paging import After, Limit, moment_cursor, page, read_moment_cursor
from streamsched.api.rendering import json_response
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import PLAIN, Routes
from streamsched.api.routing.rules import OPERATE, VIEW, VIEW_LIST
from streamsched.codec.events.native import dumps
from streamsched.domain.errors import InvalidError, NotFoundError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import AppRef, ProgramRef
from streamsched.domain.schedules.provenance import Provenance
from streamsched.ports.runs import StopRequest
from streamsched.spark.run_log import read_end, read_part
from streamsched.store.runs.run_queries import RunQueries, RunRecord
from streamsched.wire.explained_runs import EXPLAINED_RUN
from streamsched.wire.runs import KILL, METRICS, RUN

routes = Routes("/v1/runs", "runs")

#: Most bytes of a log in one response.
_MOST_BYTES = 4 * 1024 * 1024


@routes.get("", "List runs", may=VIEW_LIST, answers=RUN.page("runs"))
async def list_runs(
    runs: RunsDep,
    *,
    program: Annotated[str | None, Query(description="Only runs of this program, `namespace.app.name`.")] = None,
    namespace: NamespaceQuery = None,
    app: AppQuery = None,
    state: Annotated[list[RunState] | None, Query(description="Only runs in this state; can be repeated.")] = None,
    after: After = "",
    limit: Limit = 100,
) -> Response:
    """A page, newest runs first."""
    ref = None if program is None else ProgramRef.parse(program)
    owner = None if app is None else AppRef.parse(app)
    before = read_moment_cursor(after)
    found = await runs.list_recent(
        program=ref, app=owner, namespace=namespace, states=state or (), limit=limit + 1, before=before
    )
    return json_response(page("runs", found, limit, RUN.write, lambda run: moment_cursor(run.created_at, run.id)))


@routes.get("/{run}", "Get a run", may=VIEW, answers=EXPLAINED_RUN.answer)
async def get_run(run: str, runs: RunsDep) -> Response:
    """The run with its state, arguments, times and exit code. `metrics`, of a Spark run: stages, tasks, executors,
    bytes and rows, as they were a few seconds ago, or at its end; `complete` when they are final. Null without any.
    `provenance` says where it comes from: what made it
    (`origin`: its `kind` is `events`, `submission`, `rerun`, `backfill`, `node` or `start`), the source of each of its
    `arguments`, worked out from the definitions and preferences as they are now (`changedSince` names those that were
    changed after the run was made), and the `chain` of attempts and reruns, at most 100. Null when it cannot be read.
    """
    return json_response(EXPLAINED_RUN.answer_of(await runs.get(run), provenance=await _provenance(run, runs)))


async def _provenance(run: str, runs: RunQueries) -> Provenance | None:
    """Without a chain of one run. None when a definition cannot be read: the run is shown without."""
    try:
        found = await runs.provenance(run)
    except InvalidError:
        return None
    return found if len(found.chain) > 1 else replace(found, chain=())


@routes.get("/{run}/logs", "Get the log of a run", may=VIEW, answers="AnyText", media=(PLAIN,))
async def get_logs(
    run: str,
    runs: RunsDep,
    *,
    tail: Annotated[int, Query(ge=1, le=100_000, description="Number of lines from the end.")] = 1000,
    offset: Annotated[
        int | None, Query(ge=0, le=2**53, description="Return the bytes from this offset on instead of the last lines.")
    ] = None,
) -> Response:
    """The last `tail` lines of the log as plain text, at most 4 MiB; empty when there is no output yet. For a run that
    ended without a log (it did not start, or its program is an HTTP request or an event) the text is its reason.

    With `offset` the bytes from that offset on, at most 4 MiB. The header `Streamsched-Log-Offset` is the offset after
    the returned bytes. `Streamsched-Run-State` is the state of the run, read before the log: when it is terminal and
    the body is empty, the log is complete. `Streamsched-Run-Metrics` has the `metrics` of the run as JSON, if there are
    any.
    """
    record = await runs.get(run)
    content, end = await read_log(record, tail=tail, offset=offset)
    headers = {"Streamsched-Log-Offset": str(end), "Streamsched-Run-State": record.state}
    if record.metrics is not None:
        headers["Streamsched-Run-Metrics"] = dumps(METRICS.write(record.metrics)).decode()
    return PlainTextResponse(content if offset is not None else content.decode(errors="replace"), headers=headers)


async def read_log(record: RunRecord, *, tail: int, offset: int | None = None) -> tuple[bytes, int]:
    """A part of the log of a run, as `get_logs` describes, and the offset after it.

    Raises:
        NotFoundError: the file cannot be read on this machine.
    """
    if record.log_path is None:
        content = f"{record.reason}\n".encode() if record.state.is_terminal else b""
        return content[offset or 0 :], len(content)
    try:
        return await asyncio.to_thread(_read, Path(record.log_path), tail, offset)
    except OSError as exc:
        raise NotFoundError("log of run", f"{record.id} ({record.log_path}: {exc.strerror})") from exc


@routes.order("/{run}/kill", "Kill a run", may=OPERATE, body=KILL.body, answers={202: RUN.answer})
async def kill_run(run: str, body: BodyObject, runs: RunsDep, clock: ClockDep) -> Response:
    """Requests the end of the run and responds 202; the state of the run shows when it has ended. With `atOnce` the
    process is killed without time to clean up. `reason` (optional) is stored in the history.
    """
    wanted = KILL.read(body)
    stop = StopRequest(wanted.reason or "killed by hand", wanted.at_once)
    await runs.stop(run, stop, now=clock.now())
    return json_response(RUN.answer_of(await runs.get(run)), status=HTTPStatus.ACCEPTED)


def _read(path: Path, lines: int, offset: int | None) -> tuple[bytes, int]:
    """The bytes from `offset` on, or without it the last `lines` lines, at most `_MOST_BYTES` bytes; and the offset
    after them.
    """
    if offset is not None:
        return read_part(path, offset, _MOST_BYTES)
    content, end = read_end(path, _MOST_BYTES)
    return b"".join(content.splitlines(keepends=True)[-lines:]), end
