"""CDAP's runs of a program, or of several: start, stop, status, and run records.

    {"runid", "starting", "start"?, "end"?: seconds since 1970, "status", "properties": {"runtimeArgs": JSON as text},
     "triggeringInfo"?: `codec.triggering_info`}

`start` is when the program began, and is missing before; so is `end` until the run has ended. A run that was lost has
status FAILED.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, NoReturn

from starlette.exceptions import HTTPException
from starlette.responses import Response

from streamsched.api.body import BodyBytes, BodyObject
from streamsched.api.bounds.request_limits import PROGRAMS
from streamsched.api.deps import CatalogDep, ClockDep, RunsDep
from streamsched.api.rendering import json_response
from streamsched.api.routing.calls import Depends
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Body, Routes
from streamsched.api.routing.rules import OPERATE, VIEW
from streamsched.codec.events.native import dumps
from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import texts
from streamsched.dialects.cdap import schemas
from streamsched.dialects.cdap.addresses import (
    AppDep,
    ListedProgram,
    answer_each,
    find_program,
    named_programs,
    read_programs,
)
from streamsched.dialects.cdap.codec import triggering_info
from streamsched.dialects.cdap.codec.schedule import millis
from streamsched.dialects.cdap.dialect import CDAP
from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.launcher.start import start
from streamsched.ports.runs import StopRequest
from streamsched.store.runs.run_queries import RunQueries, RunRecord

routes = Routes("/v3/namespaces/{namespace}/apps/{app}", "CDAP", CDAP)
of_namespace = Routes("/v3/namespaces/{namespace}", "CDAP", CDAP)

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
    """The run record. Of a run that a trigger started it has `triggeringInfo` besides: the schedule, and what of its
    trigger, as it is now, counted. Lists are without.
    """
    found = await _find(ref, run, runs)
    started = None if found.schedule is None else await _started_by(found.id, runs)
    return json_response({**_record(found), **({} if started is None else {"triggeringInfo": started})})


async def _started_by(run: str, runs: RunQueries) -> dict[str, Any] | None:
    """What started it; None when that is not known any more or cannot be read: the run is shown without."""
    try:
        found = await runs.satisfaction(run)
        return None if found is None else triggering_info.to_json(*found)
    except InvalidError:
        return None


@routes.get("/{category}/{program}/status", "Get the status of a program", may=VIEW, answers=schemas.STATUS)
async def status_of_program(ref: ProgramDep, runs: RunsDep) -> Response:
    """`{"status": "RUNNING"}`, `STARTING` while its runs have not begun, `STOPPED` without active ones."""
    return json_response({"status": _status((await runs.activity([ref])).get(ref))})


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
    if not await _stop(ref, runs, clock.now()):
        _refuse(400, _stopped_text(ref))
    return Response()


@routes.post("/{category}/{program}/runs/{run}/stop", "Stop a run of a program", may=OPERATE, answers="")
async def stop_run(ref: ProgramDep, run: str, runs: RunsDep, clock: ClockDep) -> Response:
    """Requests the end of the run. 400 when it has ended."""
    await _find(ref, run, runs)
    try:
        await runs.stop(run, StopRequest(_BY_HAND), now=clock.now())
    except ConflictError:
        _refuse(400, _stopped_text(ref))
    return Response()


@of_namespace.post(
    "/start", "Start several programs", may=OPERATE, body=schemas.STARTS, answers=schemas.STARTED, limit=PROGRAMS
)
async def start_programs(namespace: str, body: BodyBytes, runs: RunsDep, clock: ClockDep) -> Response:
    """The body is `[{"appId", "programType", "programId", "runtimeargs"?}, …]`, at most 1000. The response repeats the
    first three members of each with its own `statusCode` and either `runId` or `error`. Each is started as by `start`
    of a program; one that cannot be started hinders no other.
    """

    async def answer(each: ListedProgram) -> list[dict[str, Any]]:
        fields = Fields(each.given, each.path)
        given = fields.optional_value("runtimeargs")
        arguments = {} if given is None else texts(given, fields.path_of("runtimeargs"))
        return [each.answer(runId=await start(runs, clock, each.program, arguments, reason=_BY_HAND))]

    return json_response(await answer_each(await read_programs(namespace, body), answer))


@of_namespace.post(
    "/stop", "Stop several programs", may=OPERATE, body=schemas.PROGRAMS, answers=schemas.STARTED, limit=PROGRAMS
)
async def stop_programs(
    namespace: str, body: BodyBytes, catalog: CatalogDep, runs: RunsDep, clock: ClockDep
) -> Response:
    """The body is as of `nextruntime`. The response has an element with `runId` for each run of which the end was
    requested, and one with `error` for a program that is not known (404) or has no active runs (400).
    """
    asked = await read_programs(namespace, body)
    known = await catalog.reader.existing_programs(named_programs(asked))

    async def answer(each: ListedProgram) -> list[dict[str, Any]]:
        ref = _check_known(each.program, known)
        stopped = await _stop(ref, runs, clock.now())
        return [each.answer(runId=run) for run in stopped] or [each.answer(statusCode=400, error=_stopped_text(ref))]

    return json_response(await answer_each(asked, answer))


@of_namespace.post(
    "/status",
    "Get the status of several programs",
    may=VIEW,
    body=schemas.PROGRAMS,
    answers=schemas.STATUSES,
    limit=PROGRAMS,
)
async def status_of_programs(namespace: str, body: BodyBytes, catalog: CatalogDep, runs: RunsDep) -> Response:
    """The body is as of `nextruntime`. The response repeats each program with its own `statusCode` and either `status`,
    as of one program, or `error`.
    """
    asked = await read_programs(namespace, body)
    named = named_programs(asked)
    known, begun = await catalog.reader.existing_programs(named), await runs.activity(named)

    async def answer(each: ListedProgram) -> list[dict[str, Any]]:
        return [each.answer(status=_status(begun.get(_check_known(each.program, known))))]

    return json_response(await answer_each(asked, answer))


def _check_known(program: ProgramRef, known: Collection[ProgramRef]) -> ProgramRef:
    """Raises:
    NotFoundError: it is not among them.
    """
    if program not in known:
        raise NotFoundError("program", str(program))
    return program


def _status(begun: bool | None) -> str:
    """None: no run of the program is active."""
    return "STOPPED" if begun is None else "RUNNING" if begun else "STARTING"


async def _stop(ref: ProgramRef, runs: RunQueries, now: datetime) -> list[str]:
    """Requests the end of all active runs; their ids."""
    stopped: list[str] = []
    async for run in _active(ref, runs):
        stopped.append(run)
        with suppress(ConflictError):  # it has ended meanwhile
            await runs.stop(run, StopRequest(_BY_HAND), now=now)
    return stopped


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


def _stopped_text(program: ProgramRef) -> str:
    return f"Program '{program}' is not running."


def _refuse(status: int, reason: str) -> NoReturn:
    raise HTTPException(status, reason)
