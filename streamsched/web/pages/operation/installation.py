"""The installation: its checks, shards, queues of work and topics; tokens; and the audit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.responses import RedirectResponse, Response

from streamsched.admin.checks.check_result import worst_level
from streamsched.admin.doctor import examine
from streamsched.admin.overview import survey
from streamsched.api.routing.rules import ADMINISTER_ALL
from streamsched.domain.errors import InvalidError
from streamsched.ports.broker import TopicPartition
from streamsched.web.rendering import Renderer
from streamsched.web.views.commands import SameAs, command_line, curl_line
from streamsched.web.views.health import health_lines
from streamsched.web.views.paging import page_links
from streamsched.web.visit import PageRoute, Visit
from streamsched.wire.access import GRANT

#: Most rows of one page.
ROWS: Final = 100
_MOST_DIGITS: Final = 18
#: Topics with more partitions than this are listed without their ends.
_PARTITIONS: Final = 256


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/admin", ADMINISTER_ALL, partial(show, renderer))
    yield PageRoute("GET", "/ui/admin/tokens", ADMINISTER_ALL, partial(tokens, renderer))
    yield PageRoute("POST", "/ui/admin/tokens/{name}/revoke", ADMINISTER_ALL, revoke)
    yield PageRoute("GET", "/ui/admin/audit", ADMINISTER_ALL, partial(audit, renderer))


async def show(renderer: Renderer, visit: Visit) -> Response:
    """Shards, queues of work and topics with their ends. The checks run only when they are asked for (`checks=yes`)."""
    at = visit.api.installation
    overview = await survey(at.broker, at.reports)
    checks = visit.query("checks") == "yes"
    findings = (
        await examine(
            broker=at.broker, probe=at.probe, clock=at.clock, specs=at.specs, revisions=at.revisions, environ=os.environ
        )
        if checks
        else []
    )
    topics = []
    for spec in at.specs:
        count = await at.broker.partitions(spec.name)
        ends = await at.broker.ends([TopicPartition(spec.name, number) for number in range(min(count, _PARTITIONS))])
        topics.append((spec, count, sum(ends.values())))
    return renderer.page(
        visit,
        "installation.html",
        overview=overview,
        health=health_lines(overview),
        findings=findings,
        worst=worst_level(findings),
        checks=checks,
        topics=topics,
        revision=at.revisions[0] if at.revisions else "",
        open_pages=visit.services.feed.open_pages,
        same=SameAs(command_line("top")),
    )


async def tokens(renderer: Renderer, visit: Visit) -> Response:
    """Tokens by name, with their grants and why one is refused; never their secrets."""
    after = visit.query("after")
    name, _, last = after.rpartition("/")
    found = await visit.api.access.tokens.page(after=(name, last), limit=ROWS + 1)
    following = found[ROWS - 1] if len(found) > ROWS else None
    return renderer.page(
        visit,
        "tokens.html",
        tokens=[
            (each, each.refusal_reason(visit.now), [GRANT.write(grant) for grant in each.grants])
            for each in found[:ROWS]
        ],
        links=page_links(
            visit.path, [], after=after, following="" if following is None else f"{following.name}/{following.id}"
        ),
        revoked=visit.query("revoked"),
        same=SameAs(command_line("token", "list")),
        revoke_as=lambda token: SameAs(
            command_line("token", "revoke", token), curl_line(visit.url, f"/v1/tokens/{token}/revoke")
        ),
    )


async def revoke(visit: Visit) -> Response:
    """Revokes a token by its id; requests with it are refused within a second."""
    record = await visit.api.access.tokens.revoke(visit.param("name"), by=visit.caller.name, now=visit.now)
    return RedirectResponse(f"/ui/admin/tokens?revoked={record.id}", HTTPStatus.SEE_OTHER)


async def audit(renderer: Renderer, visit: Visit) -> Response:
    """What callers did, the newest first, in pages; of one caller when it is named."""
    caller, after = visit.query("caller")[:2000], visit.query("after")
    if after and not (after.isascii() and after.isdecimal()):
        raise InvalidError("after", "must be `next` of the previous page")
    found = await visit.api.access.audit_entries.list_newest(
        before=int(after[:_MOST_DIGITS]) if after else None, caller=caller, limit=ROWS + 1
    )
    return renderer.page(
        visit,
        "audit.html",
        entries=found[:ROWS],
        caller=caller,
        links=page_links(
            visit.path,
            [("caller", caller)],
            after=after,
            following=str(found[ROWS - 1].number) if len(found) > ROWS else "",
        ),
        same=SameAs(command_line("audit", "list", *(["--caller", caller] if caller else []))),
    )
