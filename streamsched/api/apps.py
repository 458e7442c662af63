"""Apps: deploying programs and schedules together, and pausing them together."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from streamsched.api.body import BodyObject, reason_of, reasoned
from streamsched.api.deps import CatalogDep, ClockDep
from streamsched.api.rendering import rendered
from streamsched.api.views import change_view, preview_view
from streamsched.codec import pause as pause_codec
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
    *,
    update_schedules: Annotated[bool, Query(alias="updateSchedules")] = True,
    keep: Annotated[bool | None, Query()] = None,
    dry_run: Annotated[bool, Query()] = False,
) -> Response:
    """What changed. Equal schedules keep what they have accumulated; what the body no longer names, goes. `keep` says
    for all changed schedules whether they keep what fits; left out, each says so itself (`onChange`). With `dry_run`
    nothing changes, and the answer says what would, and what would be lost.
    """
    ref = AppRef(namespace, app)
    definition = app_from_json({"namespace": namespace, "application": app, **body})
    if definition.ref != ref:
        raise DecodeError("$.application", f"is {definition.ref}, but the address says {ref}")
    if dry_run:
        preview = await catalog.preview(definition, update_schedules, keep=keep)
        return rendered({"app": str(ref), **preview_view(preview)})
    change = (await catalog.deploy(definition, update_schedules, keep=keep)).change
    return rendered({"app": str(ref), **change_view(change)})


@router.post("/{namespace}/{app}/pause")
async def pause(namespace: str, app: str, body: BodyObject, catalog: CatalogDep, clock: ClockDep) -> Response:
    """Pauses whatever of the app is enabled: `{"keep"?, "until"?, "note"?, "reason"?}`. What changed."""
    ref = AppRef(namespace, app)
    reason, rest = reasoned(body)
    change = (await catalog.pause_app(ref, pause_codec.from_json(rest, now=clock.now()), reason=reason)).change
    return rendered({"app": str(ref), **change_view(change)})


@router.post("/{namespace}/{app}/enable")
async def enable(namespace: str, app: str, body: BodyObject, catalog: CatalogDep) -> Response:
    """Enables whatever of the app is disabled or paused: `{"reason"?}`. What changed."""
    ref = AppRef(namespace, app)
    change = (await catalog.enable_app(ref, reason=reason_of(body))).change
    return rendered({"app": str(ref), **change_view(change)})
