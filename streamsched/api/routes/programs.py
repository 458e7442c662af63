"""Programs: listing and deleting them."""

from __future__ import annotations

from starlette.responses import Response

from streamsched.api.access.authorise import CallerDep
from streamsched.api.deps import AppQuery, CatalogDep, DryRunQuery, NamespaceQuery, PlanQuery
from streamsched.api.paging import After, Limit, page
from streamsched.api.plan_views import PROGRAM_CHANGES, change_view, preview_view
from streamsched.api.rendering import json_response
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import DEPLOY, VIEW, VIEW_LIST
from streamsched.api.views import PROGRAM, program_view
from streamsched.domain.names import AppRef, ProgramRef

routes = Routes("/v1/programs", "programs")


@routes.get("", "List programs", may=VIEW_LIST, answers=PROGRAM.page("programs", "ProgramPage"))
async def list_programs(
    catalog: CatalogDep,
    namespace: NamespaceQuery = None,
    app: AppQuery = None,
    after: After = "",
    limit: Limit = 100,
) -> Response:
    """A page, ordered by id."""
    owner = None if app is None else AppRef.parse(app)
    found = await catalog.reader.programs(namespace=namespace, app=owner, after=after, limit=limit + 1)
    return json_response(page("programs", found, limit, program_view, lambda each: str(each.ref)))


@routes.get("/{program}", "Get a program", may=VIEW, answers=PROGRAM.answer)
async def get_program(program: str, catalog: CatalogDep) -> Response:
    """The program's definition."""
    return json_response(program_view(await catalog.reader.program(ProgramRef.parse(program))))


@routes.delete("/{program}", "Delete a program", may=DEPLOY, answers=PROGRAM_CHANGES.answer, conflict=True)
async def delete_program(
    program: str, catalog: CatalogDep, caller: CallerDep, *, dry_run: DryRunQuery = False, plan: PlanQuery = None
) -> Response:
    """Deletes the program and its schedules and returns what changed. Schedules of any app of the namespace that wait
    for the program lose that part of their trigger; a schedule whose trigger cannot hold without it is deleted. Those
    of other namespaces stay as they are and say so (`removed`); `waitingElsewhere` counts them. Active runs continue.
    """
    ref = ProgramRef.parse(program)
    change = catalog.delete_program(ref)
    if dry_run:
        return json_response(preview_view(await change.preview(), caller.sees))
    return json_response(change_view(PROGRAM_CHANGES, (await change.apply(plan)).change, caller.sees))
