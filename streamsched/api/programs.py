"""Programs: what runs, and starting it by hand."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import CatalogDep, ClockDep, RunsDep
from streamsched.api.rendering import rendered
from streamsched.api.views import change_view, program_view
from streamsched.codec.reading import Fields
from streamsched.domain.names import ProgramRef
from streamsched.launcher.start import start

router = APIRouter(prefix="/v1/programs")


@router.get("")
async def list_programs(catalog: CatalogDep, namespace: Annotated[str | None, Query()] = None) -> Response:
    """Ordered by id."""
    return rendered({"programs": [program_view(each) for each in await catalog.programs(namespace=namespace)]})


@router.get("/{program}")
async def get_program(program: str, catalog: CatalogDep) -> Response:
    return rendered(program_view(await catalog.program(ProgramRef.parse(program))))


@router.delete("/{program}")
async def delete_program(program: str, catalog: CatalogDep) -> Response:
    """What changed: its schedules go with it; those of any app that wait for it go on without that, or go."""
    return rendered(change_view((await catalog.delete_program(ProgramRef.parse(program))).change))


@router.post("/{program}/runs")
async def start_program(program: str, body: BodyObject, runs: RunsDep, clock: ClockDep) -> Response:
    """202 `{"run"}`. Members of the body, all optional: `arguments`, `token` (a repeat with the same one finds the
    first run), `atMost` (409 when as many runs of the program are active), `force` (beyond all limits). 409 too when a
    group or pool that the program's schedules share has no room.
    """
    fields = Fields(body)
    arguments = fields.texts("arguments")
    token = fields.optional_text("token")
    at_most = fields.optional_integer("atMost", minimum=1)
    force = fields.optional_boolean("force") or False
    fields.done()
    ref = ProgramRef.parse(program)
    run = await start(runs, clock, ref, arguments, at_most=at_most, force=force, token=token)
    return rendered({"run": run}, status=HTTPStatus.ACCEPTED, headers={"Location": f"/v1/runs/{run}"})
