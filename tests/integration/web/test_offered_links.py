"""What pages offer: every link and every form that a person sees, on every page that they may open, is permitted."""

from __future__ import annotations

import re
from collections import deque
from html import unescape
from pathlib import Path
from typing import Final

import pytest

from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.roles.services import Services
from streamsched.web.navigation import PLACES
from tests.integration.web.conftest import Browser, LogIn
from tests.integration.web.test_nothing_of_another_namespace import FOREIGN, OWN, installation

pytestmark = pytest.mark.postgres

_LINK: Final = re.compile(r' href="(/ui/[^"]*)"')
_FORM: Final = re.compile(r'<form method="post" action="([^"]*)"')
#: What the dispatch answers to a form that lacks the session's token, once the permission is checked.
_PERMITTED: Final = "form is of another session"
_MOST_PAGES: Final = 400


async def followed(browser: Browser) -> tuple[dict[str, set[str]], list[str]]:
    """The links of each page that can be reached from Home by links, by address; and what was offered and refused."""
    waiting, pages, refused = deque(["/ui/"]), dict[str, set[str]](), list[str]()
    forms: dict[str, str] = {}
    while waiting:
        href = waiting.popleft()
        answer = await browser.http.get(href, follow_redirects=True)
        if answer.status_code >= 400:
            refused.append(f"{href}: {answer.status_code}")
        for action in _FORM.findall(answer.text):
            forms.setdefault(unescape(action), href)
        offered = {unescape(each) for each in _LINK.findall(answer.text) if not each.startswith("/ui/static/")}
        pages[href] = offered
        more = sorted(offered - pages.keys() - set(waiting))
        waiting.extend(more[: max(0, _MOST_PAGES - len(pages) - len(waiting))])
    for action, page in forms.items():
        if _PERMITTED not in (await browser.http.post(action, data={})).text:
            refused.append(f"the form {action} of {page}")
    return pages, refused


@pytest.mark.parametrize("namespace", [None, OWN])
@pytest.mark.parametrize("role", [role for role in AccessRole if role is not AccessRole.EMITTER])
async def test_nothing_that_a_person_is_offered_is_refused(
    log_in: LogIn, services: Services, tmp_path: Path, role: AccessRole, namespace: str | None
) -> None:
    own, foreign = await installation(log_in, services, tmp_path)
    browser = await log_in(Grant(role=role) if namespace is None else Grant(role=role, namespace=namespace))

    pages, refused = await followed(browser)

    assert refused == []
    paths, everywhere = {href.partition("?")[0] for href in pages}, namespace is None
    assert {f"/ui/jobs/{own.job}", f"/ui/schedules/{OWN}.own.own"} <= paths
    assert (f"/ui/runs/{foreign.run}" in paths) is everywhere
    assert everywhere or not any(f"/{FOREIGN}" in path for path in paths)
    for path, offered in {
        "/ui/admin": everywhere and role is AccessRole.ADMIN,
        "/ui/events": everywhere,
        "/ui/dead-letters": everywhere and role is not AccessRole.VIEWER,
        "/ui/runs": True,
    }.items():
        assert (path in paths) is offered, path
        assert any(path == href.partition("?")[0] for href in pages["/ui/"]) is offered or path == "/ui/dead-letters"


async def test_a_graph_is_linked_from_what_belongs_to_it(log_in: LogIn, services: Services, tmp_path: Path) -> None:
    await installation(log_in, services, tmp_path)
    admin = await log_in()
    browser = await log_in(Grant(role=AccessRole.VIEWER, namespace=OWN))
    graph, other = f"/ui/graphs/{OWN}/g-own", f"/ui/graphs/{OWN}/own"
    started = await admin.http.post(
        f"/v1/programs/{OWN}.g-own.own/runs", json={"now": True}, headers=admin.authorization
    )
    nodes = (await admin.http.get(f"/v1/jobs?schedule={OWN}.g-own.own", headers=admin.authorization)).json()["jobs"]
    pages, _ = await followed(browser)
    belonging = {
        f"/ui/?namespace={OWN}",
        f"/ui/graph?namespace={OWN}",
        f"/ui/find?q=G-OWN&namespace={OWN}",
        f"/ui/schedules/{OWN}.g-own.own",
        f"/ui/runs?program={OWN}.g-own.own",
        f"/ui/runs/{started.json()['run']}",
        *(f"/ui/jobs/{each['id']}" for each in nodes),
    }
    assert nodes
    assert graph in pages
    for page in belonging:
        found = await browser.http.get(page, follow_redirects=True)
        assert (found.status_code, graph in map(unescape, _LINK.findall(found.text))) == (200, True), page
    assert not any(other in offered for offered in pages.values())
    assert f"/ui/graphs/{FOREIGN}" not in (await browser.http.get(f"/ui/graph?namespace={OWN}")).text


async def test_who_may_see_nothing_is_offered_nothing(log_in: LogIn) -> None:
    browser = await log_in(Grant(role=AccessRole.EMITTER, namespace=OWN))
    page = await browser.get("/ui/")
    assert page.status_code == 403
    assert [href.partition("?")[0] for href in _LINK.findall(page.text)] == ["/ui/static/page.css"]
    assert not any(f">{place.label}<" in page.text for place in PLACES)
