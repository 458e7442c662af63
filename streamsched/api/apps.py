"""Apps: deploying programs and schedules together."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import CatalogDep
from streamsched.api.rendering import rendered
from streamsched.codec.schedule import app_from_json
from streamsched.domain.errors import DecodeError
from streamsched.domain.names import AppRef

router = APIRouter(prefix="/v1/apps")


@router.put("/{namespace}/{app}")
async def deploy(
    namespace: str,
    app: str,
    body: BodyObject,
    catalog: CatalogDep,
    update_schedules: Annotated[bool, Query(alias="updateSchedules")] = True,
) -> Response:
    """What changed. Equal schedules keep what they have accumulated; what the body no longer names, goes."""
    ref = AppRef(namespace, app)
    definition = app_from_json({"namespace": namespace, "application": app, **body})
    if definition.ref != ref:
        raise DecodeError("$.application", f"is {definition.ref}, but the address says {ref}")
    change = (await catalog.deploy(definition, update_schedules=update_schedules)).change
    return rendered(
        {
            "app": str(ref),
            "programs": [{"id": str(each.program.ref), "action": each.action} for each in change.programs],
            "schedules": [
                {
                    "id": str(each.after.definition.ref),
                    "action": each.action,
                    "generation": each.after.generation,
                    "reason": each.reason,
                }
                for each in change.schedules
            ],
        }
    )
