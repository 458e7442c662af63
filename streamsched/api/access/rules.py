"""What each route needs: a permission, and where the request names the namespace. `authorise` decides by this table,
and a `RouteTable` refuses an application that has a route without a rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from streamsched.domain.access.permission import Permission

_VIEW, _EMIT, _OPERATE, _DEPLOY, _ADMINISTER = (
    Permission.VIEW,
    Permission.EMIT,
    Permission.OPERATE,
    Permission.DEPLOY,
    Permission.ADMINISTER,
)


class Scope(Enum):
    """Where a request names the namespace for which its caller needs the permission.

    PATH: the path parameter `namespace`, or the first part of the name or id in the path.
    QUERY: the query parameter `namespace`, or the first part of `app`, `program` or `schedule`; without any of them
        the request concerns all namespaces.
    BODY: the body, or the name of a bookmark; the route asks the caller itself (`CallerDep`).
    INSTALLATION: the request concerns all namespaces.
    NONE: the request concerns no namespace; any valid token will do.
    """

    PATH = "path"
    QUERY = "query"
    BODY = "body"
    INSTALLATION = "installation"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Rule:
    """The permission that a route needs, and its scope.

    Attributes:
        emits: with the permission to emit, the name that grants may restrict it to (`Grant.names`), with path
            parameters in braces, or `NOTHING` or `IN_QUERY`. None: the route asks the caller itself (`Scope.BODY`), or
            needs another permission.

    Raises:
        ValueError: a route that emits does not say under which name.
    """

    permission: Permission
    scope: Scope = Scope.PATH
    emits: str | None = None

    def __post_init__(self) -> None:
        asked_here = self.permission is Permission.EMIT and self.scope is not Scope.BODY
        if asked_here is (self.emits is None):
            raise ValueError("a rule says under which name its route emits, unless the route asks the caller itself")


#: `emits` of a route that only reads, and of one that asks its caller itself because the query has the name.
NOTHING: Final = ""
IN_QUERY: Final = "?"

#: Routes that need no token: health checks, and the description of the API.
PUBLIC: Final = frozenset({"/health/live", "/health/ready", "/v1/openapi.json", "/docs"})

_ALL, _LIST, _BODY = Scope.INSTALLATION, Scope.QUERY, Scope.BODY
_SCHEDULE, _APP, _GRAPH = "/v1/schedules/{schedule}", "/v1/apps/{namespace}/{app}", "/v1/graphs/{namespace}/{app}"
_DAPR, _NAMESPACE = "/v1/dapr/{namespace}/{app}", "/v1/namespaces/{namespace}"
_WEBHOOKS = f"{_NAMESPACE}/webhooks"
_CDAP = "/v3/namespaces/{namespace}"
_CDAP_APP, _CDAP_SCHEDULE = f"{_CDAP}/apps/{{app}}", f"{_CDAP}/apps/{{app}}/schedules/{{schedule}}"
_CDAP_PROGRAM = f"{_CDAP_APP}/{{category}}/{{program}}"

RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        # events
        "POST /v1/events": Rule(_EMIT, _BODY),
        "GET /v1/events": Rule(_VIEW, _ALL),
        "POST /api/v1/lineage": Rule(_EMIT, _BODY),
        "GET /v1/events/{event}/verdicts": Rule(_VIEW, _ALL),
        # definitions
        "GET /v1/apps": Rule(_VIEW, _LIST),
        f"GET {_APP}": Rule(_VIEW),
        f"PUT {_APP}": Rule(_DEPLOY),
        f"DELETE {_APP}": Rule(_DEPLOY),
        f"POST {_APP}/pause": Rule(_OPERATE),
        f"POST {_APP}/disable": Rule(_OPERATE),
        f"POST {_APP}/enable": Rule(_OPERATE),
        "GET /v1/bookmarks": Rule(_VIEW, _ALL),
        "GET /v1/bookmarks/{name}": Rule(_EMIT, _BODY),
        "GET /v1/bookmarks/{name}/cue": Rule(_EMIT, _BODY),
        "PUT /v1/bookmarks/{name}": Rule(_EMIT, _BODY),
        "DELETE /v1/bookmarks/{name}": Rule(_OPERATE, _BODY),
        "GET /v1/datasets": Rule(_VIEW, _LIST),
        "GET /v1/datasets/{namespace}/{dataset}": Rule(_VIEW),
        "GET /v1/datasets/{namespace}/{dataset}/commits": Rule(_EMIT, emits="{dataset}"),
        "POST /v1/datasets/{namespace}/{dataset}/commits": Rule(_EMIT, emits="{dataset}"),
        "POST /v1/datasets/{namespace}/{dataset}/fences": Rule(_EMIT, emits="{dataset}"),
        "DELETE /v1/datasets/{namespace}/{dataset}/commits": Rule(_OPERATE),
        "GET /v1/expectations": Rule(_VIEW, _LIST),
        "GET /v1/expectations/{expectation}": Rule(_VIEW),
        "GET /v1/changes/{change}": Rule(_VIEW, Scope.NONE),
        "GET /v1/programs": Rule(_VIEW, _LIST),
        "GET /v1/programs/{program}": Rule(_VIEW),
        "DELETE /v1/programs/{program}": Rule(_DEPLOY),
        f"GET {_NAMESPACE}/preferences": Rule(_VIEW),
        f"PUT {_NAMESPACE}/preferences": Rule(_DEPLOY),
        f"PATCH {_NAMESPACE}/preferences": Rule(_DEPLOY),
        f"DELETE {_NAMESPACE}/preferences": Rule(_DEPLOY),
        f"GET {_NAMESPACE}/spark-profiles": Rule(_VIEW),
        f"GET {_NAMESPACE}/spark-profiles/{{profile}}": Rule(_VIEW),
        f"PUT {_NAMESPACE}/spark-profiles/{{profile}}": Rule(_DEPLOY),
        f"DELETE {_NAMESPACE}/spark-profiles/{{profile}}": Rule(_DEPLOY),
        f"GET {_NAMESPACE}/grants": Rule(_VIEW),
        f"PUT {_NAMESPACE}/grants": Rule(_DEPLOY),
        f"DELETE {_NAMESPACE}/grants": Rule(_DEPLOY),
        f"GET {_NAMESPACE}/bundles": Rule(_VIEW),
        f"PUT {_NAMESPACE}/bundles/{{digest}}": Rule(_DEPLOY),
        f"POST {_NAMESPACE}/bundles/{{digest}}/use": Rule(_DEPLOY),
        "GET /v1/schedules": Rule(_VIEW, _LIST),
        "POST /v1/schedules": Rule(_DEPLOY, _BODY),
        f"GET {_SCHEDULE}": Rule(_VIEW),
        f"PUT {_SCHEDULE}": Rule(_DEPLOY),
        f"DELETE {_SCHEDULE}": Rule(_DEPLOY),
        f"GET {_SCHEDULE}/keys": Rule(_VIEW),
        f"GET {_SCHEDULE}/history": Rule(_VIEW),
        f"GET {_SCHEDULE}/versions": Rule(_VIEW),
        f"GET {_SCHEDULE}/why-not": Rule(_VIEW),
        f"POST {_SCHEDULE}/enable": Rule(_OPERATE),
        f"POST {_SCHEDULE}/disable": Rule(_OPERATE),
        f"POST {_SCHEDULE}/pause": Rule(_OPERATE),
        f"POST {_SCHEDULE}/replay": Rule(_OPERATE),
        f"GET {_SCHEDULE}/next": Rule(_VIEW),
        "GET /v1/ticks": Rule(_VIEW, _LIST),
        "POST /v1/triggers/next": Rule(_VIEW, Scope.NONE),
        # jobs and runs
        "POST /v1/programs/{program}/runs": Rule(_OPERATE),
        f"POST {_SCHEDULE}/runs": Rule(_OPERATE),
        f"POST {_SCHEDULE}/reruns": Rule(_OPERATE),
        "POST /v1/jobs/{job}/rerun": Rule(_OPERATE),
        "POST /v1/runs/{run}/rerun": Rule(_OPERATE),
        f"POST {_SCHEDULE}/backfills": Rule(_OPERATE),
        f"GET {_SCHEDULE}/backfills": Rule(_VIEW),
        "GET /v1/backfills": Rule(_VIEW, _LIST),
        "GET /v1/backfills/{backfill}": Rule(_VIEW),
        "GET /v1/backfills/{backfill}/jobs": Rule(_VIEW),
        "POST /v1/backfills/{backfill}/pause": Rule(_OPERATE),
        "POST /v1/backfills/{backfill}/resume": Rule(_OPERATE),
        "POST /v1/backfills/{backfill}/cancel": Rule(_OPERATE),
        "GET /v1/decisions": Rule(_VIEW, _LIST),
        "GET /v1/jobs": Rule(_VIEW, _LIST),
        "GET /v1/jobs/{job}": Rule(_VIEW),
        "GET /v1/jobs/{job}/why": Rule(_VIEW),
        "POST /v1/jobs/{job}/release": Rule(_OPERATE),
        "POST /v1/jobs/{job}/force": Rule(_OPERATE),
        "POST /v1/jobs/{job}/cancel": Rule(_OPERATE),
        "POST /v1/jobs/{job}/hold": Rule(_OPERATE),
        "GET /v1/runs": Rule(_VIEW, _LIST),
        "GET /v1/runs/{run}": Rule(_VIEW),
        "GET /v1/runs/{run}/logs": Rule(_VIEW),
        "POST /v1/runs/{run}/kill": Rule(_OPERATE),
        # graphs
        f"GET {_GRAPH}": Rule(_VIEW),
        f"GET {_GRAPH}/nodes": Rule(_VIEW),
        f"GET {_GRAPH}/nodes/{{task}}/{{job_id}}": Rule(_VIEW),
        f"GET {_GRAPH}/picture": Rule(_VIEW),
        f"POST {_GRAPH}/submit": Rule(_OPERATE),
        f"POST {_GRAPH}/rerun": Rule(_OPERATE),
        f"POST {_GRAPH}/cancel": Rule(_OPERATE),
        # limits
        "GET /v1/groups": Rule(_VIEW, _ALL),
        "PUT /v1/groups/{name}": Rule(_ADMINISTER, _ALL),
        "PUT /v1/groups/{name}/owner": Rule(_ADMINISTER, _ALL),
        "GET /v1/pools": Rule(_VIEW, _ALL),
        "GET /v1/pools/{name}": Rule(_VIEW, _ALL),
        "PUT /v1/pools/{name}": Rule(_ADMINISTER, _ALL),
        "PUT /v1/pools/{name}/owner": Rule(_ADMINISTER, _ALL),
        "PUT /v1/schedules/{name}/priority": Rule(_OPERATE),
        "GET /v1/clusters": Rule(_VIEW, _ALL),
        "GET /v1/quotas": Rule(_VIEW, _ALL),
        f"GET {_NAMESPACE}/quotas": Rule(_VIEW),
        f"PUT {_NAMESPACE}/quotas/{{quota}}": Rule(_ADMINISTER, _ALL),
        f"DELETE {_NAMESPACE}/quotas/{{quota}}": Rule(_ADMINISTER, _ALL),
        # webhooks
        f"GET {_WEBHOOKS}": Rule(_VIEW),
        f"POST {_WEBHOOKS}": Rule(_DEPLOY),
        f"GET {_WEBHOOKS}/{{webhook}}": Rule(_VIEW),
        f"PATCH {_WEBHOOKS}/{{webhook}}": Rule(_DEPLOY),
        f"DELETE {_WEBHOOKS}/{{webhook}}": Rule(_DEPLOY),
        f"POST {_WEBHOOKS}/{{webhook}}/enable": Rule(_DEPLOY),
        f"POST {_WEBHOOKS}/{{webhook}}/disable": Rule(_DEPLOY),
        f"POST {_WEBHOOKS}/{{webhook}}/test": Rule(_DEPLOY),
        # queues: they belong to no namespace
        "GET /v1/queues": Rule(_VIEW, _ALL),
        "GET /v1/queues/{queue}": Rule(_VIEW, _ALL),
        "PUT /v1/queues/{queue}": Rule(_DEPLOY, _ALL),
        "GET /v1/queues/{queue}/lane": Rule(_VIEW, _ALL),
        "POST /v1/queues/{queue}/tasks": Rule(_EMIT, _ALL, emits="{queue}"),
        "GET /v1/queues/{queue}/tasks": Rule(_VIEW, _ALL),
        "POST /v1/queues/{queue}/pause": Rule(_OPERATE, _ALL),
        "POST /v1/queues/{queue}/resume": Rule(_OPERATE, _ALL),
        "GET /v1/tasks/owners": Rule(_EMIT, _ALL, emits=NOTHING),
        "GET /v1/tasks/partitions": Rule(_VIEW, _ALL),
        "PUT /v1/tasks/partitions": Rule(_ADMINISTER, _ALL),
        "GET /v1/tasks/{task}": Rule(_VIEW, _ALL),
        "GET /v1/tasks/{task}/why": Rule(_VIEW, _ALL),
        "POST /v1/tasks/{task}/cancel": Rule(_OPERATE, _ALL),
        "POST /v1/tasks/{task}/drop": Rule(_OPERATE, _ALL),
        "POST /v1/tasks/{task}/run": Rule(_OPERATE, _ALL),
        "POST /v1/tasks/{task}/move": Rule(_OPERATE, _ALL),
        "GET /api/v1/status": Rule(_VIEW, Scope.NONE),
        "GET /api/v1/task": Rule(_VIEW, _ALL),
        "PUT /api/v1/task": Rule(_OPERATE, _ALL),
        "GET /api/v1/tasks": Rule(_VIEW, _ALL),
        "POST /api/v1/tasks": Rule(_EMIT, _ALL, emits=IN_QUERY),
        f"GET {_DAPR}/jobs": Rule(_VIEW),
        f"DELETE {_DAPR}/jobs": Rule(_OPERATE),
        f"GET {_DAPR}/export": Rule(_VIEW),
        f"POST {_DAPR}/import": Rule(_OPERATE),
        f"GET {_DAPR}/jobs/{{name}}/next": Rule(_VIEW),
        f"GET {_DAPR}/jobs/{{name}}": Rule(_VIEW),
        f"POST {_DAPR}/jobs/{{name}}": Rule(_EMIT, emits="{app}.{name}"),
        f"DELETE {_DAPR}/jobs/{{name}}": Rule(_OPERATE),
        # the installation
        "GET /v1/admin/overview": Rule(_VIEW, _ALL),
        "GET /v1/admin/checks": Rule(_ADMINISTER, _ALL),
        "GET /v1/admin/clock": Rule(_VIEW, _ALL),
        "POST /v1/admin/clock/confirm": Rule(_ADMINISTER, _ALL),
        "GET /v1/admin/dead-letters": Rule(_OPERATE, _ALL),
        "POST /v1/admin/dead-letters/purge": Rule(_OPERATE, _ALL),
        "GET /v1/admin/dead-letters/{partition}/{offset}": Rule(_OPERATE, _ALL),
        "POST /v1/admin/dead-letters/{partition}/{offset}/replay": Rule(_OPERATE, _ALL),
        "GET /v1/admin/schedules/{schedule}/state": Rule(_VIEW),
        "GET /v1/caller": Rule(_VIEW, Scope.NONE),
        "GET /v1/tokens": Rule(_ADMINISTER, _ALL),
        "POST /v1/tokens": Rule(_ADMINISTER, _ALL),
        "POST /v1/tokens/{token}/revoke": Rule(_ADMINISTER, _ALL),
        "GET /v1/audit": Rule(_ADMINISTER, _ALL),
        "GET /v1/audit/verify": Rule(_ADMINISTER, _ALL),
        "GET /metrics": Rule(_VIEW, _ALL),
        # CDAP's dialect
        f"GET {_CDAP}/apps": Rule(_VIEW),
        f"GET {_CDAP_APP}": Rule(_VIEW),
        f"DELETE {_CDAP_APP}": Rule(_DEPLOY),
        f"GET {_CDAP_APP}/schedules": Rule(_VIEW),
        f"PUT {_CDAP_SCHEDULE}": Rule(_DEPLOY),
        f"GET {_CDAP_SCHEDULE}": Rule(_VIEW),
        f"DELETE {_CDAP_SCHEDULE}": Rule(_DEPLOY),
        f"GET {_CDAP_SCHEDULE}/status": Rule(_VIEW),
        f"POST {_CDAP_SCHEDULE}/update": Rule(_DEPLOY),
        f"POST {_CDAP_SCHEDULE}/{{action}}": Rule(_OPERATE),
        f"GET {_CDAP_PROGRAM}/nextruntime": Rule(_VIEW),
        f"GET {_CDAP_PROGRAM}/previousruntime": Rule(_VIEW),
        f"GET {_CDAP_PROGRAM}/schedules": Rule(_VIEW),
        f"POST {_CDAP}/nextruntime": Rule(_VIEW),
        f"POST {_CDAP}/previousruntime": Rule(_VIEW),
        f"GET {_CDAP}/preferences": Rule(_VIEW),
        f"PUT {_CDAP}/preferences": Rule(_DEPLOY),
        f"DELETE {_CDAP}/preferences": Rule(_DEPLOY),
        f"GET {_CDAP}/schedules/trigger-type/program-status": Rule(_VIEW),
    }
)


Handler = Callable[..., Any]

#: A parameter with its converter, and the version of an app in CDAP's paths, which is ignored.
_CONVERTER: Final = re.compile(r"\{(\w+):\w+\}")
_VERSION: Final = "/versions/{version}"


def route_name(method: str, path: str) -> str:
    """The name of a route in `RULES`: method and pattern of the path."""
    plain = _CONVERTER.sub(r"{\1}", path).replace(_VERSION, "")
    return f"{'GET' if method == 'HEAD' else method} {plain}"


class RouteTable:
    """The routes of an application with their patterns and rules, by the function that handles them. (A request knows
    its function; of a nested router's path it knows only the last part.)

    Raises:
        LookupError: a route has no rule, a rule no route, or a function several patterns.
    """

    def __init__(self, routes: Iterable[tuple[str, str, Handler]]) -> None:
        """`routes`: method, pattern and function of each."""
        self._names: dict[Handler, str] = {}
        for method, path, handler in routes:
            name = path if path in PUBLIC else route_name(method, path)
            if self._names.setdefault(handler, name) != name:
                raise LookupError(f"{handler} handles both {self._names[handler]} and {name}")
        known = set(self._names.values()) - PUBLIC
        missing, idle = sorted(known - set(RULES)), sorted(set(RULES) - known)
        if missing or idle:
            raise LookupError(f"api/access/rules.py: routes without a rule: {missing}; rules without a route: {idle}")

    def add_name(self, handler: Handler, name: str) -> None:
        """Names the route of a mounted application, which checks access itself."""
        self._names[handler] = name

    def name(self, handler: Handler | None) -> str:
        """Method and pattern of the route that the function handles; the path alone of a public one, `unknown` without
        a route.
        """
        return "unknown" if handler is None else self._names.get(handler, "unknown")

    def methods(self, handler: Handler | None) -> Sequence[str]:
        """The methods of all routes with the pattern of the one that the function handles; none of a public one."""
        _, _, path = self.name(handler).partition(" ")
        names = (name.partition(" ") for name in self._names.values())
        return sorted({method for method, _, own in names if own and own == path})

    def rule(self, handler: Handler) -> Rule | None:
        """The rule of the route; None for a public one."""
        name = self._names[handler]
        return None if name in PUBLIC else RULES[name]
