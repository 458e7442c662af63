"""Conditional requests (RFC 9110, section 13): entity tags of single things.

An `ETag` is `"revision-digest"` of what a GET answered, or `"revision"` alone of what a PUT stored. The revision
changes with definition, settings and state; the digest also with what the answer counts and shows besides.
`If-None-Match` compares the whole tag, so a 304 means that nothing in the answer has changed. `If-Match` compares the
revision alone: a change is not refused because an event was counted meanwhile.
"""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Any, Final

from starlette.responses import Response

from streamsched.api.rendering import encode_json, json_response
from streamsched.api.routing.calls import Depends
from streamsched.api.routing.parameters import Header
from streamsched.domain.errors import DecodeError
from streamsched.domain.revision import Expected

_TAG: Final = re.compile(r'(?:W/)?"([^"\x00-\x20\x7f]*)"')
_ANY: Final = "*"


def _tags(header: str, name: str) -> list[str]:
    """Raises:
    DecodeError: it is no list of entity tags.
    """
    tags = []
    for part in header.split(","):
        if (found := _TAG.fullmatch(part.strip())) is None:
            raise DecodeError(name, 'must be `*` or a comma-separated list of entity tags such as `"7"`')
        tags.append(found[1])
    return tags


async def read_expected(
    if_match: Annotated[
        str | None,
        Header(
            alias="If-Match",
            max_length=4000,
            description="`ETag` of the last answer. 412 when the thing has changed since; nothing then changes.",
        ),
    ] = None,
) -> Expected | None:
    """What the header `If-Match` expects; None without it.

    Raises:
        DecodeError: it is no list of entity tags.
    """
    if if_match is None:
        return None
    if if_match.strip() == _ANY:
        return Expected()
    return Expected(frozenset(tag.partition("-")[0] for tag in _tags(if_match, "If-Match")))


ExpectedDep = Annotated[Expected | None, Depends(read_expected)]


class Tagged:
    """Answers a GET with its entity tag, or 304 when the caller has that answer already."""

    def __init__(self, known: str | None) -> None:
        """`known`: the header `If-None-Match`.

        Raises:
            DecodeError: it is no list of entity tags.
        """
        given = (known or "").strip()
        self._any = given == _ANY
        self._known = [] if self._any or not given else _tags(given, "If-None-Match")

    def __call__(self, view: dict[str, Any], revision: str) -> Response:
        body = encode_json(view)
        tag = f"{revision}-{hashlib.sha256(body).hexdigest()[:16]}"
        headers = {"ETag": f'"{tag}"'}
        if self._any or tag in self._known:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/json", headers=headers)


async def read_tagged(
    if_none_match: Annotated[
        str | None,
        Header(
            alias="If-None-Match",
            max_length=4000,
            description="`ETag` of the last answer. 304 without a body when nothing in it has changed.",
        ),
    ] = None,
) -> Tagged:
    """How a GET is answered."""
    return Tagged(if_none_match)


TaggedDep = Annotated[Tagged, Depends(read_tagged)]


def answer_stored(view: dict[str, Any], revision: str) -> Response:
    """The answer of a PUT, with the revision of what it stored."""
    return json_response(view, headers={"ETag": f'"{revision}"'})
