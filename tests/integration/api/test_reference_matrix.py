"""Whatever a definition refers to in another namespace, by whatever route it comes in and whoever sends it: only what
the sender's roles there give, or the owner has granted. Kinds of references are made from the domain's types, routes
from the table of routes and the description of the API.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from itertools import count
from typing import Any, Final

import httpx
import pytest

from streamsched.access.issuing import create_token
from streamsched.codec.schedules.expectation import expectation_to_json
from streamsched.codec.schedules.schedule import program_to_json, schedule_to_json
from streamsched.config import Settings
from streamsched.domain.access.grant import EVERYWHERE, Grant
from streamsched.domain.access.namespace_grant import SharedKind
from streamsched.domain.access.permission import PERMISSIONS, AccessRole, Permission
from streamsched.domain.access.token import TokenRequest
from streamsched.roles.services import Services, open_services
from streamsched.store.access.tokens import TokenStore
from tests.support.api_routes import api_rules
from tests.support.described_answers import api_document, operations
from tests.support.references import CLASSIFIED, FOREIGN, OWN, Part, Sent, foreign_name, named_fields, own_leaf, parts
from tests.support.relaying import relaying

Header = dict[str, str]
Send = Callable[[httpx.AsyncClient, Header, Part], Awaitable[httpx.Response]]
APP: Final = f"/v1/apps/{OWN}/app"
_NUMBERS: Final = count()


async def _put_app(client: httpx.AsyncClient, header: Header, part: Part) -> httpx.Response:
    name = f"s{next(_NUMBERS)}"
    body = {
        "programs": [program_to_json(part.program())],
        "schedules": [{**schedule_to_json(part.schedule(name)), "enabled": False}],
        "expectations": [] if part.expectation is None else [expectation_to_json(part.expectation)],
    }
    return await client.put(APP, json=body, headers=header, params={"prune": "false"})


async def _post_schedule(client: httpx.AsyncClient, header: Header, part: Part) -> httpx.Response:
    body = {**schedule_to_json(part.schedule(f"s{next(_NUMBERS)}")), "enabled": False}
    return await client.post("/v1/schedules", json=body, headers=header)


async def _put_schedule(client: httpx.AsyncClient, header: Header, part: Part) -> httpx.Response:
    return await client.put(
        f"/v1/schedules/{OWN}.app.base", json=schedule_to_json(part.schedule("base")), headers=header
    )


async def _put_cdap(client: httpx.AsyncClient, header: Header, part: Part) -> httpx.Response:
    name = f"s{next(_NUMBERS)}"
    url = f"/v3/namespaces/{OWN}/apps/app/schedules/{name}"
    return await client.put(url, json=_in_cdap(part, name), headers=header)


async def _update_cdap(client: httpx.AsyncClient, header: Header, part: Part) -> httpx.Response:
    url = f"/v3/namespaces/{OWN}/apps/app/schedules/base/update"
    return await client.post(url, json=_in_cdap(part, "base"), headers=header)


def _in_cdap(part: Part, name: str) -> dict[str, Any]:
    body = schedule_to_json(part.schedule(name))
    program = {"programName": "p", "programType": "WORKFLOW"}
    return {**{each: body[each] for each in ("trigger", "constraints") if each in body}, "program": program}


#: How each route sends a definition; those of programs too.
SENDERS: Final[dict[str, Send]] = {
    "PUT /v1/apps/{namespace}/{app}": _put_app,
    "POST /v1/schedules": _post_schedule,
    "PUT /v1/schedules/{schedule}": _put_schedule,
    "PUT /v3/namespaces/{namespace}/apps/{app}/schedules/{schedule}": _put_cdap,
    "POST /v3/namespaces/{namespace}/apps/{app}/schedules/{schedule}/update": _update_cdap,
}
#: Routes that compute with a trigger and store nothing.
ASKING: Final = {"POST /v1/triggers/next"}
#: The only route by which programs and expectations come in.
OF_APPS: Final = "PUT /v1/apps/{namespace}/{app}"
DEFINITIONS: Final = {"Trigger", "Constraint", "Program", "CdapSchedule"}


@pytest.fixture
async def services(database: str, clock: Any) -> AsyncIterator[Services]:
    async with open_services(Settings.from_env({}, database_url=database), clock=clock) as services, relaying(services):
        yield services


def test_every_field_with_a_name_is_classified() -> None:
    assert named_fields() == set(CLASSIFIED)


def test_every_route_that_takes_a_definition_is_in_the_matrix() -> None:
    schemas = api_document()["components"]["schemas"]

    def referred(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            for name, each in value.items():
                if name == "$ref":
                    yield each.rpartition("/")[2]
                yield from referred(each)
        elif isinstance(value, list):
            for each in value:
                yield from referred(each)

    found = set[str]()
    for method, path, operation in operations(api_document()):
        todo, known = list(referred(operation.get("requestBody", {}))), set[str]()
        while todo:
            name = todo.pop()
            if name not in known:
                known.add(name)
                todo += referred(schemas[name])
        if known & DEFINITIONS:
            found.add(f"{method} {path.replace('/versions/{version}', '')}")

    assert found == {*SENDERS, *ASKING}
    assert found <= set(api_rules())


def permitted(part: Part, role: AccessRole | None, *, everywhere: bool) -> bool:
    """Whether a caller with this role in the other namespace may refer to the part."""
    gives = PERMISSIONS[role] if role is not None else frozenset[Permission]()
    match part.kind:
        case Sent.QUEUE:
            return everywhere and Permission.EMIT in gives
        case Sent.PUBLISHED:
            return Permission.EMIT in gives
        case SharedKind.GROUP | SharedKind.POOL:
            return Permission.DEPLOY in gives
        case SharedKind.DATASET | SharedKind.STREAM | SharedKind.EVENT | SharedKind.PROGRAM:
            return Permission.LISTEN in gives


class Matrix:
    """Sends parts, and counts the cells."""

    def __init__(self, client: httpx.AsyncClient, services: Services) -> None:
        self._client = client
        self._services = services
        self.admin: Header = {}
        self.refused = self.permitted = self.twins = 0
        self.wrong: list[str] = []

    async def prepare(self) -> None:
        """An app of each namespace; groups and pools belong to `FOREIGN`."""
        self.admin = await self.token("admin", Grant(role=AccessRole.ADMIN))
        queue = {"target": {"type": "worker"}}
        await self._client.put("/v1/queues/thing", json=queue, headers=self.admin)
        own = Part("own", SharedKind.PROGRAM, trigger=own_leaf())
        body = {
            "programs": [program_to_json(own.program())],
            "schedules": [{**schedule_to_json(own.schedule("base")), "enabled": False}],
        }
        assert (await self._client.put(APP, json=body, headers=self.admin)).status_code == 200
        for kind in ("groups", "pools"):
            url, owner = f"/v1/{kind}/thing/owner", {"namespace": FOREIGN}
            assert (await self._client.put(url, json=owner, headers=self.admin)).status_code == 200

    async def token(self, name: str, *grants: Grant) -> Header:
        """The header of a new token."""
        store = TokenStore(self._services.pool)
        _, text = await create_token(store, self._services.clock, TokenRequest(name, grants, None), by="test")
        return {"Authorization": f"Bearer {text}"}

    async def row(
        self,
        role: AccessRole | None,
        listed: list[Part],
        *,
        everywhere: bool = False,
        routes: Iterable[str] = tuple(SENDERS),
    ) -> None:
        """The parts by these routes, as a developer of `OWN` with this role in `FOREIGN`, or everywhere."""
        other = () if role is None else (Grant(role=role, namespace=EVERYWHERE if everywhere else FOREIGN),)
        own = Grant(role=AccessRole.DEVELOPER, namespace=OWN, shell=True)
        header = await self.token(f"{role} {everywhere} {next(_NUMBERS)}", own, *other)
        for route in routes:
            for part in listed:
                if (part.executable is None and part.expectation is None) or route == OF_APPS:
                    await self._cell(route, SENDERS[route], header, part, permitted(part, role, everywhere=everywhere))

    async def _cell(self, route: str, send: Send, header: Header, part: Part, expected: bool) -> None:
        await self._services.pool.execute("DELETE FROM namespace_grants")
        answer = await send(self._client, header, part)
        cell = f"{route}: {part.label}: {answer.status_code} {answer.text[:300]}"
        if (answer.status_code < 300, answer.status_code == 403) != (expected, not expected):
            self.wrong.append(cell)
        if expected:
            self.permitted += 1
            return
        self.refused += 1
        if isinstance(part.kind, Sent):
            return
        where = f"{FOREIGN}." if part.kind not in (SharedKind.GROUP, SharedKind.POOL) else part.kind
        if "$." not in answer.text or where not in answer.text or "streamsched grant give" not in answer.text:
            self.wrong.append(f"says not what to ask for: {cell}")
        grant = {"kind": part.kind, "name": foreign_name(part.kind), "grantee": OWN, "details": part.details}
        given = await self._client.put(f"/v1/namespaces/{FOREIGN}/grants", json=grant, headers=self.admin)
        twin = await send(self._client, header, part)
        self.twins += 1
        if given.status_code != 200 or twin.status_code >= 300:
            self.wrong.append(f"granted, but {twin.status_code} {twin.text[:300]}: {given.text[:200]}: {cell}")


async def test_each_kind_of_reference_is_refused_without_a_grant_by_every_route(
    client: httpx.AsyncClient, services: Services
) -> None:
    matrix = Matrix(client, services)
    await matrix.prepare()
    elementary = [part for part in parts() if "[" not in part.label]

    some = ("ProgramStatus.program", "Pool.name", "Expectation.subject")
    await matrix.row(None, [part for part in elementary if part.label in some])
    await matrix.row(AccessRole.EMITTER, [part for part in elementary if isinstance(part.kind, Sent)])

    assert matrix.wrong == []
    assert (matrix.refused, matrix.permitted) == (12, 1)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_the_whole_matrix_of_references_routes_and_roles(client: httpx.AsyncClient, services: Services) -> None:
    matrix = Matrix(client, services)
    await matrix.prepare()
    elementary = [part for part in parts() if "[" not in part.label]
    nested = [part for part in parts() if "[" in part.label]

    for role in (None, *AccessRole):
        await matrix.row(role, elementary)
    await matrix.row(AccessRole.ADMIN, elementary, everywhere=True)
    for role in (None, AccessRole.VIEWER):
        await matrix.row(role, nested, routes=[OF_APPS, "POST /v1/schedules"])

    counts = f"{matrix.refused} refused, {matrix.twins} of them granted then, {matrix.permitted} permitted"
    cells = matrix.refused + matrix.permitted
    sys.stdout.write(f"{cells} cells of {len(SENDERS)} routes: {counts}, {len(matrix.wrong)} wrong\n")
    assert matrix.wrong == []
    assert len(elementary) >= 11
    assert len(nested) >= 14
    assert cells == 7 * (len(SENDERS) * 9 + 3) + 4 * len(nested)
    assert matrix.twins >= 100
