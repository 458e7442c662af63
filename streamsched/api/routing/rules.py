"""What a route or page needs: a permission, and where the request names the namespace. It says so where it stands
(`api.routing.routes`, `web.visit.PageRoute`); `authorise` and the dispatch of the pages decide by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from streamsched.domain.access.permission import Permission


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


class Unruled(Enum):
    """What a route says that needs no permission of the API.

    PUBLIC: it needs no token: health checks.
    DOOR: the application that serves it asks its callers in another way.
    """

    PUBLIC = "public"
    DOOR = "door"


PUBLIC: Final = Unruled.PUBLIC

#: In the namespace that the path names.
VIEW: Final = Rule(Permission.VIEW)
OPERATE: Final = Rule(Permission.OPERATE)
DEPLOY: Final = Rule(Permission.DEPLOY)
#: In a namespace that is listed, or in all that are.
VIEW_LIST: Final = Rule(Permission.VIEW, Scope.QUERY)
#: In all namespaces.
VIEW_ALL: Final = Rule(Permission.VIEW, Scope.INSTALLATION)
OPERATE_ALL: Final = Rule(Permission.OPERATE, Scope.INSTALLATION)
DEPLOY_ALL: Final = Rule(Permission.DEPLOY, Scope.INSTALLATION)
ADMINISTER_ALL: Final = Rule(Permission.ADMINISTER, Scope.INSTALLATION)
#: For everybody with a valid token.
ANYBODY: Final = Rule(Permission.VIEW, Scope.NONE)
#: The route asks its caller for the permission.
EMIT_ASKED: Final = Rule(Permission.EMIT, Scope.BODY)
OPERATE_ASKED: Final = Rule(Permission.OPERATE, Scope.BODY)
