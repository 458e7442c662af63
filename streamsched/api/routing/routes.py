"""A route says all of itself where it stands: at the function that handles it.

    routes = Routes("/v1/pools", "limits")

    @routes.get("/{name}", "Get a pool", may=VIEW_ALL, answers="Pool")
    async def get_pool(name: str, pools: PoolsDep, tagged: TaggedDep) -> Response:
        \"""The text of the reference.\"""

Who may call it, the OpenAPI document and the reference are made from that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Required, TypedDict, TypeVar, Unpack

from streamsched.api.bounds.request_limits import ORDINARY, RequestLimit
from streamsched.api.routing.dialect import HttpDialect
from streamsched.api.routing.rules import Rule, Unruled
from streamsched.codec.shape.named_schema import NamedSchema

JSON: Final = "application/json"
PLAIN: Final = "text/plain; charset=utf-8"
EVENT_STREAM: Final = "text/event-stream; charset=utf-8"
#: A bundle.
ARCHIVE: Final = "application/x-tar"

#: A parameter with its converter, and the version of an app in CDAP's paths, which is ignored.
_CONVERTER: Final = re.compile(r"\{(\w+):\w+\}")
VERSION: Final = "/versions/{version}"

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Body:
    """What a route reads: a schema by its name, of several content types each with its own. It may be absent if it is
    not `required`.
    """

    schemas: str | NamedSchema | Mapping[str, str]
    required: bool = True

    @property
    def by_media(self) -> Mapping[str, str | NamedSchema]:
        return self.schemas if isinstance(self.schemas, Mapping) else {JSON: self.schemas}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What a route is.

    Attributes:
        path: the pattern, with converters.
        function: what handles it: a coroutine function. Its docstring is the text of the reference.
        answers: the schema of the answer by status; empty text: it has no body.
        media: content types of the answers, when not JSON.
        conflict: 409 is possible.
        missing: 404 is possible although nothing in the path names a thing: a thing of the query or body, or a topic
            of an installation whose log was not prepared.
        rated: 429 is possible: a namespace has sent as many events as its quota allows.
        limit: of the body.
        schedules: that an answer is made of; 413 when they are more.
        dialect: of another product; None: it is ours.

    Raises:
        LookupError: it does not say which permission it needs.
    """

    method: str
    path: str
    function: Callable[..., Any]
    summary: str
    tag: str
    may: Rule | Unruled
    answers: Mapping[int, str | NamedSchema]
    body: Body | None = None
    media: tuple[str, ...] = (JSON,)
    conflict: bool = False
    missing: bool = False
    rated: bool = False
    limit: RequestLimit = ORDINARY
    schedules: int | None = None
    dialect: HttpDialect | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.may, Rule | Unruled):
            raise LookupError(f"{self.method} {self.path} does not say which permission it needs (`may`)")

    @property
    def pattern(self) -> str:
        """The path without converters."""
        return _CONVERTER.sub(r"{\1}", self.path)

    @property
    def name(self) -> str:
        """Method and pattern; routes of an app with and without its version have the same."""
        return f"{self.method} {self.pattern.replace(VERSION, '')}"

    @property
    def rule(self) -> Rule | None:
        """None: it needs no permission of the API."""
        return self.may if isinstance(self.may, Rule) else None

    @property
    def shapes(self) -> Iterator[NamedSchema]:
        """The schemas that are written here."""
        bodies = self.body.by_media.values() if self.body else ()
        refusal = self.dialect.refusal[:1] if self.dialect and self.dialect.refusal else ()
        for each in (*bodies, *self.answers.values(), *refusal):
            if isinstance(each, NamedSchema):
                yield from each.all


class Said(TypedDict, total=False):
    """What a route says of itself, as `Route`. `answers` alone are of 200, a `body` alone is required."""

    may: Required[Rule | Unruled]
    answers: Required[str | NamedSchema | Mapping[int, str | NamedSchema]]
    body: str | NamedSchema | Body
    media: tuple[str, ...]
    conflict: bool
    missing: bool
    rated: bool
    limit: RequestLimit
    schedules: int


class Routes:
    """The routes of a module, in the order in which they are tried."""

    def __init__(self, prefix: str, tag: str, dialect: HttpDialect | None = None) -> None:
        """`prefix` begins their paths; `tag` is their chapter of the reference."""
        self._prefix = prefix
        self._shown: Mapping[str, Any] = {"tag": tag, "dialect": dialect}
        self._declared: list[Route] = []

    def get(self, path: str, summary: str, **said: Unpack[Said]) -> Callable[[_F], _F]:
        """Declares a route that changes nothing."""
        return self._declare("GET", path, summary, said)

    def put(self, path: str, summary: str, **said: Unpack[Said]) -> Callable[[_F], _F]:
        """Declares a route that sets a thing; the same request again changes nothing more."""
        return self._declare("PUT", path, summary, said)

    def post(self, path: str, summary: str, **said: Unpack[Said]) -> Callable[[_F], _F]:
        """Declares a route that makes a thing; of one that changes a thing, `order`."""
        return self._declare("POST", path, summary, said)

    def order(self, path: str, summary: str, **said: Unpack[Said]) -> Callable[[_F], _F]:
        """A POST that changes a thing: its body is optional, by default the reason alone, and 409 is possible."""
        body = Body(said.get("body", "Reason"), required=False)  # type: ignore[arg-type]
        return self._declare("POST", path, summary, {**said, "body": body, "conflict": True})

    def patch(self, path: str, summary: str, **said: Unpack[Said]) -> Callable[[_F], _F]:
        """Declares a route that sets the members given of a thing; the others stay."""
        return self._declare("PATCH", path, summary, said)

    def delete(self, path: str, summary: str, **said: Unpack[Said]) -> Callable[[_F], _F]:
        """Declares a route that removes a thing."""
        return self._declare("DELETE", path, summary, said)

    def __iter__(self) -> Iterator[Route]:
        return iter(self._declared)

    def below(self, before: str, after: str) -> Iterator[Route]:
        """The same routes with `after` as the beginning of their paths, in place of `before`."""
        return (replace(each, path=after + each.path.removeprefix(before)) for each in self._declared)

    def _declare(self, method: str, path: str, summary: str, said: Said) -> Callable[[_F], _F]:
        """Raises:
        LookupError: the route does not say which permission it needs.
        """
        more: dict[str, Any] = {"may": None, **said}
        if not isinstance(more["answers"], Mapping):
            more["answers"] = {200: more["answers"]}
        if "body" in more and not isinstance(more["body"], Body):
            more["body"] = Body(more["body"])
        more |= {"path": self._prefix + path, "summary": summary, **self._shown}

        def register(function: _F) -> _F:
            self._declared.append(Route(method=method, function=function, **more))
            return function

        return register
