"""When the schedules of a program tick next, and when they last did: an entry for each of their times.

    {"id": "DEFAULT.<namespace>:<app>:-SNAPSHOT:WORKFLOW:<program>:<schedule>", "time": milliseconds}

The id of a time inside a composed trigger ends with its expression besides. Ticks are computed: next is the first one
after now, previous the last one before now and after the schedule's latest change. A suspended schedule has neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import Response

from streamsched.api.body import BodyBytes
from streamsched.api.cdap.addresses import AppDep, find_program
from streamsched.api.deps import CatalogDep, ClockDep
from streamsched.api.plain import message
from streamsched.api.problems import status_of
from streamsched.api.rendering import rendered
from streamsched.catalog.catalog import Catalog
from streamsched.catalog.change import time_leaves
from streamsched.codec.cdap.schedule import millis
from streamsched.codec.cdap.trigger import VERSION
from streamsched.codec.reading import Fields, below
from streamsched.codec.scalar import loads, sequence
from streamsched.domain.cron import next_fire, previous_fire
from streamsched.domain.errors import StreamschedError
from streamsched.domain.names import AppRef
from streamsched.domain.trigger import Cron, TimeLeaf
from streamsched.ports.catalog import ScheduleRecord

of_app = APIRouter()
of_namespace = APIRouter()

#: When a time of a schedule ticks, as seen at a moment; None: it does not.
_Tick = Callable[[ScheduleRecord, TimeLeaf, datetime], datetime | None]


def _next(record: ScheduleRecord, leaf: TimeLeaf, now: datetime) -> datetime | None:
    return next_fire(leaf, now, created_at=record.created_at)


def _previous(record: ScheduleRecord, leaf: TimeLeaf, now: datetime) -> datetime | None:
    tick = previous_fire(leaf, now, created_at=record.created_at)
    return tick if tick is not None and tick > record.updated_at else None


@of_app.get("/{category}/{program}/nextruntime")
async def next_of_program(app: AppDep, category: str, program: str, catalog: CatalogDep, clock: ClockDep) -> Response:
    """200 `[{"id", "time"}, …]`."""
    return rendered(await _runtimes(catalog, app, category, program, tick=_next, now=clock.now()))


@of_app.get("/{category}/{program}/previousruntime")
async def last_of_program(app: AppDep, category: str, program: str, catalog: CatalogDep, clock: ClockDep) -> Response:
    """200 `[{"id", "time"}, …]`."""
    return rendered(await _runtimes(catalog, app, category, program, tick=_previous, now=clock.now()))


@of_namespace.post("/nextruntime")
async def next_of_programs(namespace: str, body: BodyBytes, catalog: CatalogDep, clock: ClockDep) -> Response:
    """Body `[{"appId", "programType", "programId"}, …]`; 200 with each of them, and its `statusCode` and `schedules` or
    `error`.
    """
    return rendered(await _batch(catalog, namespace, body, tick=_next, now=clock.now()))


@of_namespace.post("/previousruntime")
async def last_of_programs(namespace: str, body: BodyBytes, catalog: CatalogDep, clock: ClockDep) -> Response:
    """As `nextruntime`."""
    return rendered(await _batch(catalog, namespace, body, tick=_previous, now=clock.now()))


async def _batch(catalog: Catalog, namespace: str, body: bytes, *, tick: _Tick, now: datetime) -> list[dict[str, Any]]:
    asked = [Fields(each, below("$", place)) for place, each in enumerate(sequence(loads(body), "$"))]
    return [{**each.raw(), **await _answer(catalog, namespace, each, tick=tick, now=now)} for each in asked]


async def _answer(catalog: Catalog, namespace: str, asked: Fields, *, tick: _Tick, now: datetime) -> dict[str, Any]:
    try:
        app = AppRef(namespace, asked.text("appId"))
        category = _CATEGORIES.get(asked.text("programType").upper(), asked.text("programType"))
        found = await _runtimes(catalog, app, category, asked.text("programId"), tick=tick, now=now)
    except StreamschedError as exc:
        return {"statusCode": int(status_of(exc)), "error": message(exc)}
    return {"statusCode": int(HTTPStatus.OK), "schedules": found}


async def _runtimes(
    catalog: Catalog, app: AppRef, category: str, program: str, *, tick: _Tick, now: datetime
) -> list[dict[str, Any]]:
    ref = (await find_program(catalog, app, category, program)).ref
    records = [status.record for status in await catalog.list(app=app)]
    return [
        entry
        for record in records
        if record.enabled and record.definition.program == ref
        for entry in _entries(record, tick, now)
    ]


def _entries(record: ScheduleRecord, tick: _Tick, now: datetime) -> Iterator[dict[str, Any]]:
    ref, program = record.definition.ref, record.definition.program
    name = f"DEFAULT.{ref.namespace}:{ref.app}:{VERSION}:WORKFLOW:{program.name}:{ref.name}"
    for leaf_id, leaf in time_leaves(record.definition.trigger).items():
        at = tick(record, leaf, now)
        if at is not None:
            alone = record.definition.trigger == leaf
            said = leaf.expression if isinstance(leaf, Cron) else leaf_id
            yield {"id": name if alone else f"{name}:{said}", "time": millis(at)}


#: What a body calls a kind of program → what an address calls it.
_CATEGORIES: Final = {
    "FLOW": "flows",
    "MAPREDUCE": "mapreduce",
    "SERVICE": "services",
    "SPARK": "spark",
    "WEBAPP": "webapp",
    "WORKER": "workers",
    "WORKFLOW": "workflows",
}
