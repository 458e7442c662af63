"""One schedule over CDAP's API: create, show, update, delete, enable and disable.

`?strict=true` is an extension: a schedule that uses anything CDAP does not have is refused with its path.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from streamsched.api.access.authorise import CallerDep
from streamsched.api.body import BodyBytes, decode_body
from streamsched.api.bounds.request_limits import LISTS
from streamsched.api.deps import CatalogDep, ServicesDep
from streamsched.api.rendering import json_response
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import DEPLOY, OPERATE, VIEW
from streamsched.codec.json.scalar import loads
from streamsched.dialects.cdap import schemas
from streamsched.dialects.cdap.addresses import ScheduleDep
from streamsched.dialects.cdap.codec import schedule as details
from streamsched.dialects.cdap.codec import specification
from streamsched.dialects.cdap.codec.extension import extensions
from streamsched.dialects.cdap.dialect import CDAP
from streamsched.dialects.cdap.forms import Form, FormDep, write_form
from streamsched.domain.access.references import schedule_references
from streamsched.domain.errors import DecodeError, InvalidError, NotFoundError
from streamsched.domain.schedules.schedule import Schedule

routes = Routes("/v3/namespaces/{namespace}/apps/{app}/schedules", "CDAP", CDAP)

StrictDep = Annotated[bool, Query(description="Refuse members that CDAP does not have.")]


@routes.put(
    "/{schedule}", "Create a schedule", may=DEPLOY, body=schemas.SCHEDULE, answers="", conflict=True, limit=LISTS
)
async def create(
    ref: ScheduleDep, body: BodyBytes, caller: CallerDep, services: ServicesDep, strict: StrictDep = False
) -> Response:
    """Creates the schedule in status SUSPENDED. 404 when the program does not exist, 409 when the schedule exists."""
    obj = await decode_body(body, _object)
    legacy = specification.is_specification(obj)
    schedule = specification.from_json(obj, ref) if legacy else details.from_json(obj, ref)
    _check(schedule, strict)
    await services.catalog.reader.program(schedule.program)
    await services.access.references.check(caller, ref.namespace, schedule_references(schedule))
    await services.catalog.create(schedule, enabled=False).apply()
    return Response()


@routes.post(
    "/{schedule}/update", "Update a schedule", may=DEPLOY, body=schemas.SCHEDULE, answers="", conflict=True, limit=LISTS
)
async def update(
    ref: ScheduleDep, body: BodyBytes, caller: CallerDep, services: ServicesDep, strict: StrictDep = False
) -> Response:
    """Members that the body omits keep their values. The status does not change. An update that changes nothing keeps
    all accumulated events.
    """
    obj = await decode_body(body, _object)

    def amend(before: Schedule) -> Schedule:
        after = details.change_schedule(before, obj)
        _check(after, strict)
        return after

    # what another update adds meanwhile, its own caller was permitted to name
    named = amend((await services.catalog.reader.schedule(ref)).record.definition)
    await services.access.references.check(caller, ref.namespace, schedule_references(named))
    await services.catalog.amend(ref, amend).apply()
    return Response()


@routes.get("/{schedule}", "Get a schedule", may=VIEW, answers=schemas.SCHEDULE)
async def show(ref: ScheduleDep, catalog: CatalogDep, form: FormDep = Form.DETAIL) -> Response:
    """`ScheduleDetail`, or with `?format=spec` the older `ScheduleSpecification`. 404 also when the schedule cannot be
    expressed in the older form.
    """
    found = write_form(await catalog.reader.schedule(ref), form)
    if found is None:
        raise NotFoundError("schedule", str(ref))
    return json_response(found)


@routes.delete("/{schedule}", "Delete a schedule", may=DEPLOY, answers="")
async def delete(ref: ScheduleDep, catalog: CatalogDep) -> Response:
    """Deletes the schedule with its accumulated events. Waiting jobs end as OBSOLETE; active runs continue."""
    await catalog.delete(ref).apply()
    return Response()


@routes.get("/{schedule}/status", "Get the status of a schedule", may=VIEW, answers=schemas.STATUS)
async def status(ref: ScheduleDep, catalog: CatalogDep) -> Response:
    """`{"status": "SCHEDULED"}` when the schedule is enabled, else `{"status": "SUSPENDED"}`."""
    enabled = (await catalog.reader.schedule(ref)).record.enabled
    return json_response({"status": "SCHEDULED" if enabled else "SUSPENDED"})


@routes.post("/{schedule}/{action}", "Enable or disable a schedule", may=OPERATE, answers=schemas.DONE, conflict=True)
async def act(ref: ScheduleDep, action: str, catalog: CatalogDep) -> Response:
    """`action` is `enable` or its synonym `resume`, `disable` or its synonym `suspend`. 409 when the schedule is in
    that state already; a paused one is suspended, as its status says, and keeps what it has.
    """
    match action:
        case "enable" | "resume":
            await catalog.enable(ref).apply()
        case "disable" | "suspend":
            await catalog.disable(ref, paused=False).apply()
        case _:
            raise HTTPException(
                HTTPStatus.BAD_REQUEST,
                f"Action for schedules may only be 'enable', 'disable', 'suspend', or 'resume' but is '{action}'",
            )
    return json_response("OK")


def _object(body: bytes) -> dict[str, Any]:
    """The body as a JSON object.

    Raises:
        DecodeError: it is not one; the message is CDAP's.
    """
    try:
        found = loads(body)
    except DecodeError as exc:
        raise DecodeError("$", f"Request body is invalid json: {exc.reason}") from exc
    if not isinstance(found, dict):
        raise DecodeError("$", f"Expected a json object in the request body but received {_excerpt(body)}")
    return found


def _excerpt(body: bytes) -> str:
    """The first 80 bytes of a body as text, without an incomplete last character."""
    return body[:80].decode(errors="ignore")


def _check(schedule: Schedule, strict: bool) -> None:
    extension = next(extensions(details.to_json(schedule)), None)
    if strict and extension is not None:
        raise InvalidError(extension, "is not part of CDAP's API, and strict=true refuses extensions")
