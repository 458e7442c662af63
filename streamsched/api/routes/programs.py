"""Programs: listing, deleting and starting them."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from fastapi.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import AppQuery, CatalogDep, ClockDep, DryRunQuery, NamespaceQuery, PlanQuery, RunsDep
from streamsched.api.paging import After, Limit, page
from streamsched.api.rendering import rendered
from streamsched.api.views import change_view, preview_view, program_view
from streamsched.codec.json.reading import Fields
from streamsched.domain.names import AppRef, ProgramRef
from streamsched.launcher.start import start

router = APIRouter(prefix="/v1/programs", tags=["programs"])


@router.get("", summary="List programs")
async def list_programs(
    catalog: CatalogDep,
    namespace: NamespaceQuery = None,
    app: AppQuery = None,
    after: After = "",
    limit: Limit = 100,
) -> Response:
    """A page, ordered by id."""
    owner = None if app is None else AppRef.parse(app)
    found = await catalog.programs(namespace=namespace, app=owner, after=after, limit=limit + 1)
    return rendered(page("programs", found, limit, program_view, lambda each: str(each.ref)))


@router.get("/{program}", summary="Get a program")
async def get_program(program: str, catalog: CatalogDep) -> Response:
    """The program's definition."""
    return rendered(program_view(await catalog.program(ProgramRef.parse(program))))


@router.delete("/{program}", summary="Delete a program")
async def delete_program(
    program: str, catalog: CatalogDep, *, dry_run: DryRunQuery = False, plan: PlanQuery = None
) -> Response:
    """Deletes the program and its schedules and returns what changed. Schedules of any app that wait for the program
    lose that part of their trigger; a schedule whose trigger cannot hold without it is deleted. Active runs continue.
    """
    ref = ProgramRef.parse(program)
    if dry_run:
        return rendered(preview_view(await catalog.planner.delete_program(ref)))
    return rendered(change_view((await catalog.delete_program(ref, plan=plan)).change))


@router.post("/{program}/runs", summary="Start a program")
async def start_program(program: str, body: BodyObject, runs: RunsDep, clock: ClockDep) -> Response:
    """Starts a run without a schedule: 202 `{"run"}`. The members of the body are optional: `arguments`; `token`, which
    makes the request idempotent: a repeat with the same token returns the first run; `atMost`: 409 when that many runs
    of the program are active; `force`: ignores all limits. 409 also when a group or pool of the program's schedules has
    no free slot.
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
