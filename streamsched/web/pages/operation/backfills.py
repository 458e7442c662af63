"""Backfills, one of them with its jobs, and the start of one, which shows first what it would make."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from streamsched.api.routing.rules import OPERATE, VIEW, VIEW_LIST
from streamsched.catalog.paging import moment_cursor, read_moment_cursor
from streamsched.codec.backfills import request_from_json
from streamsched.domain.access.permission import Permission
from streamsched.domain.backfills.backfill import BackfillFact, BackfillState, ItemState
from streamsched.domain.backfills.request import DEFAULT_ACTIVE, UNCONFIRMED, BackfillRequest
from streamsched.domain.errors import DecodeError, InvalidError, NotFoundError
from streamsched.domain.names import ScheduleRef
from streamsched.web.pages.schedule_actions import reason_text
from streamsched.web.rendering import Renderer
from streamsched.web.views.commands import SameAs, command_line, curl_line
from streamsched.web.views.names import backfill_href, read_name, short_name
from streamsched.web.views.paging import page_links
from streamsched.web.views.states import StateWord
from streamsched.web.visit import PageRoute, Visit

#: Rows of a page, and jobs of a plan that are listed.
ROWS: Final = 50
_PLANNED: Final = 60
#: Fields of the form that make the request.
_SPAN: Final = ("from", "to", "only", "order")
_KEYS: Final = "keys."
_FACTS: Final = {"pause": BackfillFact.PAUSED, "resume": BackfillFact.RESUMED, "cancel": BackfillFact.CANCELLED}
STATE_WORDS: Final[Mapping[BackfillState, StateWord]] = {
    BackfillState.RUNNING: StateWord("run", "running"),
    BackfillState.PAUSED: StateWord("wait", "paused"),
    BackfillState.CANCELLED: StateWord("off", "cancelled"),
    BackfillState.COMPLETED: StateWord("ok", "completed"),
}
ITEM_WORDS: Final[Mapping[ItemState, StateWord]] = {
    ItemState.WAITING: StateWord("wait", "waiting"),
    ItemState.ACTIVE: StateWord("run", "active"),
    ItemState.SUCCEEDED: StateWord("ok", "succeeded"),
    ItemState.FAILED: StateWord("bad", "failed"),
    ItemState.DROPPED: StateWord("off", "dropped"),
}


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/backfills", VIEW_LIST, partial(show, renderer))
    yield PageRoute("GET", "/ui/backfills/{backfill}", VIEW, partial(show_one, renderer))
    yield PageRoute("POST", "/ui/backfills/{backfill}/{order}", OPERATE, order)
    yield PageRoute("GET", "/ui/schedules/{schedule}/backfill", OPERATE, partial(plan, renderer))
    yield PageRoute("POST", "/ui/schedules/{schedule}/backfill", OPERATE, start)


async def show(renderer: Renderer, visit: Visit) -> Response:
    """The newest first, in pages; of one schedule when it is named."""
    schedule, after = visit.query("schedule"), visit.query("after")
    named, before = read_name(schedule, ScheduleRef.parse, visit.namespace), read_moment_cursor(after)
    found = await named.apply(
        lambda ref: visit.api.work.backfills.list_recent(
            schedule=ref, namespace=visit.namespace, limit=ROWS + 1, before=before
        )
    )
    last = found[ROWS - 1] if len(found) > ROWS else None
    return renderer.page(
        visit,
        "backfills.html",
        backfills=found[:ROWS],
        words=STATE_WORDS,
        schedule=schedule,
        problem=named.problem,
        links=page_links(
            visit.path,
            [("schedule", schedule), ("namespace", visit.namespace or "")],
            after=after,
            following="" if last is None else moment_cursor(last.created_at, last.id),
        ),
        same=SameAs(command_line("backfill", "list")),
    )


async def show_one(renderer: Renderer, visit: Visit) -> Response:
    """How far it is, and its jobs in the order of their numbers, in pages."""
    name, after = visit.param("backfill"), visit.query("after")
    if after and not (after.isascii() and after.isdigit() and len(after) < 10):
        raise DecodeError("after", "is no cursor of this list")
    record = await visit.api.work.backfills.get(name)
    states = [ItemState(each) for each in visit.request.query_params.getlist("state") if each in set(ItemState)]
    jobs = await visit.api.work.backfills.jobs(name, states=states, limit=ROWS + 1, after=int(after or 0))
    return renderer.page(
        visit,
        "backfill.html",
        record=record,
        word=STATE_WORDS[record.state],
        items=ITEM_WORDS,
        jobs=jobs[:ROWS],
        states=states,
        choices=[(state, word.word) for state, word in ITEM_WORDS.items()],
        links=page_links(
            visit.path,
            [("state", state) for state in states],
            after=after,
            following=str(jobs[ROWS - 1].number) if len(jobs) > ROWS else "",
        ),
        may_operate=visit.may(Permission.OPERATE, record.schedule.namespace),
        same={
            each: SameAs(
                command_line("backfill", each, short_name(name)), curl_line(visit.url, f"/v1/backfills/{name}/{each}")
            )
            for each in _FACTS
        },
    )


async def order(visit: Visit) -> Response:
    """Pauses, resumes or cancels a backfill."""
    name, wanted = visit.param("backfill"), visit.param("order")
    if wanted not in _FACTS:
        raise NotFoundError("order", wanted)
    await visit.api.work.backfills.change(
        name, _FACTS[wanted], reason_text(visit, visit.form.get("note", "")), now=visit.now
    )
    return RedirectResponse(backfill_href(name), HTTPStatus.SEE_OTHER)


async def plan(renderer: Renderer, visit: Visit) -> Response:
    """What a backfill would make: all its jobs counted, and the first ones listed."""
    ref = ScheduleRef.parse(visit.param("schedule"))
    given = {name: value for name, value in visit.request.query_params.items() if value.strip()}
    body = _body(given)
    request = request_from_json(ref, "plan", body)
    planned = await visit.api.work.backfills.plan(request, now=visit.now, limit=_PLANNED)
    return renderer.page(
        visit,
        "backfill_plan.html",
        ref=ref,
        given=given,
        plan=planned,
        token=f"page-{secrets.token_hex(8)}",
        many=planned.counts.items > UNCONFIRMED,
        same=SameAs(_command(request, body), curl_line(visit.url, f"/v1/schedules/{ref}/backfills", body)),
    )


async def start(visit: Visit) -> Response:
    """Starts the backfill that the page before showed. The form has a token, so that sending it twice starts one."""
    ref = ScheduleRef.parse(visit.param("schedule"))
    form = dict(visit.form)
    token, note = form.pop("token", "") or f"page-{secrets.token_hex(8)}", form.pop("note", "")
    confirmed = form.pop("confirmed", "") == "yes"
    body = {**_body({name: value for name, value in form.items() if value.strip()}), "reason": reason_text(visit, note)}
    request = request_from_json(ref, token, {**body, "confirmed": confirmed})
    made, _ = await visit.api.work.backfills.start(request, now=visit.now)
    return RedirectResponse(backfill_href(made.id), HTTPStatus.SEE_OTHER)


def _body(given: Mapping[str, str]) -> dict[str, Any]:
    """The request of the API that the fields of the form are.

    Raises:
        InvalidError: a number is none.
    """
    body: dict[str, Any] = {name: given[name].strip() for name in _SPAN if name in given}
    keys = {name.removeprefix(_KEYS): value.strip() for name, value in given.items() if name.startswith(_KEYS)}
    if keys:
        body["keys"] = keys
    if "dataset" in given:
        body["dataset"] = given["dataset"].strip()
        body["partitions"] = [line.strip() for line in given.get("partitions", "").splitlines() if line.strip()]
    if "max_active" in given:
        if not (given["max_active"].isascii() and given["max_active"].isdigit()):
            raise InvalidError("$.maxActive", "must be a number")
        body["maxActive"] = int(given["max_active"])
    if given.get("mute") == "yes":
        body["mute"] = True
    return body


def _command(request: BackfillRequest, body: Mapping[str, Any]) -> str:
    words = ["backfill", "start", short_name(request.schedule)]
    for name in _SPAN:
        if name in body:
            words += [f"--{name}", body[name]]
    for column, values in body.get("keys", {}).items():
        words += ["--keys", f"{column}={values}"]
    if "dataset" in body:
        words += ["--dataset", body["dataset"]]
        for key in body["partitions"][:20]:
            words += ["--partition", key]
    if request.max_active != DEFAULT_ACTIVE:
        words += ["--max-active", str(request.max_active)]
    return command_line(*words, *(["--mute"] if request.muted else []))
