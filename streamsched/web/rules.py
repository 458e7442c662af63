"""What each page needs: the permission and the scope, in the form of `api.access.rules`. An application with a page
without a rule is not created.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from streamsched.api.access.rules import Rule, Scope
from streamsched.domain.access.permission import Permission

_VIEW, _EMIT, _OPERATE, _DEPLOY, _ADMINISTER = (
    Permission.VIEW,
    Permission.EMIT,
    Permission.OPERATE,
    Permission.DEPLOY,
    Permission.ADMINISTER,
)
_LIST, _BODY, _ALL, _NONE = Scope.QUERY, Scope.BODY, Scope.INSTALLATION, Scope.NONE
_SCHEDULE = "/ui/schedules/{schedule}"
_WEBHOOK = "/ui/webhooks/{namespace}/{webhook}"

#: Pages that need no session.
PUBLIC_PAGES: Final = frozenset(
    {
        "GET /ui/login",
        "POST /ui/login",
        "GET /ui/login/oidc",
        "GET /ui/login/oidc/callback",
        "GET /ui/static/{file}",
    }
)

PAGE_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "GET /ui/": Rule(_VIEW, _LIST),
        "GET /ui/find": Rule(_VIEW, _LIST),
        "GET /ui/live": Rule(_VIEW, _NONE),
        "POST /ui/logout": Rule(_VIEW, _NONE),
        "POST /ui/display": Rule(_VIEW, _NONE),
        # schedules
        "GET /ui/schedules": Rule(_VIEW, _LIST),
        "POST /ui/schedules": Rule(_OPERATE, _BODY),
        f"GET {_SCHEDULE}": Rule(_VIEW),
        f"GET {_SCHEDULE}/versions": Rule(_VIEW),
        f"POST {_SCHEDULE}/versions": Rule(_DEPLOY),
        f"POST {_SCHEDULE}/reset": Rule(_OPERATE),
        f"GET {_SCHEDULE}/backfill": Rule(_OPERATE),
        f"POST {_SCHEDULE}/backfill": Rule(_OPERATE),
        f"POST {_SCHEDULE}/pause": Rule(_OPERATE),
        f"POST {_SCHEDULE}/resume": Rule(_OPERATE),
        f"POST {_SCHEDULE}/run": Rule(_OPERATE),
        # jobs and runs
        "GET /ui/jobs": Rule(_VIEW, _LIST),
        "GET /ui/jobs/{job}": Rule(_VIEW),
        "POST /ui/jobs/{job}/{order}": Rule(_OPERATE),
        "GET /ui/runs": Rule(_VIEW, _LIST),
        "GET /ui/runs/{run}": Rule(_VIEW),
        "GET /ui/runs/{run}/log": Rule(_VIEW),
        "POST /ui/runs/{run}/kill": Rule(_OPERATE),
        "POST /ui/runs/{run}/rerun": Rule(_OPERATE),
        # what comes in
        "GET /ui/expectations": Rule(_VIEW, _LIST),
        "GET /ui/expectations/{expectation}": Rule(_VIEW),
        "GET /ui/events": Rule(_VIEW, _ALL),
        "POST /ui/events": Rule(_EMIT, _BODY),
        "GET /ui/event": Rule(_VIEW, _ALL),
        "GET /ui/dead-letters": Rule(_OPERATE, _ALL),
        "GET /ui/dead-letters/purge": Rule(_OPERATE, _ALL),
        "POST /ui/dead-letters/purge": Rule(_OPERATE, _ALL),
        "GET /ui/dead-letters/{partition}/{offset}": Rule(_OPERATE, _ALL),
        "POST /ui/dead-letters/{partition}/{offset}/replay": Rule(_OPERATE, _ALL),
        "GET /ui/datasets": Rule(_VIEW, _LIST),
        "GET /ui/datasets/{name}": Rule(_VIEW),
        # how things depend on each other
        "GET /ui/graph": Rule(_VIEW, _LIST),
        "GET /ui/graphs/{namespace}/{app}": Rule(_VIEW),
        # for operators
        "GET /ui/limits": Rule(_VIEW, _ALL),
        "POST /ui/groups/{name}": Rule(_ADMINISTER, _ALL),
        "POST /ui/pools/{name}": Rule(_ADMINISTER, _ALL),
        "GET /ui/queues": Rule(_VIEW, _ALL),
        "GET /ui/queues/{queue}": Rule(_VIEW, _ALL),
        "POST /ui/queues/{queue}/{order}": Rule(_OPERATE, _ALL),
        "GET /ui/webhooks": Rule(_VIEW, _LIST),
        f"GET {_WEBHOOK}": Rule(_VIEW),
        f"POST {_WEBHOOK}/{{order}}": Rule(_DEPLOY),
        "GET /ui/grants": Rule(_VIEW, _LIST),
        "POST /ui/grants/{namespace}/{order}": Rule(_DEPLOY),
        "GET /ui/backfills": Rule(_VIEW, _LIST),
        "GET /ui/backfills/{backfill}": Rule(_VIEW),
        "POST /ui/backfills/{backfill}/{order}": Rule(_OPERATE),
        "GET /ui/admin": Rule(_ADMINISTER, _ALL),
        "GET /ui/admin/tokens": Rule(_ADMINISTER, _ALL),
        "POST /ui/admin/tokens/{name}/revoke": Rule(_ADMINISTER, _ALL),
        "GET /ui/admin/audit": Rule(_ADMINISTER, _ALL),
    }
)
