"""CDAP's runs of a program: start, stop, status, and run records.

    {"runid", "starting", "start"?, "end"?: seconds since 1970, "status", "properties": {"runtimeArgs": JSON as text}}

`start` is when the program began, and is missing before; so is `end` until the run has ended. A run that was lost has
status FAILED.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, NoReturn

from starlette.exceptions import HTTPException
from starlette.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import CatalogDep, ClockDep, RunsDep
from streamsched.api.rendering import json_response
from streamsched.api.routing.calls import Depends
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Body, Routes
from streamsched.api.routing.rules import OPERATE, VIEW
from streamsched.codec.events.native import dumps
from streamsched.codec.json.scalar import texts
from streamsched.dialects.cdap import schemas
from streamsched.dialects.cdap.addresses import AppDep, find_program
from streamsched.dialects.cdap.codec.schedule import millis
from streamsched.dialects.cdap.dialect import CDAP
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.launcher.start import start
from streamsched.ports.runs import StopRequest
from streamsched.store.runs.run_queries import RunQueries, RunRecord

routes = Routes("/v3/namespaces/{namespace}/apps/{app}", "CDAP", CDAP)

#: CDAP's statuses of a run and the states here; no run is in one that names none.
_STATUSES: Final[dict[str, tuple[RunState, ...]]] = {
    "ALL": tuple(RunState),
    "PENDING": (RunState.PENDING,),
    "STARTING": (RunState.STARTING,),
    "RUNNING": (RunState.RUNNING,),
    "SUSPENDED": (RunState.SUSPENDED,),
    "COMPLETED": (RunState.COMPLETED,),
    "FAILED": (RunState.FAILED, RunState.LOST),
    "KILLED": (RunState.KILLED,),
    **dict.fromkeys(("RESUMING", "STOPPING", "REJECTED", "ORPHANED"), ()),
}
_ACTIVE: Final = tuple(state for state in RunState if not state.is_terminal)
_BEGUN: Final = (RunState.RUNNING, RunState.SUSPENDED)
#: Runs that are read at once; most of a list.
_PART: Final = 1000
_BY_HAND: Final = "over CDAP's API"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: Seconds: the last instant of the year 9999.
_LATEST_S: Final = 253_402_300_799


async def _program(app: AppDep, category: str, program: str, catalog: CatalogDep) -> ProgramRef:
    return (await find_program(catalog, app, category, program)).ref


ProgramDep = Annotated[ProgramRef, Depends(_program)]


@routes.get("/{category}/{program}/runs", "List the runs of a program", may=VIEW, answers=schemas.RUNS)
async def list_runs(
    ref: ProgramDep,
    runs: RunsDep,
    *,
    status: Annotated[str, Query(description=f"{', '.join(_STATUSES)}, in any case.")] = "ALL",
    since: Annotated[int, Query(alias="start", ge=0, description="Only runs since then, in seconds since 1970.")] = 0,
    until: Annotated[int, Query(alias="end", ge=0, description="Only runs before then.")] = _LATEST_S,
    limit: Annotated[int, Query(ge=1, le=_PART, description="Most runs in the response.")] = 100,
) -> Response:
    """Run records, the newest first. `start` and `end` are about the time at which a run was made, its `starting`."""
    states = _STATUSES.get(status.upper())
    if states is None:
        _refuse(400, f"Invalid program run status '{status}'. Must be one of {','.join(_STATUSES)}")
    if until < since:
        _refuse(400, f"Invalid end time {until}. It must be greater than the start time {since}")
    if not states:
        return json_response([])
    found = await runs.list_recent(program=ref, states=states, limit=limit, before=(_instant(until), ""))
    return json_response([_record(each) for each in found if _seconds(each.created_at) >= since])


@routes.get("/{category}/{program}/runs/{run}", "Get a run of a program", may=VIEW, answers=schemas.RUN)
async def get_run(ref: ProgramDep, run: str, runs: RunsDep) -> Response:
    """The run record."""
    return json_response(_record(await _find(ref, run, runs)))


@routes.get("/{category}/{program}/status", "Get the status of a program", may=VIEW, answers=schemas.STATUS)
async def status_of_program(ref: ProgramDep, runs: RunsDep) -> Response:
    """`{"status": "RUNNING"}`, `STARTING` while its runs have not begun, `STOPPED` without active ones."""
    if await runs.list_recent(program=ref, states=_BEGUN, limit=1):
        status = "RUNNING"
    else:
        status = "STARTING" if await runs.list_recent(program=ref, states=_ACTIVE, limit=1) else "STOPPED"
    return json_response({"status": status})


@routes.post(
    "/{category}/{program}/start",
    "Start a program",
    may=OPERATE,
    body=Body(schemas.ARGUMENTS, required=False),
    answers="",
    conflict=True,
)
async def start_program(ref: ProgramDep, body: BodyObject, runs: RunsDep, clock: ClockDep) -> Response:
    """Starts a run with the arguments of the body, an object of texts; they override preferences and the program's own.
    Active runs do not matter. 409 when a group or pool has no free slot.
    """
    await start(runs, clock, ref, texts(body, "$"), reason=_BY_HAND)
    return Response()


@routes.post("/{category}/{program}/stop", "Stop a program", may=OPERATE, answers="")
async def stop_program(ref: ProgramDep, runs: RunsDep, clock: ClockDep) -> Response:
    """Requests the end of all active runs of the program. 400 when there are none."""
    stopped = False
    async for run in _active(ref, runs):
        stopped = True
        with suppress(ConflictError):  # it has ended meanwhile
            await runs.stop(run, StopRequest(_BY_HAND), now=clock.now())
    if not stopped:
        _refuse_stopped(ref)
    return Response()


@routes.post("/{category}/{program}/runs/{run}/stop", "Stop a run of a program", may=OPERATE, answers="")
async def stop_run(ref: ProgramDep, run: str, runs: RunsDep, clock: ClockDep) -> Response:
    """Requests the end of the run. 400 when it has ended."""
    await _find(ref, run, runs)
    try:
        await runs.stop(run, StopRequest(_BY_HAND), now=clock.now())
    except ConflictError:
        _refuse_stopped(ref)
    return Response()


async def _active(ref: ProgramRef, runs: RunQueries) -> AsyncIterator[str]:
    """The ids of the active runs."""
    before: tuple[datetime, str] | None = None
    while found := await runs.list_recent(program=ref, states=_ACTIVE, limit=_PART, before=before):
        for each in found:
            yield each.id
        before = (found[-1].created_at, found[-1].id)


async def _find(ref: ProgramRef, run: str, runs: RunQueries) -> RunRecord:
    """Raises:
    HTTPException: 404, the program has no such run.
    """
    try:
        found = await runs.get(run)
    except NotFoundError:
        found = None
    if found is None or found.program != ref:
        _refuse(404, f"No run record found for program {ref} and runID: {run}")
    return found


def _record(run: RunRecord) -> dict[str, Any]:
    times = {"starting": run.created_at, "start": run.started_at, "end": run.ended_at}
    return {
        "runid": run.id,
        **{name: _seconds(at) for name, at in times.items() if at is not None},
        "status": "FAILED" if run.state is RunState.LOST else run.state.value,
        "properties": {"runtimeArgs": dumps(dict(run.arguments)).decode()},
    }


def _seconds(instant: datetime) -> int:
    return millis(instant) // 1000


def _instant(seconds: int) -> datetime:
    return _EPOCH + timedelta(seconds=min(seconds, _LATEST_S))


def _refuse_stopped(program: ProgramRef) -> NoReturn:
    _refuse(400, f"Program '{program}' is not running.")


def _refuse(status: int, reason: str) -> NoReturn:
    raise HTTPException(status, reason)
