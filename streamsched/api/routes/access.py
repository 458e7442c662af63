"""Tokens of the API, and who a request comes from."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from starlette.responses import Response

from streamsched.access.auditing import verify_all
from streamsched.access.issuing import create_token
from streamsched.api.access.authorise import CallerDep
from streamsched.api.body import BodyObject, reason_of
from streamsched.api.deps import AuditDep, ClockDep, TokensDep
from streamsched.api.paging import After, Limit, page
from streamsched.api.rendering import json_response
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import ADMINISTER_ALL, ANYBODY
from streamsched.domain.errors import InvalidError
from streamsched.wire.access import CALLER, CREATED_TOKEN, NEW_TOKEN, TOKEN, created_token_view, token_view
from streamsched.wire.audit import ENTRY, VERDICT, verdict_view

routes = Routes("/v1", "access")


@routes.get("/caller", "Show who sends this request", may=ANYBODY, answers=CALLER.answer)
async def get_caller(caller: CallerDep) -> Response:
    """`{"name", "grants"}` of the token that the request has."""
    return json_response(CALLER.write(caller))


@routes.get("/tokens", "List tokens", may=ADMINISTER_ALL, answers=TOKEN.page("tokens"))
async def list_tokens(tokens: TokensDep, clock: ClockDep, after: After = "", limit: Limit = 100) -> Response:
    """A page, ordered by name, with tokens that expired or were revoked. Secrets are not stored, so none is shown.
    `usedAt` is up to a minute late.
    """
    name, _, last = after.rpartition("/")
    found = await tokens.page(after=(name, last), limit=limit + 1)
    now = clock.now()
    return json_response(
        page("tokens", found, limit, lambda token: token_view(token, now), lambda token: f"{token.name}/{token.id}")
    )


@routes.post(
    "/tokens",
    "Create a token",
    may=ADMINISTER_ALL,
    body=NEW_TOKEN.body,
    answers={201: CREATED_TOKEN.answer},
    conflict=True,
)
async def post_token(body: BodyObject, caller: CallerDep, tokens: TokensDep, clock: ClockDep) -> Response:
    """Body: `{"name", "grants", "expiresIn"?}`; a grant is `{"role", "namespace"?, "names"?, "shell"?, "masters"?}`.
    The role is `viewer`, `emitter`, `operator`, `developer` or `admin`; without a `namespace` it holds in all. Responds
    201 with the token and its `text`, which is shown only here. 409 when a token of this name is in use.
    """
    record, text = await create_token(tokens, clock, NEW_TOKEN.read(body), by=caller.name)
    return json_response(created_token_view(record, text, clock.now()), status=HTTPStatus.CREATED)


@routes.order("/tokens/{token}/revoke", "Revoke a token", may=ADMINISTER_ALL, answers=TOKEN.answer)
async def revoke_token(token: str, body: BodyObject, caller: CallerDep, tokens: TokensDep, clock: ClockDep) -> Response:
    """Revokes a token by its id, or by its name while it is in use. Requests with it are refused within a second by all
    API processes.
    """
    reason_of(body)
    record = await tokens.revoke(token, by=caller.name, now=clock.now())
    return json_response(token_view(record, clock.now()))


@routes.get("/audit", "List the audit", may=ADMINISTER_ALL, answers=ENTRY.page("entries", "AuditPage"))
async def list_audit(
    entries: AuditDep,
    caller: Annotated[str, Query(max_length=2000, description="Only entries of this caller, such as `token:ci`.")] = "",
    after: After = "",
    limit: Limit = 100,
) -> Response:
    """A page, newest first. A change has an entry from before it was carried out, and one with its `status`."""
    if after and not after.isdecimal():
        raise InvalidError("after", "must be `next` of the previous page")
    found = await entries.list_newest(before=int(after[:18]) if after else None, caller=caller, limit=limit + 1)
    return json_response(page("entries", found, limit, ENTRY.write, lambda entry: str(entry.number)))


@routes.get("/audit/verify", "Check the audit", may=ADMINISTER_ALL, answers=VERDICT)
async def verify_audit(entries: AuditDep) -> Response:
    """Reads the whole audit and checks its hash chain: `{"intact", "entries", "removed", "last"}`, or `{"intact":
    false, "number", "reason"}` of the first entry that is not as it was written, or is missing, at the end too. Keep
    `last` elsewhere: it proves the same later against a user who owns the database. `removed`: so many entries before
    these were kept for their time and are gone; one of action `forget` says so.
    """
    return json_response(verdict_view(await verify_all(entries)))
