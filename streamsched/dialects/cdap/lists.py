"""CDAP's schedule lists: of an app, of a program, and of the schedules triggered by a program.

`?strict=true` is an extension: it omits schedules that CDAP's own clients cannot read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final, NoReturn

from starlette.exceptions import HTTPException
from starlette.responses import Response

from streamsched.api.access.authorise import CallerDep
from streamsched.api.deps import CatalogDep
from streamsched.api.routing.calls import Depends
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import VIEW
from streamsched.api.streams.long_lists import parts_of, stream_list
from streamsched.catalog.catalog import Catalog
from streamsched.dialects.cdap import schemas
from streamsched.dialects.cdap.addresses import CATEGORIES, AppDep, check_category, find_program
from streamsched.dialects.cdap.codec.extension import is_readable
from streamsched.dialects.cdap.dialect import CDAP
from streamsched.dialects.cdap.forms import Form, FormDep, write_form
from streamsched.domain.events.event import Outcome
from streamsched.domain.names import AppRef, ProgramRef
from streamsched.domain.triggers.trigger import ProgramStatus, Trigger, leaves
from streamsched.store.catalog.records import ScheduleStatus

of_app = Routes("/v3/namespaces/{namespace}/apps/{app}", "CDAP", CDAP)
of_namespace = Routes("/v3/namespaces/{namespace}", "CDAP", CDAP)

#: Values of `trigger-type` and the trigger types they select. `time` includes the types CDAP does not have.
_TYPES: Final[dict[str, frozenset[str]]] = {
    "time": frozenset({"TIME", "EVERY", "AT"}),
    "partition": frozenset({"PARTITION"}),
    "stream-size": frozenset({"STREAM_SIZE"}),
    "program-status": frozenset({"PROGRAM_STATUS"}),
    "and": frozenset({"AND"}),
    "or": frozenset({"OR"}),
}
_STATUSES: Final = ("SCHEDULED", "SUSPENDED")
#: CDAP's statuses of programs. No trigger waits for INITIALIZING.
_OUTCOMES: Final[dict[str, frozenset[Outcome]]] = {
    "INITIALIZING": frozenset(),
    "RUNNING": frozenset({Outcome.STARTED}),
    "COMPLETED": frozenset({Outcome.SUCCEEDED}),
    "FAILED": frozenset({Outcome.FAILED}),
    "KILLED": frozenset({Outcome.KILLED}),
}


@dataclass(frozen=True, slots=True)
class Filter:
    """The filter of a list and the form of its items."""

    types: frozenset[str] | None
    status: str | None
    form: Form
    strict: bool

    def __call__(self, found: Iterable[ScheduleStatus]) -> list[dict[str, Any]]:
        """The schedules that pass, as JSON, in the given order."""
        return [
            form
            for status in found
            if (detail := write_form(status)) is not None
            and self._passes(detail)
            and (form := write_form(status, self.form)) is not None
        ]

    def _passes(self, detail: dict[str, Any]) -> bool:
        return (
            (self.types is None or detail["trigger"]["type"] in self.types)
            and self.status in (None, detail["status"])
            and (not self.strict or is_readable(detail))
        )


async def _filter(
    trigger_type: Annotated[
        str | None, Query(alias="trigger-type", description=f"Type of the whole trigger: {', '.join(_TYPES)}.")
    ] = None,
    schedule_status: Annotated[
        str | None, Query(alias="schedule-status", description=f"{' or '.join(_STATUSES)}.")
    ] = None,
    form: FormDep = Form.DETAIL,
    strict: Annotated[bool, Query(description="Omit schedules that CDAP's own clients cannot read.")] = False,
) -> Filter:
    if trigger_type is not None and trigger_type not in _TYPES:
        _refuse(f"Unknown category name '{trigger_type}'. Must be one of {','.join(_TYPES)}")
    if schedule_status is not None and schedule_status not in _STATUSES:
        _refuse(f"Invalid schedule status '{schedule_status}'. Must be one of {','.join(_STATUSES)}.")
    return Filter(None if trigger_type is None else _TYPES[trigger_type], schedule_status, form, strict)


FilterDep = Annotated[Filter, Depends(_filter)]


@of_app.get("/schedules", "List the schedules of an app", may=VIEW, answers=schemas.SCHEDULES)
async def schedules_of_app(app: AppDep, catalog: CatalogDep, chosen: FilterDep) -> Response:
    """The schedules of the app, ordered by name. `trigger-type` compares the type of the whole trigger: a conjunction
    of times is of type `and`, not `time`. The list has no limit: it is sent as it is read.
    """
    return await stream_list(await _of_app(catalog, app), chosen)


@of_app.get(
    "/{category}/{program}/schedules", "List the schedules that start a program", may=VIEW, answers=schemas.SCHEDULES
)
async def schedules_of_program(
    app: AppDep, category: str, program: str, catalog: CatalogDep, chosen: FilterDep
) -> Response:
    """The schedules of the app that start the program, ordered by name. `category` is `workflows` or `spark`."""
    ref = (await find_program(catalog, app, category, program)).ref
    return await stream_list(
        await _of_app(catalog, app),
        lambda part: chosen(each for each in part if each.record.definition.program == ref),
    )


async def _of_app(catalog: Catalog, app: AppRef) -> AsyncIterator[Sequence[ScheduleStatus]]:
    """The schedules of an app in parts, ordered by name.

    Raises:
        NotFoundError: the app has neither schedules nor programs.
    """
    await catalog.reader.app_summary(app)
    return parts_of(lambda after, limit: catalog.reader.schedules(app=app, after=after, limit=limit), _id)


def _id(status: ScheduleStatus) -> str:
    return str(status.record.definition.ref)


@of_namespace.get(
    "/schedules/trigger-type/program-status",
    "List the schedules triggered by a program",
    may=VIEW,
    answers=schemas.SCHEDULES,
)
async def triggered_by_program(
    *,
    catalog: CatalogDep,
    caller: CallerDep,
    chosen: FilterDep,
    trigger_namespace: Annotated[
        str | None, Query(alias="trigger-namespace-id", description="Namespace of the program (required).")
    ] = None,
    trigger_app: Annotated[
        str | None, Query(alias="trigger-app-name", description="App of the program (required).")
    ] = None,
    category: Annotated[
        str | None, Query(alias="trigger-program-type", description=f"{', '.join(CATEGORIES)} (required).")
    ] = None,
    program: Annotated[
        str | None, Query(alias="trigger-program-name", description="Name of the program (required).")
    ] = None,
    statuses: Annotated[
        str | None,
        Query(alias="trigger-program-statuses", description=f"Comma-separated: {', '.join(_OUTCOMES)}. Default: any."),
    ] = None,
) -> Response:
    """The schedules whose trigger contains a status of the program, at any depth; as in CDAP those of each namespace
    that the caller may view. `trigger-program-statuses`, such as `COMPLETED,FAILED`, selects those that wait for
    at least one of these statuses.
    """
    named = {
        "trigger-namespace-id": trigger_namespace,
        "trigger-app-name": trigger_app,
        "trigger-program-type": category,
        "trigger-program-name": program,
    }
    for name, value in named.items():
        if not value:
            _refuse(f"Must specify {name} as a query param")
    check_category(str(category))
    ref, outcomes = ProgramRef(str(trigger_namespace), str(trigger_app), str(program)), _outcomes(statuses)
    reader = catalog.reader
    return await stream_list(
        parts_of(lambda after, limit: reader.list_waiting(ref, after=after, limit=limit), _id),
        lambda part: chosen(
            each
            for each in part
            if caller.sees(each.record.definition.ref.namespace)
            and _waits(each.record.definition.trigger, ref, outcomes)
        ),
    )


def _waits(trigger: Trigger, program: ProgramRef, outcomes: frozenset[Outcome]) -> bool:
    return any(
        isinstance(leaf, ProgramStatus) and leaf.program == program and bool(leaf.outcomes & outcomes)
        for leaf in leaves(trigger)
    )


def _outcomes(statuses: str | None) -> frozenset[Outcome]:
    if statuses is None:
        return frozenset(Outcome)
    try:
        # as Java splits: empty texts at the end are none
        return frozenset().union(*(_OUTCOMES[status.strip()] for status in statuses.rstrip(",").split(",")))
    except KeyError:
        _refuse(
            f"Unable to parse program statuses '{statuses}'. Must be comma separated valid ProgramStatus names such as "
            "COMPLETED, FAILED, KILLED."
        )


def _refuse(reason: str) -> NoReturn:
    raise HTTPException(HTTPStatus.BAD_REQUEST, reason)
