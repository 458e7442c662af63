"""One request of a person for a page: who, what, and how times are shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from streamsched.api.body import receive
from streamsched.api.deps import ApiServices
from streamsched.api.routing.rules import Rule
from streamsched.domain.access.grant import EVERYWHERE, Allowed, Caller
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import InvalidError
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.time.zone import find_zone
from streamsched.store.web.page_reads import PageReads
from streamsched.web.live import LiveFeed
from streamsched.web.page_access import PageAccess
from streamsched.web.session import Sessions
from streamsched.web.views.times import TimeTexts

#: Most bytes of a form.
_LARGEST_FORM = 256 * 1024
_MOST_FIELDS = 1000
_THEMES = frozenset({"light", "dark"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PageServices:
    """What the pages are made from."""

    api: ApiServices
    reads: PageReads
    sessions: Sessions
    feed: LiveFeed


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A request that has passed the checks of its route.

    Attributes:
        access: which pages there are, and who may open them.
        path: of the page, beginning with `/ui/`.
        namespace: that the page is restricted to; None: all.
        form: the fields of a sent form, without its token; the last value of each.
        theme: `light`, `dark`, or empty: as the browser prefers.
    """

    request: Request
    services: PageServices
    access: PageAccess
    caller: Caller
    csrf: str
    now: datetime
    path: str
    namespace: str | None = None
    form: Mapping[str, str] = field(default_factory=dict)
    theme: str = ""
    zone: tzinfo = UTC

    @property
    def api(self) -> ApiServices:
        return self.services.api

    @property
    def times(self) -> TimeTexts:
        """How instants are shown."""
        return TimeTexts(self.now, self.zone)

    @property
    def url(self) -> str:
        """The address of the API, as the person reached it."""
        return f"{self.request.url.scheme}://{self.request.url.netloc}"

    def param(self, name: str) -> str:
        """A part of the path."""
        return self.request.path_params[name]

    def query(self, name: str) -> str:
        """A parameter of the query; empty when it is not given."""
        return self.request.query_params.get(name, "").strip()

    def visible_ids(self, ids: Iterable[str]) -> list[str]:
        """Those of the ids that are of namespaces which the person may view."""
        return [each for each in ids if self.caller.sees(each.partition(".")[0])]

    async def graphs(self, *, text: str = "", limit: int) -> Sequence[AppRef]:
        """The first apps by name that have a graph of tasks, of the page's namespace, or of those that the person may
        view; with `text` in their names.
        """
        viewed = self.caller.namespaces(Permission.VIEW) if self.namespace is None else {self.namespace}
        return await self.api.datasets.links.reads.graphs(
            None if EVERYWHERE in viewed else viewed, text=text, limit=limit
        )

    async def graph_of(self, ref: ScheduleRef | ProgramRef | None) -> AppRef | None:
        """The app of a schedule or program, if it has a graph of tasks."""
        if ref is None or not await self.api.datasets.links.reads.has_graph(app := AppRef(ref.namespace, ref.app)):
            return None
        return app

    def may(self, permission: Permission, namespace: str | None) -> bool:
        """Whether the person has the permission there."""
        return isinstance(self.caller.may(permission, namespace), Allowed)

    def opens(self, href: str) -> bool:
        """Whether the person may see the page with this address."""
        return self.access.may_open(self.caller, href)


Handler = Callable[[Visit], Awaitable[Response]]


class PageRoute(NamedTuple):
    """A page or an action, and who may see or do it. `path` begins with `/ui/`."""

    method: str
    path: str
    rule: Rule
    handler: Handler

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a sent form.

    Raises:
        InvalidError: it is larger, or has more fields, than any form of the pages.
    """
    body = bytearray()
    async for chunk in receive(request):
        body += chunk
        if len(body) > _LARGEST_FORM:
            raise InvalidError("the form", f"has more than {_LARGEST_FORM} bytes")
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError as exc:
        raise InvalidError("the form", f"has more than {_MOST_FIELDS} fields") from exc


def theme_of(request: Request) -> str:
    """The theme that the person chose; empty: none."""
    theme = request.cookies.get("streamsched_theme", "")
    return theme if theme in _THEMES else ""


def zone_of(request: Request) -> tzinfo:
    """The zone that the person chose; UTC when there is none or it is unknown."""
    name = request.cookies.get("streamsched_zone", "").replace("%2F", "/")
    return UTC if name == "UTC" else find_zone(name) or UTC
