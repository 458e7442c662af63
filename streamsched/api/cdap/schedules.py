"""One schedule by CDAP's address: create, show, update, delete, enable and disable.

`?strict=true` is ours: a schedule that CDAP has no words for is then refused with the path of what it is.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import Response

from streamsched.api.body import BodyBytes
from streamsched.api.cdap.addresses import ScheduleDep
from streamsched.api.cdap.forms import Form, FormDep, shown
from streamsched.api.deps import CatalogDep
from streamsched.api.rendering import rendered
from streamsched.codec.cdap import schedule as details
from streamsched.codec.cdap import specification
from streamsched.codec.cdap.extension import extensions
from streamsched.codec.scalar import loads
from streamsched.domain.errors import DecodeError, InvalidError, NotFoundError
from streamsched.domain.schedule import Schedule

router = APIRouter(prefix="/schedules")

StrictDep = Annotated[bool, Query(description="refuse what CDAP has no word for")]

_EXAMPLE: Final = {
    "program": {"programName": "join", "programType": "WORKFLOW"},
    "trigger": {"type": "PARTITION", "dataset": {"namespace": "default", "dataset": "lines"}, "numPartitions": 5},
    "constraints": [{"type": "CONCURRENCY", "maxConcurrency": 1, "waitUntilMet": True}],
    "timeoutMillis": 86_400_000,
}
_BODY: Final = {
    "requestBody": {"content": {"application/json": {"schema": {"type": "object"}, "example": _EXAMPLE}}},
}


@router.put("/{schedule}", openapi_extra=_BODY)
async def create(ref: ScheduleDep, body: BodyBytes, catalog: CatalogDep, strict: StrictDep = False) -> Response:
    """200, suspended; 404 when app or program are missing, 409 when it exists."""
    obj = _object(body)
    legacy = specification.is_specification(obj)
    schedule = specification.from_json(obj, ref) if legacy else details.from_json(obj, ref)
    _check(schedule, strict)
    await catalog.program(schedule.program)
    await catalog.create(schedule, enabled=False)
    return Response()


@router.post("/{schedule}/update", openapi_extra=_BODY)
async def update(ref: ScheduleDep, body: BodyBytes, catalog: CatalogDep, strict: StrictDep = False) -> Response:
    """200. What the body leaves out stays; an enabled schedule stays enabled."""
    obj = _object(body)
    schedule = details.changed((await catalog.get(ref)).record.definition, obj)
    _check(schedule, strict)
    await catalog.update(schedule)
    return Response()


@router.get("/{schedule}")
async def show(ref: ScheduleDep, catalog: CatalogDep, form: FormDep = Form.DETAIL) -> Response:
    """200 `ScheduleDetail`, or with `?format=spec` the older `ScheduleSpecification` where it has that form."""
    found = shown(await catalog.get(ref), form)
    if found is None:
        raise NotFoundError("schedule", str(ref))
    return rendered(found)


@router.delete("/{schedule}")
async def delete(ref: ScheduleDep, catalog: CatalogDep) -> Response:
    await catalog.delete(ref)
    return Response()


@router.get("/{schedule}/status")
async def status(ref: ScheduleDep, catalog: CatalogDep) -> Response:
    """200 `{"status": "SCHEDULED"}` or SUSPENDED."""
    enabled = (await catalog.get(ref)).record.enabled
    return rendered({"status": "SCHEDULED" if enabled else "SUSPENDED"})


@router.post("/{schedule}/{action}")
async def act(ref: ScheduleDep, action: str, catalog: CatalogDep) -> Response:
    """200; 409 when it is in that state already. Actions: enable and resume, disable and suspend."""
    match action:
        case "enable" | "resume":
            await catalog.enable(ref)
        case "disable" | "suspend":
            await catalog.disable(ref)
        case _:
            raise HTTPException(
                HTTPStatus.BAD_REQUEST,
                f"Action for schedules may only be 'enable', 'disable', 'suspend', or 'resume' but is '{action}'",
            )
    return Response()


def _object(body: bytes) -> dict[str, Any]:
    """Raises:
    DecodeError: the body is no JSON object, in CDAP's words.
    """
    try:
        found = loads(body)
    except DecodeError as exc:
        raise DecodeError("$", f"Request body is invalid json: {exc.reason}") from exc
    if not isinstance(found, dict):
        raise DecodeError("$", f"Expected a json object in the request body but received {body[:80].decode()}")
    return found


def _check(schedule: Schedule, strict: bool) -> None:
    beyond = next(extensions(details.to_json(schedule)), None)
    if strict and beyond is not None:
        raise InvalidError(beyond, "is no word of CDAP's, and strict=true asks for those only")
