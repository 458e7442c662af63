"""The one place that decides whether a request may be carried out. It is the door of every route: it runs first,
before the body is read.

| the request | status |
|---|---|
| has no valid token | 401 |
| concerns a namespace in which its caller has no permission | 403 |
| names a job, run or backfill of such a namespace | 404, as for one that does not exist |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, assert_never

from starlette.requests import Request

from streamsched.api.routing.calls import Depends
from streamsched.api.routing.rules import IN_QUERY, NOTHING, PUBLIC, Rule, Scope
from streamsched.api.routing.table import ServedRoute
from streamsched.domain.access.grant import AccessVerdict, Caller, Denied
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import ForbiddenError, NotFoundError, storable_text

#: Path parameters that begin with the namespace. Whether the thing exists is not disclosed for the second group.
_NAMED: Final = ("schedule", "program", "expectation", "name")
_IDS: Final = ("job", "run", "backfill")
#: What is recorded in the audit: changes. Events and tasks are not; their source is in the event.
_CHANGING: Final = frozenset({Permission.OPERATE, Permission.DEPLOY, Permission.ADMINISTER})
_FILTERS: Final = ("namespace", "app", "program", "schedule")


async def authorise(request: Request) -> None:
    """Finds out who sends the request and checks the permission that its route needs.

    Raises:
        UnauthenticatedError: the request has no valid token.
        ForbiddenError: the caller has no permission.
        NotFoundError: the caller has no permission for the thing with this id.
    """
    served: ServedRoute = request.scope["served"]
    rule = served.route.may
    if rule is PUBLIC:
        return
    assert isinstance(rule, Rule), f"{served.route.name} belongs to an application with a door of its own"
    caller: Caller = await request.app.state.services.access.authentication.caller(request.headers.get("authorization"))
    request.state.caller = caller
    check_rule(caller, rule, request)
    await record_change(caller, rule, served.route.name, request)


def check_rule(caller: Caller, rule: Rule, request: Request) -> None:
    """Checks that the caller has the permission where the request names the namespace.

    Raises:
        ForbiddenError, NotFoundError: as `authorise`.
    """
    match rule.scope:
        case Scope.NONE | Scope.BODY:
            return
        case Scope.INSTALLATION:
            require(caller.may(rule.permission, None))
        case Scope.PATH:
            request.state.namespace = _check_path(caller, rule, request.path_params)
        case Scope.QUERY:
            _check_query(caller, rule, request)
        case _:
            assert_never(rule.scope)
    if rule.emits is not None and rule.emits not in {NOTHING, IN_QUERY}:
        namespace = request.path_params.get("namespace")
        require(caller.may_emit(namespace, rule.emits.format_map(request.path_params)))


async def record_change(caller: Caller, rule: Rule, action: str, request: Request) -> None:
    """Records the request in the audit before it is carried out, if it is a change."""
    if rule.permission not in _CHANGING or request.method in {"GET", "HEAD"}:
        return
    target = storable_text(request.url.path)
    address = request.client.host if request.client else ""
    detail = {"query": storable_text(request.url.query), "address": address}
    number = await request.app.state.services.access.audit.request(caller.name, action, target, detail)
    if number is not None:
        request.state.audited = (number, caller.name, action, target)


def require(verdict: AccessVerdict) -> None:
    """Raises:
    ForbiddenError: the verdict is a denial.
    """
    if isinstance(verdict, Denied):
        raise ForbiddenError(verdict.reason)


def _check_path(caller: Caller, rule: Rule, params: dict[str, str]) -> str:
    """Returns the namespace."""
    if "namespace" in params:
        require(caller.may(rule.permission, params["namespace"]))
        return params["namespace"]
    for name in _NAMED:
        if name in params:
            require(caller.may(rule.permission, namespace := params[name].partition(".")[0]))
            return namespace
    kind = next(name for name in _IDS if name in params)
    namespace = params[kind].partition(".")[0]
    verdict = caller.may(rule.permission, namespace)
    if isinstance(verdict, Denied):
        if isinstance(caller.may(Permission.VIEW, namespace), Denied):
            raise NotFoundError(kind, params[kind])
        raise ForbiddenError(verdict.reason)
    return namespace


def _check_query(caller: Caller, rule: Rule, request: Request) -> None:
    """Every filter that is given narrows the list, so one in a permitted namespace is enough only if all agree. A
    filter that the route does not have narrows nothing. Without any, the list is of the only namespace in which the
    caller has the permission (`deps.NamespaceQuery`).
    """
    names = _filters_of(request)
    given = {value.partition(".")[0] for name in names for value in request.query_params.getlist(name) if value}
    if not given:
        verdict = caller.may(rule.permission, None)
        own = caller.namespaces(rule.permission)
        if isinstance(verdict, Denied) and len(own) == 1 and "namespace" in names:
            (request.state.only_namespace,) = own
        elif isinstance(verdict, Denied):
            raise ForbiddenError(f"{verdict.reason}; name a namespace by `namespace` or `app`")
    for namespace in sorted(given):
        require(caller.may(rule.permission, namespace))


def _filters_of(request: Request) -> Sequence[str]:
    """The filters that the route has; of a page, any."""
    served: ServedRoute | None = request.scope.get("served")
    return _FILTERS if served is None else [name for name in _FILTERS if name in served.filters]


async def _caller(request: Request) -> Caller:
    return request.state.caller


CallerDep = Annotated[Caller, Depends(_caller)]
