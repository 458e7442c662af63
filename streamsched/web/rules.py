"""What each page needs: the permission and the scope, in the form of `api.access.rules`. An application with a page
without a rule is not created.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from streamsched.api.access.rules import Rule, Scope
from streamsched.domain.access.permission import Permission

_VIEW, _OPERATE = Permission.VIEW, Permission.OPERATE
_LIST, _NONE = Scope.QUERY, Scope.NONE
_SCHEDULE = "/ui/schedules/{schedule}"

#: Pages that need no session.
PUBLIC_PAGES: Final = frozenset({"GET /ui/login", "POST /ui/login", "GET /ui/static/{file}"})

PAGE_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "GET /ui/": Rule(_VIEW, _LIST),
        "GET /ui/find": Rule(_VIEW, _LIST),
        "GET /ui/live": Rule(_VIEW, _NONE),
        "POST /ui/logout": Rule(_VIEW, _NONE),
        "POST /ui/display": Rule(_VIEW, _NONE),
        # schedules
        "GET /ui/schedules": Rule(_VIEW, _LIST),
        f"GET {_SCHEDULE}": Rule(_VIEW),
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
    }
)
