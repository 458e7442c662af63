"""Grants between namespaces: what the owner of one lets the definitions of another refer to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from starlette.responses import Response

from streamsched.api.access.authorise import CallerDep
from streamsched.api.body import BodyObject
from streamsched.api.deps import GrantDeskDep
from streamsched.api.paging import After, Limit, page
from streamsched.api.rendering import json_response
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import ADMINISTER_ALL, DEPLOY, VIEW
from streamsched.domain.access.namespace_grant import GrantState, NamespaceGrant, SharedKind
from streamsched.domain.constraints.group import check_group_name
from streamsched.domain.errors import DecodeError
from streamsched.domain.names import ScheduleRef, check_namespace
from streamsched.wire.namespaces import DECIDED, NAMESPACE_GRANT, NEW_NAMESPACE_GRANT, NEW_OWNER, SHARED_NAME

routes = Routes("/v1", "access")

#: Between the parts of a cursor; no name has it.
_SEPARATOR: Final = "/"


@routes.get(
    "/namespaces/{namespace}/grants",
    "List the grants that a namespace has given and has",
    may=VIEW,
    answers=NAMESPACE_GRANT.page("grants"),
)
async def list_grants(namespace: str, desk: GrantDeskDep, after: After = "", limit: Limit = 100) -> Response:
    """A page, ordered by owner, kind, name and grantee. A `pending` one is of a use from before grants existed: it goes
    on, without log, error and arguments of programs, until its owner decides.
    """
    check_namespace(namespace)
    found = await desk.list_of(namespace, after=grant_position(after) if after else None, limit=limit + 1)
    return json_response(page("grants", found, limit, NAMESPACE_GRANT.write, grant_cursor))


@routes.put(
    "/namespaces/{namespace}/grants",
    "Give or refuse a grant",
    may=DEPLOY,
    body=NEW_NAMESPACE_GRANT.body,
    answers=DECIDED,
    conflict=True,
)
async def put_grant(namespace: str, body: BodyObject, caller: CallerDep, desk: GrantDeskDep) -> Response:
    """Decides whether definitions of `grantee` may refer to something of the namespace: `kind` is `dataset`, `stream`,
    `event`, `program`, `group` or `pool`; `name` is without the namespace (of a program, `app.program`), or a pattern
    with `*` and `?`. `state` is `granted` (default) or `refused`. With `details`, ends of programs arrive with error,
    log, run and arguments. Replaces an earlier decision about the same.

    Schedules that rely on what is refused are paused; they keep what they have accumulated. `suspended` names them.
    """
    wanted = NEW_NAMESPACE_GRANT.read(body)
    if wanted.state is GrantState.PENDING:
        raise DecodeError("$.state", "must be granted or refused")
    if wanted.details and (wanted.state is GrantState.REFUSED or wanted.kind is not SharedKind.PROGRAM):
        raise DecodeError("$.details", "are of programs, and go with a grant")
    grant = NamespaceGrant(
        owner=namespace,
        kind=wanted.kind,
        name=wanted.name,
        grantee=wanted.grantee,
        state=wanted.state,
        details=wanted.details,
        reason=wanted.reason,
        by=caller.name,
    )
    return json_response(_decision(grant, await desk.decide(grant)))


@routes.delete("/namespaces/{namespace}/grants", "Take back a grant", may=DEPLOY, answers=DECIDED, missing=True)
async def delete_grant(
    namespace: str,
    caller: CallerDep,
    desk: GrantDeskDep,
    *,
    kind: Annotated[SharedKind, Query(description="As it was given.")],
    name: Annotated[str, Query(max_length=1000, description="As it was given.")],
    grantee: Annotated[str, Query(max_length=1000, description="The namespace that has it.")],
    reason: Annotated[str, Query(max_length=1000, description="Stored in the history.")] = "",
) -> Response:
    """Removes the grant and returns what it was. Schedules that relied on it are paused, as by a refusal."""
    wanted = NamespaceGrant(
        owner=namespace,
        kind=kind,
        name=name,
        grantee=grantee,
        state=GrantState.REFUSED,
        reason=reason,
        by=caller.name,
    )
    former, suspended = await desk.remove(wanted)
    return json_response(_decision(former, suspended))


@routes.put(
    "/groups/{name}/owner", "Hand over a group", may=ADMINISTER_ALL, body=NEW_OWNER.body, answers=SHARED_NAME.answer
)
async def put_group_owner(name: str, body: BodyObject, desk: GrantDeskDep) -> Response:
    """Makes `namespace` the owner of the group: it may use the name, and decides who else may. Without this it is the
    namespace that declared the group first.
    """
    return await _hand_over(SharedKind.GROUP, name, body, desk)


@routes.put(
    "/pools/{name}/owner", "Hand over a pool", may=ADMINISTER_ALL, body=NEW_OWNER.body, answers=SHARED_NAME.answer
)
async def put_pool_owner(name: str, body: BodyObject, desk: GrantDeskDep) -> Response:
    """Makes `namespace` the owner of the pool: it may use the name, and decides who else may. Without this it is the
    namespace that declared the pool first.
    """
    return await _hand_over(SharedKind.POOL, name, body, desk)


def _decision(grant: NamespaceGrant, suspended: Sequence[ScheduleRef]) -> dict[str, Any]:
    return {**NAMESPACE_GRANT.write(grant), "suspended": [str(ref) for ref in suspended]}


async def _hand_over(kind: SharedKind, name: str, body: BodyObject, desk: GrantDeskDep) -> Response:
    check_group_name(name, "$")
    namespace = NEW_OWNER.read(body).namespace
    check_namespace(namespace)
    await desk.hand_over(kind, name, namespace)
    return json_response(SHARED_NAME.answer_of(kind=kind, name=name, namespace=namespace))


def grant_cursor(grant: NamespaceGrant) -> str:
    """The cursor of a list that ends with this grant."""
    return _SEPARATOR.join((grant.owner, grant.kind, grant.name, grant.grantee))


def grant_position(cursor: str) -> tuple[str, str, str, str]:
    """Owner, kind, name and grantee in a cursor.

    Raises:
        DecodeError: it is no cursor of this list.
    """
    parts = cursor.split(_SEPARATOR)
    if len(parts) != 4 or "\0" in cursor:
        raise DecodeError("after", "is no `next` of this list")
    return parts[0], parts[1], parts[2], parts[3]
